"""Exceptions that contradict each other: about one rule, equally specific, with one end, and maybe at one moment.

The file may have a thousand exceptions of which hardly any two are about one pod. So pairs are looked for by the list
of patterns that tells most of them apart.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from webhook.model.globs import before_wildcard
from webhook.policy.exception_file import PolicyException
from webhook.policy.exception_match import pattern_rank, shared_namespaces
from webhook.yaml_files.file_errors import Faults

_LISTS: Sequence[Callable[[PolicyException], Sequence[str]]] = (
    lambda one: one.namespaces,
    lambda one: one.match.names,
    lambda one: one.match.images,
    lambda one: one.match.containers,
    lambda one: one.match.kinds,
)
"""Lists of patterns. If two exceptions are equally specific, two patterns of each list are equal, or are globs of one
length that hold for one text."""

_SHARED = 4096
"""Pairs of lists of namespaces that are remembered."""


def check_conflicts(exceptions: Sequence[PolicyException], path: str, faults: Faults) -> None:
    """Add a fault for each exception that may hold beside an earlier one of which it is not known which comes first."""
    shared = lru_cache(maxsize=_SHARED)(shared_namespaces)  # many exceptions are for the same namespaces
    told: set[str] = set()
    for one, other in alike(exceptions):
        if other.name in told or not (where := shared(one.namespaces, other.namespaces)):
            continue
        if not one.match.may_tie(other.match) or not one.period.overlaps(other.period):
            continue
        told.add(other.name)
        rule = next(key for key in one.concerned if key in other.concerned)
        message = (
            f"{other.name} and {one.name} of {path}:{one.line} are about {rule}, equally specific, and have the same "
            f"end, so neither comes first for a pod in {where}; make one of them narrower, or let it end earlier"
        )
        faults.add(path, other.line, other.key, message)


def alike(exceptions: Sequence[PolicyException]) -> Iterator[tuple[PolicyException, PolicyException]]:
    """The pairs that may be equally specific, are about one rule and have one end, in the order of the file."""
    groups: defaultdict[object, list[PolicyException]] = defaultdict(list)
    for one in exceptions:
        lists = tuple(bool(patterns(one)) for patterns in _LISTS)
        for rule in one.concerned:
            groups[rule, one.period.ends, lists, len(one.match.labels)].append(one)
    for group in groups.values():
        yield from _pairs(group)


def _pairs(group: Sequence[PolicyException]) -> Iterator[tuple[PolicyException, PolicyException]]:
    """The pairs of a group, of which all have the same lists, by the list that leaves the fewest."""
    if len(group) < 2:
        return
    written = [patterns for patterns in _LISTS if patterns(group[0])]
    by_list = [list(_met(group, patterns, step)) for patterns in written for step in (1, -1)]
    fewest = min(by_list, key=lambda found: sum(len(some) * len(others) for some, others in found))
    beside: defaultdict[int, list[Sequence[int]]] = defaultdict(list)
    for pair in fewest:
        for some, others in (pair, pair[::-1]):
            for number in some:
                beside[number].append(others)
    for later in sorted(beside):
        for earlier in sorted({number for numbers in beside[later] for number in numbers if number < later}):
            yield group[earlier], group[later]


def _met(
    group: Sequence[PolicyException], patterns: Callable[[PolicyException], Sequence[str]], step: int
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Exceptions by number, and those that they may meet by patterns of one rank: the same names, or globs of one
    length of which one begins as the other does. With the `step` -1 patterns are read from their ends.
    """
    having: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for number, one in enumerate(group):
        for key in {_rank_and_beginning(pattern[::step]) for pattern in patterns(one)}:
            having[key].append(number)
    for (length, beginning), numbers in having.items():
        shorter = [beginning[:end] for end in range(len(beginning))] if length else []
        for other in (beginning, *shorter):
            if (length, other) in having:
                yield numbers, having[length, other]


def _rank_and_beginning(pattern: str) -> tuple[int, str]:
    """The rank of a glob and the text before its first wildcard; of a name 0 and the name."""
    return pattern_rank(pattern)[1], before_wildcard(pattern)
