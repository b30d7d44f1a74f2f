"""How much memory one unit of a GPU resource has, and which sizes count as equal."""

from tests.golden import each, golden
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


@each(
    "resource, labels, models, expected",
    {
        "what the node says": (GPU, T4, ("T4",), exactly(15360 * MIB)),
        "a share by time-slicing": (GPU, SHARED_T4, ("T4",), exactly(3840 * MIB)),
        "a renamed share by MPS": (SHARED_GPU, RENAMED_T4, ("T4",), exactly(3840 * MIB)),
        "a slice, in the strategy single": (GPU, SLICED, ("A100-80GB",), exactly(10 * GIB)),
        "a share of a slice": (
            GPU,
            SLICED | {PRODUCT: SLICED[PRODUCT] + "-SHARED", REPLICAS: "2", STRATEGY: "mps"},
            (),
            exactly(5 * GIB),
        ),
        "a slice, by its resource": ("nvidia.com/mig-3g.40gb", T4, (), exactly(40 * GIB)),
        "a slice with media engines": ("nvidia.com/mig-1g.10gb.me", {}, (), exactly(10 * GIB)),
        "a share of a slice has less": ("nvidia.com/mig-1g.10gb.shared", {}, (), UnitMemory(None, 10 * GIB)),
        "a compute instance has a part of it": ("nvidia.com/mig-1c.3g.40gb", {}, (), UnitMemory(None, 40 * GIB)),
        "what the name of the model says": (GPU, {}, ("A100-40GB",), exactly(40 * GIB)),
        "one of several models": (GPU, {}, ("A100-40GB", "A100-80GB"), UnitMemory(40 * GIB, 80 * GIB)),
        "at most what the table says": (GPU, {}, ("T4",), UnitMemory(None, 16 * GIB)),
        "at most its largest slice": (GPU, {}, ("H200",), UnitMemory(None, 141 * GIB)),
        "at most that of the larger model": (GPU, {}, ("A100-40GB", "T4"), UnitMemory(None, 40 * GIB)),
        "a share of that": (GPU, SHARED_T4 | {GPU_MEMORY: ""}, ("T4",), UnitMemory(None, 4 * GIB)),
        "a model whose memory nobody wrote down": (GPU, {}, ("TITAN-V",), UNKNOWN),
        "one of which is not known": (GPU, {}, ("T4", "TITAN-V"), UNKNOWN),
        "nothing is said": (GPU, {}, (), UNKNOWN),
        "a node in a bad MIG mode": (GPU, {GPU_MEMORY: "0"}, (), UNKNOWN),
        "another unit": (GPU, {GPU_MEMORY: "80Gi"}, (), UNKNOWN),
        "no plausible number": (GPU, {GPU_MEMORY: "9" * 63}, (), UNKNOWN),
        "labels that contradict each other": (GPU, SHARED_T4 | {REPLICAS: "x"}, (), UNKNOWN),
        "a partition of AMD has at most that": ("amd.com/cpx_nps4", AMD, (), UnitMemory(None, 24 * GIB)),
        "a whole one": ("amd.com/spx_nps1", AMD | {AMD_PARTITION: "spx_nps1"}, (), exactly(24 * GIB)),
        "GPUs of another vendor": ("amd.com/gpu", T4, (), UNKNOWN),
        "GPUs for virtual machines": ("nvidia.com/GA102GL_A10", T4, (), UNKNOWN),
    },
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
