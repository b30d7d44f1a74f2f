"""Servers of models whose version tells which CUDA their images are built with.

A version between two rows, before the first or after the last has no answer. Ollama is not among them: its images bring
libraries for several versions of CUDA, and take the one that the driver runs.
"""

from collections.abc import Mapping

from webhook.cuda.releases import DOCKERFILE, SEEN, Built

KAITO_FILES = "kaito-project/kaito, Dockerfile and supported_models.yaml"

VLLM: tuple[Built, ...] = (
    Built.of("0.2.2", "0.4.1", "12.1", DOCKERFILE),
    Built.of("0.4.2", "0.8", "12.4", DOCKERFILE),
    Built.of("0.9", "0.11.0", "12.8", DOCKERFILE),
    Built.of("0.11.1", "0.19", "12.9", DOCKERFILE),
    Built.of("0.20", "0.28", "13.0", DOCKERFILE),
    Built.of("0.29", "0.31", "13.0", SEEN),
)

VLLM_FOR_ARM: tuple[Built, ...] = (Built.of("0.10.2", "0.11.0", "12.9", DOCKERFILE),)
"""Where they differ from those for x86_64, as which a tag for both is read: the same drivers and GPUs run both."""

SGLANG: tuple[Built, ...] = (
    Built.of("0.5.2", "0.5.10", "12.9", DOCKERFILE),
    Built.of("0.5.11", "0.5.18", "13.0", DOCKERFILE),
    Built.of("0.5.19", "0.5.21", "13.0", SEEN),
)
"""Tags of a release alone, or with -runtime. Before 0.5.2 every tag names its CUDA."""

TEXT_GENERATION_INFERENCE: tuple[Built, ...] = (
    Built.of("0.2", "1.1", "11.8", DOCKERFILE),
    Built.of("1.2", "2.2", "12.1", DOCKERFILE),
    Built.of("2.3", "3.3.0", "12.4", DOCKERFILE),
    Built.of("3.3.1", "3.3", "12.4", DOCKERFILE),
)
"""2.3 to 3.1 have PyTorch for 12.4 on a base of 12.1, from 3.3.1 on PyTorch for 12.8 on a base of 12.4. PyTorch came
from conda, later from pip."""

TEXT_EMBEDDINGS_INFERENCE: tuple[Built, ...] = (
    Built.of("0.1", "0.3", "12.2", DOCKERFILE),
    Built.of("0.4", "0.6", "12.0", DOCKERFILE),
    Built.of("1.0", "1.8", "12.2", DOCKERFILE),
    Built.of("1.9", "1.9", "12.9", DOCKERFILE),
)

LMDEPLOY: tuple[Built, ...] = (Built.of("0.0.2", "0.5.2", "11.8", DOCKERFILE),)
LMDEPLOY_12: tuple[Built, ...] = (
    Built.of("0.5.3", "0.12.1", "12.4", DOCKERFILE),
    Built.of("0.12.2", "0.15", "12.6", DOCKERFILE),
)
LMDEPLOY_11: tuple[Built, ...] = (Built.of("0.5.3", "0.12.0", "11.8", DOCKERFILE),)

LLM_D: tuple[Built, ...] = (Built.of("0.0.6", "0.2", "12.8", DOCKERFILE),)
LLM_D_CUDA: tuple[Built, ...] = (
    Built.of("0.3", "0.6", "12.9", DOCKERFILE),
    Built.of("0.7", "0.9", "13.0", DOCKERFILE),
)
LLM_D_AWS: tuple[Built, ...] = (
    Built.of("0.3", "0.4", "12.8", DOCKERFILE),
    Built.of("0.5", "0.6", "12.9", DOCKERFILE),
    Built.of("0.7", "0.9", "13.0", DOCKERFILE),
)
LLM_D_GKE: tuple[Built, ...] = (Built.of("0.3", "0.3", "12.9", DOCKERFILE),)

KAITO_BASE: tuple[Built, ...] = (
    Built.of("0.0.1", "0.3", "12", KAITO_FILES),
    Built.of("0.4", "0.5", "12.9", KAITO_FILES),
)
"""Up to 0.3 PyTorch and vLLM of PyPI, which need not be built with the same CUDA."""
KAITO_MODELS: tuple[Built, ...] = (Built.of("0.1", "0.1", "12", KAITO_FILES),)

HUGGINGFACE_SERVER: tuple[Built, ...] = (
    Built.of("0.15", "0.15", "12.4", DOCKERFILE),
    Built.of("0.16", "0.16", "12.8", DOCKERFILE),
    Built.of("0.17", "0.18", "12.9", DOCKERFILE),
    Built.of("0.19", "0.19", "13.2", DOCKERFILE),
    Built.of("0.20", "0.20", "13.3", DOCKERFILE),
)
OLD_HUGGINGFACE_SERVER: tuple[Built, ...] = (
    Built.of("0.12", "0.13.0", "12.1", DOCKERFILE),
    Built.of("0.13.1", "0.14", "12.4", DOCKERFILE),
)

XINFERENCE: tuple[Built, ...] = (
    Built.of("0.7.5", "0.12", "12.1", DOCKERFILE),
    Built.of("0.15.1", "1.17", "12.4", DOCKERFILE),
    Built.of("2.0", "2.8", "12.9", DOCKERFILE),
    Built.of("2.9", "3.2", "13.0", DOCKERFILE),
)
"""0.13 to 0.15.0 are built on whatever vLLM was the latest."""

LLAMA_CPP: tuple[Built, ...] = (
    Built.of("1989", "3642", "11.7", DOCKERFILE),
    Built.of("3643", "4715", "12.6", DOCKERFILE),
    Built.of("4716", "4747", "12.4", DOCKERFILE),
)
"""By the number of the build."""

RAY_LLM: tuple[Built, ...] = (
    Built.of("0.3.1", "0.4", "11.8", DOCKERFILE),
    Built.of("0.5", "0.5", "12.1", DOCKERFILE),
)

LORAX: tuple[Built, ...] = (
    Built.of("0.1", "0.9", "11.8", DOCKERFILE),
    Built.of("0.10", "0.10", "12.1", DOCKERFILE),
    Built.of("0.11", "0.12", "12.4", DOCKERFILE),
)

INFINITY: tuple[Built, ...] = (
    Built.of("0.0.22", "0.0.75", "12.1", DOCKERFILE),
    Built.of("0.0.76", "0.0.76", "12.4", DOCKERFILE),
    Built.of("0.0.77", "0.0.77", "12.9", DOCKERFILE),
)

DJL_PYTORCH: tuple[Built, ...] = (
    Built.of("0.26", "0.28", "12.1", DOCKERFILE),
    Built.of("0.29", "0.36", "12.4", DOCKERFILE),
)
DJL_LMI: tuple[Built, ...] = (
    Built.of("0.28", "0.34", "12.4", DOCKERFILE),
    Built.of("0.35", "0.35", "12.8", DOCKERFILE),
    Built.of("0.36", "0.36", "12.9", DOCKERFILE),
)
DJL_DEEPSPEED: tuple[Built, ...] = (
    Built.of("0.25", "0.25", "11.8", DOCKERFILE),
    Built.of("0.26", "0.27", "12.1", DOCKERFILE),
)
DJL_TENSORRT_LLM: tuple[Built, ...] = (
    Built.of("0.25", "0.28", "12.2", DOCKERFILE),
    Built.of("0.29", "0.34", "12.4", DOCKERFILE),
    Built.of("0.35", "0.36", "12.8", DOCKERFILE),
)


TABLES: Mapping[str, tuple[Built, ...]] = {
    "vllm/vllm-openai": VLLM,
    "vllm/vllm-openai with -aarch64 or -arm64": VLLM_FOR_ARM,
    "lmsysorg/sglang": SGLANG,
    "ghcr.io/huggingface/text-generation-inference": TEXT_GENERATION_INFERENCE,
    "ghcr.io/huggingface/text-embeddings-inference": TEXT_EMBEDDINGS_INFERENCE,
    "openmmlab/lmdeploy without a suffix": LMDEPLOY,
    "openmmlab/lmdeploy with -cu12": LMDEPLOY_12,
    "openmmlab/lmdeploy with -cu11": LMDEPLOY_11,
    "ghcr.io/llm-d/llm-d and llm-d-dev": LLM_D,
    "ghcr.io/llm-d/llm-d-cuda": LLM_D_CUDA,
    "ghcr.io/llm-d/llm-d-aws": LLM_D_AWS,
    "ghcr.io/llm-d/llm-d-gke": LLM_D_GKE,
    "mcr.microsoft.com/aks/kaito/kaito-base": KAITO_BASE,
    "mcr.microsoft.com/aks/kaito/kaito-<model>": KAITO_MODELS,
    "kserve/huggingfaceserver with -gpu": HUGGINGFACE_SERVER,
    "kserve/huggingfaceserver before there was one for the CPU": OLD_HUGGINGFACE_SERVER,
    "xprobe/xinference": XINFERENCE,
    "ghcr.io/ggml-org/llama.cpp with -cuda-b<number>": LLAMA_CPP,
    "anyscale/ray-llm": RAY_LLM,
    "ghcr.io/predibase/lorax": LORAX,
    "michaelf34/infinity": INFINITY,
    "deepjavalibrary/djl-serving with -pytorch-gpu": DJL_PYTORCH,
    "deepjavalibrary/djl-serving with -lmi": DJL_LMI,
    "deepjavalibrary/djl-serving with -deepspeed": DJL_DEEPSPEED,
    "deepjavalibrary/djl-serving with -tensorrt-llm": DJL_TENSORRT_LLM,
}
"""By the images as people know them."""
