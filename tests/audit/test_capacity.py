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


GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"
FOUR_SLICED, TWO_MPS = "shared by 4 (time-slicing)", "shared by 2 (mps)"


def mixed(**said: str) -> dict[str, str]:
    """Labels of the strategy mixed, with what GPU Feature Discovery says of the slices."""
    return {**labels.MIXED, **{f"{MIG}.{key.replace('_', '-')}": value for key, value in said.items()}}


@pytest.mark.parametrize(
    ("found", "resource", "units", "unit", "physical"),
    [
        (labels.UNLABELLED, GPU, 4, "", "4"),
        (labels.WHOLE, GPU, 4, "", "4"),
        (labels.TIME_SLICED, GPU, 4, FOUR_SLICED, "1"),
        (labels.TIME_SLICED_RENAMED, SHARED, 4, FOUR_SLICED, "1"),
        (labels.TIME_SLICED_RENAMED, GPU, 4, "", "4"),
        (labels.MPS, GPU, 2, TWO_MPS, "1"),
        (labels.MPS_RENAMED, SHARED, 2, TWO_MPS, "1"),
        (labels.SINGLE, GPU, 7, "1g.5gb", "1"),
        (labels.SINGLE_TIME_SLICED, GPU, 14, "1g.5gb, shared by 2 (time-slicing)", "1"),
        (labels.MIXED, MIG, 7, "1g.5gb", "1"),
        (mixed(replicas="2", sharing_strategy="mps"), f"{MIG}.shared", 14, f"1g.5gb, {TWO_MPS}", "1"),
        (mixed(replicas="2", product="A100-MIG-1g.5gb-SHARED"), MIG, 14, "1g.5gb, shared by 2 (time-slicing)", "1"),
        (mixed(replicas="0"), f"{MIG}.shared", 14, "1g.5gb", "2"),
        (mixed(replicas="2"), MIG, 7, "1g.5gb", "1"),
        (labels.CONTRADICTING, GPU, 4, "", "4"),
        (labels.GKE_TIME_SHARING, GPU, 8, "shared by 8 (time-slicing)", "1"),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X"}, "amd.com/cpx_nps4", 8, "", "1"),
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
