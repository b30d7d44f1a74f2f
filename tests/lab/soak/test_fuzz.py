"""The fuzzer in its long form: other reviews than those of `make test`, and forty times as many."""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import pytest

from tests.lab.fuzz.fuzzing import failures, smallest
from tests.lab.fuzz.world import World

SEED = int(os.environ.get("FUZZ_SEED", "2"))
REVIEWS = int(os.environ.get("FUZZ_REVIEWS", "200000"))
MINUTES = float(os.environ.get("FUZZ_MINUTES", "15"))
"""After so long no more reviews are begun, and what there was no time for is said."""
PART = 1000

_world = cache(World)
"""The one of a process."""


def faults(start: int, until: float) -> str | None:
    """The first failure of a part, as people read it; empty where it passes, None where the time is over."""
    if time.time() > until:
        return None
    found = next(failures(SEED, range(start, min(start + PART, REVIEWS)), _world()), None)
    return "" if found is None else str(smallest(found, _world()))


def test_no_oracle_has_anything_against_hundreds_of_thousands_of_answers() -> None:
    until = time.time() + MINUTES * 60
    starts = range(0, REVIEWS, PART)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        found = list(pool.map(faults, starts, [until] * len(starts)))
    assert "\n\n".join(fault for fault in found if fault) == ""
    if None in found:
        pytest.skip(
            f"in {MINUTES:g} minutes {PART * found.count('')} of {REVIEWS} reviews passed; the rest was not begun"
        )
