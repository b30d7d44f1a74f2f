"""What a decision costs for a pod that is twice as long, counted in other processes; cases of what is long."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from tests.lab.growth.long_pods import forms
from tests.lab.growth.schema import Place, collections

MOST = 2.3
"""Times the operations that a pod of twice the length may take: 2 are linear, 2.2 n log n from 500 up, 4 quadratic."""

Case = tuple[tuple[str, int], ...]
"""Paths of what is long, each with the form of its items."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The operations of a case for one length and for about twice that."""

    case: Case
    bytes: tuple[int, int]
    operations: tuple[int, int]

    @property
    def times(self) -> float:
        """How many times as many operations there are for exactly twice the length."""
        return 2 * (self.operations[1] / self.operations[0]) / (self.bytes[1] / self.bytes[0])

    def __str__(self) -> str:
        long = " x ".join(f"{path} (form {form})" for path, form in self.case)
        return f"{long}: {self.times:.2f} times, from {self.operations[0]} operations to {self.operations[1]}"


def too_fast(found: Sequence[Growth]) -> list[str]:
    """The cases that grow faster than they may, the worst first."""
    return [str(one) for one in sorted(found, key=lambda one: -one.times) if one.times > MOST]


def grown(cases: Sequence[Case], size: int, *, everything: bool = False, processes: int = 1) -> list[Growth]:
    """How the cases grow from half of `size` to `size` bytes."""
    shares = [cases[at::processes] for at in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        answers = list(pool.map(lambda share: list(_asked(share, (size // 2, size), everything)), filter(None, shares)))
    return [Growth(*one) for answer in answers for one in answer]


def read_places(processes: int = 1) -> list[Place]:
    """The lists and maps that the webhook looks into: those that cost more when they are longer."""
    small, large = 2000, 4000
    few = (large - small) // 100
    cases = [((place.path, form),) for place in collections() for form in range(forms(place))]
    found = grown(cases, large, processes=processes)
    costly = {one.case[0][0] for one in found if abs(one.operations[1] - one.operations[0]) > few}
    return [place for place in collections() if place.path in costly]


def alone(places: Sequence[Place]) -> list[Case]:
    """Each place in every form."""
    return [((place.path, form),) for place in places for form in range(forms(place))]


def pairs(places: Sequence[Place], chance: random.Random) -> list[Case]:
    """Each pair, in forms that chance takes."""
    return [
        ((one.path, chance.randrange(forms(one))), (other.path, chance.randrange(forms(other))))
        for one, other in combinations(places, 2)
    ]


def _asked(
    cases: Sequence[Case], sizes: tuple[int, int], everything: bool
) -> Iterator[tuple[Case, tuple[int, int], tuple[int, int]]]:
    asked = json.dumps({"sizes": sizes, "cases": cases, "everything": everything})
    command = [sys.executable, "-m", "tests.lab.growth.measure"]
    done = subprocess.run(
        command,
        input=asked,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    for case, (small, large) in zip(cases, json.loads(done.stdout)["cases"], strict=True):
        yield case, (small[0], large[0]), (small[1], large[1])
