"""Suggested images have the same family, registry and path, and need no newer CUDA than allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cuda.test_families import FAMILIES, SILENT
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


@pytest.mark.parametrize(
    ("image", "newest", "expected"),
    [
        ("nvidia/cuda:13.0.0-base-ubuntu24.04", "12.9", "nvidia/cuda:12.9.1-base-ubuntu24.04"),
        ("nvidia/cuda:13.0.0-cudnn-runtime-ubuntu22.04", "12.2", "nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04"),
        ("nvidia/cuda:13.3.0-devel-ubuntu26.04", "12.4", "nvidia/cuda:12.4.1-devel-ubuntu22.04"),
        ("nvcr.io/nvidia/cuda:12.4.1-base-ubi9", "11", "nvcr.io/nvidia/cuda:11.8.0-base-ubi8"),
        ("localhost:5000/a/nvidia/cuda:13.0.0-base-ubi8", "12.9", "localhost:5000/a/nvidia/cuda:12.9.1-base-ubi8"),
        ("nvcr.io/nvidia/pytorch:25.10-py3", "12.9", "nvcr.io/nvidia/pytorch:25.06-py3"),
        (
            "nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3",
            "12.9",
            "nvcr.io/nvidia/tritonserver:25.10-trtllm-python-py3",
        ),
        ("nvcr.io/nvidia/tensorflow:24.01-tf2-py3", "11.8", "nvcr.io/nvidia/tensorflow:22.12-tf2-py3"),
        ("pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime", "12.9", "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"),
        ("pytorch/pytorch:2.7.1-cuda12.8-cudnn9-devel", "12.2", "pytorch/pytorch:2.7.1-cuda11.8-cudnn9-devel"),
        ("tensorflow/tensorflow:2.15.0-gpu-jupyter", "11.8", "tensorflow/tensorflow:2.14.0-gpu-jupyter"),
        ("vllm/vllm-openai:v0.20.2", "12.9", "vllm/vllm-openai:v0.20.2-cu129"),
        ("vllm/vllm-openai:v0.19.0-cu130", "12.9", "vllm/vllm-openai:v0.19.0"),
        ("vllm/vllm-openai:v0.20.2", "12.4", "vllm/vllm-openai:v0.8.5"),
        ("lmsysorg/sglang:v0.5.14-cu130", "12.9", "lmsysorg/sglang:v0.5.14-cu129"),
        ("lmsysorg/sglang:v0.5.20-cu130", "12.9", "lmsysorg/sglang:v0.5.19-cu129"),
        ("rapidsai/base:26.08-cuda13-py3.13", "12.9", "rapidsai/base:26.08-cuda12-py3.13"),
    ],
)
def test_the_nearest_image_of_the_family_is_named(image, newest, expected):
    assert suggest(image, parse_version(newest)) == expected


@pytest.mark.parametrize(
    ("image", "newest"),
    [
        pytest.param("team/app:7", "12.9", id="no family"),
        pytest.param("nvidia/cuda:13.0.0-base-ubuntu24.04", "9.2", id="nothing so old"),
        pytest.param("nvidia/cuda:11.0-base", "10.2", id="a tag without a system"),
        pytest.param("nvidia/cuda:13.0.0-cudnn-devel-azl3", "12.9", id="never with cuDNN on that system"),
        pytest.param("nvidia/cuda:12.4.1-base-ubuntu22.04", "12.4", id="it is old enough"),
        pytest.param(f"nvidia/cuda@sha256:{'ab' * 32}", "12.4", id="a digest alone"),
        pytest.param("nvcr.io/nvidia/vllm:26.05-py3", "12.9", id="its first month is newer"),
        pytest.param("nvcr.io/nvidia/pytorch:25.05-py3-igpu", "12.4", id="an ending of another series"),
        pytest.param("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "11.6", id="before the table"),
        pytest.param("lmsysorg/sglang:v0.5.2-cu130", "12.9", id="before the series"),
        pytest.param("rapidsai/base:26.08-cuda13-py3.13", "12.2", id="its second number is not known"),
        pytest.param("Not An Image", "12.9", id="no image"),
    ],
)
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
