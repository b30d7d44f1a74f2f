"""What a report says of the GPUs of a cluster: by model, resource and driver, with the newest CUDA that runs there."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from tests.facts.samples import resource_slice
from tests.gpus import discovered_labels as labels
from webhook.audit.node_kinds import capacity_of
from webhook.audit.report import Capacity
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import Snapshot

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/cuda.driver-version.full": "580.95.05"}


def node(number: int, capacity: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"capacity": capacity}}


def rows(*nodes: tuple[dict[str, Any], dict[str, str]]) -> tuple[Capacity, ...]:
    raws = [node(number, capacity, labels) for number, (capacity, labels) in enumerate(nodes)]
    return capacity_of(ClusterFacts.of(raws).cluster)


def test_nodes_that_offer_the_same_are_one_row() -> None:
    eight = {"nvidia.com/gpu": "8"}
    assert rows((eight, H100), (eight, H100), ({"nvidia.com/gpu": "4"}, H100)) == (
        Capacity("NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 3, 20, "580.95.05", "13.0"),
    )


def test_nodes_with_other_drivers_are_other_rows() -> None:
    old = {**H100, "nvidia.com/cuda.driver-version.full": "535.183.01"}
    found = rows(({"nvidia.com/gpu": "8"}, H100), ({"nvidia.com/gpu": "8"}, old))
    assert [(row.driver, row.cuda) for row in found] == [("535.183.01", "12.2"), ("580.95.05", "13.0")]


@pytest.mark.parametrize(
    ("resource", "label", "model"),
    [
        ("amd.com/gpu", "amd.com/gpu.product-name", "AMD_Instinct_MI300X"),
        ("gpu.intel.com/i915", "gpu.intel.com/product", "Max_1100"),
    ],
)
def test_gpus_of_other_makers_have_no_cuda(resource: str, label: str, model: str) -> None:
    assert rows(({resource: "8"}, {label: model})) == (Capacity(model, resource, 1, 8, "", ""),)


def test_a_node_that_does_not_say_what_it_has_is_counted_all_the_same() -> None:
    assert rows(({"nvidia.com/gpu": "2"}, {})) == (Capacity("", "nvidia.com/gpu", 1, 2, "", ""),)


def test_nodes_without_gpus_are_left_out() -> None:
    assert rows(({"cpu": "8"}, {}), ({"nvidia.com/gpu": "0"}, H100), ({"nvidia.com/gpu": "many"}, H100)) == ()


def test_slices_of_several_sizes_have_a_part_of_a_gpu_each() -> None:
    found = rows(({"nvidia.com/mig-1g.10gb": "3", "nvidia.com/mig-3g.40gb": 1}, H100))
    assert [(row.unit, row.part, row.physical) for row in found] == [
        ("1g.10gb", Fraction(1, 7), Fraction(3, 7)),
        ("3g.40gb", Fraction(1, 2), Fraction(1, 2)),
    ]


@pytest.mark.parametrize(
    ("found", "resource", "units", "unit", "physical"),
    [
        pytest.param(labels.UNLABELLED, "nvidia.com/gpu", 4, "", "4", id="unlabelled"),
        pytest.param(labels.WHOLE, "nvidia.com/gpu", 4, "", "4", id="whole GPUs"),
        pytest.param(labels.TIME_SLICED, "nvidia.com/gpu", 4, "shared by 4 (time-slicing)", "1", id="time-slicing"),
        pytest.param(
            labels.TIME_SLICED_RENAMED, "nvidia.com/gpu.shared", 4, "shared by 4 (time-slicing)", "1", id="renamed"
        ),
        pytest.param(
            labels.TIME_SLICED_RENAMED, "nvidia.com/gpu", 4, "", "4", id="the plain name beside a renamed one"
        ),
        pytest.param(labels.MPS, "nvidia.com/gpu", 2, "shared by 2 (mps)", "1", id="MPS"),
        pytest.param(labels.MPS_RENAMED, "nvidia.com/gpu.shared", 2, "shared by 2 (mps)", "1", id="MPS, renamed"),
        pytest.param(labels.SINGLE, "nvidia.com/gpu", 7, "1g.5gb", "1", id="MIG, single"),
        pytest.param(
            labels.SINGLE_TIME_SLICED, "nvidia.com/gpu", 14, "1g.5gb, shared by 2 (time-slicing)", "1", id="both"
        ),
        pytest.param(labels.MIXED, "nvidia.com/mig-1g.5gb", 7, "1g.5gb", "1", id="MIG, mixed"),
        pytest.param(
            {**labels.MIXED, "nvidia.com/mig-1g.5gb.replicas": "2", "nvidia.com/mig-1g.5gb.sharing-strategy": "mps"},
            "nvidia.com/mig-1g.5gb.shared",
            14,
            "1g.5gb, shared by 2 (mps)",
            "1",
            id="MIG, mixed, MPS, renamed",
        ),
        pytest.param(
            {
                **labels.MIXED,
                "nvidia.com/mig-1g.5gb.replicas": "2",
                "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
            },
            "nvidia.com/mig-1g.5gb",
            14,
            "1g.5gb, shared by 2 (time-slicing)",
            "1",
            id="MIG, mixed, time-slicing",
        ),
        pytest.param(
            {**labels.MIXED, "nvidia.com/mig-1g.5gb.replicas": "0"},
            "nvidia.com/mig-1g.5gb.shared",
            14,
            "1g.5gb",
            "2",
            id="MIG, mixed, renamed, shared by nobody",
        ),
        pytest.param(
            {**labels.MIXED, "nvidia.com/mig-1g.5gb.replicas": "2"},
            "nvidia.com/mig-1g.5gb",
            7,
            "1g.5gb",
            "1",
            id="MIG, mixed, the plain name beside a renamed one",
        ),
        pytest.param(labels.CONTRADICTING, "nvidia.com/gpu", 4, "", "4", id="labels that contradict each other"),
        pytest.param(labels.GKE_TIME_SHARING, "nvidia.com/gpu", 8, "shared by 8 (time-slicing)", "1", id="GKE"),
        pytest.param(
            {"amd.com/gpu.product-name": "AMD_Instinct_MI300X"}, "amd.com/cpx_nps4", 8, "", "1", id="AMD's partitions"
        ),
    ],
)
def test_units_are_counted_and_the_gpus_that_they_are_together(
    found: Mapping[str, str], resource: str, units: int, unit: str, physical: str
) -> None:
    (row,) = rows(({resource: str(units)}, dict(found)))
    assert (row.gpus, row.unit, row.physical) == (units, unit, Fraction(physical))


def test_gpus_for_claims_are_rows_of_their_own_by_device_class() -> None:
    def devices(kind: str, number: int, **more: str) -> list[dict[str, Any]]:
        said = {"type": {"string": kind}, "productName": {"string": "NVIDIA H100 80GB HBM3"}}
        said |= {key: {"string": value} for key, value in more.items()}
        versions = {"driverVersion": {"version": "580.95.5"}, "cudaDriverVersion": {"version": "13.0.0"}}
        return [{"name": f"{kind}-{place}", "attributes": said | versions} for place in range(number)]

    offered = {"n0": devices("gpu", 8) + devices("mig", 3, profile="1g.10gb"), "n1": devices("gpu", 8)}
    slices = [resource_slice(f"s-{name}", name, devices=those) for name, those in offered.items()]
    nodes = [node(number, {}, {}) for number in range(2)]
    found = capacity_of(Snapshot.of(nodes, slices=slices))
    assert found == (
        Capacity("NVIDIA H100 80GB HBM3", "gpu.nvidia.com", 2, 16, "580.95.5", "13.0"),
        Capacity("NVIDIA H100 80GB HBM3", "mig.nvidia.com", 1, 3, "580.95.5", "13.0", "1g.10gb", Fraction(1, 7)),
    )
