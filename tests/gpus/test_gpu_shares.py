"""What one unit of a GPU resource is, by the labels that GPU Feature Discovery and GKE write."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.gpus.gpu_shares import GPU, SHARED_GPU, GpuShare, Sharing, share_of

PRODUCT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas"
STRATEGY, MIG = "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.strategy"
ACCELERATOR = "cloud.google.com/gke-accelerator"
CLIENTS, GKE_SHARING = "cloud.google.com/gke-max-shared-clients-per-gpu", "cloud.google.com/gke-gpu-sharing-strategy"
PARTITION = "cloud.google.com/gke-gpu-partition-size"
A100, SLICE = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"


def found(product: str | None, replicas: str | None = "1", strategy: str | None = "none", mig: str | None = None):
    """The labels of GPU Feature Discovery; None where it writes none."""
    labels = {PRODUCT: product, REPLICAS: replicas, STRATEGY: strategy, MIG: mig}
    return {key: value for key, value in labels.items() if value is not None}


@pytest.mark.parametrize(
    ("labels", "gpu", "shared", "said"),
    [
        pytest.param({}, "1", "1", "", id="nothing is said"),
        pytest.param(found("Tesla-T4"), "1", "1", "", id="whole GPUs"),
        pytest.param(found("Tesla-T4", None, None), "1", "1", "", id="whole GPUs, by an old release"),
        pytest.param(
            found("Tesla-T4-SHARED", "4", "time-slicing"), "1/4", "1", "shared by 4 (time-slicing)", id="time-slicing"
        ),
        pytest.param(found("Tesla-T4-SHARED", "4", None), "1/4", "1", "shared by 4 (time-slicing)", id="of old"),
        pytest.param(found("Tesla-T4", "4", "time-slicing"), "1", "1/4", "shared by 4 (time-slicing)", id="renamed"),
        pytest.param(found("Tesla-T4-SHARED", "2", "mps"), "1/2", "1", "shared by 2 (mps)", id="MPS"),
        pytest.param(found("Tesla-T4", "2", "mps"), "1", "1/2", "shared by 2 (mps)", id="MPS, renamed"),
        pytest.param(found(SLICE, mig="single"), "1/7", "1", "1g.5gb", id="MIG, single"),
        pytest.param(
            found(f"{SLICE}-SHARED", "2", "time-slicing", "single"),
            "1/14",
            "1",
            "1g.5gb, shared by 2 (time-slicing)",
            id="MIG, single, time-slicing",
        ),
        pytest.param(
            found(SLICE, "2", "time-slicing", "single"),
            "1/7",
            "1/14",
            "1g.5gb, shared by 2 (time-slicing)",
            id="MIG, single, time-slicing, renamed",
        ),
        pytest.param(
            found("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me", mig="single"), "1", "1", "1g.10gb+me", id="with media engines"
        ),
        pytest.param(found(A100, "0", "none"), "1", "1", "", id="MIG is on, and the strategy none"),
        pytest.param(found(A100, "0", "none", "mixed"), "1", "1", "", id="MIG, mixed"),
        pytest.param(found(A100, mig="single"), "1", "1", "", id="the strategy single, and MIG is off"),
        pytest.param(
            {ACCELERATOR: "nvidia-tesla-t4", CLIENTS: "8", GKE_SHARING: "time-sharing"},
            "1/8",
            "1",
            "shared by 8 (time-slicing)",
            id="GKE, time-sharing",
        ),
        pytest.param(
            {ACCELERATOR: "nvidia-l4", CLIENTS: "3", GKE_SHARING: "mps"}, "1/3", "1", "shared by 3 (mps)", id="GKE, MPS"
        ),
        pytest.param(
            {ACCELERATOR: "nvidia-tesla-a100", PARTITION: "2g.10gb", CLIENTS: "2", GKE_SHARING: "time-sharing"},
            "1/6",
            "1",
            "2g.10gb, shared by 2 (time-slicing)",
            id="GKE, slices in time-sharing",
        ),
        pytest.param({ACCELERATOR: "nvidia-tesla-a100", PARTITION: "1g.5gb"}, "1/7", "1", "1g.5gb", id="GKE, slices"),
    ],
)
def test_a_unit_is_the_part_that_labels_say(labels: dict[str, str], gpu: str, shared: str, said: str) -> None:
    share = share_of(labels)
    assert (share.part(GPU), share.part(SHARED_GPU)) == (Fraction(gpu), Fraction(shared))
    assert (str(share), share.fault) == (said, "")
    assert share.part("nvidia.com/mig-1g.5gb") == share.part("amd.com/gpu") == 1
    assert share.is_known is bool(labels)


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        pytest.param(
            found("Tesla-T4-SHARED", None, None),
            "nvidia.com/gpu.product ends in -SHARED, and nvidia.com/gpu.sharing-strategy is missing",
            id="the product is shared, and by how many is missing",
        ),
        pytest.param(
            found("Tesla-T4-SHARED"),
            'nvidia.com/gpu.product ends in -SHARED, and nvidia.com/gpu.sharing-strategy is "none"',
            id="the product is shared, and the strategy none",
        ),
        pytest.param(
            found("Tesla-T4-SHARED", "0", "time-slicing"),
            'nvidia.com/gpu.sharing-strategy is time-slicing, and nvidia.com/gpu.replicas is "0"',
            id="shared by nobody",
        ),
        pytest.param(
            found("Tesla-T4-SHARED", "x", "time-slicing"),
            'nvidia.com/gpu.replicas is "x"; expected a number',
            id="no number",
        ),
        pytest.param(
            found("Tesla-T4-SHARED", "1" + "0" * 9, "mps"),
            'nvidia.com/gpu.replicas is "1000000000"; expected a number',
            id="more than any node has",
        ),
        pytest.param(
            found("Tesla-T4", "4"),
            'nvidia.com/gpu.replicas is 4, and nvidia.com/gpu.sharing-strategy is "none"',
            id="replicas without a strategy",
        ),
        pytest.param(
            found("Tesla-T4", "4", "magic"),
            'nvidia.com/gpu.sharing-strategy is "magic"; expected none, time-slicing or mps',
            id="an unknown strategy",
        ),
        pytest.param(
            found(SLICE, mig="mixed"),
            f'nvidia.com/gpu.product "{SLICE}" names MIG slices, and nvidia.com/mig.strategy is "mixed", not single',
            id="slices in the strategy mixed",
        ),
        pytest.param(
            found("NVIDIA-H100-80GB-HBM3-MIG-INVALID", "0", "", "single"),
            "nvidia.com/gpu.product ends in -MIG-INVALID: nvidia.com/mig.strategy is single, and GPU Feature Discovery "
            "found slices of several profiles, GPUs with and without MIG, or a GPU without slices",
            id="slices at odds",
        ),
        pytest.param(
            found("Tesla-T4-MIG-1g.5gb", mig="single"),
            '"1g.5gb" is no MIG profile that is known of this GPU',
            id="a GPU without MIG",
        ),
        pytest.param(
            {ACCELERATOR: "nvidia-tesla-t4", CLIENTS: "8"},
            "cloud.google.com/gke-gpu-sharing-strategy is missing, and "
            'cloud.google.com/gke-max-shared-clients-per-gpu is "8"',
            id="GKE, clients without a strategy",
        ),
        pytest.param(
            {GKE_SHARING: "magic", CLIENTS: "2"},
            'cloud.google.com/gke-gpu-sharing-strategy is "magic"; expected time-sharing or mps',
            id="GKE, an unknown strategy",
        ),
    ],
)
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
