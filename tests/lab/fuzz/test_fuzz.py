"""Reviews drawn from a seed, and an oracle for every rule; tests/lab/soak/test_fuzz.py has forty times as many."""

import json
from collections.abc import Callable

import pytest

from tests.lab.fuzz.broken import loud, silent, with_rule
from tests.lab.fuzz.fuzzing import failures, shrunk, smallest
from tests.lab.fuzz.general import complaints
from tests.lab.fuzz.reviews import case
from tests.lab.fuzz.world import SETTINGS, World
from webhook.rules import RULES
from webhook.rules.rule import Rule

SEED, REVIEWS = 1, 2500
EACH = pytest.mark.parametrize("rule", RULES, ids=[rule.key for rule in RULES])


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def test_every_rule_is_on_in_every_namespace() -> None:
    for settings in SETTINGS.values():
        assert [key for key in settings if settings[key]["mode"] != "disabled"] == [rule.key for rule in RULES]


def test_a_review_follows_from_its_seed_and_number() -> None:
    assert [case(SEED, number) for number in range(50)] == [case(SEED, number) for number in range(50)]
    assert case(SEED, 1) != case(SEED + 1, 1)


def test_reviews_are_small_and_big_sound_and_broken() -> None:
    cases = [case(SEED, number) for number in range(1000)]
    sizes = sorted(len(one.body()) for one in cases)
    assert sizes[0] < 1000
    assert sizes[-1] > 20_000
    assert {one.is_sound for one in cases} == {True, False}


def test_no_oracle_has_anything_against_thousands_of_answers(world: World) -> None:
    found = next(failures(SEED, range(REVIEWS), world), None)
    assert found is None, smallest(found, world)


@EACH
@pytest.mark.parametrize("way", [silent, loud], ids=["says too little", "says too much"])
def test_an_oracle_notices_a_broken_rule(rule: Rule, way: Callable[[Rule], Rule]) -> None:
    broken = World(with_rule(way(rule)))
    assert any(key == rule.key for number in range(300) for key, _ in complaints(broken, case(SEED, number)))


def test_a_review_that_fails_is_made_small_and_printed_with_its_seed() -> None:
    (rule,) = (rule for rule in RULES if rule.key == "runtimeClass")
    broken = World(with_rule(silent(rule)))
    found = next(one for one in failures(SEED, range(300), broken) if one.complaint[0] == rule.key)
    printed = str(smallest(found, broken))
    assert printed.startswith("runtimeClass: the RuntimeClass is None instead of 'nvidia'\nseed 1, review ")
    assert len(printed) < 900
    assert "nvidia.com/" in printed


def test_what_is_made_small_still_fails() -> None:
    value = {"a": [1, 2, {"bad": True, "b": 3}], "c": {"d": "e"}}
    assert shrunk(value, lambda one: '"bad"' in json.dumps(one), 100) == {"a": [{"bad": True}]}
