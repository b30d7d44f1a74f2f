"""What nodes offer, read from their labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked
from webhook.cuda.offer import LABELS, Offer, offer_from, offer_of
from webhook.model.node import GPU_LABELS
from webhook.model.resource_slices import SliceDriver
from webhook.model.versions import parse_version

DRIVER = "nvidia.com/cuda.driver-version"
RUNTIME = "nvidia.com/cuda.runtime-version"
PRODUCT = "nvidia.com/gpu.product"
H100_NODE = {
    f"{DRIVER}.full": "595.71.05",
    f"{DRIVER}.major": "595",
    f"{DRIVER}.minor": "71",
    f"{DRIVER}.revision": "05",
    "nvidia.com/cuda.driver.major": "595",
    "nvidia.com/cuda.driver.minor": "71",
    "nvidia.com/cuda.driver.rev": "05",
    f"{RUNTIME}.full": "13.2",
    f"{RUNTIME}.major": "13",
    f"{RUNTIME}.minor": "2",
    "nvidia.com/cuda.runtime.major": "13",
    "nvidia.com/cuda.runtime.minor": "2",
    "nvidia.com/gpu.compute.major": "9",
    "nvidia.com/gpu.compute.minor": "0",
    PRODUCT: "NVIDIA-H100-80GB-HBM3-SHARED",
    "kubernetes.io/arch": "amd64",
}


def test_facts_keep_every_label_that_is_read():
    assert set(LABELS) <= set(GPU_LABELS)
    assert len(LABELS) == len(set(LABELS))


def test_a_node_with_gpu_feature_discovery_is_fully_known():
    expected = Offer(
        driver=parse_version("595.71.05"),
        cuda=parse_version("13.2"),
        product="NVIDIA-H100-80GB-HBM3",
        compute=parse_version("9.0"),
        arch="amd64",
        is_data_center=True,
    )
    assert offer_of(H100_NODE) == expected
    assert str(offer_of(H100_NODE).driver) == "595.71.05"


@pytest.mark.parametrize(
    ("labels", "driver", "is_exact"),
    [
        pytest.param({f"{DRIVER}.full": "550.54.15"}, "550.54.15", True, id="in one text"),
        pytest.param({f"{DRIVER}.full": "570.26"}, "570.26", True, id="of two numbers"),
        pytest.param({f"{DRIVER}.full": "570"}, "570", False, id="of one number"),
        pytest.param(
            {f"{DRIVER}.major": "550", f"{DRIVER}.minor": "54", f"{DRIVER}.revision": "05"},
            "550.54.05",
            True,
            id="number by number",
        ),
        pytest.param(
            {f"{DRIVER}.major": "570", f"{DRIVER}.minor": "26", f"{DRIVER}.revision": ""},
            "570.26",
            True,
            id="without a third number",
        ),
        pytest.param({f"{DRIVER}.major": "570", f"{DRIVER}.minor": "26"}, "570.26", False, id="the third not said"),
        pytest.param({f"{DRIVER}.major": "570"}, "570", False, id="the branch only"),
        pytest.param({f"{DRIVER}.major": "570", f"{DRIVER}.revision": "05"}, "570", False, id="the second not said"),
        pytest.param(
            {
                "nvidia.com/cuda.driver.major": "470",
                "nvidia.com/cuda.driver.minor": "82",
                "nvidia.com/cuda.driver.rev": "01",
            },
            "470.82.01",
            True,
            id="deprecated labels",
        ),
        pytest.param({f"{DRIVER}.full": "none", f"{DRIVER}.major": "570"}, "570", False, id="the text is no version"),
        pytest.param({}, "None", True, id="not said"),
        pytest.param({f"{DRIVER}.full": "", f"{DRIVER}.minor": "54"}, "None", True, id="said with nothing"),
        pytest.param(
            {"nvidia.com/vgpu.host-driver-version": "550.54.16"}, "None", True, id="the host of a virtual GPU"
        ),
    ],
)
def test_a_driver_is_read_from_new_and_deprecated_labels(labels, driver, is_exact):
    offer = offer_of(labels)
    assert (str(offer.driver), offer.is_driver_exact) == (driver, is_exact)


@pytest.mark.parametrize(
    ("labels", "cuda"),
    [
        pytest.param({f"{RUNTIME}.full": "13.2"}, "13.2", id="in one text"),
        pytest.param({f"{RUNTIME}.major": "12", f"{RUNTIME}.minor": "4"}, "12.4", id="number by number"),
        pytest.param(
            {"nvidia.com/cuda.runtime.major": "12", "nvidia.com/cuda.runtime.minor": "4"}, "12.4", id="deprecated"
        ),
        pytest.param({f"{RUNTIME}.major": "12"}, "12", id="the major version only"),
        pytest.param({}, "None", id="not said"),
    ],
)
def test_the_newest_cuda_of_the_driver_is_read_too(labels, cuda):
    assert str(offer_of(labels).cuda) == cuda


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        pytest.param({f"{DRIVER}.full": "latest"}, f'{DRIVER}.full: "latest" is not a version', id="no version"),
        pytest.param(
            {f"{DRIVER}.full": "550.54.15", f"{DRIVER}.major": "535"},
            f"{DRIVER}.major says 535 and another label 550.54.15",
            id="the branch differs",
        ),
        pytest.param(
            {
                f"{DRIVER}.full": "550.54.15",
                "nvidia.com/cuda.driver.major": "550",
                "nvidia.com/cuda.driver.minor": "90",
            },
            "nvidia.com/cuda.driver.major says 550.90 and another label 550.54.15",
            id="a deprecated label differs",
        ),
        pytest.param(
            {PRODUCT: "Tesla-T4", "nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.compute.minor": "0"},
            "Tesla-T4 has compute capability 7.5, the node says 8.0",
            id="the GPU differs",
        ),
        pytest.param(
            {"nvidia.com/gpu.compute.major": "8"},
            "compute capability 8 lacks its second number",
            id="half a compute capability",
        ),
    ],
)
def test_labels_that_cannot_be_read_or_differ_are_problems(labels, problem):
    (found,) = offer_of(labels).problems
    assert found.startswith(problem)


def test_the_whole_version_wins_over_labels_that_differ():
    offer = offer_of({f"{DRIVER}.full": "550.54.15", f"{DRIVER}.major": "535", f"{DRIVER}.minor": "1"})
    assert str(offer.driver) == "550.54.15"


def test_labels_that_agree_are_no_problem():
    assert offer_of(H100_NODE).problems == ()


@pytest.mark.parametrize(
    ("labels", "product", "compute", "server"),
    [
        pytest.param({PRODUCT: "Tesla-T4-SHARED"}, "Tesla-T4", "7.5", True, id="shared"),
        pytest.param(
            {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED"}, "NVIDIA-A100-SXM4-40GB", "8.0", True, id="a slice"
        ),
        pytest.param(
            {PRODUCT: "NVIDIA-R100", "nvidia.com/gpu.compute.major": "13", "nvidia.com/gpu.compute.minor": "0"},
            "NVIDIA-R100",
            "13.0",
            None,
            id="a GPU to come",
        ),
        pytest.param(
            {"nvidia.com/gpu.compute.major": "9", "nvidia.com/gpu.compute.minor": "0"}, "", "9.0", True, id="no name"
        ),
        pytest.param(
            {"nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.compute.minor": "6"},
            "",
            "8.6",
            None,
            id="A40 or 3090",
        ),
        pytest.param({"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "nvidia-tesla-t4", "7.5", True, id="GKE"),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-rtx-pro-6000"},
            "nvidia-rtx-pro-6000",
            "12.0",
            True,
            id="clouds rent data-centre GPUs",
        ),
        pytest.param({"k8s.amazonaws.com/accelerator": "nvidia-l40s"}, "nvidia-l40s", "8.9", True, id="AWS"),
        pytest.param({"karpenter.k8s.aws/instance-gpu-name": "a10g"}, "a10g", "8.6", True, id="Karpenter on AWS"),
        pytest.param({"eks.amazonaws.com/instance-gpu-name": "h200"}, "h200", "9.0", True, id="EKS"),
        pytest.param({"karpenter.azure.com/sku-gpu-name": "A100"}, "A100", "8.0", True, id="Karpenter on Azure"),
        pytest.param({"gpu.nvidia.com/class": "RTX_A5000"}, "RTX_A5000", "8.6", False, id="CoreWeave"),
        pytest.param(
            {PRODUCT: "NVIDIA-L4", "cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
            "NVIDIA-L4",
            "8.9",
            True,
            id="discovery wins over the cloud",
        ),
        pytest.param(
            {"karpenter.k8s.aws/instance-gpu-name": "gaudi-hl-205"}, "gaudi-hl-205", "None", None, id="another"
        ),
        pytest.param({}, "", "None", None, id="not said"),
    ],
)
def test_the_gpu_is_known_by_discovery_or_by_the_cloud(labels, product, compute, server):
    offer = offer_of(labels)
    assert (offer.product, str(offer.compute), offer.is_data_center) == (product, compute, server)


def test_clouds_say_nothing_of_the_driver():
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-gpu-driver-version": "latest"}
    assert offer_of(labels).driver is None


def test_a_described_node_equals_a_labelled_node():
    described = offer_from(
        driver="595.71.05", product="NVIDIA H100 80GB HBM3", compute="9.0", arch="x86_64", cuda="13.2"
    )
    assert described == offer_of(H100_NODE)


@pytest.mark.parametrize(
    ("texts", "offer"),
    [
        pytest.param({}, Offer(), id="nothing"),
        pytest.param({"driver": "", "product": "", "compute": "", "arch": ""}, Offer(), id="empty texts"),
        pytest.param(
            {"driver": "535"}, Offer(driver=parse_version("535"), is_driver_exact=False), id="the branch of a driver"
        ),
        pytest.param(
            {"product": "NVIDIA-GH200-480GB"},
            Offer(product="NVIDIA-GH200-480GB", compute=parse_version("9.0"), arch="arm64", is_data_center=True),
            id="a product with a CPU",
        ),
        pytest.param({"arch": "aarch64"}, Offer(arch="arm64"), id="another name of an architecture"),
        pytest.param({"product": "x" * 1000}, Offer(product="x" * 128), id="a product that nobody wants to read"),
        pytest.param({"arch": " ARM64"}, Offer(arch="arm64"), id="an architecture in capitals"),
        pytest.param(
            {"driver": " 550.54.15\n"}, Offer(driver=parse_version("550.54.15")), id="a driver with blanks around it"
        ),
        pytest.param(
            {"arch": "banana"},
            Offer(problems=('arch: "banana" is no CPU architecture; write one such as amd64 or arm64',)),
            id="no architecture",
        ),
    ],
)
def test_a_node_may_be_described_in_part(texts, offer):
    assert offer_from(**texts) == offer


def test_texts_that_are_no_versions_are_problems():
    offer = offer_from(driver="R535", compute="sm_80", cuda="12.x")
    assert (offer.driver, offer.compute, offer.cuda) == (None, None, None)
    assert sorted(problem.split(" is not a version")[0] for problem in offer.problems) == [
        'compute: "sm_80"',
        'cuda: "12.x"',
        'driver: "R535"',
    ]


def test_equal_offers_are_one_key():
    one, other = (
        offer_of(dict(H100_NODE)),
        offer_from(driver="595.71.5", product="NVIDIA-H100-80GB-HBM3", arch="amd64", cuda="13.2"),
    )
    assert one == other
    assert hash(one) == hash(other)


VALUES = st.sampled_from(["", "550", "54", "05", "12.4", "none", "Tesla-T4", "-SHARED", "amd64", "9" * 63]) | st.text(
    max_size=63
)


@checked
@given(st.dictionaries(st.sampled_from([*LABELS, "zone"]), VALUES))
def test_any_labels_may_be_read(labels):
    offer = offer_of(labels)
    assert offer.compute is None or len(offer.compute.parts) == 2
    assert offer.driver is None or not offer.is_driver_exact or len(offer.driver.parts) > 1


@checked
@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("driver", "product", "compute", "arch", "cuda"), st.none() | st.text(max_size=200))
    )
)
def test_any_texts_may_describe_a_node(texts):
    assert isinstance(offer_from(**texts), Offer)


SAID = SliceDriver("580.65.6", "13.0.0", "NVIDIA H100 80GB HBM3", "9.0.0")


def test_resource_slices_fill_what_no_label_says():
    offer = offer_of({}, by_slices=SAID)
    assert (str(offer.driver), str(offer.cuda), offer.product) == ("580.65.6", "13.0.0", "NVIDIA-H100-80GB-HBM3")
    assert (str(offer.compute), offer.is_data_center, offer.is_driver_exact, offer.problems) == ("9.0", True, True, ())


def test_labels_come_before_resource_slices_that_agree():
    labels = {f"{DRIVER}.full": "580.65.06", PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}
    offer = offer_of(labels, by_slices=SAID)
    assert (str(offer.driver), offer.product, offer.problems) == ("580.65.06", "NVIDIA-H100-80GB-HBM3", ())
    half = offer_of({"nvidia.com/cuda.driver.major": "580"}, by_slices=SAID)
    assert (str(half.driver), half.is_driver_exact) == ("580.65.6", True)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        pytest.param(
            {f"{DRIVER}.full": "570.1.2"}, "labels say driver 570.1.2, and ResourceSlices 580.65.6", id="driver"
        ),
        pytest.param(
            {f"{DRIVER}.full": "580.65.06", "nvidia.com/cuda.runtime-version.full": "12.4"},
            "labels say CUDA 12.4, and ResourceSlices 13.0.0",
            id="its CUDA",
        ),
    ],
)
def test_neither_is_believed_where_labels_and_resource_slices_differ(labels, problem):
    offer = offer_of(labels, by_slices=SAID)
    assert (offer.driver, offer.cuda) == (None, None)
    assert offer.problems == (problem,)


def test_versions_of_resource_slices_that_nobody_can_read_say_nothing():
    assert offer_of({}, by_slices=SliceDriver("new", "?", "", "9")).driver is None
