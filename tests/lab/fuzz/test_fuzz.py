"""Reviews drawn from a seed: what holds of every answer holds of these. FUZZ_REVIEWS asks for more of them."""

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from typing import Any

import pytest

from tests.lab.fuzz.fuzzing import failures, shrunk, smallest
from tests.lab.fuzz.reviews import case
from tests.lab.fuzz.world import SETTINGS, World
from webhook.model.edits import AddEnv
from webhook.rules import RULES

SEED = int(os.environ.get("FUZZ_SEED", "1"))
REVIEWS = int(os.environ.get("FUZZ_REVIEWS", "5000"))
MINUTES = float(os.environ.get("FUZZ_MINUTES", "15"))
"""After so long no more reviews are begun, and what there was no time for is said."""
PART = 500

_world = cache(World)
"""The one of a process."""


def faults(start: int, until: float) -> str | None:
    """The first failure of a part, as people read it; empty where it passes, None where the time is over."""
    if time.time() > until:
        return None
    found = next(failures(SEED, range(start, min(start + PART, REVIEWS)), _world()), None)
    return "" if found is None else str(smallest(found, _world()))


def test_nothing_is_wrong_with_any_of_thousands_of_answers() -> None:
    until = time.time() + MINUTES * 60
    starts = range(0, REVIEWS, PART)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        found = list(pool.map(faults, starts, [until] * len(starts)))
    assert "\n\n".join(fault for fault in found if fault) == ""
    if None in found:
        left = f"{PART * found.count('')} of {REVIEWS} reviews passed; the rest was not begun"
        pytest.skip(f"in {MINUTES:g} minutes {left}")


def test_every_rule_is_on_in_every_namespace() -> None:
    for settings in SETTINGS.values():
        assert [key for key in settings if settings[key]["mode"] != "disabled"] == [rule.key for rule in RULES]


def test_a_review_follows_from_its_seed_and_number_and_they_are_small_and_big_sound_and_broken() -> None:
    cases = [case(SEED, number) for number in range(1000)]
    assert cases[:50] == [case(SEED, number) for number in range(50)]
    sizes = sorted(len(one.body()) for one in cases)
    assert (sizes[0] < 1000, sizes[-1] > 20_000) == (True, True)
    assert {one.is_sound for one in cases} == {True, False}


def test_a_rule_that_changes_what_it_changed_is_noticed_and_printed_with_its_seed() -> None:
    (rule,) = (rule for rule in RULES if rule.key == "ncclEnv")

    def again(pod: Any, _settings: Any, _facts: Any) -> Iterator[AddEnv]:
        for container in pod.containers:
            yield AddEnv(container, f"AGAIN_{len(container.env)}", "1")

    world = World(tuple(replace(one, mutate=again) if one is rule else one for one in RULES))
    printed = str(smallest(next(failures(SEED, range(300), world)), world))
    assert f"seed {SEED}, review " in printed
    assert len(printed) < 2000


def test_what_is_made_small_still_fails() -> None:
    value = {"a": [1, 2, {"bad": True, "b": 3}], "c": {"d": "e"}}
    assert shrunk(value, lambda one: '"bad"' in json.dumps(one), 100) == {"a": [{"bad": True}]}
