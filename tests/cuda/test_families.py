"""Names of images as people write them, and the CUDA that they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from tests.strategies import checked
from webhook.cuda.families import look_up
from webhook.cuda.forward_compat import Base
from webhook.cuda.need import BuiltFor
from webhook.model.image import parse_reference

NGC, AWS, GCP = "nvcr.io/nvidia", "763104351884.dkr.ecr.us-west-2.amazonaws.com", "gcr.io/deeplearning-platform-release"
GCP_NEW, AZURE = "us-docker.pkg.dev/deeplearning-platform-release/gcr.io", "mcr.microsoft.com"
TGI = "ghcr.io/huggingface/text-generation-inference"
VERTEX = "us-docker.pkg.dev/vertex-ai"

KNOWN = [
    ("nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04", "12.4.1"),
    ("nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04", "11.8.0"),
    ("nvidia/cuda:13.0.0-tensorrt-runtime-ubuntu24.04", "13.0.0"),
    ("nvidia/cuda:13.3.0-devel-ubuntu26.04", "13.3.0"),
    ("nvidia/cuda:12.8.1-base-ubi9", "12.8.1"),
    ("nvidia/cuda:9.0-devel", "9.0"),
    ("nvidia/cuda:11.0-base", "11.0"),
    ("nvidia/cuda:10.2", "10.2"),
    ("nvidia/cudagl:11.4.2-base-ubuntu20.04", "11.4.2"),
    ("nvidia/cuda-arm64:11.4.0-base-ubuntu20.04", "11.4.0"),
    ("registry.corp:5000/cuda:12.4.1-base-ubuntu22.04", "12.4.1"),
    ("team/app:12.4.1-runtime-ubuntu22.04", "12.4.1"),
    ("registry.corp/bases/gpu-base:11.8.0-cudnn8-devel-ubuntu20.04", "11.8.0"),
    ("team/notebook:12.8.1-cudnn-base-ubi9-2026.1", "12.8.1"),
    ("aibrix/vllm-openai:v0.8.5", "12.4"),
    ("registry.corp/ml/vllm-openai:v0.20.2-cu129", "12.9"),
    (f"{NGC}/cuda-dl-base:24.12-cuda12.6-devel-ubuntu24.04", "12.6"),
    (f"{NGC}/cuda-dl-base:26.06-cuda13.3-inference-devel-ubuntu24.04", "13.3"),
    (f"{NGC}/pytorch:24.09-py3", "12.6.1"),
    (f"{NGC}/pytorch:20.06-py3", "11.0.167"),
    (f"{NGC}/pytorch:26.10-py3", "13.4.3"),
    (f"{NGC}/tensorflow:22.12-tf1-py3", "11.8.0"),
    (f"{NGC}/tritonserver:23.05-py3", "12.1.1"),
    (f"{NGC}/tritonserver:20.03.1-py3", "10.2.89"),
    (f"{NGC}/tritonserver:24.07-trtllm-python-py3", "12.4.1"),
    (f"{NGC}/tritonserver:25.06-vllm-python-py3", "12.9.0"),
    (f"{NGC}/tritonserver:24.08-py3-min", "12.6.0"),
    (f"{NGC}/tritonserver:24.08-py3-sdk", "12.6.0"),
    (f"{NGC}/vllm:25.10-py3", "13.0.2"),
    ("mirror.corp/tritonserver:24.08-py3", "12.6.0"),
    ("007439368137.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tritonserver:24.09-py3", "12.6.1"),
    ("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "11.7"),
    ("pytorch/pytorch:1.5-cuda10.1-cudnn7-devel", "10.1"),
    ("pytorch/pytorch:0.4_cuda9_cudnn7", "9"),
    ("tensorflow/tensorflow:2.12.0-gpu-jupyter", "11.8"),
    ("tensorflow/tensorflow:1.15.0-gpu-py3", "10.0"),
    ("tensorflow/tensorflow:2.4.0rc1-gpu", "11.0"),
    ("vllm/vllm-openai:v0.4.2", "12.4"),
    ("vllm/vllm-openai:v0.5.0", "12.4"),
    ("vllm/vllm-openai:v0.8.5.post1", "12.4"),
    ("vllm/vllm-openai:v0.11.2-x86_64", "12.9"),
    ("vllm/vllm-openai:v0.19.0-cu130", "13.0"),
    ("vllm/vllm-openai:v0.20.2", "13.0"),
    ("vllm/vllm-openai:v0.20.2-cu129-ubuntu2404", "12.9"),
    ("lmsysorg/sglang:v0.5.0rc0-cu126", "12.6"),
    ("lmsysorg/sglang:v0.5.9-cu129-amd64-runtime", "12.9"),
    (f"{TGI}:1.0.3", "11.8"),
    (f"{TGI}:2.0.4", "12.1"),
    (f"{TGI}:3.3.5", "12.4"),
    ("rapidsai/base:24.08a-cuda12.5-py3.11", "12.5"),
    ("rapidsai/base:25.12-cuda12-py3.12", "12.9.1"),
    ("rapidsai/notebooks:26.06-cuda13-py3.13", "13.2.0"),
    ("rapidsai/base:26.06a-cuda13-py3.13", "13"),
    (f"{NGC}/rapidsai/notebooks:26.08-cuda13-py3.13", "13"),
    ("rayproject/ray:2.24.0-py310-cu118", "11.8"),
    ("rayproject/ray-llm:2.56.0-py312-cu130", "13.0"),
    ("quay.io/jupyter/pytorch-notebook:cuda12-python-3.11.8", "12"),
    (f"{AWS}/pytorch-training:2.5.1-transformers4.49.0-gpu-py311-cu124-ubuntu22.04", "12.4"),
    (f"{AWS}/huggingface-pytorch-tgi-inference:2.0.1-tgi0.9.3-gpu-py39-cu118-ubuntu20.04", "11.8"),
    (f"{AWS}/djl-inference:0.29.0-lmi11.0.0-cu124", "12.4"),
    (f"{GCP_NEW}/pytorch-cu124.2-4.py310", "12.4"),
    (f"{GCP}/pytorch-cu121.2-2.py310:m123", "12.1"),
    (f"{VERTEX}/prediction/tf2-gpu.2-15:latest", "12"),
    (f"{AZURE}/azureml/openmpi4.1.0-cuda11.1-cudnn8-ubuntu18.04:20221010.v1", "11.1"),
    (f"{AZURE}/aifx/acpt/stable-ubuntu2004-cu118-py38-torch222", "11.8"),
    (f"{AZURE}/azureml/curated/acpt-pytorch-2.0-cuda11.7:3", "11.7"),
    (f"{NGC}/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04", "11.7.1"),
    (f"{NGC}/ai-dynamo/sglang-runtime:1.0.1-cuda13", "13"),
    (f"{NGC}/nemo:25.09.02", "12.9.1"),
    ("nvcr.io/nim/meta/llama-3.1-70b-instruct:1.3.3", "12.6.1"),
    ("nvcr.io/nim/nvidia/llm-nim:1.15.4", "13.0"),
    ("nvcr.io/nim/openai/gpt-oss-120b:1.12.4", "12.9"),
    ("nvcr.io/nim/nvidia/llama-3.2-nv-embedqa-1b-v2:1.10.0", "12.9"),
    ("nvcr.io/nim/nvidia/llama-3.2-nv-rerankqa-1b-v2:1.9.1", "13"),
    ("nvcr.io/nvidia/nemo:25.07", "12.9.0"),
    ("ollama/ollama:0.5.7", "11.3"),
    ("ollama/ollama:0.13.5", "12.8"),
    ("ghcr.io/ggml-org/llama.cpp:full-cuda-b7200", "12.4.0"),
    ("ghcr.io/ggml-org/llama.cpp:server-cuda12-b8987", "12.8.1"),
    ("ghcr.io/ggml-org/llama.cpp:server-cuda13-b8987", "13.1.1"),
    ("ghcr.io/ggml-org/llama.cpp:server-cuda13-b99999", "13"),
    ("localai/localai:v3.9.0-gpu-nvidia-cuda-12", "12.0"),
    ("quay.io/go-skynet/local-ai:v2.12.4-cublas-cuda11-ffmpeg", "11.7"),
    ("ghcr.io/immich-app/immich-machine-learning:v2.4.1-cuda", "12.2.2"),
    ("fedirz/faster-whisper-server:0.5.0-cuda", "12.2.2"),
    ("ghcr.io/speaches-ai/speaches:0.8.3-cuda", "12"),
    ("ghcr.io/speaches-ai/speaches:0.8.3-cuda-12.4.1", "12.4.1"),
    ("onerahmet/openai-whisper-asr-webservice:v1.9.1-gpu", "12.6.3"),
    ("lscr.io/linuxserver/faster-whisper:gpu-v2.4.0-ls52", "12"),
    ("ghcr.io/remsky/kokoro-fastapi-gpu:v0.2.0", "12.4"),
    ("quay.io/modh/cuda-notebooks:cuda-jupyter-minimal-ubi9-python-3.11-2024b-20250213", "12.4.1"),
    ("quay.io/opendatahub/workbench-images:cuda-jupyter-pytorch-ubi9-python-3.11-2025a-20250801", "12.6.3"),
    ("quay.io/opendatahub/odh-workbench-jupyter-pytorch-cuda-py312-ubi9:v1.42.0", "12.9"),
    ("763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6-gpu-py312", "12.6"),
    ("763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-inference:2.5.1-gpu", "12.4"),
    ("763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.20.1-gpu-py312-ec2", "13.0"),
    ("763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:server-cuda-v1.1", "12.9.1"),
    ("763104351884.dkr.ecr.us-east-1.amazonaws.com/sglang:0.5.6-gpu-py312", "12.9"),
    ("public.ecr.aws/deep-learning-containers/pytorch-training:2.9-gpu-py312", "13.0"),
    ("763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.19-gpu-py312-sagemaker", "12.5"),
    ("runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404", "12.8.1"),
    ("runpod/pytorch:0.7.0-cu1241-torch260-ubuntu2204", "12.4.1"),
    ("ghcr.io/kubeflow/trainer/deepspeed-runtime:v2.2.0", "13.1.1"),
    ("public.ecr.aws/hpc-cloud/nccl-tests:cuda12.8.1-efa1.42.0", "12.8.1"),
    ("kubeflownotebookswg/jupyter-pytorch-cuda:v1.10.0", "12.4"),
    ("mxnet/python:1.9.1_gpu_cu112_py3", "11.2"),
    ("team/app:7-cu124", "12.4"),
    ("registry.corp/cuda12.4/app:7", "12.4"),
    ("team/app-cuda11.8:2.0-cuda12.1", "12.1"),
]

FOR_CUDA_OF_NO_KNOWN_VERSION = [
    "nvidia/cuda",
    "nvidia/cuda:latest",
    f"{NGC}/pytorch:27.03-py3",
    f"{NGC}/pytorch:20.04-py3",
    f"{NGC}/pytorch:25.05-py3-igpu",
    f"{NGC}/tritonserver:26.09-trtllm-python-py3",
    f"{NGC}/merlin/merlin-pytorch:23.08",
    f"{NGC}/nemo:24.12",
    f"{NGC}/nemo:25.04.01",
    f"{NGC}/l4t-pytorch:r35.2.1-pth2.0-py3",
    "nvcr.io/nim/nvidia/nv-embedqa-e5-v5:1.3.0",
    "pytorch/pytorch:latest",
    "tensorflow/tensorflow:latest-gpu",
    "tensorflow/serving:latest-gpu",
    "vllm/vllm-openai:latest",
    "lmcache/vllm-openai:v0.5.4",
    "registry.corp/ml/vllm-openai:v0.5.1",
    "lmsysorg/sglang:dev",
    f"{TGI}:sha-1a2b3c4",
    f"{TGI}:3.3.5-trtllm",
    "rapidsai/base:latest",
    "quay.io/jupyter/tensorflow-notebook:cuda-latest",
    f"{AWS}/pytorch-training:2.5-gpu-py311",
    f"{GCP}/tf2-2-2-gpu.2-2:m48",
    f"{AZURE}/azureml/curated/acft-hf-nlp-gpu:80",
    "cupy/cupy:v13",
    "spark:3.5.0-cuda",
    "team/app:1.2-gpu",
    "team/app-gpu:1.2",
    "team/app:cu118-cu121",
]

WITHOUT_CUDA = [
    "python:3.12-slim",
    "registry.corp/team/python:3.12",
    "registry.k8s.io/pause:3.10",
    "registry.k8s.io/e2e-test-images/agnhost:2.53",
    "quay.io/prometheus/busybox:latest",
    "mirror.corp/nginx:1.29",
    "docker.io/library/ubuntu:22.04",
    "mirror.corp/dockerhub/library/debian:12",
    "node:12.2.0-runtime",
    "arm64v8/python:3.12",
    "gcr.io/distroless/python3",
    "tensorflow/tensorflow:2.14.0",
    "tensorflow/tensorflow:latest-jupyter",
    "rayproject/ray:2.52.0",
    "rayproject/ray:latest-py311-cpu",
    "jupyter/tensorflow-notebook:python-3.10",
    "jupyter/datascience-notebook:2343e33dec46",
    f"{AWS}/pytorch-training:1.12.1-cpu-py38-ubuntu20.04-ec2",
    "007439368137.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tritonserver:24.09-py3-cpu",
    f"{VERTEX}/prediction/tf2-cpu.2-15:latest",
    f"{AZURE}/azureml/openmpi4.1.0-ubuntu20.04",
    "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.9.1",
    "lmsysorg/sglang:v0.5.5-xeon",
    "ghcr.io/huggingface/text-embeddings-inference:cpu-1.5",
    "team/app-cu121:1.0-cpu",
]

FOR_OTHERS = [
    ("rocm/pytorch:rocm7.1.1_ubuntu24.04_py3.12_pytorch_release_2.10.0", "AMD ROCm"),
    ("rocm/vllm:latest", "AMD ROCm"),
    ("vllm/vllm-openai-rocm:v0.20.0", "AMD ROCm"),
    ("vllm/vllm-openai:latest-rocm", "AMD ROCm"),
    ("lmsysorg/sglang:v0.4.6.post5-rocm630", "AMD ROCm"),
    (f"{TGI}:3.3.5-rocm", "AMD ROCm"),
    ("team/app:cuda12.4-rocm6", "AMD ROCm"),
    ("intel/intel-extension-for-pytorch:2.3.110-xpu", "Intel XPUs"),
    (f"{AWS}/pytorch-inference-neuronx:2.1.2-neuronx-py310-sdk2.20.0-ubuntu20.04", "AWS Neuron"),
    ("public.ecr.aws/neuron/pytorch-training-neuronx:2.5.1", "AWS Neuron"),
    ("ollama/ollama:0.6.5-rocm", "AMD ROCm"),
    ("ghcr.io/ggml-org/llama.cpp:server-intel-b4719", "Intel XPUs"),
    ("opea/vllm-gaudi:1.2", "Intel Gaudi"),
    ("team/app:main-rocm6.2-9f1c2ab", "AMD ROCm"),
    ("vault.habana.ai/gaudi-docker/1.18.0/ubuntu22.04/habanalabs/pytorch-installer-2.4.0:latest", "Intel Gaudi"),
    ("vllm/vllm-tpu:nightly", "Google TPUs"),
    ("lmsysorg/sglang:v0.5.6-cann8.3.rc1-a3", "Huawei Ascend"),
]

SILENT = [
    "myapp:12.4.1",
    "app:cu2024",
    "app:cu118abc",
    "focus118:1",
    "team/docu121:1",
    "registry.corp/team/ubuntu:22.04",
    "team/app:1.2.3-runtime-ubuntu22.04",
    "team/app:12.4.9-runtime-ubuntu22.04",
    "team/app:12.4.1-runtime",
    "ollama/ollama:0.5",
    "ghcr.io/ggml-org/llama.cpp:server",
    f"{NGC}/driver:595.91.07-ubuntu22.04",
    "app:cpu-gpu",
    "team/api:pr-812-add-rocm-support-9f1c2ab",
    "team/api:feature-tpu-export",
    "neuron/segmenter:2.1.0",
    "ascend/ranker:4",
    "design/gaudi:2.4.1",
    "team/tpu-migration:3",
    "team/export-tpu-model:1",
    "team/npu-bench:2",
    "team/sycl-bench:1",
    "intel/oneapi-basekit:2025.0.1-0-devel-ubuntu22.04",
]

FAMILIES = [image for image, _ in KNOWN + FOR_OTHERS] + FOR_CUDA_OF_NO_KNOWN_VERSION + WITHOUT_CUDA
"""Those of them that the end of the path tells, so that a mirror may stand before it."""


def looked_up(image):
    return look_up(parse_reference(image))


@pytest.mark.parametrize(("image", "expected"), KNOWN)
def test_a_name_says_the_cuda_of_its_image(image, expected):
    found = looked_up(image)
    assert (found.kind, str(found.cuda)) == (BuiltFor.CUDA, expected)


@golden
def test_the_processors_of_an_image_are_known_by_word_or_release(image, architectures):
    assert looked_up(image).architectures == architectures


@pytest.mark.parametrize("image", FOR_CUDA_OF_NO_KNOWN_VERSION)
def test_a_name_may_say_cuda_without_a_version(image):
    found = looked_up(image)
    assert (found.kind, found.cuda) == (BuiltFor.CUDA, None)


@pytest.mark.parametrize("image", WITHOUT_CUDA)
def test_images_for_the_cpu_are_known(image):
    assert looked_up(image).kind is BuiltFor.NONE


def test_an_official_image_is_known_directly_beneath_its_mirror_and_not_by_its_name_alone():
    """An organisation's own `ubuntu` may have CUDA."""
    assert looked_up("mirror.corp:5000/ubuntu:22.04").kind is BuiltFor.NONE
    assert looked_up("mirror.corp:5000/team/ubuntu:22.04").kind is BuiltFor.UNKNOWN


@pytest.mark.parametrize(("image", "platform"), FOR_OTHERS)
def test_images_for_other_accelerators_are_known_whatever_else_their_names_say(image, platform):
    found = looked_up(image)
    assert (found.kind, found.platform) == (BuiltFor.OTHER, platform)


@pytest.mark.parametrize("image", SILENT)
def test_a_name_that_says_nothing_gives_unknown(image):
    found = looked_up(image)
    assert (found.kind, found.cuda, found.evidence) == (BuiltFor.UNKNOWN, None, "none")


PREFIXES = st.lists(st.sampled_from(("mirror", "docker-hub", "docker.io", "proxy-1", "a_b")), max_size=2)


@checked
@given(
    st.sampled_from(FAMILIES),
    st.sampled_from(("", "registry.corp/", "localhost:5000/", "1.dkr.ecr.eu-west-1.amazonaws.com/")),
    PREFIXES,
    st.booleans(),
)
def test_no_registry_mirror_or_digest_changes_what_a_family_says(image, registry, prefix, has_digest):
    reference = parse_reference(image)
    path = "/".join((*prefix, reference.repository))
    digest = f"@sha256:{'ab' * 32}" if has_digest else ""
    tag = f":{reference.tag}" if reference.tag else ""
    moved, stayed = looked_up(f"{registry or 'docker.io/'}{path}{tag}{digest}"), looked_up(image)
    assert (moved.kind, moved.cuda, moved.base, moved.platform) == (
        stayed.kind,
        stayed.cuda,
        stayed.base,
        stayed.platform,
    )


@golden
def test_the_base_tells_whether_cuda_compat_comes_with_it(image, compat):
    assert looked_up(image).base.compat == compat


@golden
def test_frameworks_begin_at_a_compute_capability(image, floor, is_verified, certain):
    found = looked_up(image)
    assert (str(found.floor), found.is_floor_verified, str(found.certain_floor)) == (floor, is_verified, certain)


@golden
def test_unverified_rows_stay_marked(image, is_verified):
    assert looked_up(image).is_verified is is_verified


@golden
def test_some_names_tell_the_architecture(image, expected):
    assert looked_up(image).architectures == expected


@golden
def test_doubts_are_noted(image, note):
    assert looked_up(image).notes == (note,)


def test_long_names_are_cut_in_the_evidence():
    found = looked_up(f"{'a' * 200}/app:{'b' * 100}-cu124")
    assert str(found.cuda) == "12.4"
    assert len(found.evidence) < 200


@checked
@given(st.sampled_from(FAMILIES + SILENT), st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", max_size=30))
def test_no_tag_of_any_family_raises(image, tail):
    reference = parse_reference(image)
    found = looked_up(f"{reference.registry}/{reference.repository}:{(reference.tag + tail)[:128]}")
    assert found.cuda is None or found.kind is BuiltFor.CUDA
    assert found.base in Base
