"""Words in tags and names: every CUDA version is found, and no other number is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked
from webhook.cuda.image_reading import words_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.7.1-cuda12.8-cudnn9-runtime", "12.8"),
        ("25.02-cuda12.8-py3.12", "12.8"),
        ("openmpi4.1.0-cuda11.1-cudnn8-ubuntu18.04", "11.1"),
        ("vectoradd-cuda11.7.1-ubuntu20.04", "11.7.1"),
        ("main-CUDA12.6", "12.6"),
        ("cuda-12.4-devel", "12.4"),
        ("cuda_12.4", "12.4"),
        ("2.9.0-gpu-py312-cu130-ubuntu22.04-ec2", "13.0"),
        ("v0.5.9-cu129-amd64-runtime", "12.9"),
        ("2.24.0-py310-cu118", "11.8"),
        ("1.9.1_gpu_cu112_py3", "11.2"),
        ("1.7.0-cu92", "9.2"),
        ("pytorch-cu124.2-4.py310", "12.4"),
        ("app-cu12.4", "12.4"),
        ("1.0.2-cu1281-torch280-ubuntu2404", "12.8.1"),
        ("cu1300", "13.0.0"),
        ("cuda118-py3", "11.8"),
        ("cuda-118", "11.8"),
        ("cuda12-python-3.11.8", "12"),
        ("26.08-cuda13-py3.13", "13"),
        ("0.4_cuda9_cudnn7", "9"),
        ("1.4.0-gpu.cuda10cudnn7-py3.54", "10"),
        ("cu12-0.10.0", "12"),
        ("latest-gpu-nvidia-cuda-12", "12"),
        ("cuda12.4.1-cu124", "12.4.1"),
        ("cuda12.1-cu124", "12"),
    ],
)
def test_a_cuda_version_is_found(text, expected):
    assert str(words_in(text).cuda) == expected


@pytest.mark.parametrize(
    "text",
    [
        "12.4.1",
        "cu2024",
        "focus118",
        "docu121",
        "mcu124",
        "cu118abc",
        "cu12811",
        "cudnn9",
        "py312",
        "ubuntu22.04",
        "cuda-latest",
        "3.5.0-cuda",
        "cuda-24.04",
        "cuda-1.0",
        "cuda12.45",
        "cuda2024",
        "cuda_multi",
        "barracuda12",
        "cu118-cu121",
        "cuda\u0661\u0662",
    ],
)
def test_no_cuda_version_is_made_up(text):
    assert words_in(text).cuda is None


@pytest.mark.parametrize(
    ("text", "has_gpu", "has_cpu"),
    [
        pytest.param("3.5.0-cuda", True, False, id="cuda"),
        pytest.param("tf2-2-2-gpu.2-2", True, False, id="gpu"),
        pytest.param("1.0-cudnn8", True, False, id="cuDNN"),
        pytest.param("cuda-24.04", True, False, id="cuda before some other version"),
        pytest.param("latest-py311-cpu", False, True, id="cpu"),
        pytest.param("1.0-nocuda", False, True, id="nocuda"),
        pytest.param("1.0-no-cuda", False, True, id="no-cuda"),
        pytest.param("1.0-cpu-only", False, True, id="cpu-only"),
        pytest.param("cpu-gpu", True, True, id="both"),
        pytest.param("multicpu-gpus", False, False, id="parts of other words"),
    ],
)
def test_words_tell_cpu_from_gpu(text, has_gpu, has_cpu):
    words = words_in(text)
    assert (words.has_gpu, words.has_cpu) == (has_gpu, has_cpu)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v0.4.6.post5-rocm630", "ROCm"),
        ("rocm7.1.1_ubuntu24.04_py3.12", "ROCm"),
        ("latest-gpu-hipblas", "ROCm"),
        ("2.3.110-xpu", "XPU"),
        ("server-intel-b4719", "XPU"),
        ("latest-gpu-intel", "XPU"),
        ("2.1.2-neuronx-py310-sdk2.20.0", "Neuron"),
        ("1.13.1-neuron-py310", "Neuron"),
        ("3.3.5-gaudi", "Gaudi"),
        ("2.4-hpu", "Gaudi"),
        ("nightly-tpu", "TPU"),
        ("v0.5.6-cann8.3.rc1-a3", "Ascend"),
        ("server-musa", "MUSA"),
        ("neuron-viewer", ""),
        ("rockymountain", ""),
        ("input-output", ""),
    ],
)
def test_words_name_other_vendors(text, expected):
    assert words_in(text).platform == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v0.5.9-cu129-amd64-runtime", ("amd64",)),
        ("x86_64-cuda12-python-3.12", ("amd64",)),
        ("v0.20.1-aarch64-ubuntu2404", ("arm64",)),
        ("amd64-arm64", ("amd64", "arm64")),
        ("cuda-ppc64le", ("ppc64le",)),
        ("alarm64", ()),
    ],
)
def test_words_name_architectures(text, expected):
    assert words_in(text).architectures == expected


@checked
@given(st.text(max_size=200) | st.text("cuda-_.0123456789gpurocm", max_size=200))
def test_any_text_can_be_read(text):
    words = words_in(text)
    assert words.cuda is None or all(
        words.cuda.parts == version[: len(words.cuda.parts)] or len(version) < len(words.cuda.parts)
        for version in words.versions
    )
    assert not (words.says_cpu and words.says_both)
