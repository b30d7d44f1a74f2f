"""What no API server stores is refused while it is read, before anything is made of it."""

import gzip
import tracemalloc
import zlib
from typing import Any

import pytest

from tests.reviews import FACTS, pod, policies, request
from webhook.admission import phases
from webhook.model import bounds, container
from webhook.model.bounds import unzipped
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import ShapeError

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(**nodes: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": nodes}}


def terms(*found: Any) -> dict[str, Any]:
    return affinity(**{REQUIRED: {"nodeSelectorTerms": list(found)}})


def lists() -> list[Any]:
    """Every list and map that is read of a pod: a spec with so many entries, and what the refusal says of its place."""

    def one(name: str, make: Any, place: str, key: str = "") -> Any:
        return pytest.param(make, place, bounds.MOST.get(key or name, bounds.MOST_OF_A_MAP), id=name)

    def of_a_container(key: str) -> Any:
        return one(key, lambda n: {"containers": [{"name": "c", key: [{}] * n}]}, f"spec.containers[c].{key}")

    def of_a_map(name: str, make: Any, place: str) -> Any:
        return one(name, lambda n: make({f"k{number}": "1" for number in range(n)}), place)

    return [
        *(one(key, lambda n, key=key: {key: [{}] * n}, f"spec.{key}") for key in ("containers", "initContainers")),
        one("ephemeralContainers", lambda n: {"ephemeralContainers": [{}] * n}, "spec.ephemeralContainers"),
        one("volumes", lambda n: {"volumes": [{}] * n}, "spec.volumes"),
        one("tolerations", lambda n: {"tolerations": [{}] * n}, "spec.tolerations"),
        *map(of_a_container, ("env", "envFrom", "volumeMounts")),
        one(
            "nodeSelectorTerms", lambda n: terms(*[{}] * n), f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
        ),
        one(PREFERRED, lambda n: affinity(**{PREFERRED: [{}] * n}), f"spec.affinity.nodeAffinity.{PREFERRED}"),
        of_a_map("nodeSelector", lambda found: {"nodeSelector": found}, "spec.nodeSelector"),
        of_a_map("overhead", lambda found: {"overhead": found}, "spec.overhead"),
        of_a_map("limits of the pod", lambda found: {"resources": {"limits": found}}, "spec.resources.limits"),
        of_a_map(
            "requests",
            lambda found: {"containers": [{"name": "c", "resources": {"requests": found}}]},
            "spec.containers[c].resources.requests",
        ),
    ]


@pytest.mark.parametrize(("make", "place", "most"), lists())
def test_A39_a_list_that_cannot_be_stored_is_refused_with_place_count_bound_and_remedy(
    make: Any, place: str, most: int
) -> None:
    with pytest.raises(ShapeError) as refused:
        pod_from_raw(pod(spec=make(most + 1)))
    assert str(refused.value) == (
        f"{place}: found {most + 1} entries, expected at most {most}, since no API server stores more"
    )
    assert refused.value.remedy == "make several objects of it, or leave entries out"


@pytest.mark.parametrize("phase", [phases.mutate, phases.validate], ids=["mutate", "validate"])
def test_A39_both_phases_refuse_it_as_an_object_that_is_malformed(phase: Any) -> None:
    asked = request(pod(spec={"tolerations": [{}] * (bounds.MOST["tolerations"] + 1)}))
    with pytest.raises(ShapeError) as refused:
        phase(asked, policies({"gpuLimits": {}}), FACTS)
    answer = phases.malformed(refused.value).answer
    assert (answer.is_allowed, answer.code) == (False, 422)
    assert answer.message == f"{refused.value}; {refused.value.remedy}"


READ_ALIKE = {"initContainers", "ephemeralContainers", "limits of the pod", "overhead", "requests"}
"""What is read as containers and as nodeSelector are."""


@pytest.mark.parametrize(
    ("make", "place", "most"), [one for one in lists() if one.id not in READ_ALIKE | {"nodeSelectorTerms"}]
)
def test_a_list_that_could_just_be_stored_is_read(make: Any, place: str, most: int) -> None:
    pod_from_raw(pod(spec=make(most - 20)))


@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_A39_annotations_and_labels_are_counted(part: str) -> None:
    raw = pod(1, **{part: {f"k{number}": "" for number in range(bounds.MOST_OF_A_MAP + 1)}})
    with pytest.raises(ShapeError, match=rf"metadata\.{part}: found 299594 entries, expected at most 299593"):
        pod_from_raw(raw)


def test_A39_the_object_that_was_there_before_is_counted_too() -> None:
    crowded = pod(spec={"containers": [{}] * 50_000})
    worse = pod(9)
    with pytest.raises(ShapeError, match="found 50000 entries"):
        phases.validate(request(worse, "UPDATE", old=crowded), policies({"gpuLimits": {"maxPerPod": 4}}), FACTS)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [{"name": "c", "env": [{}] * 100_000}] * 4}, id="env of several containers"),
        pytest.param({"initContainers": [{}] * 30_000, "containers": [{}] * 30_000}, id="containers of two lists"),
        pytest.param(terms(*[{"matchExpressions": [{}] * 100_000}] * 3), id="expressions of several terms"),
        pytest.param(terms({"matchExpressions": [{"values": ["a"] * 600_000}] * 2}), id="values of two expressions"),
        pytest.param(
            affinity(**{PREFERRED: [{"preference": {"matchFields": [{}] * 120_000}}] * 2}), id="fields of preferences"
        ),
    ],
)
def test_A39_lists_that_cannot_be_stored_together_are_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(ShapeError, match=r"spec: found lists that take at least \d+ bytes .* expected at most 2097152"):
        pod_from_raw(pod(spec=spec))


def test_A39_nothing_is_made_of_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr("webhook.model.pod_reader.container_from_raw", lambda *args: read.append(args))
    raw = pod(spec={"containers": [{}] * 100_000})
    tracemalloc.start()
    try:
        with pytest.raises(ShapeError):
            pod_from_raw(raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not read
    assert peak < 2 * 2**20


def test_no_bound_is_near_what_people_write() -> None:
    assert bounds.FEWEST > 20_000
    assert min(bounds.MOST[key] for key in ("containers", "tolerations", "volumes")) == bounds.MOST[container.APP]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"containers": None, "affinity": None, "tolerations": None}, id="null"),
        pytest.param({"containers": [7, None, {"env": 7}], "affinity": 7, "volumes": {}}, id="other shapes"),
        pytest.param({"affinity": {"nodeAffinity": {REQUIRED: 7, PREFERRED: [7]}}}, id="other shapes of affinity"),
        pytest.param(terms(7, {"matchExpressions": [7, {"values": 7}]}), id="other shapes of terms"),
    ],
)
def test_what_has_another_shape_is_left_to_its_reader(spec: dict[str, Any]) -> None:
    assert bounds.least_stored(spec) < 1000


@pytest.mark.parametrize("size", [pytest.param(0, id="nothing"), pytest.param(1000, id="as large as it may be")])
def test_what_fits_is_unpacked(size):
    assert unzipped(gzip.compress(b"x" * size), 1000) == b"x" * size


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(gzip.compress(b"x" * 1001), id="a byte too large"),
        pytest.param(gzip.compress(b"x" * 10**8), id="a bomb"),
        pytest.param(gzip.compress(bytes(range(256)))[:-9], id="cut off"),
    ],
)
def test_what_is_too_large_or_cut_off_is_said(packed):
    with pytest.raises(ValueError, match="it is cut off, or larger than 1000 bytes when unpacked"):
        unzipped(packed, 1000)


def test_what_is_no_gzip_is_an_error_of_its_own():
    with pytest.raises(zlib.error):
        unzipped(b"hello", 1000)
