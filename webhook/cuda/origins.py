"""Who built the code in the images of each family, or why nobody can say: a row for every family of the tables.

A row speaks of the family's own kernels. Whoever builds on an image adds others, under another name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.cuda.image_reading import Name
from webhook.cuda.kernels import KernelBuild


@dataclass(frozen=True, slots=True)
class Origin:
    """Families with code from the same place.

    `families` are the last two parts of the path, the last one alone, or a namespace with /* behind it; where nothing
    is known, other * stand for any text too. `note` is why it is not known, or what else there is to say. Families
    are `by_tag` where their reader decides, because it looks at the form of the tag as well.
    """

    families: tuple[str, ...]
    build: KernelBuild
    note: str = ""
    by_tag: bool = False


def _origin(families: str, build: KernelBuild, note: str = "", *, by_tag: bool = False) -> Origin:
    return Origin(tuple(families.split()), build, note, by_tag)


ORIGINS: tuple[Origin, ...] = (
    _origin("vllm/vllm-openai vllm-openai", KernelBuild.PYTORCH_OF_PIP, "some of its own have PTX", by_tag=True),
    _origin("lmsysorg/sglang", KernelBuild.PYTORCH_OF_PIP, by_tag=True),
    _origin("jupyter/pytorch-notebook jupyter-pytorch-cuda jupyter-pytorch-cuda-full", KernelBuild.PYTORCH_OF_PIP),
    _origin("rayproject/ray-llm", KernelBuild.PYTORCH_OF_PIP, "with vLLM (ray-project/ray, docker/ray-llm/Dockerfile)"),
    _origin("anyscale/ray-llm", KernelBuild.PYTORCH_OF_PIP, "with vLLM (ray-project/ray-llm, Dockerfile)"),
    _origin("pytorch/torchserve", KernelBuild.PYTORCH_OF_PIP, "(pytorch/serve, docker/Dockerfile)"),
    _origin(
        "kserve/huggingfaceserver", KernelBuild.PYTORCH_OF_PIP, "(kserve/kserve, python/huggingface_server.Dockerfile)"
    ),
    _origin(
        "llm-d/llm-d llm-d/llm-d-dev llm-d/llm-d-cuda llm-d/llm-d-aws llm-d/llm-d-gke",
        KernelBuild.PYTORCH_OF_PIP,
        "with vLLM (llm-d/llm-d, docker/Dockerfile.cuda)",
    ),
    _origin(
        "kaito/*",
        KernelBuild.PYTORCH_OF_PIP,
        "with vLLM (kaito-project/kaito, docker/presets/models/tfs/Dockerfile)",
    ),
    _origin(
        "vllm-openai-aibrix-kvcache vllm-openai-aibrix-kvcache-nixl sglang-aibrix-kvcache sglang-aibrix-kvcache-nixl",
        KernelBuild.PYTORCH_OF_PIP,
        "on vLLM and SGLang (vllm-project/aibrix, python/aibrix_kvcache/integration)",
    ),
    _origin("pytorch/pytorch", KernelBuild.PYTORCH_OF_CONDA, by_tag=True),
    _origin(
        "huggingface/text-generation-inference",
        KernelBuild.PYTORCH_OF_CONDA,
        "not with another engine: -trtllm, -llamacpp; from 3.3.1 on PyTorch is newer than the base, and not known",
        by_tag=True,
    ),
    _origin("nvidia/pytorch", KernelBuild.PYTORCH_OF_NVIDIA),
    _origin(
        "nvidia/nemo clara/bionemo-framework physicsnemo/physicsnemo modulus/modulus",
        KernelBuild.PYTORCH_OF_NVIDIA,
        "on nvidia/pytorch",
    ),
    _origin(
        "tensorflow/tensorflow jupyter/tensorflow-notebook jupyter-tensorflow-cuda jupyter-tensorflow-cuda-full",
        KernelBuild.TENSORFLOW,
    ),
    _origin("nvidia/jax", KernelBuild.JAX_OF_NVIDIA),
    _origin("rapidsai/base rapidsai/notebooks", KernelBuild.RAPIDS),
    _origin("nvidia/samples k8s/cuda-sample cuda-vector-add", KernelBuild.CUDA_SAMPLES, by_tag=True),
    _origin("hpc-cloud/nccl-tests", KernelBuild.NCCL_TESTS_OF_AWS, by_tag=True),
    _origin("gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev", KernelBuild.NCCL_OF_TCPXO),
    _origin(
        "nvidia/cuda nvidia/cudagl nvidia/cuda-arm64 nvidia/cuda-ppc64le",
        KernelBuild.USER,
        "only libraries",
        by_tag=True,
    ),
    _origin("cuda cudagl nvidia-cuda nvidia_cuda", KernelBuild.USER, "copies of nvidia/cuda", by_tag=True),
    _origin("nvidia/cuda-dl-base", KernelBuild.USER, "libraries for the containers of NVIDIA's frameworks"),
    _origin(
        "nvidia/tensorflow nvidia/mxnet nvidia/paddlepaddle",
        KernelBuild.UNKNOWN,
        "NVIDIA's builds; nobody has read their flags",
    ),
    _origin(
        "nvidia/vllm nvidia/sglang",
        KernelBuild.UNKNOWN,
        "built on nvidia/pytorch, which has PTX; nobody has read the flags of their own kernels",
    ),
    _origin(
        "nvidia/tritonserver nvidia/tensorrtserver nvidia/tensorrt sagemaker-tritonserver",
        KernelBuild.UNKNOWN,
        "TensorRT is not open, and what runs comes with the model",
    ),
    _origin(
        "pytorch tensorflow tritonserver jax mxnet paddlepaddle vllm sglang",
        KernelBuild.UNKNOWN,
        "copies of NVIDIA's, or images on top of them",
    ),
    _origin("tensorflow/serving", KernelBuild.UNKNOWN, "nobody has read its flags"),
    _origin(
        "openmmlab/lmdeploy ggml-org/llama.cpp ggerganov/llama.cpp",
        KernelBuild.UNKNOWN,
        "kernels of their own, whose flags nobody has read for each release",
    ),
    _origin(
        "xprobe/xinference deepjavalibrary/djl-serving michaelf34/infinity predibase/lorax horovod/horovod",
        KernelBuild.UNKNOWN,
        "several engines or frameworks in one image; nobody has read all flags",
    ),
    _origin(
        "pytorch-mnist-gpu darts-cnn-cifar10-gpu enas-cnn-cifar10-gpu",
        KernelBuild.UNKNOWN,
        "examples of Katib, on images of NVIDIA, PyTorch or TensorFlow by their release",
    ),
    _origin(
        "kubeflow-images-public/*", KernelBuild.UNKNOWN, "old notebooks and servers, whose TensorFlow nobody has read"
    ),
    _origin(
        "cupy/cupy",
        KernelBuild.UNKNOWN,
        "its own kernels are compiled when they run (cupy/cuda/compiler.py); those of its libraries are not open",
    ),
    _origin("huggingface/text-embeddings-inference", KernelBuild.TEXT_EMBEDDINGS),
    _origin(
        "rayproject/ray rayproject/ray-ml",
        KernelBuild.UNKNOWN,
        "on nvidia/cuda; Ray has no kernels, and what is installed beside it nobody has read",
    ),
    _origin("paddlepaddle/paddle", KernelBuild.UNKNOWN, "nobody has read its flags"),
    _origin("jupyter/*", KernelBuild.UNKNOWN, "without CUDA; a copy that has it is somebody's own"),
    _origin(
        "*-training *-inference *-training-arm64 *-inference-arm64 *-inference-graviton deep-learning-containers/*",
        KernelBuild.UNKNOWN,
        "builds of Amazon's own, whose flags are not published",
    ),
    _origin(
        "deeplearning-platform-release/* vertex-ai/*",
        KernelBuild.UNKNOWN,
        "builds of Google's, with a framework in the name",
    ),
    _origin("azureml/* acpt/*", KernelBuild.UNKNOWN, "their Dockerfiles have left Azure/AzureML-Containers"),
    _origin("rapidsai/*", KernelBuild.UNKNOWN, "other images of RAPIDS, some of which only build it"),
    _origin("merlin/* ai-dynamo/*", KernelBuild.UNKNOWN, "several engines in one image; nobody has read all flags"),
    _origin(
        "gpudirect-tcpxo/tcpgpudmarxd-dev", KernelBuild.UNKNOWN, "it moves memory; nobody has read whether by kernels"
    ),
    _origin(
        "gpudirect-tcpxo/* gpudirect-tcpx/* gpudirect-gib/*",
        KernelBuild.UNKNOWN,
        "plug-ins of NCCL, their daemons and tests, whose Dockerfiles are not published",
    ),
    _origin(
        "nvidia/nemo-automodel nvidia/nemo-curator",
        KernelBuild.UNKNOWN,
        "with kernels of many others, of which nobody has read all flags",
    ),
    _origin("nvidia/nemo-rl", KernelBuild.UNKNOWN, "wheels of pip for CUDA 12.8 and later, and kernels of its own"),
    _origin(
        "tensorrt-llm/release",
        KernelBuild.UNKNOWN,
        "built on nvidia/pytorch; its own kernels are for the GPUs that it names",
    ),
    _origin(
        "clara-holoscan/holoscan nvidia/deepstream riva/riva-speech",
        KernelBuild.UNKNOWN,
        "on TensorRT, which is not open",
    ),
    _origin(
        "trainer/deepspeed-runtime trainer/mlx-runtime trainer/xgboost-runtime trainer/torchtune-trainer",
        KernelBuild.UNKNOWN,
        "wheels of PyPI, which may be for another CUDA than the image's",
    ),
    _origin("mpioperator/tensorflow-benchmarks", KernelBuild.UNKNOWN, "nobody has read the flags of TensorFlow 2.3"),
    _origin(
        "nim/*",
        KernelBuild.UNKNOWN,
        "engines for the GPUs of the model's support matrix; others are built when it starts",
    ),
)
"""Every family that may have CUDA, each in one row."""


_BUILDS: Mapping[str, KernelBuild] = {
    family: origin.build for origin in ORIGINS if not origin.by_tag for family in origin.families
}


def build_of(name: Name) -> KernelBuild:
    """Who built the code in an image, by its name alone."""
    parts = name.parts
    places = ("/".join(parts[-2:]), parts[-1], *(f"{part}/*" for part in reversed(parts[-3:-1])))
    return next((_BUILDS[place] for place in places if place in _BUILDS), KernelBuild.UNKNOWN)
