"""The rows of a table of GPUs: their keys, and the models that they describe."""

import pytest

from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_names import GKE_ACCELERATOR, INSTANCE_TYPES
from webhook.model.accelerators import Vendor
from webhook.model.shape import FormatError
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


def test_omitted_keys_follow_from_the_name():
    (model,) = models_from([LEAST])
    assert (model.family, model.words, model.marks) == ("RTX-4070", {"rtx", "4070"}, set())
    assert (model.vendor, model.in_quotas, model.traits, model.example) == (Vendor.NVIDIA, True, None, None)
    assert (model.values, model.slices) == ((), {})


def test_a_row_describes_a_whole_model():
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
    ("change", "told"),
    [
        pytest.param({"compte": "9.0"}, "compte: Extra inputs are not permitted; found", id="an unknown key"),
        pytest.param({"words": "RTX 4070"}, "words: String should match pattern", id="words in capitals"),
        pytest.param({"words": 4070}, "words: Input should be a valid string; found 4070; put it", id="a number"),
        pytest.param(
            {"compute": 9.0},
            "compute: Input should be a valid string; found 9.0; put it in quotes",
            id="a version as a number",
        ),
        pytest.param({"compute": "9"}, "compute: String should match pattern", id="half a compute capability"),
        pytest.param({"firstDriver": "new"}, 'firstDriver: "new" is not a version', id="a driver that is none"),
        pytest.param({"dataCenter": "yes"}, "dataCenter: Input should be a valid boolean", id="a word for a boolean"),
        pytest.param({"brands": ["nvida"]}, "brands.0: Input should be 'nvidia',", id="a brand that nobody knows"),
        pytest.param({"vendor": "acme"}, "vendor: Input should be 'nvidia', 'amd' or", id="a vendor that nobody knows"),
        pytest.param({"machines": {"us": []}}, "machines.us: names no value; write", id="no machine type"),
        pytest.param({"machines": {"us": ["a b"]}}, "machines.us.0: String should match", id="no label value"),
        pytest.param({"mig": {"1g.5gb": 0}}, "mig.1g.5gb: Input should be greater than", id="no slice"),
        pytest.param({"mig": {"5gb": 1}}, "mig.5gb.[key]: String should match pattern", id="no profile"),
        pytest.param({"source": ""}, "source: String should have at least 1 character", id="an empty source"),
        pytest.param({"date": "yesterday"}, "date: String should match pattern", id="a date that is none"),
    ],
)
def test_a_mistake_is_reported_with_the_name_of_the_row_and_the_key(change, told):
    with pytest.raises(FormatError) as raised:
        models_from([FULL, {**LEAST, **change}])
    (line,) = str(raised.value).splitlines()
    assert told in line.removeprefix("gpus.RTX-4070.")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            {"partitions": {"spx": 1}}, "nvidia GPUs have no partitions; remove that, or correct", id="NVIDIA"
        ),
        pytest.param({"vendor": "amd", "compute": "9.0"}, "amd GPUs have no compute; remove that", id="AMD"),
        pytest.param({"vendor": "intel", "mig": {"1g.5gb": 7}}, "intel GPUs have no mig; remove that", id="Intel"),
        pytest.param({"words": "nvidia", "compute": "9.0"}, "nvidia is in names of GPUs that differ", id="a brand"),
        pytest.param({"words": "rtx", "compute": "9.0"}, "rtx is in names of GPUs that differ", id="another brand"),
        pytest.param({"quotas": False, "marks": "x"}, "marks only matter to quotas; remove that", id="quotas are off"),
    ],
)
def test_keys_that_exclude_each_other_are_reported(change, told):
    with pytest.raises(FormatError) as raised:
        models_from([{**LEAST, **change}])
    assert str(raised.value).startswith(f"gpus.RTX-4070: {told}")


@pytest.mark.parametrize("key", ["name", "source", "date"])
def test_a_row_needs_a_name_a_source_and_a_date(key):
    with pytest.raises(FormatError) as raised:
        models_from([{other: value for other, value in LEAST.items() if other != key}])
    assert str(raised.value) == f"gpus.{LEAST['name'] if key != 'name' else 0}.{key}: Field required"


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(FormatError) as raised:
        models_from([{**LEAST, "date": "x", "vendor": "y"}, {**LEAST, "name": "A 100"}])
    places = [line.partition(": ")[0] for line in str(raised.value).splitlines()]
    assert places == ["gpus.RTX-4070.vendor", "gpus.RTX-4070.date", "gpus.A 100.name"]
