"""Fuzz runs: reviews one after the other, and what is left of one that fails once everything needless is gone."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.lab.fuzz.general import Complaint, complaints
from tests.lab.fuzz.reviews import Case, case
from tests.lab.fuzz.world import World

MOST_TRIES = 1500
"""Reviews that making one smaller may take."""


@dataclass(frozen=True)
class Failure:
    """A review about whose answer there is something to complain."""

    seed: int
    case: Case
    complaint: Complaint

    def __str__(self) -> str:
        what, said = self.complaint
        request = self.case.review.get("request")
        review = json.dumps(request if isinstance(request, dict) else self.case.review, indent=1, sort_keys=True)
        return f"{what}: {said}\nseed {self.seed}, review {self.case.number}, made as small as it can be:\n{review}"


def failures(seed: int, numbers: range, world: World) -> Iterator[Failure]:
    """What is wrong with the answers to these reviews, the first complaint about each."""
    for number in numbers:
        one = case(seed, number)
        found = complaints(world, one)
        if found:
            yield Failure(seed, one, found[0])


def smallest(failure: Failure, world: World) -> Failure:
    """The failure with a review from which nothing can be taken without the complaint going away."""
    what = failure.complaint[0]

    def fails(review: Any) -> bool:
        return any(found == what for found, _ in complaints(world, replace(failure.case, review=review)))

    review = shrunk(failure.case.review, fails, MOST_TRIES)
    one = replace(failure.case, review=review)
    said = next((said for said in complaints(world, one) if said[0] == what), failure.complaint)
    return replace(failure, case=one, complaint=said)


def shrunk(value: Any, fails: Callable[[Any], bool], tries: int) -> Any:
    """A JSON value without all that can go while it still fails; `tries` bounds how often that is asked."""
    left = [tries]

    def still(candidate: Any) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(candidate)

    changed = True
    while changed and left[0] > 0:
        changed = False
        for path in _paths(value):
            candidate = _without(value, path)
            if candidate is not None and still(candidate):
                value, changed = candidate, True
    return value


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of what can be taken away, the largest parts first; of lists also their halves, as slices."""
    found: list[tuple[Any, ...]] = []
    if isinstance(value, list) and len(value) > 3:
        half = len(value) // 2
        found += [(*path, slice(0, half)), (*path, slice(half, len(value)))]
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    found += [(*path, key) for key in keys]
    for key in keys:
        found += _paths(value[key], (*path, key))
    return sorted(found, key=len)


def _without(value: Any, path: tuple[Any, ...]) -> Any:
    """A copy without one part; None where there is no such part, or nothing left in it."""
    key, *below = path
    if isinstance(key, slice):
        if not isinstance(value, list) or not value[key]:
            return None
    elif not (isinstance(value, dict) and key in value) and not (isinstance(value, list) and key in range(len(value))):
        return None
    copy = value.copy()
    if not below:
        del copy[key]
        return copy
    copy[key] = _without(value[key], tuple(below))
    return None if copy[key] is None else copy
