"""The resource names that are GPUs, and many names that only look alike."""

import pytest

from tests.golden import golden
from webhook.model.accelerators import BUILT_IN, Share, Vendor, accelerator

CLASS = "deviceclass.resource.kubernetes.io/"
GPUS = {
    (Vendor.NVIDIA, Share.WHOLE): f"nvidia.com/gpu {CLASS}gpu.nvidia.com",
    (Vendor.NVIDIA, Share.SHARED): "nvidia.com/gpu.shared",
    (Vendor.NVIDIA, Share.SLICE): "nvidia.com/mig-1g.5gb nvidia.com/mig-1g.10gb.me nvidia.com/mig-1g.10gb+me "
    "nvidia.com/mig-1g.24gb.me.all nvidia.com/mig-1g.24gb-me nvidia.com/mig-1c.3g.20gb nvidia.com/mig-7g.141gb "
    f"{CLASS}mig.nvidia.com",
    (Vendor.NVIDIA, Share.PASSTHROUGH): "nvidia.com/pgpu nvidia.com/GA102GL_A10 nvidia.com/GRID_T4-16Q "
    f"{CLASS}vfio.gpu.nvidia.com",
    (Vendor.AMD, Share.WHOLE): f"amd.com/gpu {CLASS}gpu.amd.com",
    (Vendor.AMD, Share.SLICE): "amd.com/cpx_nps4",
    (Vendor.AMD, Share.PASSTHROUGH): f"{CLASS}vfio.gpu.amd.com",
    (Vendor.INTEL, Share.WHOLE): f"gpu.intel.com/i915 gpu.intel.com/xe intel.com/gpu {CLASS}gpu.intel.com",
    (Vendor.INTEL, Share.NODE): "gpu.intel.com/i915_monitoring gpu.intel.com/xe_monitoring",
    (Vendor.INTEL, Share.PASSTHROUGH): f"{CLASS}gpu-vfio.intel.com",
}


@pytest.mark.parametrize(("resource", "kind"), [(one, kind) for kind, names in GPUS.items() for one in names.split()])
def test_a_gpu_is_known_by_its_resource_name(resource, kind):
    gpu = accelerator(resource)
    assert gpu is not None
    assert (gpu.resource, (gpu.vendor, gpu.share)) == (resource, kind)


LOOK_ALIKES = [
    *[
        "rdma-vf",
        "rdma-shared-device-a",
        "gpumem",
        "gpucores",
        "gpumem-percentage",
        "priority",
        "gpu-10gb",
        "gpu.product",
    ],
    *["gpus", "gpu/x", "mig", "mig-1g", "mig-1g.5gb/"],
]
OTHERS = (
    "NVIDIA.com/gpu nvidiaXcom/gpu requests.nvidia.com/gpu x-nvidia.com/gpu amd.com/vcpu gpu.intel.com/millicores "
    f"gpu.intel.com/tiles habana.ai/gaudi google.com/tpu aws.amazon.com/neuron cpu gpu {CLASS}h100 "
    f"{CLASS}gpuXnvidia.com {CLASS}gpu.nvidia.com.x x{CLASS}gpu.nvidia.com"
).split()


@pytest.mark.parametrize(
    "resource",
    [*(f"nvidia.com/{name}" for name in LOOK_ALIKES), *OTHERS, "nvidia.com/gpu\n", "", "nvidia.com/" + "X" * 3_000_000],
    ids=lambda value: repr(value[:40]),
)
def test_what_only_looks_like_a_gpu_is_none(resource):
    assert accelerator(resource) is None


@golden
def test_what_the_device_plugin_shares_is_known_by_the_end_of_its_name(resource, shared):
    """A shared slice stays a slice: CUDA uses it as one, and it weighs as much."""
    gpu = accelerator(resource)
    assert gpu is not None
    assert gpu.is_shared is shared
    assert (gpu.share is Share.SLICE) is ("mig" in resource or "nps" in resource)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (f"{CLASS}h100", True),
        (f"{CLASS}dranet-ib", True),
        (f"{CLASS}gpu.nvidia.com", False),
        (f"{CLASS}mrdma.google.com", False),
        (f"{CLASS}compute-domain-default-channel.nvidia.com", False),
        ("nvidia.com/rdma-vf", False),
    ],
)
def test_device_classes_that_are_not_declared_may_be_gpus(resource, expected):
    assert BUILT_IN.may_be_gpus(resource) is expected
