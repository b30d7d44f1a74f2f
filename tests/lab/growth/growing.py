"""What a decision costs for a pod that is twice as long, in CPU time, and cases of what is long."""

import gc
import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tests.lab.growth.long_pods import BASE, forms, long_pod
from tests.lab.growth.schema import Place, collections

MOST = 3.0
"""Times the CPU time that a pod of twice the length may take beyond that of a short one: 2 are linear, 4 quadratic."""
NOTICED = 0.03
"""Seconds beyond those of a short pod, below which nothing is said of growth."""
TIMES = 3
"""Each is measured so often, with other values, and the least counts."""

Ask = Callable[[Mapping[str, Any]], None]
Case = tuple[tuple[str, int], ...]
"""Paths of what is long, each with the form of its items."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes of a case of one length and of about twice that, and the seconds that they take beyond a short pod."""

    case: Case
    bytes: tuple[int, int]
    seconds: tuple[float, float]

    @property
    def times(self) -> float:
        """How many times as long it takes for exactly twice the length; 0 where that is too little to be measured."""
        small, large = self.seconds
        return 2 * (large / max(small, NOTICED / 4)) / (self.bytes[1] / self.bytes[0]) if large > NOTICED else 0.0

    def __str__(self) -> str:
        long = " x ".join(f"{path} (form {form})" for path, form in self.case)
        return f"{long}: {self.times:.2f} times, from {self.seconds[0]:.3f} to {self.seconds[1]:.3f} s"


def too_fast(ask: Ask, cases: Iterable[Case], size: int) -> list[str]:
    """The cases that grow faster than they may from half of `size` to `size` bytes, each measured a second time."""
    found = (grown(ask, case, size) for case in cases)
    again = [grown(ask, one.case, size) for one in found if one.times > MOST]
    return [str(one) for one in sorted(again, key=lambda one: -one.times) if one.times > MOST]


def grown(ask: Ask, case: Case, size: int) -> Growth:
    """How one case grows."""
    places = {place.path: place for place in collections()}
    long = [(places[path], form) for path, form in case]
    base = min(_seconds(ask, BASE) for _ in range(TIMES))
    pods = [[long_pod(length, *long, salt=f"{salt}x") for salt in "abc"[:TIMES]] for length in (size // 2, size)]
    taken = [min(_seconds(ask, pod) for pod in some) - base for some in pods]
    return Growth(case, (len(json.dumps(pods[0][0])), len(json.dumps(pods[1][0]))), (taken[0], taken[1]))


def alone(places: Sequence[Place]) -> list[Case]:
    """Each place in every form."""
    return [((place.path, form),) for place in places for form in range(forms(place))]


def pairs(places: Sequence[Place], chance: random.Random) -> list[Case]:
    """Each pair, in forms that chance takes."""
    return [
        ((one.path, chance.randrange(forms(one))), (other.path, chance.randrange(forms(other))))
        for one, other in combinations(places, 2)
    ]


def _seconds(ask: Ask, pod: Mapping[str, Any]) -> float:
    gc.disable()
    try:
        began = time.process_time()
        ask(pod)
        return time.process_time() - began
    finally:
        gc.enable()
