"""What nodes offer, read from their labels."""

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
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


@golden
def test_a_driver_is_read_from_new_and_deprecated_labels(labels, driver, is_exact):
    offer = offer_of(labels)
    assert (str(offer.driver), offer.is_driver_exact) == (driver, is_exact)


@golden
def test_the_newest_cuda_of_the_driver_is_read_too(labels, cuda):
    assert str(offer_of(labels).cuda) == cuda


@golden
def test_labels_that_cannot_be_read_or_differ_are_problems(labels, problem):
    (found,) = offer_of(labels).problems
    assert found.startswith(problem)


def test_the_whole_version_wins_over_labels_that_differ():
    offer = offer_of({f"{DRIVER}.full": "550.54.15", f"{DRIVER}.major": "535", f"{DRIVER}.minor": "1"})
    assert str(offer.driver) == "550.54.15"


def test_labels_that_agree_are_no_problem():
    assert offer_of(H100_NODE).problems == ()


@golden
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


@each(
    "texts, offer",
    {
        "nothing": ({}, Offer()),
        "empty texts": ({"driver": "", "product": "", "compute": "", "arch": ""}, Offer()),
        "the branch of a driver": ({"driver": "535"}, Offer(driver=parse_version("535"), is_driver_exact=False)),
        "a product with a CPU": (
            {"product": "NVIDIA-GH200-480GB"},
            Offer(product="NVIDIA-GH200-480GB", compute=parse_version("9.0"), arch="arm64", is_data_center=True),
        ),
        "another name of an architecture": ({"arch": "aarch64"}, Offer(arch="arm64")),
        "an architecture in capitals": ({"arch": " ARM64"}, Offer(arch="arm64")),
        "a driver with blanks around it": ({"driver": " 550.54.15\n"}, Offer(driver=parse_version("550.54.15"))),
        "no architecture": (
            {"arch": "banana"},
            Offer(problems=('arch: "banana" is no CPU architecture; write one such as amd64 or arm64',)),
        ),
    },
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


@golden
def test_neither_is_believed_where_labels_and_resource_slices_differ(labels, problem):
    offer = offer_of(labels, by_slices=SAID)
    assert (offer.driver, offer.cuda) == (None, None)
    assert offer.problems == (problem,)


def test_versions_of_resource_slices_that_nobody_can_read_say_nothing():
    assert offer_of({}, by_slices=SliceDriver("new", "?", "", "9")).driver is None
