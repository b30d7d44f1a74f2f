"""The growth test of `tests/lab/growth`, over all lists and maps of a pod and all their pairs.

Those that the webhook looks into are taken in every form alone, and each with each other; all others, which cost
nothing alone, are long at the same time with each of them. Counting operations takes many times as long as doing them,
so pods are as long as a run of all storms allows: `GROWTH_BYTES=400000` takes hours. Cases that have not begun after
`GROWTH_MINUTES` are left out, others in each run with another `GROWTH_SEED`, and that is said.
"""

import os
import random
import time
from collections.abc import Sequence

import pytest

from tests.lab.growth.growing import Case, alone, grown, pairs, read_places, too_fast
from tests.lab.growth.schema import Place, collections

LONG = int(os.environ.get("GROWTH_BYTES", "50000"))
"""Bytes of a pod in which one list is long."""
PAIRED = int(os.environ.get("GROWTH_BYTES", "12000"))
"""Bytes of one in which two are."""
MINUTES = float(os.environ.get("GROWTH_MINUTES", "10"))
"""For each of the tests."""
SEED = int(os.environ.get("GROWTH_SEED", "37"))
PROCESSES = os.cpu_count() or 1
_AT_ONCE = 12
"""Cases for each process, which takes seconds to start."""
_TOGETHER = 30
"""Lists that are long at the same time."""


@pytest.fixture(scope="module")
def read() -> list[Place]:
    """What the webhook looks into."""
    found = read_places(PROCESSES)
    assert {"spec.nodeSelector{}", "spec.tolerations[]", "spec.containers[].env[]"} <= {place.path for place in found}
    return found


def too_fast_of(cases: Sequence[Case], size: int, *, everything: bool = False) -> list[str]:
    """The cases that grow too fast, as far as there was time; skips the test where some were not begun."""
    left = random.Random(SEED).sample(cases, len(cases))
    until = time.monotonic() + MINUTES * 60
    found: list[str] = []
    while left and time.monotonic() < until:
        some, left = left[: _AT_ONCE * PROCESSES], left[_AT_ONCE * PROCESSES :]
        found += too_fast(grown(some, size, everything=everything, processes=PROCESSES))
    if left and not found:
        pytest.skip(
            f"in {MINUTES:g} minutes {len(cases) - len(left)} of {len(cases)} cases passed; others were not begun"
        )
    return found


def test_every_list_alone_costs_no_more_than_its_length(read: list[Place]) -> None:
    assert not too_fast_of(alone(read), LONG, everything=True)


def test_every_pair_of_lists_costs_no_more_than_its_length(read: list[Place]) -> None:
    chance = random.Random(SEED)
    assert not too_fast_of(pairs(read, chance), PAIRED)


def test_lists_that_nobody_reads_cost_nothing_beside_those_that_are_read(read: list[Place]) -> None:
    unread = [place for place in collections() if place not in read and "[]." not in place.path]
    inside = [place for place in collections() if place not in read and "[]." in place.path]
    groups = [some[at : at + _TOGETHER] for some in (unread, inside) for at in range(0, len(some), _TOGETHER)]
    cases: list[Case] = [
        ((place.path, 0), *((other.path, 0) for other in group if not place.path.startswith(other.path)))
        for place in read
        for group in groups
    ]
    assert not too_fast_of(cases, PAIRED)
