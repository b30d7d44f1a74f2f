"""The GPU models that a pod may get, by what it says itself."""

from tests.golden import each, golden
from tests.rules.samples import container, pod
from webhook.gpus.gpu_catalogue import CATALOGUE, Catalogue
from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_table import GPUS
from webhook.model.accelerators import Vendor
from webhook.model.pod_reader import pod_from_raw

PRODUCT = "nvidia.com/gpu.product"
INSTANCE = "node.kubernetes.io/instance-type"
HBM3 = "NVIDIA-H100-80GB-HBM3"
T4 = "Tesla-T4"
A100 = ("A100-40GB", "A100-80GB")
OWN = CATALOGUE.extended({"T4": {"example.com/gpu": ["small*"]}, "X9": {"example.com/gpu": ["x9"]}})


def models(catalogue=CATALOGUE, **spec):
    return catalogue.models_of(pod_from_raw(pod(container(gpus=1), **spec)))


def selecting(catalogue=CATALOGUE, **selector):
    return models(catalogue, nodeSelector=selector)


@golden
def test_a_pod_may_get_the_models_that_its_demands_leave(spec, expected):
    assert models(**spec) == expected


@golden
def test_a_policy_adds_values_and_models(label, value, expected):
    assert selecting(OWN, **{label: value}) == expected


def test_a_finer_model_of_the_platforms_own_counts_with_the_model_that_it_is():
    finer = CATALOGUE.extended({"SXM": {PRODUCT: ["NVIDIA-H100-80GB-HBM3*"]}})
    on_sxm = selecting(finer, **{PRODUCT: HBM3})
    on_pcie = selecting(finer, **{PRODUCT: "NVIDIA-H100-PCIe"})
    on_any = selecting(finer, **{INSTANCE: "p5.48xlarge"})
    counts = {
        name: [not finer.leaves(name).isdisjoint(models) for models in (on_sxm, on_pcie, on_any)]
        for name in ("H100", "H100-80GB", "SXM", "T4")
    }
    assert counts == {
        "H100": [True, True, True],
        "H100-80GB": [True, True, True],
        "SXM": [True, False, True],
        "T4": [False, False, False],
    }
    assert finer.vendor("SXM") is Vendor.NVIDIA


def test_a_family_stands_for_its_models():
    assert CATALOGUE.leaves("A100") == frozenset(A100)
    assert CATALOGUE.leaves("T4") == {"T4"}
    assert CATALOGUE.leaves("A1000") == frozenset()


def test_catalogues_are_equal_when_the_same_is_added():
    again = CATALOGUE.extended({"X9": {"example.com/gpu": ["x9"]}}).extended({"T4": {"example.com/gpu": ["small*"]}})
    assert (again, hash(again)) == (OWN, hash(OWN))
    assert OWN != CATALOGUE
    assert CATALOGUE.extended({}) is CATALOGUE


def test_a_catalogue_of_another_table_knows_its_models():
    row = {"name": "R200", "family": "R", "product": "NVIDIA-R200", "source": "us", "date": "2026-11"}
    newer = Catalogue(table=GPUS.merged(models_from([row])))
    finer = newer.extended({"R200-NVL": {"gpu-type": ["r200"]}})
    assert selecting(newer, **{PRODUCT: "NVIDIA-R200"}) == ("R200",)
    assert selecting(finer, **{PRODUCT: "NVIDIA-R200"}) == ("R200", "R200-NVL")
    assert (newer.leaves("R"), newer.vendor("R200"), newer.example("R")) == (
        {"R200"},
        Vendor.NVIDIA,
        (PRODUCT, "NVIDIA-R200"),
    )
    assert newer != CATALOGUE


@golden
def test_the_vendor_of_an_own_model_is_what_its_labels_tell(labels, vendor):
    assert CATALOGUE.extended({"X9": labels}).vendor("X9") == vendor


@golden
def test_a_model_has_an_example_label(name, example):
    assert OWN.example(name) == example


@each(
    "added, alike",
    {
        "another GPU": ({"X9": {"example.com/gpu": ["x9"]}}, {"X9": set()}),
        "a known name is no model of its own": ({"T4": {"example.com/gpu": ["small"]}}, {}),
        "a value that is known": ({"SXM": {PRODUCT: ["NVIDIA-A30"]}}, {"SXM": {"A30"}}),
        "a glob of products": ({"New": {PRODUCT: ["NVIDIA-GB*"]}}, {"New": {"GB10", "GB200", "GB300"}}),
        "a glob of machines": (
            {"P4": {}, "Big": {"node.kubernetes.io/instance-type": ["p4*"]}},
            {"Big": {"A100-40GB", "A100-80GB"}},
        ),
        "a glob of words": ({"Ada": {"gpu-type": ["l4*"]}}, {"Ada": {"L4", "L40", "L40S"}}),
        "through one another": (
            {"A": {"pool": ["a*"]}, "B": {"pool": ["*b"]}, "C": {"pool": ["bb", "c"]}, "T4": {"pool": ["c"]}},
            {"A": {"B", "C", "T4"}, "B": {"A", "C", "T4"}, "C": {"A", "B", "T4"}},
        ),
    },
)
def test_a_model_of_the_platforms_own_may_be_any_that_shares_a_value_with_it(added, alike):
    assert {own.name: set(own.alike) for own in CATALOGUE.extended(added).own} == alike


def test_a_model_that_is_alike_two_vendors_belongs_to_none():
    (own,) = CATALOGUE.extended({"Any": {"gpu-type": ["*"]}}).own
    assert own.vendor is None
    (own,) = CATALOGUE.extended({"Any": {"nvidia.com/gpu.family": ["ampere"]}}).own
    assert own.vendor is Vendor.NVIDIA
