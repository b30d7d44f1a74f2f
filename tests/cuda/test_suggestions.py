"""Suggested images have the same family, registry and path, and need no newer CUDA than allowed."""

from hypothesis import given
from hypothesis import strategies as st

from tests.cuda.test_families import FAMILIES, SILENT
from tests.golden import golden
from tests.strategies import checked
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.suggestions import PUBLISHED, suggest, suggestions
from webhook.model.versions import parse_version

CUDA_13 = [
    "nvidia/cuda:13.3.0-devel-ubuntu26.04",
    "registry.corp:5000/proxy/nvidia/cuda:13.0.0-cudnn-runtime-ubi9",
    "nvcr.io/nvidia/pytorch:26.10-py3",
    "nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3",
    "nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
    "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime",
    "tensorflow/tensorflow:2.20.0-gpu",
    "vllm/vllm-openai:v0.20.2",
    "vllm/vllm-openai:v0.19.0-cu130",
    "lmsysorg/sglang:v0.5.20-cu130",
    "rapidsai/base:26.08-cuda13-py3.13",
]


@golden
def test_the_nearest_image_of_the_family_is_named(image, newest, expected):
    assert suggest(image, parse_version(newest)) == expected


@golden
def test_unknown_families_have_no_suggestion(image, newest):
    assert suggest(image, parse_version(newest)) is None


@checked
@given(st.sampled_from(CUDA_13), st.sampled_from(("11", "11.8", "12.2", "12.4", "12.9", "13.0")))
def test_a_suggestion_needs_no_newer_cuda_than_allowed(image, newest):
    bound = parse_version(newest)
    for proposed in suggestions(image, bound):
        need = need_of(proposed, ImageContext())
        assert need.cuda is not None
        assert bound.at_least(need.cuda.cut(len(bound.parts))), proposed
        assert proposed.rpartition(":")[0] == image.rpartition(":")[0]


@checked
@given(st.sampled_from(FAMILIES + SILENT) | st.text(max_size=50), st.sampled_from(("9", "11.8", "12.9", "14.0")))
def test_no_image_raises(image, newest):
    assert image not in list(suggestions(image, parse_version(newest)))


def test_the_newest_comes_first():
    versions = [row.cuda for row in PUBLISHED]
    assert versions == sorted(versions, reverse=True)
