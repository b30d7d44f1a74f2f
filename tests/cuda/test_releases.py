"""Images whose tags are versions of a product, and the tables with its CUDA."""

from itertools import pairwise

import pytest

from webhook.cuda.compiled_code import Way
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.families import look_up
from webhook.cuda.kernels import Kernels
from webhook.cuda.need import BuiltFor, Compat
from webhook.cuda.releases import RELEASES
from webhook.model.image import parse_reference
from webhook.model.versions import parse_version

DYNAMO = "nvcr.io/nvidia/ai-dynamo"
LLM_D, KAITO = "ghcr.io/llm-d", "mcr.microsoft.com/aks/kaito"
TGI, TEI = "ghcr.io/huggingface/text-generation-inference", "ghcr.io/huggingface/text-embeddings-inference"
KATIB = "docker.io/kubeflowkatib"


def looked_up(image):
    return look_up(parse_reference(image))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param("vllm/vllm-openai:v0.4.1", "12.1", id="vLLM before 12.4"),
        pytest.param("vllm/vllm-openai:v0.4.2", "12.4", id="the first vLLM for 12.4"),
        pytest.param("vllm/vllm-openai:v0.9.0.1", "12.8", id="a fix of vLLM with four numbers"),
        pytest.param("vllm/vllm-openai:v0.11.0", "12.8", id="the last vLLM for 12.8"),
        pytest.param("vllm/vllm-openai:v0.11.1", "12.9", id="the first vLLM for 12.9"),
        pytest.param("vllm/vllm-openai:v0.11.0-aarch64", "12.9", id="that vLLM for Arm"),
        pytest.param("vllm/vllm-openai:v0.19.1-aarch64", "12.9", id="a vLLM that is the same for Arm"),
        pytest.param("vllm/vllm-openai:v0.31.0", "13.0", id="a recent vLLM"),
        pytest.param("registry.corp/vllm/vllm-openai:0.11.0", "12.8", id="a mirror of vLLM without the v"),
        pytest.param("lmsysorg/sglang:v0.5.5.post3", "12.9", id="SGLang for 12.9"),
        pytest.param("lmsysorg/sglang:v0.5.10.post1-runtime", "12.9", id="the last SGLang for 12.9, without compilers"),
        pytest.param("lmsysorg/sglang:v0.5.11", "13.0", id="the first SGLang for 13.0"),
        pytest.param("lmsysorg/sglang:v0.5.18-cu129", "12.9", id="a tag of SGLang that says more"),
        pytest.param(f"{TGI}:1.2.0", "12.1", id="the first TGI for 12.1"),
        pytest.param(f"{TEI}:1.8", "12.2", id="TEI"),
        pytest.param(f"{TEI}:turing-0.6.0", "12.0", id="TEI for Turing"),
        pytest.param(f"{TEI}:89-1.5.0-grpc", "12.2", id="TEI for Ada with gRPC"),
        pytest.param(f"{TEI}:hopper-1.9", "12.9", id="TEI for Hopper"),
        pytest.param(f"{TEI}:cuda-1.9.3", "12.9", id="TEI for several GPUs"),
        pytest.param("openmmlab/lmdeploy:v0.5.0", "11.8", id="LMDeploy on a month of NVIDIA's"),
        pytest.param("openmmlab/lmdeploy:v0.9.2.post1-cu12", "12.4", id="LMDeploy for some 12"),
        pytest.param("openmmlab/lmdeploy:v0.12.2-cu12", "12.6", id="a later LMDeploy for some 12"),
        pytest.param("openmmlab/lmdeploy:v0.6.0-cu11", "11.8", id="LMDeploy for 11"),
        pytest.param("openmmlab/lmdeploy:v0.16.0-cu12.8", "12.8", id="a tag of LMDeploy that says it"),
        pytest.param(f"{DYNAMO}/vllm-runtime:0.8.1", "12.9", id="Dynamo with vLLM"),
        pytest.param(f"{DYNAMO}/vllm-runtime:1.2.1-efa-amd64", "12.9", id="Dynamo with vLLM for EFA"),
        pytest.param(f"{DYNAMO}/vllm-runtime:1.4.2", "13.0", id="a recent Dynamo with vLLM"),
        pytest.param(f"{DYNAMO}/vllm-runtime:0.7.1", "12", id="Dynamo of which two pages differ"),
        pytest.param(f"{DYNAMO}/sglang-runtime:0.6.1.post1", "12.9", id="Dynamo with SGLang"),
        pytest.param(f"{DYNAMO}/sglang-runtime:1.1.1-cuda13", "13", id="a tag of Dynamo that says it"),
        pytest.param(f"{DYNAMO}/tensorrtllm-runtime:0.6.0", "12.9", id="Dynamo with TensorRT-LLM"),
        pytest.param(f"{DYNAMO}/tensorrtllm-runtime:0.9.1", "13.0", id="a later Dynamo with TensorRT-LLM"),
        pytest.param(f"{DYNAMO}/tensorrtllm-runtime:1.5.0", "13.1", id="a recent Dynamo with TensorRT-LLM"),
        pytest.param(f"{LLM_D}/llm-d:v0.2.0", "12.8", id="llm-d"),
        pytest.param(f"{LLM_D}/llm-d-dev:v0.2.2", "12.8", id="llm-d before its release"),
        pytest.param(f"{LLM_D}/llm-d-cuda:v0.3.1", "12.9", id="llm-d for CUDA"),
        pytest.param(f"{LLM_D}/llm-d-cuda:v0.9.0", "13.0", id="a later llm-d for CUDA"),
        pytest.param(f"{LLM_D}/llm-d-aws:v0.4.0", "12.8", id="llm-d for AWS"),
        pytest.param(f"{KAITO}/kaito-base:0.2.0", "12", id="KAITO"),
        pytest.param(f"{KAITO}/kaito-base:0.4.5", "12.9", id="a later KAITO"),
        pytest.param(f"{KAITO}/kaito-phi-4-mini-instruct:0.1.1", "12", id="KAITO with a model"),
        pytest.param("kserve/huggingfaceserver:v0.16.0-gpu", "12.8", id="KServe's server"),
        pytest.param("kserve/huggingfaceserver:v0.20.0-rc0-gpu", "13.3", id="a candidate of KServe's server"),
        pytest.param("kserve/huggingfaceserver:v0.13.0", "12.1", id="KServe's server when it had no CPU image"),
        pytest.param("xprobe/xinference:v1.5.0", "12.4", id="Xinference"),
        pytest.param("xprobe/xinference:v1.17.0-cu129", "12.9", id="a tag of Xinference that says it"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:server-cuda-b4719", "12.4.0", id="llama.cpp"),
        pytest.param("ghcr.io/ggerganov/llama.cpp:full-cuda-b4000", "12.6", id="an older llama.cpp"),
        pytest.param("anyscale/ray-llm:0.5.0", "12.1", id="RayLLM"),
        pytest.param("ghcr.io/predibase/lorax:0.12.1", "12.4", id="LoRAX"),
        pytest.param("michaelf34/infinity:0.0.76", "12.4", id="Infinity"),
        pytest.param("deepjavalibrary/djl-serving:0.35.0-lmi", "12.8", id="DJL Serving"),
        pytest.param("deepjavalibrary/djl-serving:0.27.0-deepspeed", "12.1", id="DJL Serving with DeepSpeed"),
        pytest.param(
            "gcr.io/kubeflow-images-public/tensorflow-1.14.0-notebook-gpu:v0.7.0", "10.0", id="an old notebook"
        ),
        pytest.param("rayproject/ray:2.40.0-py311-gpu", "12.1", id="Ray"),
        pytest.param("rayproject/ray:2.9.3-gpu", "11.8", id="an older Ray"),
        pytest.param("rayproject/ray:2.52.0-py312-gpu-aarch64", "12.1", id="Ray for Arm"),
        pytest.param("rayproject/ray:2.9.3-py310-cu121", "12.1", id="a tag of Ray that says it"),
        pytest.param("rayproject/ray-ml:2.9.0-py310", "11.8", id="ray-ml without a platform"),
        pytest.param("rayproject/ray-ml:2.46.0.0e19ea-py39-gpu", "12.1", id="ray-ml with a commit"),
        pytest.param("rayproject/ray-ml:2.49.2.deprecated-py311-gpu", "12.1", id="ray-ml at its end"),
        pytest.param("rayproject/ray-ml:2.3.1", "11.6", id="an older ray-ml"),
        pytest.param("pytorch/torchserve:0.8.2-gpu", "11.8", id="TorchServe"),
        pytest.param("horovod/horovod:0.28.1", "11.3", id="Horovod"),
        pytest.param("horovod/horovod:0.19.2-tf2.1.0-torch-mxnet1.6.0-py3.6-gpu", "10.1", id="an older Horovod"),
        pytest.param(f"{KATIB}/pytorch-mnist-gpu:v0.15.0", "11.8", id="Katib"),
        pytest.param("ghcr.io/kubeflow/katib/enas-cnn-cifar10-gpu:v0.19.0", "11.8", id="another example of Katib"),
        pytest.param("aibrix/vllm-openai-aibrix-kvcache:v0.10.2-20251022", "12.8", id="AIBrix on vLLM"),
        pytest.param("aibrix/sglang-aibrix-kvcache-nixl:v0.5.5.post3-nixl-v0.7.1", "12.9", id="AIBrix on SGLang"),
    ],
)
def test_the_version_in_a_tag_tells_the_cuda(image, expected):
    found = looked_up(image)
    assert (found.kind, str(found.cuda)) == (BuiltFor.CUDA, expected)


@pytest.mark.parametrize(
    "image",
    [
        pytest.param("vllm/vllm-openai:v0.99.0", id="a vLLM to come"),
        pytest.param("lmsysorg/sglang:v0.5.99", id="an SGLang to come"),
        pytest.param("lmsysorg/sglang:v0.4.6.post6", id="an SGLang of which no such image was built"),
        pytest.param("lmsysorg/sglang:v0.5.7-mooncake", id="a build of SGLang of its own"),
        pytest.param("lmsysorg/sglang:nightly-dev-20251215-4449c170", id="a night's SGLang"),
        pytest.param(f"{TGI}:4.0.0", id="a TGI to come"),
        pytest.param(f"{TEI}:2.0", id="a TEI to come"),
        pytest.param(f"{TEI}:89-latest", id="the latest TEI"),
        pytest.param("openmmlab/lmdeploy:v0.9.0", id="an LMDeploy of which no such image was built"),
        pytest.param(f"{DYNAMO}/vllm-runtime:2.0.0", id="a Dynamo to come"),
        pytest.param(f"{DYNAMO}/vllm-runtime:1.3.0-nemotron-ultra-dev.1", id="a Dynamo for one model"),
        pytest.param(f"{LLM_D}/llm-d-cuda:v0.7.0-rc.1", id="a candidate of llm-d"),
        pytest.param(f"{LLM_D}/llm-d-cuda:latest", id="the latest llm-d"),
        pytest.param(f"{KAITO}/kaito-base:1.0.0", id="a KAITO to come"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:server-cuda-b99999", id="a llama.cpp to come"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:server-cuda", id="the latest llama.cpp"),
        pytest.param("michaelf34/infinity:0.0.76-trt-onnx", id="an Infinity of its own"),
        pytest.param("xprobe/xinference:v0.14.0", id="on the latest of something else"),
        pytest.param("rayproject/ray:2.33.0-gpu", id="between two rows"),
        pytest.param("rayproject/ray:2.99.0-gpu", id="a Ray to come"),
        pytest.param("rayproject/ray:latest-py310-gpu", id="the latest Ray"),
        pytest.param("rayproject/ray-ml:nightly", id="a night's ray-ml"),
        pytest.param("lmcache/vllm-openai:v0.3.9", id="a version of LMCache, not of vLLM"),
    ],
)
def test_a_tag_without_a_row_has_an_unknown_cuda_version(image):
    found = looked_up(image)
    assert (found.kind, found.cuda) == (BuiltFor.CUDA, None)


@pytest.mark.parametrize(
    "image",
    [
        pytest.param("rayproject/ray:2.52.0-py312", id="Ray without a platform"),
        pytest.param("rayproject/ray-ml:2.9.0-cpu", id="ray-ml for the CPU"),
        pytest.param(f"{TEI}:cpu-1.8", id="TEI for the CPU"),
        pytest.param("kserve/huggingfaceserver:v0.16.0", id="KServe's server"),
        pytest.param("pytorch/torchserve:0.9.0-cpu", id="TorchServe"),
        pytest.param(f"{DYNAMO}/dynamo-frontend:1.3.0", id="the gateway of Dynamo"),
        pytest.param(f"{LLM_D}/llm-d-cpu:v0.9.0", id="llm-d for the CPU"),
    ],
)
def test_variants_for_the_cpu_need_no_cuda(image):
    assert looked_up(image).kind is BuiltFor.NONE


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(f"{KAITO}/workspace:0.4.6", id="a controller"),
        pytest.param(f"{KAITO}/ragengine:0.1.0", id="another controller"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:server", id="llama.cpp without a platform"),
    ],
)
def test_images_with_no_cuda_or_several_are_unknown(image):
    found = looked_up(image)
    assert (found.kind, found.cuda) == (BuiltFor.UNKNOWN, None)


@pytest.mark.parametrize(
    ("tag", "gpus"),
    [
        pytest.param("turing-1.8", "7.5", id="Turing"),
        pytest.param("cuda-1.8", "7.5 8.0 8.6 8.7 8.9 9.0", id="several"),
        pytest.param("cuda-1.9.1", "7.5 8.0 8.6 8.7 8.9 9.0 10.0 12.0", id="several and Blackwell"),
        pytest.param("1.8", "8.0 8.6 8.7 8.9", id="Ampere"),
        pytest.param("86-1.8", "8.6 8.7 8.9", id="A10"),
        pytest.param("89-1.8", "8.9", id="Ada"),
        pytest.param("hopper-latest", "9.0", id="Hopper"),
        pytest.param("120-1.9", "12.0", id="Blackwell"),
    ],
)
def test_text_embeddings_inference_runs_on_a_closed_list_of_gpus(tag, gpus):
    (library,) = looked_up(f"{TEI}:{tag}").libraries
    assert {str(one) for one in library.code if library.way(one) is Way.CODE} == set(gpus.split())
    others = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")
    assert {one for one in others if library.way(parse_version(one)) is not Way.NONE} <= set(gpus.split())


@pytest.mark.parametrize(
    ("image", "compat"),
    [
        pytest.param(f"{KAITO}/kaito-base:0.2.0", Compat.NO, id="on an image of Python"),
        pytest.param("openmmlab/lmdeploy:v0.5.0", Compat.YES, id="on a month of NVIDIA's"),
        pytest.param(f"{TEI}:1.8", Compat.YES, id="on nvidia/cuda"),
        pytest.param("kserve/huggingfaceserver:v0.19.0-gpu", Compat.UNKNOWN, id="on an image of Ubuntu"),
        pytest.param(f"{DYNAMO}/vllm-runtime:1.3.0", Compat.UNKNOWN, id="on a base that nobody has read"),
    ],
)
def test_the_base_of_a_release_tells_whether_cuda_compat_comes_with_it(image, compat):
    assert looked_up(image).base.compat is compat


@pytest.mark.parametrize(
    ("image", "kernels"),
    [
        pytest.param("rayproject/ray-ml:2.9.3-gpu", Kernels.UNKNOWN, id="ray-ml has more than PyTorch"),
        pytest.param("pytorch/torchserve:0.9.0-gpu", Kernels.WITHOUT_PTX, id="TorchServe has PyTorch of pip"),
        pytest.param(f"{TGI}:3.3.0", Kernels.WITHOUT_PTX, id="TGI with PyTorch for 12.4"),
        pytest.param(f"{TGI}:3.3.1", Kernels.UNKNOWN, id="TGI with PyTorch for 12.8"),
        pytest.param("openmmlab/lmdeploy:v0.9.2-cu12", Kernels.UNKNOWN, id="LMDeploy"),
    ],
)
def test_the_code_of_a_release_for_newer_gpus_is_known_or_left_open(image, kernels):
    assert need_of(image, ImageContext()).kernels is kernels


def test_an_image_of_an_unknown_version_may_have_ptx():
    """The PyTorch in the latest text-generation-inference is newer than its CUDA_VERSION."""
    need = need_of(f"{TGI}:latest", ImageContext(env=(("CUDA_VERSION", "12.4.0"),)))
    assert need.kernels is Kernels.UNKNOWN


@pytest.mark.parametrize("table", RELEASES.values(), ids=RELEASES)
def test_the_rows_of_a_table_stand_in_order_and_name_their_source(table):
    assert all(
        row.source and row.covers(row.first) and row.last.at_least(row.first.cut(len(row.last.parts))) for row in table
    )
    assert all(
        not earlier.covers(later.first) and later.first.at_least(earlier.first) for earlier, later in pairwise(table)
    )
