"""What a policy adds to the shipped models."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.gpus.additions import additions_of, overlap, own_models
from webhook.gpus.gpu_table import GPUS
from webhook.model.accelerators import Vendor
from webhook.model.globs import matcher

PRODUCT = "nvidia.com/gpu.product"
TEXTS = ["".join(letters) for length in range(7) for letters in product("ab", repeat=length)]
GLOBS = st.text("ab*?", max_size=3)


@given(GLOBS, GLOBS)
def test_globs_overlap_where_some_text_matches_both(one, other):
    """Globs of three characters each that overlap do so in a text of at most six."""
    found = any(matcher(one).fullmatch(text) and matcher(other).fullmatch(text) for text in TEXTS)
    assert overlap(one, other) == found


@pytest.mark.parametrize(
    ("models", "alike"),
    [
        pytest.param({"X9": {"example.com/gpu": ["x9"]}}, {"X9": set()}, id="another GPU"),
        pytest.param({"T4": {"example.com/gpu": ["small"]}}, {}, id="a known name is no model of its own"),
        pytest.param({"SXM": {PRODUCT: ["NVIDIA-A30"]}}, {"SXM": {"A30"}}, id="a value that is known"),
        pytest.param({"New": {PRODUCT: ["NVIDIA-GB*"]}}, {"New": {"GB10", "GB200", "GB300"}}, id="a glob of products"),
        pytest.param(
            {"P4": {}, "Big": {"node.kubernetes.io/instance-type": ["p4*"]}},
            {"Big": {"A100-40GB", "A100-80GB"}},
            id="a glob of machines",
        ),
        pytest.param({"Ada": {"gpu-type": ["l4*"]}}, {"Ada": {"L4", "L40", "L40S"}}, id="a glob of words"),
        pytest.param(
            {"A": {"pool": ["a*"]}, "B": {"pool": ["*b"]}, "C": {"pool": ["bb", "c"]}, "T4": {"pool": ["c"]}},
            {"A": {"B", "C", "T4"}, "B": {"A", "C", "T4"}, "C": {"A", "B", "T4"}},
            id="through one another",
        ),
    ],
)
def test_a_model_of_the_platforms_own_may_be_any_that_shares_a_value_with_it(models, alike):
    assert {own.name: set(own.alike) for own in own_models(additions_of(models), GPUS)} == alike


def test_a_model_that_is_alike_two_vendors_belongs_to_none():
    (own,) = own_models(additions_of({"Any": {"gpu-type": ["*"]}}), GPUS)
    assert own.vendor is None
    (own,) = own_models(additions_of({"Any": {"nvidia.com/gpu.family": ["ampere"]}}), GPUS)
    assert own.vendor is Vendor.NVIDIA
