"""How much memory one unit of a GPU resource has, and which sizes count as equal."""

import pytest

from tests.golden import golden
from webhook.gpus.gpu_memory import AMD_PARTITION, GPU_MEMORY, UNKNOWN, UnitMemory, memory_of, profile_of
from webhook.gpus.gpu_shares import GPU, SHARED_GPU, share_of

GIB, MIB = 2**30, 2**20
PRODUCT, REPLICAS, STRATEGY = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
T4 = {PRODUCT: "Tesla-T4", GPU_MEMORY: "15360"}
SHARED_T4 = {PRODUCT: "Tesla-T4-SHARED", GPU_MEMORY: "15360", REPLICAS: "4", STRATEGY: "time-slicing"}
RENAMED_T4 = {**SHARED_T4, PRODUCT: "Tesla-T4", STRATEGY: "mps"}
SLICED = {PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", GPU_MEMORY: "9728", "nvidia.com/mig.strategy": "single"}


AMD = {"amd.com/gpu.vram": "24G"}


def exactly(size: int) -> UnitMemory:
    return UnitMemory(size, size)


@pytest.mark.parametrize(
    ("resource", "labels", "models", "expected"),
    [
        pytest.param(GPU, T4, ("T4",), exactly(15360 * MIB), id="what the node says"),
        pytest.param(GPU, SHARED_T4, ("T4",), exactly(3840 * MIB), id="a share by time-slicing"),
        pytest.param(SHARED_GPU, RENAMED_T4, ("T4",), exactly(3840 * MIB), id="a renamed share by MPS"),
        pytest.param(GPU, SLICED, ("A100-80GB",), exactly(10 * GIB), id="a slice, in the strategy single"),
        pytest.param(
            GPU,
            SLICED | {PRODUCT: SLICED[PRODUCT] + "-SHARED", REPLICAS: "2", STRATEGY: "mps"},
            (),
            exactly(5 * GIB),
            id="a share of a slice",
        ),
        pytest.param("nvidia.com/mig-3g.40gb", T4, (), exactly(40 * GIB), id="a slice, by its resource"),
        pytest.param("nvidia.com/mig-1g.10gb.me", {}, (), exactly(10 * GIB), id="a slice with media engines"),
        pytest.param(
            "nvidia.com/mig-1g.10gb.shared", {}, (), UnitMemory(None, 10 * GIB), id="a share of a slice has less"
        ),
        pytest.param(
            "nvidia.com/mig-1c.3g.40gb", {}, (), UnitMemory(None, 40 * GIB), id="a compute instance has a part of it"
        ),
        pytest.param(GPU, {}, ("A100-40GB",), exactly(40 * GIB), id="what the name of the model says"),
        pytest.param(GPU, {}, ("A100-40GB", "A100-80GB"), UnitMemory(40 * GIB, 80 * GIB), id="one of several models"),
        pytest.param(GPU, {}, ("T4",), UnitMemory(None, 16 * GIB), id="at most what the table says"),
        pytest.param(GPU, {}, ("H200",), UnitMemory(None, 141 * GIB), id="at most its largest slice"),
        pytest.param(GPU, {}, ("A100-40GB", "T4"), UnitMemory(None, 40 * GIB), id="at most that of the larger model"),
        pytest.param(GPU, SHARED_T4 | {GPU_MEMORY: ""}, ("T4",), UnitMemory(None, 4 * GIB), id="a share of that"),
        pytest.param(GPU, {}, ("TITAN-V",), UNKNOWN, id="a model whose memory nobody wrote down"),
        pytest.param(GPU, {}, ("T4", "TITAN-V"), UNKNOWN, id="one of which is not known"),
        pytest.param(GPU, {}, (), UNKNOWN, id="nothing is said"),
        pytest.param(GPU, {GPU_MEMORY: "0"}, (), UNKNOWN, id="a node in a bad MIG mode"),
        pytest.param(GPU, {GPU_MEMORY: "80Gi"}, (), UNKNOWN, id="another unit"),
        pytest.param(GPU, {GPU_MEMORY: "9" * 63}, (), UNKNOWN, id="no plausible number"),
        pytest.param(GPU, SHARED_T4 | {REPLICAS: "x"}, (), UNKNOWN, id="labels that contradict each other"),
        pytest.param("amd.com/cpx_nps4", AMD, (), UnitMemory(None, 24 * GIB), id="a partition of AMD has at most that"),
        pytest.param("amd.com/spx_nps1", AMD | {AMD_PARTITION: "spx_nps1"}, (), exactly(24 * GIB), id="a whole one"),
        pytest.param("amd.com/gpu", T4, (), UNKNOWN, id="GPUs of another vendor"),
        pytest.param("nvidia.com/GA102GL_A10", T4, (), UNKNOWN, id="GPUs for virtual machines"),
    ],
)
def test_a_unit_has_the_memory_that_is_certain(resource, labels, models, expected):
    assert memory_of(resource, labels, share_of(labels), models) == expected


@golden
def test_a_gpu_has_the_memory_in_its_name_and_not_that_of_the_next_size(reported, name, size):
    """The reported sizes are labels of nodes with these GPUs."""
    found = memory_of(GPU, {GPU_MEMORY: str(reported)}, share_of({}), (name,))
    assert not found.is_below(size * GIB)
    assert not found.is_above(size * GIB)
    assert found.is_below(size * GIB * 5 // 4)
    assert found.is_above(size * GIB * 3 // 4)


def test_what_is_not_known_is_neither_too_small_nor_too_large():
    assert not UNKNOWN.is_below(2**60)
    assert not UNKNOWN.is_above(1)
    assert UnitMemory(None, 10 * GIB).is_below(20 * GIB)
    assert not UnitMemory(None, 10 * GIB).is_above(GIB)


@golden
def test_a_profile_is_read_from_a_resource_as_nvidia_spells_it(resource, profile):
    assert profile_of(resource) == profile
