"""The resource names that are GPUs, and many names that only look alike."""

import pytest

from webhook.model.accelerators import BUILT_IN, GPU_ATTRIBUTES, Share, Vendor, accelerator


@pytest.mark.parametrize(
    ("resource", "vendor", "share"),
    [
        ("nvidia.com/gpu", Vendor.NVIDIA, Share.WHOLE),
        ("nvidia.com/gpu.shared", Vendor.NVIDIA, Share.SHARED),
        ("nvidia.com/mig-1g.5gb", Vendor.NVIDIA, Share.SLICE),
        ("nvidia.com/mig-1g.10gb.me", Vendor.NVIDIA, Share.SLICE),
        ("nvidia.com/mig-1g.10gb+me", Vendor.NVIDIA, Share.SLICE),
        ("nvidia.com/mig-1g.24gb.me.all", Vendor.NVIDIA, Share.SLICE),
        ("nvidia.com/mig-1g.24gb-me", Vendor.NVIDIA, Share.SLICE),
        ("nvidia.com/mig-1c.3g.20gb", Vendor.NVIDIA, Share.SLICE),
        ("nvidia.com/mig-7g.141gb", Vendor.NVIDIA, Share.SLICE),
        ("nvidia.com/pgpu", Vendor.NVIDIA, Share.PASSTHROUGH),
        ("nvidia.com/GA102GL_A10", Vendor.NVIDIA, Share.PASSTHROUGH),
        ("nvidia.com/GRID_T4-16Q", Vendor.NVIDIA, Share.PASSTHROUGH),
        ("amd.com/gpu", Vendor.AMD, Share.WHOLE),
        ("amd.com/cpx_nps4", Vendor.AMD, Share.SLICE),
        ("gpu.intel.com/i915", Vendor.INTEL, Share.WHOLE),
        ("gpu.intel.com/xe", Vendor.INTEL, Share.WHOLE),
        ("gpu.intel.com/i915_monitoring", Vendor.INTEL, Share.NODE),
        ("gpu.intel.com/xe_monitoring", Vendor.INTEL, Share.NODE),
        ("intel.com/gpu", Vendor.INTEL, Share.WHOLE),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", Vendor.NVIDIA, Share.WHOLE),
        ("deviceclass.resource.kubernetes.io/mig.nvidia.com", Vendor.NVIDIA, Share.SLICE),
        ("deviceclass.resource.kubernetes.io/vfio.gpu.nvidia.com", Vendor.NVIDIA, Share.PASSTHROUGH),
        ("deviceclass.resource.kubernetes.io/gpu.amd.com", Vendor.AMD, Share.WHOLE),
        ("deviceclass.resource.kubernetes.io/vfio.gpu.amd.com", Vendor.AMD, Share.PASSTHROUGH),
        ("deviceclass.resource.kubernetes.io/gpu.intel.com", Vendor.INTEL, Share.WHOLE),
        ("deviceclass.resource.kubernetes.io/gpu-vfio.intel.com", Vendor.INTEL, Share.PASSTHROUGH),
    ],
    ids=str,
)
def test_a_gpu_is_known_by_its_resource_name(resource, vendor, share):
    gpu = accelerator(resource)
    assert gpu is not None
    assert (gpu.resource, gpu.vendor, gpu.share) == (resource, vendor, share)


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/rdma-vf",
        "nvidia.com/rdma-shared-device-a",
        "nvidia.com/gpumem",
        "nvidia.com/gpucores",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/priority",
        "nvidia.com/gpu-10gb",
        "nvidia.com/gpu.product",
        "nvidia.com/gpus",
        "nvidia.com/gpu\n",
        "nvidia.com/GPU/x",
        "nvidia.com/mig",
        "nvidia.com/mig-1g",
        "nvidia.com/mig-1g.5gb/",
        "NVIDIA.com/gpu",
        "nvidiaXcom/gpu",
        "requests.nvidia.com/gpu",
        "x-nvidia.com/gpu",
        "amd.com/vcpu",
        "gpu.intel.com/millicores",
        "deviceclass.resource.kubernetes.io/h100",
        "deviceclass.resource.kubernetes.io/gpuXnvidia.com",
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com.x",
        "xdeviceclass.resource.kubernetes.io/gpu.nvidia.com",
        "gpu.intel.com/tiles",
        "habana.ai/gaudi",
        "google.com/tpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "cpu",
        "gpu",
        "",
        "nvidia.com/" + "X" * 3_000_000,
    ],
    ids=lambda value: repr(value[:40]),
)
def test_what_only_looks_like_a_gpu_is_none(resource):
    assert accelerator(resource) is None


@pytest.mark.parametrize(
    ("resource", "shared"),
    [
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.10gb.shared", True),
        ("nvidia.com/mig-1g.10gb.me.shared", True),
        ("nvidia.com/gpu", False),
        ("nvidia.com/mig-1g.10gb", False),
        ("nvidia.com/mig-1g.10gb.me", False),
        ("nvidia.com/mig-1g.10gb-shared", False),
        ("nvidia.com/NVIDIA_A10.shared", False),
        ("amd.com/cpx_nps4", False),
    ],
)
def test_what_the_device_plugin_shares_is_known_by_the_end_of_its_name(resource, shared):
    """A shared slice stays a slice: CUDA uses it as one, and it weighs as much."""
    gpu = accelerator(resource)
    assert gpu is not None
    assert gpu.is_shared is shared
    assert (gpu.share is Share.SLICE) is ("mig" in resource or "nps" in resource)


@pytest.mark.parametrize(
    ("resource", "attribute"),
    [
        ("nvidia.com/gpumem", True),
        ("nvidia.com/gpucores", True),
        ("nvidia.com/gpumem-percentage", True),
        ("nvidia.com/gpu", False),
        ("nvidia.com/rdma-vf", False),
        ("memory", False),
    ],
)
def test_attributes_of_a_share_are_told_from_the_gpus_they_describe(resource, attribute):
    assert (resource in GPU_ATTRIBUTES) is attribute


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param("deviceclass.resource.kubernetes.io/h100", True, id="a class of the cluster"),
        pytest.param(
            "deviceclass.resource.kubernetes.io/dranet-ib", True, id="a class of network cards of the cluster"
        ),
        pytest.param("deviceclass.resource.kubernetes.io/gpu.nvidia.com", False, id="known GPUs"),
        pytest.param("deviceclass.resource.kubernetes.io/mrdma.google.com", False, id="known network cards"),
        pytest.param(
            "deviceclass.resource.kubernetes.io/compute-domain-default-channel.nvidia.com", False, id="known channels"
        ),
        pytest.param("nvidia.com/rdma-vf", False, id="no class"),
    ],
)
def test_device_classes_that_are_not_declared_may_be_gpus(resource, expected):
    assert BUILT_IN.may_be_gpus(resource) is expected
