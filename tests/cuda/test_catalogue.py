"""Products with versions of their own: the CUDA that tables know, and the tags that they leave open."""

from itertools import pairwise

import pytest

from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.families import look_up
from webhook.cuda.need import BuiltFor, Compat
from webhook.cuda.releases import RAPIDS, RELEASES
from webhook.model.image import ImageConfig, ImageInfo, parse_reference
from webhook.model.versions import parse_version

TOOLKITS = SHIPPED.toolkits

NGC, GCE = "nvcr.io/nvidia", "us-docker.pkg.dev/gce-ai-infra"
KUBEFLOW = "ghcr.io/kubeflow"
NIM = "nvcr.io/nim"


def looked_up(image):
    return look_up(parse_reference(image))


@pytest.mark.parametrize(
    ("image", "cuda"),
    [
        (f"{NGC}/nemo:24.07", "12"),
        (f"{NGC}/nemo:25.09", "12.9.1"),
        (f"{NGC}/nemo:25.11.01", "13.0.1"),
        (f"{NGC}/nemo:26.04.00", "13.1.1"),
        (f"{NGC}/nemo:26.06", "13.2.1"),
        (f"{NGC}/nemo-rl:v0.4.0", "12.9.0"),
        (f"{NGC}/nemo-rl:v0.7.0", "13.2.0"),
        (f"{NGC}/nemo-automodel:26.06.00", "13.2.1"),
        (f"{NGC}/nemo-curator:25.09", "12.8.1"),
        (f"{NGC}/clara/bionemo-framework:2.3", "12.6.3"),
        (f"{NGC}/clara/bionemo-framework:2.6", "12.8.0"),
        (f"{NGC}/clara/bionemo-framework:2.6.3", "12.9.1"),
        (f"{NGC}/tensorrt-llm/release:0.20.0", "12.9.0"),
        (f"{NGC}/tensorrt-llm/release:1.0.0", "12.9.1"),
        (f"{NGC}/tensorrt-llm/release:1.1.0.post1", "13.0.2"),
        (f"{NGC}/tensorrt-llm/release:1.2.0", "13.1.0"),
        (f"{NGC}/deepstream:6.4-gc-triton-devel", "12.2"),
        (f"{NGC}/deepstream:7.1-triton-multiarch", "12.6"),
        (f"{NGC}/deepstream:8.0-samples-multiarch", "12.8.1"),
        (f"{NGC}/clara-holoscan/holoscan:v3.10.0-cuda13", "13"),
        (f"{NGC}/clara-holoscan/holoscan:v3.6.0-cuda12-dgpu", "12"),
        (f"{NGC}/physicsnemo/physicsnemo:25.03", "12.8.0"),
        (f"{NGC}/quantum/cuda-quantum:cu12-0.9.1", "12"),
        (f"{NGC}/nightly/cuda-quantum:cu13-latest", "13"),
        (f"{NIM}/meta/llama-3.1-8b-instruct:1.3.3", "12.6.1"),
        (f"{NIM}/meta/llama3-70b-instruct:1.3.0", "12.6.1"),
        (f"{GCE}/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:v1.0.15", "12.8.0"),
        (f"{GCE}/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.21", "12.0.0"),
        (f"{GCE}/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-nightly-cuda12.0:2024_03_04", "12.0"),
        ("public.ecr.aws/hpc-cloud/nccl-tests:cuda12.8.1-efa1.42.0-ofiv1.16.0-ncclv2.27.5-1-testsv2.16.4", "12.8.1"),
        ("public.ecr.aws/hpc-cloud/nccl-tests:efa1.33.0-ofiv1.9.2-aws-ncclv2.21.5-1-testsv2.13.9", "12.2"),
        ("kubeflownotebookswg/jupyter-pytorch-cuda-full:v1.9.2", "12.1"),
        (f"{KUBEFLOW}/kubeflow/notebook-servers/jupyter-pytorch-cuda:v1.10.0", "12.4"),
        (f"{KUBEFLOW}/kubeflow/notebook-servers/jupyter-tensorflow-cuda-full:v1.10.0", "12.3"),
        ("kubeflownotebookswg/jupyter-tensorflow-cuda:v1.8.0", "11.8"),
        (f"{KUBEFLOW}/trainer/deepspeed-runtime:v2.1.0", "12.8.1"),
        (f"{KUBEFLOW}/trainer/mlx-runtime:v2.3.0", "13.3.0"),
        (f"{KUBEFLOW}/trainer/xgboost-runtime:v2.2.1", "12.4.0"),
        (f"{KUBEFLOW}/trainer/torchtune-trainer:v2.0.0", "12.8"),
        ("mpioperator/tensorflow-benchmarks:latest", "10.1"),
        ("cupy/cupy:v7.8.0", "9.2"),
        ("cupy/cupy:v13.4.1", "12.2.0"),
        ("tensorflow/serving:1.15.0-gpu", "10.0"),
        ("tensorflow/serving:2.14.1-gpu", "11.8.0"),
        ("tensorflow/serving:2.19.0-devel-gpu", "12.2.0"),
        ("k8s.gcr.io/cuda-vector-add:v0.1", "8.0"),
        ("registry.k8s.io/e2e-test-images/cuda-vector-add:1.0", "8.0"),
    ],
)
def test_the_version_of_a_product_tells_the_cuda_that_it_is_built_with(image, cuda):
    found = looked_up(image)
    assert (found.kind, str(found.cuda), found.is_verified) == (BuiltFor.CUDA, cuda, True)


@pytest.mark.parametrize(
    ("image", "cuda"),
    [
        pytest.param(f"{NGC}/clara-holoscan/holoscan:v2.9.0-dgpu", "12.6.0", id="on a base whose CUDA nobody has read"),
        pytest.param(f"{NGC}/physicsnemo/physicsnemo:25.06", "12.9.0", id="by its date"),
        pytest.param(f"{NIM}/meta/llama-3.2-1b-instruct:1.8.4", "12.6", id="by the driver that it asks for"),
    ],
)
def test_unverified_versions_stay_marked(image, cuda):
    found = looked_up(image)
    assert (str(found.cuda), found.is_verified) == (cuda, False)


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(f"{NGC}/nemo:25.10", id="a month between two"),
        pytest.param(f"{NGC}/nemo:26.08", id="a month beyond the table"),
        pytest.param(f"{NGC}/nemo:25.11.rc2", id="a candidate"),
        pytest.param(f"{NGC}/nemo:25.09.nemotron_3_nano", id="for one model"),
        pytest.param(f"{NGC}/nemo:dev", id="without a month"),
        pytest.param(f"{NGC}/nemo-automodel:26.04.00", id="a month on either of two bases"),
        pytest.param(f"{NGC}/clara/bionemo-framework:nightly", id="every night's"),
        pytest.param(f"{NGC}/tensorrt-llm/release:1.1.0rc2", id="a candidate of TensorRT-LLM"),
        pytest.param(f"{NGC}/tensorrt-llm/release:1.3.0", id="a version beyond the table"),
        pytest.param(f"{NGC}/modulus/modulus:24.12", id="a month that nobody has read"),
        pytest.param(f"{NGC}/deepstream:6.0-triton", id="a version before the table"),
        pytest.param(f"{NGC}/riva/riva-speech:2.19.0", id="a product that nobody has read"),
        pytest.param(f"{NIM}/meta/llama-3.1-8b-instruct:1.10.1", id="a service between two rows"),
        pytest.param(f"{NIM}/meta/llama-3.2-11b-vision-instruct:1.3.0", id="a service with versions of its own"),
        pytest.param(f"{NIM}/nvidia/nv-embedqa-e5-v5:1.3.0", id="another one of NVIDIA"),
        pytest.param(f"{GCE}/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:v1.0.8-1", id="an older plug-in"),
        pytest.param(f"{GCE}/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev:v3.1.9", id="the plug-in of another network"),
        pytest.param(f"{GCE}/gpudirect-gib/nccl-plugin-gib-diagnostic:v1.1.1", id="the tests of a third"),
        pytest.param("public.ecr.aws/hpc-cloud/nccl-tests:latest", id="whatever is latest"),
        pytest.param("kubeflownotebookswg/jupyter-pytorch-cuda:latest", id="the latest notebook"),
        pytest.param("cupy/cupy:latest", id="the latest CuPy"),
        pytest.param("cupy/cupy:v15.0.0", id="a CuPy beyond the table"),
        pytest.param("tensorflow/serving:2.14.1", id="for the CPU"),
        pytest.param("tensorflow/serving:2.5.0-gpu", id="a release between two"),
        pytest.param(f"{KUBEFLOW}/trainer/xgboost-runtime:latest", id="the latest runtime"),
        pytest.param("registry.k8s.io/e2e-test-images/cuda-vector-add:2.3", id="a later sample"),
        pytest.param("mcr.microsoft.com/azuredocs/samples-tf-mnist-demo:gpu", id="a sample of Azure"),
    ],
)
def test_other_tags_leave_the_version_open(image):
    assert looked_up(image).cuda is None


@pytest.mark.parametrize(
    "image",
    [
        f"{NGC}/k8s-device-plugin:v0.20.0",
        f"{NGC}/k8s/dcgm-exporter:4.6.0-4.8.3-distroless",
        f"{NGC}/k8s/container-toolkit:v1.20.0",
        f"{NGC}/cloud-native/k8s-mig-manager:v0.15.0",
        "mcr.microsoft.com/oss/nvidia/k8s-device-plugin:v0.14.1",
        "nvidia/dcgm-exporter:3.1.7-3.1.4-ubuntu20.04",
        "k8s.gcr.io/nvidia-gpu-device-plugin:1.0",
        "gcr.io/gke-release/nvidia-partition-gpu:1",
        f"{GCE}/gpudirect-gib/nccl-plugin-gib:v1.1.1",
        f"{GCE}/gpudirect-gib/nccl-plugin-gib-arm64:v1.1.0",
        f"{KUBEFLOW}/trainer/dataset-initializer:v2.1.0",
        f"{KUBEFLOW}/kubeflow/notebook-servers/jupyter-scipy:v1.10.0",
        "kubeflownotebookswg/codeserver-python:v1.9.2",
        "mpioperator/mpi-pi:openmpi",
    ],
)
def test_images_that_use_only_the_driver_or_no_gpu_need_no_cuda(image):
    found = looked_up(image)
    assert (found.kind, found.cuda) == (BuiltFor.NONE, None)


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(f"{NGC}/gpu-operator:v26.3.0", id="runs a kernel to validate GPUs"),
        pytest.param(f"{NGC}/cloud-native/gpu-operator-validator:v25.3.0", id="so does its validator"),
        pytest.param(f"{NGC}/cloud-native/dcgm:4.6.0-1-ubuntu24.04", id="has kernels for diagnosis"),
        pytest.param("registry.corp/trainer/model-initializer:v2.1.0", id="a name that anybody may use"),
        pytest.param(f"{GCE}/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.9", id="a daemon that nobody has read"),
        pytest.param(f"{GCE}/gpudirect-gib/nccl-gib-a4x-max-arm64:v1.1.1", id="an installer with its tests"),
    ],
)
def test_images_that_may_need_cuda_are_not_said_to_need_none(image):
    assert looked_up(image).kind is not BuiltFor.NONE


def configured(**env):
    return ImageContext(info=ImageInfo(config=ImageConfig("sha256:0", env)))


def test_the_base_of_an_exporter_does_not_tell_its_need():
    """dcgm-exporter is on nvidia/cuda, and reads the driver."""
    need = need_of("registry.corp/nvidia/dcgm-exporter:4.6.0-4.8.3-ubuntu22.04", configured(CUDA_VERSION="13.2.1"))
    assert (need.kind, need.cuda) == (BuiltFor.NONE, None)


def test_the_configuration_of_other_images_for_the_cpu_still_counts():
    need = need_of("registry.corp/kubeflownotebookswg/jupyter-scipy:v1.9.2", configured(CUDA_VERSION="12.4.1"))
    assert (need.kind, str(need.cuda)) == (BuiltFor.CUDA, "12.4.1")


def test_aws_removed_cuda_compat_from_its_tests_of_nccl():
    found = looked_up("public.ecr.aws/hpc-cloud/nccl-tests:cuda12.8.1-efa1.42.0")
    assert found.base.compat is not Compat.YES


WENT_BACK = {"text-embeddings-inference", "llama-cpp", "ollama", "localai-12", "localai-11"}
"""Products that were once built with an older CUDA than the release before."""


@pytest.mark.parametrize(("product", "rows"), RELEASES.items(), ids=RELEASES)
def test_rows_stand_in_order_and_their_cuda_was_released(product, rows):
    assert all(TOOLKITS.toolkits_of(row.cuda) for row in rows)
    for before, after in pairwise(rows):
        assert before.last is not None
        assert not before.covers(after.first)
        assert after.first.at_least(before.last)
        assert after.cuda.at_least(before.cuda.cut(len(after.cuda.parts))) or product in WENT_BACK


def test_every_release_of_rapids_has_one_version_of_each_cuda():
    for release, versions in RAPIDS.items():
        majors = [parse_version(cuda).major for cuda in versions]
        assert majors == sorted(set(majors)), release
        assert all(TOOLKITS.toolkits_of(parse_version(cuda)) for cuda in versions), release
