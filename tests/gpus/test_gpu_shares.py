"""What one unit of a GPU resource is, by the labels that GPU Feature Discovery and GKE write."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from webhook.gpus.gpu_shares import GPU, SHARED_GPU, GpuShare, Sharing, share_of

PRODUCT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas"
STRATEGY, MIG = "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.strategy"
CLIENTS, GKE_SHARING = "cloud.google.com/gke-max-shared-clients-per-gpu", "cloud.google.com/gke-gpu-sharing-strategy"
PARTITION = "cloud.google.com/gke-gpu-partition-size"
A100, SLICE = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"


@golden
def test_a_unit_is_the_part_that_labels_say(labels: dict[str, str], gpu: str, shared: str, said: str) -> None:
    share = share_of(labels)
    assert (share.part(GPU), share.part(SHARED_GPU)) == (Fraction(gpu), Fraction(shared))
    assert (str(share), share.fault) == (said, "")
    assert share.part("nvidia.com/mig-1g.5gb") == share.part("amd.com/gpu") == 1
    assert share.is_known is bool(labels)


@golden
def test_labels_that_contradict_each_other_leave_a_whole_gpu_and_say_why(labels: dict[str, str], why: str) -> None:
    share = share_of(labels)
    assert share == GpuShare(fault=why, is_known=True)
    assert share.part(GPU) == share.part(SHARED_GPU) == 1


VALUES = st.sampled_from(
    ["", "0", "1", "2", "4", "x", "-1", "٤", "none", "mps", "time-slicing", "time-sharing", "single", "mixed", "1g.5gb"]
) | st.text(max_size=63)
PRODUCTS = st.sampled_from([A100, SLICE, f"{SLICE}-SHARED", "Tesla-T4-SHARED", "-MIG-", "-SHARED", "-MIG-1g.5gb"])


@given(
    labels=st.dictionaries(st.sampled_from([REPLICAS, STRATEGY, MIG, CLIENTS, GKE_SHARING, PARTITION]), VALUES),
    product=PRODUCTS | VALUES,
)
def test_whatever_labels_say_a_unit_is_some_part_of_a_gpu_and_a_share_is_of_several(
    labels: dict[str, str], product: str
) -> None:
    share = share_of({PRODUCT: product, **labels})
    for resource in (GPU, SHARED_GPU):
        assert 0 < share.part(resource) <= 1
        assert share.part(resource) > Fraction(1, 7 * 10**9)
    assert (share.replicas > 1) is (share.sharing is not Sharing.NONE)
    assert not share.fault or share.part(GPU) == 1
