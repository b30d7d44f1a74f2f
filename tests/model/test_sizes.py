"""Lists that nobody writes are refused while they are read, before anything is made of them; so is what unpacks to
more than it may.
"""

import gzip
import zlib
from typing import Any

import pytest

from tests.build import FACTS, container, pod, policies, request
from tests.golden import each
from tests.rules.samples import term, terms
from webhook.admission import phases
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import MOST_ENTRIES, ShapeError, unzipped

SCHEDULING = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def of(entries: int) -> dict[str, str]:
    return {f"k{number}": "1" for number in range(entries)}


def lists(entries: int) -> list[Any]:
    """Lists and maps with so many entries: the spec of a pod with each, and its place."""
    values = [str(number) for number in range(entries)]
    return [
        pytest.param({"containers": [{}] * entries}, "spec.containers", id="containers"),
        pytest.param({"tolerations": [{}] * entries}, "spec.tolerations", id="tolerations"),
        pytest.param({"nodeSelector": of(entries)}, "spec.nodeSelector", id="nodeSelector"),
        pytest.param(
            {"containers": [container("trainer", env=[{}] * entries)]}, "spec.containers[trainer].env", id="env"
        ),
        pytest.param({"affinity": terms(*[{}] * entries)}, SCHEDULING, id="terms"),
        pytest.param(
            {"affinity": terms(term(("zone", "In", values)))},
            f"{SCHEDULING}[0].matchExpressions[0].values",
            id="values",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": of(entries)}}]},
            "spec.containers[c].resources.limits",
            id="limits",
        ),
    ]


@pytest.mark.parametrize(("spec", "place"), lists(MOST_ENTRIES + 1))
def test_a_list_that_nobody_writes_is_refused_with_its_place_and_a_remedy(spec: dict[str, Any], place: str) -> None:
    with pytest.raises(ShapeError) as refused:
        pod_from_raw(pod(spec=spec))
    assert str(refused.value) == f"{place}: found 40001 entries, expected at most 40000"
    assert refused.value.remedy == "make several objects of it, or leave entries out"


@pytest.mark.parametrize(("spec", "place"), lists(MOST_ENTRIES))
def test_a_list_that_is_just_short_enough_is_read(spec: dict[str, Any], place: str) -> None:
    pod_from_raw(pod(spec=spec))


def test_both_phases_refuse_it_as_malformed_also_in_the_object_that_was_there_before() -> None:
    crowded, using = pod(spec={"containers": [{}] * 50_000}), policies({"gpuLimits": {"maxPerPod": 4}})
    for judge in (
        lambda: phases.mutate(request(crowded), using, FACTS),
        lambda: phases.validate(request(pod(9), "UPDATE", old=crowded), using, FACTS),
    ):
        with pytest.raises(ShapeError, match="found 50000 entries") as refused:
            judge()
    answer = phases.malformed(refused.value).answer
    assert (answer.is_allowed, answer.code) == (False, 422)
    assert answer.message == f"{refused.value}; {refused.value.remedy}"


@each(
    "packed, error",
    {
        "a byte too large": (gzip.compress(b"x" * 1001), ValueError),
        "a bomb": (gzip.compress(b"x" * 10**8), ValueError),
        "cut off": (gzip.compress(bytes(range(256)))[:-9], ValueError),
        "no gzip": (b"hello", zlib.error),
    },
)
def test_what_unpacks_to_too_much_is_an_error(packed: bytes, error: type[Exception]) -> None:
    assert unzipped(gzip.compress(b"x" * 1000), 1000) == b"x" * 1000
    with pytest.raises(error):
        unzipped(packed, 1000)
