"""Products that name their own version or month, and the CUDA that the images of each are built with.

Of NVIDIA's catalogue, of clouds, of Kubeflow and others. A version that no row covers has no answer: what products are
built on changes from one release to the next.
"""

from collections.abc import Mapping

from webhook.cuda.releases import MEMORY, Built

NEMO_VERSIONS = "NVIDIA-NeMo/Megatron-Bridge, docs/releases/software-versions.md (2026-08)"
NEMO_GUIDE = "docs.nvidia.com/nemo-framework/user-guide/24.09/softwarecomponentversions.html"
NEMO: tuple[Built, ...] = (
    Built.of("24.05", "24.05", "12", NEMO_GUIDE),
    Built.of("24.07", "24.07", "12", NEMO_GUIDE),
    Built.of("24.09", "24.09", "12", NEMO_GUIDE),
    Built.of("25.09", "25.09", "12.9.1", NEMO_VERSIONS),
    Built.of("25.11", "25.11", "13.0.1", NEMO_VERSIONS),
    Built.of("26.02", "26.02", "13.0.2", NEMO_VERSIONS),
    Built.of("26.04", "26.04", "13.1.1", NEMO_VERSIONS),
    Built.of("26.06", "26.06", "13.2.1", NEMO_VERSIONS),
)
"""nvidia/nemo, whose month is not that of its base. Tags that name a model are built apart, and not known. Of the
months of 24 the guide tells the version of NVIDIA's PyTorch alone, whose containers were all built with CUDA 12."""

NEMO_RL_DOCKERFILE = "NVIDIA-NeMo/RL, docker/Dockerfile of the release"
NEMO_RL: tuple[Built, ...] = (
    Built.of("0.3", "0.6", "12.9.0", NEMO_RL_DOCKERFILE),
    Built.of("0.7", "0.7", "13.2.0", NEMO_RL_DOCKERFILE),
)
"""nvidia/nemo-rl, on nvidia/cuda-dl-base of a month."""

NEMO_AUTOMODEL: tuple[Built, ...] = (
    Built.of("26.06", "26.06", "13.2.1", "NVIDIA-NeMo/Automodel, docker/Dockerfile of v0.5.0"),
)
"""nvidia/nemo-automodel; earlier months may be on either of two bases."""

CURATOR_DOCKERFILE = "NVIDIA-NeMo/Curator, docker/Dockerfile of the release, and fern/docs.yml for its month"
NEMO_CURATOR: tuple[Built, ...] = (
    Built.of("25.09", "25.09", "12.8.1", CURATOR_DOCKERFILE),
    Built.of("26.02", "26.02", "12.8.1", CURATOR_DOCKERFILE),
    Built.of("26.04", "26.04", "12.8.1", CURATOR_DOCKERFILE),
    Built.of("26.07", "26.07", "12.9.1", CURATOR_DOCKERFILE),
)
"""nvidia/nemo-curator, on nvidia/cuda."""

BIONEMO_DOCKERFILE = "NVIDIA/bionemo-framework, Dockerfile of the release"
BIONEMO: tuple[Built, ...] = (
    Built.of("2.0", "2.2", "12.3.2", MEMORY),
    Built.of("2.3", "2.3", "12.6.3", BIONEMO_DOCKERFILE),
    Built.of("2.4", "2.6.1", "12.8.0", BIONEMO_DOCKERFILE),
    Built.of("2.6.2", "2.6.2", "12.9.0", BIONEMO_DOCKERFILE),
    Built.of("2.6.3", "2.7", "12.9.1", BIONEMO_DOCKERFILE),
)
"""nvidia/clara/bionemo-framework, on nvidia/pytorch of a month; that of the first, 24.02, nobody has read."""

TRTLLM_NOTES = "NVIDIA/TensorRT-LLM, docs/source/release-notes.md"
TENSORRT_LLM: tuple[Built, ...] = (
    Built.of("0.20.0", "0.20.0", "12.9.0", TRTLLM_NOTES),
    Built.of("0.21.0", "0.21.0", "12.9.0", TRTLLM_NOTES),
    Built.of("1.0.0", "1.0.0", "12.9.1", TRTLLM_NOTES),
    Built.of("1.1.0", "1.1.0", "13.0.2", TRTLLM_NOTES),
    Built.of("1.2.0", "1.2.0", "13.1.0", TRTLLM_NOTES),
)
"""nvidia/tensorrt-llm/release, on nvidia/pytorch of a month. Release candidates have bases of their own."""

DEEPSTREAM_DOCKERFILES = "NVIDIA-AI-IOT/deepstream_dockers, x86 Dockerfiles of the release"
DEEPSTREAM: tuple[Built, ...] = (
    Built.of("6.2", "6.2", "11.8", DEEPSTREAM_DOCKERFILES),
    Built.of("6.3", "6.3", "12.1", DEEPSTREAM_DOCKERFILES),
    Built.of("6.4", "6.4", "12.2", DEEPSTREAM_DOCKERFILES),
    Built.of("7.0", "7.0", "12.2.2", DEEPSTREAM_DOCKERFILES),
    Built.of("7.1", "7.1", "12.6", DEEPSTREAM_DOCKERFILES),
    Built.of("8.0", "8.0", "12.8.1", DEEPSTREAM_DOCKERFILES),
    Built.of("9.0", "9.0", "13.1", DEEPSTREAM_DOCKERFILES),
)
"""nvidia/deepstream, on nvidia/tritonserver and nvidia/cuda; where these differ, the numbers that they agree on."""

HOLOSCAN: tuple[Built, ...] = (
    Built.of("0.6", "0.6", "11.6.1", MEMORY),
    Built.of("1.0", "2.5", "12.2.1", MEMORY),
    Built.of("2.6", "3.5", "12.6.0", MEMORY),
)
"""clara-holoscan/holoscan:vX.Y.Z-dgpu, on nvidia/tensorrt of a month (nvidia-holoscan/holoscan-sdk, Dockerfile of each
release), which is thought to have the CUDA of its siblings. Later tags name their CUDA."""

PHYSICSNEMO: tuple[Built, ...] = (
    Built.of("25.03", "25.03", "12.8.0", "NVIDIA/physicsnemo, README and Dockerfile of v1.0.0"),
    Built.of("25.06", "25.06", "12.9.0", MEMORY),
)
"""nvidia/physicsnemo/physicsnemo, on nvidia/pytorch of an earlier month; that 25.06 is v1.1 follows from its date."""

NIM_MATRIX = "docs.nvidia.com/nim/large-language-models/1.3.0/support-matrix.html"
NIM_LLM: tuple[Built, ...] = (
    Built.of("1.3", "1.3", "12.6.1", NIM_MATRIX),
    Built.of("1.4", "1.8", "12.6", MEMORY),
)
"""nim/meta/llama-*-instruct and -base; 1.7 and 1.8 ask for driver 560, which is that of CUDA 12.6. Other services count
their versions for themselves."""

TCPXO_DOCKERFILE = "google/nccl-plugin-gpudirect-tcpxo, tcpxo.dockerfile and rxdm.dockerfile of the release"
TCPXO_PLUGIN: tuple[Built, ...] = (Built.of("1.0.12", "1.0.17", "12.8.0", TCPXO_DOCKERFILE),)
"""gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev, which also runs the tests of NCCL."""

TCPXO_DAEMON: tuple[Built, ...] = (Built.of("1.0.18", "1.0.21", "12.0.0", TCPXO_DOCKERFILE),)
"""gpudirect-tcpxo/tcpgpudmarxd-dev of the same releases (GoogleCloudPlatform/container-engine-accelerators, README of
gpudirect-tcpxo)."""

KUBEFLOW_NOTEBOOKS = "kubeflow/kubeflow and kubeflow/notebooks, example-notebook-servers, Dockerfile of the release"
KUBEFLOW_PYTORCH: tuple[Built, ...] = (
    Built.of("1.8", "1.9", "12.1", KUBEFLOW_NOTEBOOKS),
    Built.of("1.10", "1.10", "12.4", KUBEFLOW_NOTEBOOKS),
    Built.of("1.11", "1.11", "13.0", KUBEFLOW_NOTEBOOKS),
)
"""jupyter-pytorch-cuda and -full, with wheels of pip."""

KUBEFLOW_TENSORFLOW: tuple[Built, ...] = (
    Built.of("1.8", "1.8", "11.8", KUBEFLOW_NOTEBOOKS),
    Built.of("1.9", "1.9", "12.2", KUBEFLOW_NOTEBOOKS),
    Built.of("1.10", "1.10", "12.3", KUBEFLOW_NOTEBOOKS),
    Built.of("1.11", "1.11", "12.5", KUBEFLOW_NOTEBOOKS),
)
"""jupyter-tensorflow-cuda and -full."""

KUBEFLOW_TRAINER = "kubeflow/trainer, cmd, Dockerfile of the release"
KUBEFLOW_RUNTIME: tuple[Built, ...] = (
    Built.of("2.1", "2.1", "12.8.1", KUBEFLOW_TRAINER),
    Built.of("2.2", "2.2", "13.1.1", KUBEFLOW_TRAINER),
    Built.of("2.3", "2.3", "13.3.0", KUBEFLOW_TRAINER),
)
"""trainer/deepspeed-runtime and trainer/mlx-runtime, on nvidia/cuda."""
KUBEFLOW_XGBOOST: tuple[Built, ...] = (Built.of("2.2", "2.3", "12.4.0", KUBEFLOW_TRAINER),)
"""trainer/xgboost-runtime, on nvidia/cuda."""
KUBEFLOW_TORCHTUNE: tuple[Built, ...] = (Built.of("2.0", "2.3", "12.8", KUBEFLOW_TRAINER),)
"""trainer/torchtune-trainer, on pytorch/pytorch."""

CUPY_DOCKERFILE = "cupy/cupy, docker/python3/Dockerfile of the release"
CUPY: tuple[Built, ...] = (
    Built.of("5.0", "7", "9.2", CUPY_DOCKERFILE),
    Built.of("8.0", "8", "10.2", CUPY_DOCKERFILE),
    Built.of("9.0", "9", "11.2.2", CUPY_DOCKERFILE),
    Built.of("10.0", "10", "11.4.2", CUPY_DOCKERFILE),
    Built.of("11.0", "11", "11.7.0", CUPY_DOCKERFILE),
    Built.of("12.0", "12", "11.8.0", CUPY_DOCKERFILE),
    Built.of("13.0", "13", "12.2.0", CUPY_DOCKERFILE),
    Built.of("14.0", "14.2", "13.0.0", CUPY_DOCKERFILE),
)
"""cupy/cupy, on nvidia/cuda."""

SERVING_DOCKERFILE = "tensorflow/serving, tools/docker/Dockerfile.gpu of the release"
TENSORFLOW_SERVING: tuple[Built, ...] = (
    Built.of("1.9", "1.12", "9.0", SERVING_DOCKERFILE),
    Built.of("1.13", "2.1", "10.0", SERVING_DOCKERFILE),
    Built.of("2.2", "2.3", "10.1", SERVING_DOCKERFILE),
    Built.of("2.4", "2.4", "11.0", SERVING_DOCKERFILE),
    Built.of("2.5.1", "2.11", "11.2.1", SERVING_DOCKERFILE),
    Built.of("2.12", "2.14", "11.8.0", SERVING_DOCKERFILE),
    Built.of("2.15", "2.19", "12.2.0", SERVING_DOCKERFILE),
    Built.of("2.20", "2.20", "12.5.1", SERVING_DOCKERFILE),
)
"""tensorflow/serving with -gpu, on nvidia/cuda."""

RAPIDS_MATRIX = "rapidsai/docker, matrix.yaml of the release"
RAPIDS: Mapping[str, tuple[str, ...]] = {
    "25.12": ("12.9.1", "13.0.2"),
    "26.02": ("12.9.1", "13.1.0"),
    "26.04": ("12.9.1", "13.1.1"),
    "26.06": ("12.9.1", "13.2.0"),
}
"""The CUDA of nvidia/cuda below rapidsai/base and rapidsai/notebooks, since their tags name its first number alone."""

PRODUCTS: Mapping[str, tuple[Built, ...]] = {
    "nvidia/nemo": NEMO,
    "nvidia/nemo-rl": NEMO_RL,
    "nvidia/nemo-automodel": NEMO_AUTOMODEL,
    "nvidia/nemo-curator": NEMO_CURATOR,
    "nvidia/clara/bionemo-framework": BIONEMO,
    "nvidia/tensorrt-llm/release": TENSORRT_LLM,
    "nvidia/deepstream": DEEPSTREAM,
    "nvidia/clara-holoscan/holoscan": HOLOSCAN,
    "nvidia/physicsnemo/physicsnemo": PHYSICSNEMO,
    "nim/meta/llama-*": NIM_LLM,
    "gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev": TCPXO_PLUGIN,
    "gpudirect-tcpxo/tcpgpudmarxd-dev": TCPXO_DAEMON,
    "jupyter-pytorch-cuda of Kubeflow": KUBEFLOW_PYTORCH,
    "jupyter-tensorflow-cuda of Kubeflow": KUBEFLOW_TENSORFLOW,
    "kubeflow/trainer/deepspeed-runtime, mlx-runtime": KUBEFLOW_RUNTIME,
    "kubeflow/trainer/xgboost-runtime": KUBEFLOW_XGBOOST,
    "kubeflow/trainer/torchtune-trainer": KUBEFLOW_TORCHTUNE,
    "cupy/cupy": CUPY,
    "tensorflow/serving with -gpu": TENSORFLOW_SERVING,
}
"""By the images as people know them."""
