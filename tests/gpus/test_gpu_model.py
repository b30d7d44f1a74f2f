"""The rows of a table of GPUs: their keys, and the models that they describe."""

import pytest

from tests.golden import golden
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


@golden
def test_any_trait_that_is_known_counts(key, value):
    (model,) = models_from([{**LEAST, key: value}])
    assert model.traits is not None


@golden
def test_a_mistake_is_reported_with_the_name_of_the_row_and_the_key(change, told):
    with pytest.raises(FormatError) as raised:
        models_from([FULL, {**LEAST, **change}])
    (line,) = str(raised.value).splitlines()
    assert told in line.removeprefix("gpus.RTX-4070.")


@golden
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
