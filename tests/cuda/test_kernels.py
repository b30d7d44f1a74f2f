"""On a GPU newer than its CUDA, an image without PTX does not run, and any other image is unknown."""

import pytest

from webhook.cuda.checks import Verdict
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.kernels import KernelBuild, Kernels
from webhook.cuda.offer import offer_from
from webhook.cuda.verdict import judge
from webhook.model.versions import parse_version

B200 = {"product": "NVIDIA-B200", "driver": "570.133.20"}
H100 = {"product": "NVIDIA-H100-80GB-HBM3", "driver": "570.133.20"}
NO, MAYBE, YES = Verdict.INCOMPATIBLE, Verdict.UNKNOWN, Verdict.COMPATIBLE


@pytest.mark.parametrize(
    ("image", "node", "verdict"),
    [
        pytest.param("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", B200, NO, id="PyTorch for CUDA 12"),
        pytest.param("pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime", B200, NO, id="PyTorch for CUDA 12.6"),
        pytest.param("pytorch/pytorch:2.7.0-cuda12.8-cudnn9-runtime", B200, YES, id="PyTorch that knows the GPU"),
        pytest.param("pytorch/pytorch:1.12.1-cuda11.3-cudnn8-runtime", H100, MAYBE, id="PyTorch of conda for CUDA 11"),
        pytest.param("vllm/vllm-openai:v0.6.3", B200, NO, id="vLLM"),
        pytest.param("registry.corp/mirror/vllm/vllm-openai:v0.6.3", B200, NO, id="vLLM in a mirror"),
        pytest.param("lmsysorg/sglang:v0.4.1-cu124", B200, NO, id="SGLang"),
        pytest.param("ghcr.io/huggingface/text-generation-inference:2.4.0", B200, NO, id="Text Generation Inference"),
        pytest.param(
            "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04", B200, MAYBE, id="NVIDIA's samples"
        ),
        pytest.param("nvcr.io/nvidia/k8s/cuda-sample:nbody-cuda11.7.1", H100, MAYBE, id="older samples"),
        pytest.param("nvidia/cuda:12.4.1-base-ubuntu22.04", B200, MAYBE, id="a base image"),
        pytest.param("registry.corp/cuda:12.4.1-devel-ubuntu22.04", B200, MAYBE, id="a copy of a base image"),
        pytest.param("nvcr.io/nvidia/pytorch:24.07-py3", B200, MAYBE, id="NVIDIA's PyTorch"),
        pytest.param("nvcr.io/nvidia/tritonserver:24.07-py3", B200, MAYBE, id="NVIDIA's framework containers"),
        pytest.param("vllm/vllm-openai:v0.7.3", B200, NO, id="vLLM with PyTorch 2.5"),
        pytest.param("kubeflownotebookswg/jupyter-pytorch-cuda-full:v1.9.2", B200, NO, id="notebooks with wheels"),
        pytest.param("quay.io/jupyter/pytorch-notebook:cuda11-latest", B200, NO, id="wheels for some CUDA 11"),
        pytest.param("quay.io/jupyter/pytorch-notebook:cuda12-latest", B200, MAYBE, id="wheels for some CUDA 12"),
        pytest.param("rayproject/ray-llm:2.44.0-py311-cu124", B200, NO, id="vLLM in Ray"),
        pytest.param("rayproject/ray:2.44.0-py311-cu124", B200, MAYBE, id="Ray alone"),
        pytest.param("rapidsai/base:24.12-cuda12.5-py3.12", B200, MAYBE, id="RAPIDS"),
        pytest.param(
            "public.ecr.aws/hpc-cloud/nccl-tests:efa1.36.0-ofiv1.12.1-aws-ncclv2.23.4-1-testsv2.13.10",
            B200,
            NO,
            id="NCCL that does not know the GPU",
        ),
        pytest.param(
            "public.ecr.aws/hpc-cloud/nccl-tests:cuda12.8.1-efa1.42.0-ofiv1.16.0-ncclv2.27.5-1-testsv2.16.4",
            B200,
            YES,
            id="NCCL that knows the GPU",
        ),
        pytest.param("tensorflow/tensorflow:2.14.0-gpu", B200, MAYBE, id="TensorFlow"),
        pytest.param("registry.corp/team/app:cuda12.4", B200, MAYBE, id="anybody's"),
    ],
)
def test_an_image_is_incompatible_with_a_newer_gpu_only_if_it_certainly_has_no_ptx(image, node, verdict):
    assert judge(need_of(image, ImageContext()), offer_from(**node)).verdict is verdict


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        pytest.param(
            "pytorch/torchserve:0.12.0-gpu",
            "the image brings no PTX, which the driver could compile",
            id="no PTX",
        ),
        pytest.param(
            "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04",
            "the image brings PTX, which the driver compiles, but perhaps not all its code has PTX",
            id="PTX",
        ),
        pytest.param(
            "nvidia/cuda:12.4.1-base-ubuntu22.04",
            "the image brings no kernels, and it is not known whether those that are added to it have PTX",
            id="no kernels",
        ),
        pytest.param(
            "nvcr.io/nvidia/tritonserver:24.07-py3",
            "it is not known whether the image brings PTX, which the driver compiles",
            id="unknown",
        ),
    ],
)
def test_the_reason_says_what_is_known_of_the_kernels(image, reason):
    found = judge(need_of(image, ImageContext()), offer_from(**B200)).reason
    assert found.startswith("CUDA 12.")
    assert found.endswith(f"has no code for compute capability 10.0 (NVIDIA-B200), only CUDA 12.8 and newer; {reason}")


@pytest.mark.parametrize(
    ("build", "cuda", "kernels"),
    [
        pytest.param(KernelBuild.PYTORCH_OF_PIP, "11.8", Kernels.WITHOUT_PTX, id="wheels for CUDA 11"),
        pytest.param(KernelBuild.PYTORCH_OF_PIP, "10.2", Kernels.UNKNOWN, id="wheels of which nobody has read"),
        pytest.param(KernelBuild.PYTORCH_OF_PIP, "12.8", Kernels.UNKNOWN, id="wheels that may have PTX"),
        pytest.param(KernelBuild.PYTORCH_OF_PIP, "12", Kernels.UNKNOWN, id="wheels for some CUDA 12"),
        pytest.param(KernelBuild.PYTORCH_OF_PIP, None, Kernels.UNKNOWN, id="wheels for some CUDA"),
        pytest.param(KernelBuild.PYTORCH_OF_CONDA, "11.8", Kernels.UNKNOWN, id="conda has PTX for CUDA 11"),
        pytest.param(KernelBuild.PYTORCH_OF_CONDA, "12.1", Kernels.WITHOUT_PTX, id="conda for CUDA 12"),
        pytest.param(KernelBuild.TENSORFLOW, "12.2", Kernels.WITH_PTX, id="TensorFlow"),
        pytest.param(KernelBuild.TENSORFLOW, "11.2", Kernels.UNKNOWN, id="TensorFlow of which nobody has read"),
        pytest.param(KernelBuild.TENSORFLOW, "11", Kernels.UNKNOWN, id="TensorFlow for some CUDA 11"),
        pytest.param(KernelBuild.TEXT_EMBEDDINGS, "12.2", Kernels.WITHOUT_PTX, id="Text Embeddings Inference"),
        pytest.param(KernelBuild.TEXT_EMBEDDINGS, None, Kernels.UNKNOWN, id="Text Embeddings Inference for some CUDA"),
        pytest.param(KernelBuild.NCCL_TESTS_OF_AWS, None, Kernels.WITHOUT_PTX, id="tests of NCCL"),
        pytest.param(KernelBuild.CUDA_SAMPLES, None, Kernels.WITH_PTX, id="samples"),
        pytest.param(KernelBuild.USER, "12.4", Kernels.NONE, id="whoever builds on it"),
        pytest.param(KernelBuild.UNKNOWN, "12.4", Kernels.UNKNOWN, id="nobody knows"),
    ],
)
def test_the_code_of_a_build_depends_on_its_cuda(build, cuda, kernels):
    assert build.kernels(parse_version(cuda) if cuda else None) is kernels


def test_the_cuda_in_the_environment_counts_for_the_kernels():
    """Tags of SGLang need not name the CUDA."""
    need = need_of("lmsysorg/sglang:v0.4.1", ImageContext(env=(("CUDA_VERSION", "12.4.1"),)))
    assert need.kernels is Kernels.WITHOUT_PTX
