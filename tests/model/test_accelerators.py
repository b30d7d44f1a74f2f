"""Which resource names are GPUs: the list of names is long, and so is the list of those that only look alike."""

import pytest

from webhook.model.accelerators import GPU_ATTRIBUTES, Share, Vendor, accelerator


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
        "gpu.intel.com/i915_monitoring",
        "gpu.intel.com/xe_monitoring",
        "gpu.intel.com/millicores",
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
