"""A decision about a pod that is twice as long takes about twice as long, whichever of its lists is long.

Every list and map of a pod is walked alone, and pairs of them. With GROWTH_MINUTES all are taken in every form, and
each with each other, for so long, others with another GROWTH_SEED; what was not begun is said.
"""

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.growth.growing import Case, alone, pairs, too_fast
from tests.lab.growth.replica import Replica, replica
from tests.lab.growth.schema import Place, collections

SIZE = int(os.environ.get("GROWTH_BYTES", "150000"))
"""Long enough for a loop in a loop to be most of the work."""
SEED = int(os.environ.get("GROWTH_SEED", "15"))
MINUTES = float(os.environ.get("GROWTH_MINUTES", "0"))
_TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[]"
_EXPRESSIONS, _VALUES = f"{_TERMS}.matchExpressions[]", f"{_TERMS}.matchExpressions[].values[]"

KNOWN: dict[str, Case] = {
    "one long In list": ((_VALUES, 0),),
    "one long NotIn list": ((_VALUES, 1),),
    "In values x NotIn values": ((_VALUES, 2),),
    "terms that contradict what is required": ((_TERMS, 1),),
    "terms x nodeSelector": ((_TERMS, 3), ("spec.nodeSelector{}", 0)),
    "expressions of one label": ((_EXPRESSIONS, 2),),
    "Gt x Lt": ((_EXPRESSIONS, 3), (_EXPRESSIONS, 4)),
    "terms x values in each": ((_TERMS, 1), (_VALUES, 0)),
    "tolerations that compare": (("spec.tolerations[]", 2),),
    "env x mounts": (("spec.containers[].env[]", 1), ("spec.containers[].volumeMounts[]", 1)),
    "volumes x mounts": (("spec.volumes[]", 2), ("spec.containers[].volumeMounts[]", 2)),
}
"""What took time with the square of its length once, or might."""


@pytest.fixture(scope="module")
def subject() -> Iterator[Replica]:
    with replica() as found:
        yield found


def sample() -> list[Case]:
    """Some of all places alone and of all pairs, the same in every run; half of them of what decides on nodes."""
    chance = random.Random(SEED)
    deciding = [place for place in collections() if _decides(place)]
    taken = chance.sample(alone(collections()), 8) + chance.sample(alone(deciding), 6)
    return taken + chance.sample(pairs(collections(), chance), 4) + chance.sample(pairs(deciding, chance), 6)


def _decides(place: Place) -> bool:
    return "nodeAffinity" in place.path or place.path in ("spec.nodeSelector{}", "spec.tolerations[]")


@pytest.mark.parametrize("case", KNOWN.values(), ids=KNOWN)
def test_what_took_time_with_its_square_grows_with_its_length(subject: Replica, case: Case) -> None:
    assert not too_fast(subject.ask_about_new, [case], SIZE)


def test_no_list_of_a_sample_costs_more_than_its_length(subject: Replica) -> None:
    assert not too_fast(subject.ask_about_new, sample(), SIZE)


@pytest.mark.skipif(not MINUTES, reason="GROWTH_MINUTES is not set")
def test_every_list_alone_and_every_pair_of_lists_costs_no_more_than_its_length(subject: Replica) -> None:
    until = time.monotonic() + MINUTES * 60
    chance = random.Random(SEED)
    cases = alone(collections()) + pairs(collections(), chance)
    left = chance.sample(cases, len(cases))
    found: list[str] = []
    while left and time.monotonic() < until:
        found += too_fast(subject.ask_everything, [left.pop()], SIZE)
    assert not found
    if left:
        pytest.skip(f"in {MINUTES:g} minutes {len(cases) - len(left)} of {len(cases)} cases passed")


def test_a_loop_in_a_loop_is_noticed_and_a_loop_is_not() -> None:
    def square(pod: Any) -> None:
        keys = tuple(one.get("key") for one in pod["spec"].get("tolerations", ()))
        assert all(key in keys for key in keys for _ in range(5))

    def line(pod: Any) -> None:
        keys = {one.get("key") for one in pod["spec"].get("tolerations", ())}
        assert all(key in keys for key in keys for _ in range(1000))

    case: Case = (("spec.tolerations[]", 0),)
    assert any(too_fast(square, [case], SIZE) for _ in range(4))  # where others work, a square may look like a line
    assert not too_fast(line, [case], SIZE)


def test_every_list_and_map_that_rules_read_is_walked() -> None:
    """The list comes from the API's own description; these are known to be in it."""
    assert len(collections()) > 150
    paths = {place.path for place in collections()}
    assert {case[0][0] for case in KNOWN.values()} <= paths
    assert {"spec.initContainers[].env[]", "spec.overhead{}", "metadata.annotations{}"} <= paths
