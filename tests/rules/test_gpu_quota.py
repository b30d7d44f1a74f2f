"""A namespace uses no more GPUs than its quota: what a pod alone shows, and what the settings mean."""

import json
from fractions import Fraction

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, any_of, requesting
from tests.rules.samples import container, messages, pod, settings_of, term, terms
from webhook.quota.amounts import MIG_RESOURCES
from webhook.quota.quotas import Limit, Measure
from webhook.rules.gpu_quota import RULE, Settings

SLICE = "nvidia.com/mig-1g.10gb"
SHARED = "nvidia.com/gpu.shared"
PRODUCT = "nvidia.com/gpu.product"
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3"}
T4 = {PRODUCT: "Tesla-T4"}


def asking(gpus, resource="nvidia.com/gpu", **spec):
    return pod(container(gpus=gpus, resource=resource), **spec)


@each(
    "raw, settings",
    {
        "no limit at all": (asking(64), {}),
        "no GPU": (pod(container()), {"gpus": 0}),
        "exactly all of it": (asking(8), {"gpus": 8}),
        "slices of one GPU": (asking(7, SLICE, nodeSelector=H100), {"gpus": 1, "byModel": {"H100": 1}}),
        "shares that the policy weighs": (asking(4, SHARED), {"gpus": 1, "weights": {SHARED: "1/4"}}),
        "another model": (asking(8, nodeSelector=T4), {"byModel": {"H100": 4}}),
        "another vendor": (asking(8, "amd.com/gpu"), {"byModel": {"H100": 4}}),
        "vendor, deny": (asking(8, "amd.com/gpu"), {"byModel": {"H100": 4}, "unspecifiedModel": "deny"}),
        "no model is limited": (asking(8), {"gpus": 8, "unspecifiedModel": "deny"}),
        "said": (asking(4, nodeSelector=H100), {"byModel": {"H100": 4}, "unspecifiedModel": "deny"}),
        "another resource": (asking(2), {"byResource": {SLICE: 0}}),
        "an attribute of a GPU": (pod(container(gpus=1, resource="nvidia.com/gpumem")), {"gpus": 0}),
    },
)
def test_a_pod_that_would_fit_into_an_unused_quota_is_left_to_the_ledger(raw, settings):
    assert messages(RULE, raw, settings) == []


@each(
    "raw, settings",
    {
        "one too many": (asking(9), {"gpus": 8}),
        "none are allowed": (asking(1), {"gpus": 0}),
        "whole GPUs under a quota with a half": (asking(4), {"gpus": "7/2"}),
        "more slices than a GPU has": (asking(8, SLICE, nodeSelector=H100), {"gpus": 1}),
        "of a model": (asking(5, nodeSelector=H100), {"gpus": 8, "byModel": {"H100": 4, "T4": 1}}),
        "of a model that it may be": (asking(5), {"gpus": 8, "byModel": {"H100": 4, "T4": 8}}),
        "a model must be said": (asking(1), {"gpus": 8, "byModel": {"H100": 0, "T4": 8}, "unspecifiedModel": "deny"}),
        "of a resource": (asking(3, SLICE), {"byResource": {SLICE: 2, "nvidia.com/gpu": 1}}),
    },
)
def test_a_pod_that_never_fits_is_refused_with_what_it_could_ask_for(raw, settings, says):
    says(messages(RULE, raw, settings))


def test_everything_that_is_wrong_is_said_at_once(says):
    said = messages(RULE, asking(9), {"gpus": 8, "byModel": {"T4": 2}, "byResource": {"nvidia.com/gpu": 3}})
    says([message.split(";")[0] for message in said])


def test_a_pod_that_may_land_on_several_models_counts_against_each():
    products = [H100[PRODUCT], T4[PRODUCT]]
    raw = asking(5, affinity=terms(term((PRODUCT, "In", products))))
    said = messages(RULE, raw, {"byModel": {"H100": 4, "T4": 4, "A100": 4}, "unspecifiedModel": "deny"})
    assert [message.split(";")[0] for message in said] == ["spec: requests 5 H100", "spec: requests 5 T4"]


def test_what_the_platform_calls_its_models_counts_like_what_is_shipped():
    settings = {"models": {"H100": {"example.com/gpu": ["big*"]}, "X9": {"example.com/gpu": ["x9"]}}}
    limits = {"byModel": {"H100": 1, "X9": 2}}
    for value, counted in (("big-1", ["2 H100"]), ("x9", []), ("small", ["2 H100"])):
        said = messages(RULE, asking(2, nodeSelector={"example.com/gpu": value}), {**settings, **limits})
        assert [message.removeprefix("spec: requests ").split(";")[0] for message in said] == counted


def test_limits_are_named_in_one_order():
    settings = settings_of(
        RULE, {"byResource": {SLICE: 14}, "byModel": {"T4": 16, "H100": "9/2"}, "gpus": 8, "mode": "warn"}
    )
    assert settings.limits == (
        Limit(Measure.GPUS, "", Fraction(8)),
        Limit(Measure.MODEL, "H100", Fraction(9, 2)),
        Limit(Measure.MODEL, "T4", Fraction(16)),
        Limit(Measure.RESOURCE, SLICE, Fraction(14)),
    )


def test_settings_are_printed_as_they_are_written():
    written = {"gpus": "7/2", "byModel": {"H100": 4}, "weights": {"nvidia.com/gpu.shared": "1/4"}}
    printed = settings_of(RULE, written).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert printed == {"mode": "enforce", **written}


@each(
    "settings, place, told",
    {
        "a float": ({"gpus": 2.5}, ("gpus",), "2.5 is no exact number; write a whole number"),
        "a whole float": ({"gpus": 8.0}, ("gpus",), "8.0 is no exact number"),
        "negative": ({"gpus": -1}, ("gpus",), "-1 is below 0; write"),
        "a boolean": ({"gpus": True}, ("gpus",), "true is a boolean; write"),
        "a decimal in quotes": ({"gpus": "0.5"}, ("gpus",), '"0.5" is no exact number'),
        "nothing to divide by": ({"gpus": "1/0"}, ("gpus",), '"1/0" divides by 0; write'),
        "a number in quotes": ({"gpus": "8"}, ("gpus",), '"8" is a string; remove the quotes'),
        "too large": ({"gpus": 10**9}, ("gpus",), "1000000000 is too large; write a number below"),
        "endless digits": ({"gpus": "9" * 5000 + "/7"}, ("gpus",), "is no exact number"),
        "of a model": ({"byModel": {"T4": "many"}}, ("byModel", "T4"), '"many" is no exact number'),
        "no weight": ({"weights": {"nvidia.com/gpu": 0}}, ("weights", "nvidia.com/gpu"), "0 is no weight"),
        "float": ({"weights": {"nvidia.com/gpu": 0.25}}, ("weights", "nvidia.com/gpu"), "0.25 is no exact"),
        "spelled wrong": ({"byModel": {"h100": 4}}, ("byModel", "h100", "[key]"), "did you mean H100?"),
        "the value of a label": (
            {"byModel": {"NVIDIA-A100-SXM4-80GB": 4}},
            ("byModel", "NVIDIA-A100-SXM4-80GB", "[key]"),
            "did you mean A100-80GB? docs/rules.md names all",
        ),
        "unknown model": ({"byModel": {"X9": 4}}, ("byModel", "X9", "[key]"), "use one of A10, A100, "),
        "an attribute is no resource": (
            {"byResource": {"nvidia.com/gpumem": 4}},
            ("byResource", "nvidia.com/gpumem", "[key]"),
            "is no GPU resource; write one such as nvidia.com/gpu,",
        ),
        "a slice that no GPU has": (
            {"byResource": {"nvidia.com/mig-1g.11gb": 4}},
            ("byResource", "nvidia.com/mig-1g.11gb", "[key]"),
            "is a slice of no GPU that is known; did you mean nvidia.com/mig-1g.1",
        ),
        "weight of a CPU": ({"weights": {"cpu": 1}}, ("weights", "cpu", "[key]"), "is no GPU resource"),
        "none": ({"models": {"X9": {"example.com/gpu": []}}}, ("models", "X9", "example.com/gpu"), "names no value"),
        "no label": ({"models": {"X9": {}}}, ("models", "X9"), "names no label; write"),
        "a class of characters": (
            {"models": {"X9": {"example.com/gpu": ["x[12]"]}}},
            ("models", "X9", "example.com/gpu", 0),
            "cannot be a label value; write",
        ),
        "a long value": (
            {"models": {"X9": {"example.com/gpu": ["x" * 64]}}},
            ("models", "X9", "example.com/gpu", 0),
            "cannot be a label value; write up to 63",
        ),
        "a name with a space": ({"models": {"X 9": {"gpu": ["x"]}}}, ("models", "X 9", "[key]"), "cannot be a"),
        "unknown choice": ({"unspecifiedModel": "refuse"}, ("unspecifiedModel",), ""),
    },
)
def test_a_setting_that_means_nothing_is_an_error_that_says_what_would(settings, place, told):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate_json(json.dumps({"mode": "enforce", **settings}))
    (error,) = caught.value.errors()
    assert error["loc"] == place
    assert told in error["msg"]


def test_a_model_that_the_same_settings_declare_can_be_limited():
    settings = settings_of(RULE, {"models": {"X9": {"example.com/gpu": ["x9"]}}, "byModel": {"X9": 4}})
    assert settings.limits == (Limit(Measure.MODEL, "X9", Fraction(4)),)


def test_a_slice_that_only_the_weights_know_can_be_limited():
    new = "nvidia.com/mig-1g.99gb"
    settings = settings_of(RULE, {"weights": {new: "1/7"}, "byResource": {new: 7}})
    assert settings.limits == (Limit(Measure.RESOURCE, new, Fraction(7)),)


@pytest.mark.parametrize(
    "resource",
    [*MIG_RESOURCES, "nvidia.com/mig-1g.10gb.shared", "nvidia.com/mig-1c.3g.20gb", "nvidia.com/gpu", "amd.com/gpu"],
)
def test_every_resource_that_a_known_gpu_has_can_be_limited(resource):
    assert settings_of(RULE, {"byResource": {resource: 1}}).by_resource == {resource: 1}


CASE = RuleCase(
    pods=lambda raw: RulePods(breaks=requesting(raw, "nvidia.com/gpu", "2000"), keeps=raw),
    values=any_of(
        gpus=st.sampled_from((0, 1, 8, "7/2")),
        byModel=st.dictionaries(st.sampled_from(("T4", "H100", "A100-80GB")), st.sampled_from((0, 4, "1/7"))),
        byResource=st.dictionaries(st.sampled_from(("nvidia.com/gpu", SLICE)), st.integers(0, 4)),
        unspecifiedModel=st.sampled_from(("count", "deny")),
        weights=st.dictionaries(st.sampled_from((SHARED, "amd.com/gpu")), st.sampled_from((2, "1/4"))),
        onLedgerFailure=st.sampled_from(("deny", "allow")),
        models=st.sampled_from(({}, {"T4": {"pool": ["gpu"]}})),
    ),
    enforced={"gpus": 1000, "byModel": {"H100": 500, "T4": 500}},
    fuzzed={"gpus": 10},
)
