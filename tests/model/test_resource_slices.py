"""ResourceSlices are read in the shape of each API version, and nothing in them raises or is kept without a bound."""

from typing import Any

import pytest

from tests.facts.samples import resource_slice
from tests.golden import each
from webhook.model.resource_slices import DeviceKind, slice_from_raw

SAID = {
    "type": {"string": "gpu"},
    "productName": {"string": "NVIDIA H100 80GB HBM3"},
    "driverVersion": {"version": "580.65.6"},
    "cudaDriverVersion": {"version": "13.0.0"},
    "cudaComputeCapability": {"version": "9.0.0"},
    "uuid": {"string": "GPU-1"},
}
H100 = DeviceKind("gpu.nvidia.com", "gpu", "NVIDIA H100 80GB HBM3", "580.65.6", "13.0.0", "9.0.0", "", 80 * 2**30)
MEMORY = {"memory": {"value": "80Gi"}}


def one_device(**device: Any) -> dict[str, Any]:
    raw = resource_slice("s", "n")
    raw["spec"]["devices"] = [{"name": "gpu-0", **device}]
    return raw


def kinds(raw: Any) -> Any:
    found = slice_from_raw(raw)
    assert found is not None
    return found.devices


@each(
    "raw",
    {
        "v1 and v1beta2": one_device(attributes=SAID, capacity=MEMORY),
        "v1beta1": one_device(basic={"attributes": SAID, "capacity": MEMORY}),
        "names with the driver": one_device(
            attributes={f"gpu.nvidia.com/{name}": value for name, value in SAID.items()},
            capacity={"gpu.nvidia.com/memory": {"value": 80 * 2**30}},
        ),
    },
)
def test_a_gpu_says_its_product_its_driver_and_its_memory(raw: Any) -> None:
    assert kinds(raw) == ((H100, 1),)


def test_amd_and_intel_say_it_in_their_own_attributes() -> None:
    amd = {"type": {"string": "amdgpu-partition"}, "productName": {"string": "MI300X"}}
    raw = one_device(attributes={**amd, "partitionProfile": {"string": "cpx_nps4"}})
    raw["spec"]["driver"] = "gpu.amd.com"
    assert kinds(raw) == ((DeviceKind("gpu.amd.com", "amdgpu-partition", "MI300X", profile="cpx_nps4"), 1),)
    raw = one_device(attributes={"model": {"string": "Flex 170"}, "driver": {"string": "i915"}})
    raw["spec"]["driver"] = "gpu.intel.com"
    assert kinds(raw) == ((DeviceKind("gpu.intel.com", product="Flex 170"), 1),)


def test_partitions_say_that_they_share_counters() -> None:
    consumes = [{"counterSet": "gpu-0", "counters": {"memory-slice-0": {"value": "1"}}}]
    for device in ({"consumesCounters": consumes}, {"basic": {"consumesCounters": consumes}}):
        assert kinds(one_device(**device))[0][0].shares_counters


@pytest.mark.parametrize("device", [{"allowMultipleAllocations": True}, {"basic": {"allowMultipleAllocations": True}}])
def test_a_device_that_may_be_allocated_several_times_bounds_nothing(device: Any) -> None:
    found = slice_from_raw(one_device(**device))
    assert found is not None
    assert not found.is_bounded


@each(
    "change",
    {
        "no driver of GPUs": {"driver": "compute-domain.nvidia.com"},
        "a list as driver": {"driver": ["gpu.nvidia.com"]},
        "no driver": {"driver": None},
    },
)
def test_slices_of_others_are_left_out(change: Any) -> None:
    raw = resource_slice("s", "n")
    raw["spec"].update(change)
    assert slice_from_raw(raw) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": 7, "pool": [], "devices": {}},
        {"pool": {"generation": "1", "resourceSliceCount": True, "name": {}}, "devices": [None, 7, "gpu"]},
        {"pool": {"generation": -1, "resourceSliceCount": -2}, "devices": [{"attributes": [], "capacity": 3}]},
        {
            "devices": [
                {"basic": 4, "attributes": {"type": {"string": ["gpu"]}}, "capacity": {"memory": {"value": "x"}}}
            ]
        },
        {"devices": [{"capacity": {"memory": {"value": "9" * 300}}}]},
    ],
)
def test_malformed_parts_say_nothing(spec: Any) -> None:
    found = slice_from_raw({"metadata": {"name": "s"}, "spec": {"driver": "gpu.nvidia.com", **spec}})
    assert found is not None
    assert found.node == found.pool == ""
    assert found.generation == found.pool_slices == 0
    assert {kind for kind, _ in found.devices} <= {DeviceKind("gpu.nvidia.com")}
