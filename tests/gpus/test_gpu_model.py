"""The rows of a table of GPUs: what may stand in them, and what comes of it."""

import pytest
from pydantic import ValidationError

from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_names import GKE_ACCELERATOR, INSTANCE_TYPES
from webhook.model.accelerators import Vendor
from webhook.model.versions import parse_version

LEAST = {"name": "RTX-4070", "source": "us", "date": "2026-11-24"}
FULL = {
    "name": "A100-40GB",
    "family": "A100",
    "words": "a100",
    "marks": "40gb small",
    "compute": "8.0",
    "dataCenter": True,
    "brands": ["nvidia", "unknown"],
    "firstDriver": "450.36.06",
    "product": "NVIDIA-A100-SXM4-40GB",
    "labels": {GKE_ACCELERATOR: ["nvidia-tesla-a100"]},
    "machines": {"AS": ["p4d.*"]},
    "mig": {"1g.5gb": 7},
    "source": "GFD, AS",
    "date": "unknown",
    "note": "an example",
}


def test_what_a_row_leaves_out_follows_from_its_name():
    (model,) = models_from([LEAST])
    assert (model.family, model.words, model.marks) == ("RTX-4070", {"rtx", "4070"}, set())
    assert (model.vendor, model.in_quotas, model.traits, model.example) == (Vendor.NVIDIA, True, None, None)
    assert (model.values, model.slices) == ((), {})


def test_a_row_says_all_that_is_known_of_a_model():
    (model,) = models_from([FULL])
    assert (model.family, model.words, model.marks) == ("A100", {"a100"}, {"40gb", "small"})
    assert model.values == ((GKE_ACCELERATOR, "nvidia-tesla-a100"), *((key, "p4d.*") for key in INSTANCE_TYPES))
    assert model.slices == {"1g.5gb": 7}
    assert model.example == ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB")
    assert model.spellings == ("a100-40gb", "a100", "nvidia-a100-sxm4-40gb")
    traits = model.traits
    assert (traits.words, traits.compute, traits.is_data_center) == ({"a100"}, parse_version("8.0"), True)
    assert (traits.brands, traits.first_driver) == (("nvidia", "unknown"), parse_version("450.36.06"))
    assert (model.source, model.date) == ("GFD, AS", "unknown")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("compute", "9.0", id="a compute capability"),
        pytest.param("dataCenter", False, id="that it is no data-centre GPU"),
        pytest.param("arch", "arm64", id="the CPU beside it"),
        pytest.param("brands", ["titan"], id="its brand"),
    ],
)
def test_any_trait_that_is_known_counts(key, value):
    (model,) = models_from([{**LEAST, key: value}])
    assert model.traits is not None


@pytest.mark.parametrize(
    ("change", "where", "told"),
    [
        pytest.param({"compte": "9.0"}, ("compte",), "Extra inputs", id="an unknown key"),
        pytest.param({"name": None}, ("name",), "valid string", id="no name"),
        pytest.param({"name": "A 100"}, ("name",), "match pattern", id="a space in a name"),
        pytest.param({"words": "RTX 4070"}, ("words",), "match pattern", id="words in capitals"),
        pytest.param({"words": 4070}, ("words",), "valid string", id="a word that is a number"),
        pytest.param({"compute": 9.0}, ("compute",), "valid string", id="a version that is a number"),
        pytest.param({"compute": "9"}, ("compute",), "match pattern", id="half a compute capability"),
        pytest.param({"firstDriver": "new"}, ("firstDriver",), "is not a version", id="a driver that is none"),
        pytest.param({"dataCenter": "yes"}, ("dataCenter",), "valid boolean", id="a word for a boolean"),
        pytest.param({"brands": ["nvida"]}, ("brands", 0), "'nvidia'", id="a brand that nobody knows"),
        pytest.param({"vendor": "acme"}, ("vendor",), "'intel'", id="a vendor that nobody knows"),
        pytest.param({"machines": {"us": []}}, ("machines", "us"), "names no value", id="no machine type"),
        pytest.param({"machines": {"us": ["a b"]}}, ("machines", "us", 0), "match pattern", id="no label value"),
        pytest.param({"mig": {"1g.5gb": 0}}, ("mig", "1g.5gb"), "greater than", id="no slice"),
        pytest.param({"mig": {"5gb": 1}}, ("mig", "5gb", "[key]"), "match pattern", id="no profile"),
        pytest.param({"source": ""}, ("source",), "at least 1", id="an empty source"),
        pytest.param({"date": "yesterday"}, ("date",), "match pattern", id="a date that is none"),
        pytest.param({"partitions": {"spx": 1}}, (), "no partitions; remove that, or correct", id="of another vendor"),
        pytest.param({"vendor": "amd", "compute": "9.0"}, (), "amd GPUs have no compute", id="CUDA without NVIDIA"),
        pytest.param({"quotas": False, "marks": "x"}, (), "marks only matter to quotas", id="for quotas that are off"),
    ],
)
def test_a_mistake_in_a_row_is_told_with_its_key(change, where, told):
    with pytest.raises(ValidationError) as raised:
        models_from([FULL, {**LEAST, **change}])
    (error,) = raised.value.errors()
    assert error["loc"] == (1, *where)
    assert told in error["msg"]


@pytest.mark.parametrize("key", ["name", "source", "date"])
def test_a_row_without_its_name_its_source_or_its_date_is_none(key):
    with pytest.raises(ValidationError) as raised:
        models_from([{other: value for other, value in LEAST.items() if other != key}])
    assert [(error["loc"], error["type"]) for error in raised.value.errors()] == [((0, key), "missing")]


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ValidationError) as raised:
        models_from([{**LEAST, "date": "x", "vendor": "y"}, {**LEAST, "marks": "A"}])
    assert [error["loc"] for error in raised.value.errors()] == [(0, "vendor"), (0, "date"), (1, "marks")]
