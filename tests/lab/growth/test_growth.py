"""A decision about a pod that is twice as long takes about twice as many operations, whichever of its lists is long.

Every list and map of a pod is walked alone, and pairs of them. With GROWTH_MINUTES all that the webhook looks into are
taken in every form alone, and each with each other, for so long each, others with another GROWTH_SEED; what was not
begun is said. Counting operations takes many times as long as doing them: GROWTH_BYTES=400000 takes hours.
"""

import os
import random
import time
from collections.abc import Sequence

import pytest

from tests.lab.growth.growing import Case, Growth, alone, grown, pairs, read_places, too_fast
from tests.lab.growth.schema import Place, collections

SIZE = 12_000
"""Bytes; long enough for a loop in a loop to be most of the work."""
SEED = int(os.environ.get("GROWTH_SEED", "15"))
MINUTES = float(os.environ.get("GROWTH_MINUTES", "0"))
LONG = int(os.environ.get("GROWTH_BYTES", "50000"))
PROCESSES = os.cpu_count() or 1
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


def sample() -> list[Case]:
    """Some of all places alone and of all pairs, the same in every run; half of them of what decides on nodes."""
    chance = random.Random(SEED)
    deciding = [place for place in collections() if _decides(place)]
    taken = chance.sample(alone(collections()), 8) + chance.sample(alone(deciding), 6)
    return taken + chance.sample(pairs(collections(), chance), 4) + chance.sample(pairs(deciding, chance), 6)


def _decides(place: Place) -> bool:
    return "nodeAffinity" in place.path or place.path in ("spec.nodeSelector{}", "spec.tolerations[]")


@pytest.fixture(scope="module")
def measured() -> dict[Case, Growth]:
    """All of them in one process."""
    cases = [*KNOWN.values(), *sample()]
    return dict(zip(cases, grown(cases, SIZE), strict=True))


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in KNOWN.items()])
def test_what_took_time_with_its_square_grows_with_its_length(measured: dict[Case, Growth], case: Case) -> None:
    assert not too_fast([measured[case]])


def test_no_list_of_a_sample_costs_more_than_its_length(measured: dict[Case, Growth]) -> None:
    assert not too_fast(list(measured.values()))


def test_every_list_and_map_that_rules_read_is_walked() -> None:
    """The list comes from the API's own description; these are known to be in it."""
    assert len(collections()) > 150
    paths = {place.path for place in collections()}
    assert {case[0][0] for case in KNOWN.values()} <= paths
    assert {"spec.initContainers[].env[]", "spec.overhead{}", "metadata.annotations{}"} <= paths


def too_fast_of(cases: Sequence[Case], size: int, *, everything: bool = False) -> list[str]:
    """The cases that grow too fast, as far as there was time; skips the test where some were not begun."""
    left = random.Random(SEED).sample(cases, len(cases))
    until = time.monotonic() + MINUTES * 60
    found: list[str] = []
    while left and time.monotonic() < until:
        some, left = left[: 12 * PROCESSES], left[12 * PROCESSES :]  # a process takes seconds to start
        found += too_fast(grown(some, size, everything=everything, processes=PROCESSES))
    if left and not found:
        pytest.skip(f"in {MINUTES:g} minutes {len(cases) - len(left)} of {len(cases)} cases passed")
    return found


@pytest.mark.skipif(not MINUTES, reason="GROWTH_MINUTES is not set")
def test_every_list_alone_and_every_pair_of_lists_costs_no_more_than_its_length() -> None:
    read = read_places(PROCESSES)
    assert {"spec.nodeSelector{}", "spec.tolerations[]", "spec.containers[].env[]"} <= {place.path for place in read}
    assert not too_fast_of(alone(read), LONG, everything=True)
    assert not too_fast_of(pairs(read, random.Random(SEED)), min(LONG, SIZE))
