"""Findings name nodes whose labels about shares contradict each other or their capacity, and only for certain."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from tests.gpus import discovered_labels as labels
from tests.gpus.discovered_labels import A100, SLICE, T4, discovered
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.node_checks import share_findings
from webhook.facts.nodes import Node, node_from_raw
from webhook.gpus.gpu_table import GPUS

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"


def node(name: str, found: Mapping[str, str], **capacity: int) -> Node:
    """A node with an amount of `gpu`, of `shared` units and of slices of 1g.5gb."""
    names = {"gpu": GPU, "shared": SHARED, "slices": "nvidia.com/mig-1g.5gb"}
    amounts = {names[key]: str(amount) for key, amount in capacity.items()}
    made = node_from_raw({"metadata": {"name": name, "labels": dict(found)}, "status": {"capacity": amounts}})
    assert made is not None
    return made


def findings(*nodes: Node) -> list[DoctorFinding]:
    return list(share_findings(nodes, GPUS))


@each(
    "found, capacity",
    {
        "unlabelled": (labels.UNLABELLED, {"gpu": 4}),
        "whole GPUs": (labels.WHOLE, {"gpu": 4}),
        "the device plugin restarts": (labels.WHOLE, {"gpu": 0}),
        "the device plugin has not come yet": (labels.WHOLE, {}),
        "GPUs of several models, of which labels count one": (labels.WHOLE, {"gpu": 5}),
        "more GPUs, which may be of several models": (labels.WHOLE, {"gpu": 16}),
        "time-slicing": (labels.TIME_SLICED, {"gpu": 4}),
        "time-slicing of several models": (labels.TIME_SLICED, {"gpu": 8}),
        "time-slicing, the device plugin restarts": (labels.TIME_SLICED, {"gpu": 0}),
        "time-slicing, renamed": (labels.TIME_SLICED_RENAMED, {"gpu": 0, "shared": 4}),
        "MPS": (labels.MPS, {"gpu": 2}),
        "MPS, renamed": (labels.MPS_RENAMED, {"shared": 2}),
        "MIG, single: labels count slices": (labels.SINGLE, {"gpu": 7}),
        "MIG, single, and MIG is off": (labels.SINGLE_WITHOUT_MIG, {"gpu": 2}),
        "MIG, single, time-slicing": (labels.SINGLE_TIME_SLICED, {"gpu": 14}),
        "MIG, single, time-slicing, renamed": (labels.SINGLE_RENAMED, {"shared": 14}),
        "MIG, mixed: GPUs with MIG count and are not offered": (labels.MIXED, {"slices": 14}),
        "MIG, mixed, beside shared GPUs": (labels.MIXED_BESIDE_SHARED, {"gpu": 2, "slices": 7}),
        "MIG, mixed, beside a whole GPU": (discovered(A100, 2, mig="mixed"), {"gpu": 1, "slices": 7}),
        "MIG is on, and the strategy none": (discovered(A100, 1, "0"), {"gpu": 4}),
        "MIG is on, the strategy none, and GPUs are shared": (discovered(A100, 1, "0"), {"shared": 4}),
        "GKE, where no label counts GPUs": (labels.GKE_TIME_SHARING, {"gpu": 8}),
        "an unreadable count": ({**labels.WHOLE, "nvidia.com/gpu.count": "many"}, {"gpu": 3}),
        "an old release": ({"nvidia.com/gpu.product": T4, "nvidia.com/gpu.count": "4"}, {"gpu": 3}),
    },
)
def test_what_may_have_another_reason_is_not_told(found: Mapping[str, str], capacity: Mapping[str, int]) -> None:
    assert findings(node("a", found, **capacity)) == []


FOUR = "in capacity, and nvidia.com/gpu.count is 1 and nvidia.com/gpu.replicas 4, together 4"
MEANT = "in capacity, and labels mean"
RENAMED = f"{MEANT} units of nvidia.com/gpu.shared (shared by 4 (time-slicing))"
TOLD = {
    "whole by the device plugin": (labels.TIME_SLICED, {"gpu": 1}, f"{GPU} is 1 {FOUR}"),
    "another number of replicas": (labels.TIME_SLICED, {"gpu": 6}, f"{GPU} is 6 {FOUR}"),
    "whole by labels": (labels.WHOLE, {"shared": 16}, f"{SHARED} is 16 {MEANT} whole units of {GPU}"),
    "renamed by the device plugin alone": (
        labels.TIME_SLICED,
        {"shared": 4},
        f"{SHARED} is 4 {MEANT} units of {GPU} (shared by 4 (time-slicing))",
    ),
    "renamed by labels alone": (labels.TIME_SLICED_RENAMED, {"gpu": 1}, f"{GPU} is 1 {RENAMED}"),
    "MIG, other slices since": (labels.SINGLE, {"gpu": 3}, f"{GPU} is 3 in capacity, and nvidia.com/gpu.count is 7"),
    "MIG, all slices alike": (labels.SINGLE, {"gpu": 14}, f"{GPU} is 14 in capacity, and nvidia.com/gpu.count is 7"),
    "fewer whole GPUs": (labels.WHOLE, {"gpu": 3}, f"{GPU} is 3 in capacity, and nvidia.com/gpu.count is 4"),
}


@pytest.mark.parametrize(("found", "capacity", "why"), TOLD.values(), ids=TOLD)
def test_a_capacity_that_labels_cannot_mean_is_told(
    found: Mapping[str, str], capacity: Mapping[str, int], why: str
) -> None:
    (one,) = findings(node("a", found, **capacity), node("b", labels.WHOLE, gpu=4))
    assert one.status is Status.WARNING
    assert one.found == f"1 of 2 GPU nodes has another capacity than labels about GPUs and shares say: a; on a, {why}"
    assert one.expected == (
        "nvidia.com/gpu.count times nvidia.com/gpu.replicas units, of the resource that the labels mean"
    )
    assert one.remedy.startswith("restart GPU Feature Discovery and the device plugin on these nodes (kubectl")


@each(
    "found, fault",
    {
        "suffix": (labels.CONTRADICTING, "nvidia.com/gpu.product ends in -SHARED, and"),
        "and fewer GPUs": (discovered(f"{T4}-SHARED", 8), "nvidia.com/gpu.product ends in -SHARED, and"),
        "MIG, invalid": (labels.INVALID, "ends in -MIG-INVALID"),
        "MIG": (discovered(SLICE, 7, mig="mixed"), "names MIG slices, and nvidia.com/mig.strategy is"),
    },
)
def test_labels_that_contradict_each_other_are_told_and_not_compared(found: Mapping[str, str], fault: str) -> None:
    (one,) = findings(node("a", found, gpu=3), node("b", labels.WHOLE, gpu=4))
    assert one.status is Status.WARNING
    assert one.found.startswith(
        "1 of 2 GPU nodes has labels about shares that contradict each other, so that units count as whole GPUs: a; on "
    )
    assert fault in one.found


TEXTS = st.sampled_from(
    ["", "0", "1", "4", "7", "x", "99999", "none", "mps", "time-slicing", "single", "mixed", T4, SLICE]
)
KEYS = st.sampled_from([*discovered(T4, 1, mig="single")])


@given(found=st.dictionaries(KEYS, TEXTS), gpu=st.integers(0, 64), shared=st.integers(0, 64))
def test_whatever_labels_and_capacity_say_there_is_an_answer(found: Mapping[str, str], gpu: int, shared: int) -> None:
    for one in findings(node("a", found, gpu=gpu, shared=shared)):
        assert one.status is Status.WARNING
        assert len(one.found) < 600


@given(
    models=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 7)), min_size=1, max_size=3), replicas=st.integers(1, 8)
)
def test_a_node_that_is_set_up_as_its_labels_say_is_never_told(models: list[tuple[int, int]], replicas: int) -> None:
    """Each model has GPUs without MIG and GPUs with MIG, which labels count together; labels are of one model."""
    units = sum(whole for whole, _ in models) * replicas
    shared = replicas > 1
    for whole, with_mig in models:
        found = discovered(
            f"{A100}-SHARED" if shared else A100,
            whole + with_mig,
            str(replicas),
            "time-slicing" if shared else "none",
            "mixed" if with_mig else "",
        )
        assert findings(node("a", found, gpu=units)) == []
