"""Families of images that products, clouds and projects publish under versions of their own, and how they are read."""

import re
from collections.abc import Mapping
from dataclasses import replace

from webhook.cuda.bases import Base
from webhook.cuda.image_reading import Name, Reader, Reading, by_words, without_cuda
from webhook.cuda.kernels import KernelBuild
from webhook.cuda.need import BuiltFor
from webhook.cuda.readers import worded
from webhook.cuda.release_readers import released as released_as
from webhook.cuda.releases import Built, releases_of
from webhook.model.versions import Version

_CUDA = worded(BuiltFor.CUDA)
_CPU = worded(BuiltFor.NONE)


def _released(
    table: tuple[Built, ...], base: Base = Base.FOREIGN, ending: str = "", otherwise: BuiltFor = BuiltFor.CUDA
) -> Reader:
    """A reader for tags that are a version, maybe with this ending, and no more: others are built apart."""
    form = re.compile(rf"v?[0-9]{{1,4}}(?:\.[0-9]{{1,4}}){{1,2}}{ending}", re.ASCII)
    return released_as(table, base, form, otherwise)


_NIM_LLM = re.compile(r"llama-?3(?:[.][0-9])?-[0-9]+b-(?:instruct|base)", re.ASCII)
_nim_llm = _released(releases_of("nim-llm"))


def nim(name: Name) -> Reading:
    """nim/<organisation>/<model>: the tag is the version of the service, and services count for themselves."""
    is_llm = name.parts[-2] == "meta" and _NIM_LLM.fullmatch(name.last) is not None
    return _nim_llm(name) if is_llm else _CUDA(name)


def _nccl_tests(name: Name) -> Reading:
    """hpc-cloud/nccl-tests: cudaX.Y.Z stands in front since CUDA 12.8; before, all were built with 12.2.

    cuda-compat is removed from the later ones.
    """
    found = replace(by_words(name, BuiltFor.CUDA).on(Base.UNKNOWN), build=KernelBuild.NCCL_TESTS_OF_AWS)
    is_early = found.cuda is None and name.tag.startswith("efa1.3")
    return replace(found, cuda=Version((12, 2)), evidence=name.of_tag) if is_early else found


def _cuda_vector_add(name: Name) -> Reading:
    """cuda-vector-add of Kubernetes: 8.0 at first; nobody has read what later versions are built with.

    Source: kubernetes/kubernetes, test/images/nvidia-cuda/Dockerfile (v1.7) and test/images/cuda-vector-add/BASEIMAGE.
    """
    cuda = Version((8, 0)) if name.tag in ("v0.1", "1.0") else None
    return Reading(BuiltFor.CUDA, cuda, name.of_tag, Base.RELATED, build=KernelBuild.CUDA_SAMPLES)


def _tensorflow_benchmarks(name: Name) -> Reading:
    """mpioperator/tensorflow-benchmarks: `latest` is on horovod's image for CUDA 10.1.

    Source: kubeflow/mpi-operator, examples/v2beta1/tensorflow-benchmarks/Dockerfile (since 2021).
    """
    cuda = Version((10, 1)) if name.tag == "latest" else None
    return Reading(BuiltFor.CUDA, cuda, name.of_tag, Base.UNKNOWN)


def _needs_driver_only(name: Name) -> Reading:
    """Images that use the driver of the node, or nothing of a GPU at all, whatever their base says of CUDA."""
    return replace(without_cuda(name.of_tag), outweighs_configuration=True)


def _of_kubeflow(reader: Reader) -> Reader:
    """The reader, for kubeflow/trainer/*; elsewhere such names may mean anything."""

    def read(name: Name) -> Reading:
        return reader(name) if name.parts[-3:-1] == ("kubeflow", "trainer") else by_words(name)

    return read


def _under(places: str, names: str, reader: Reader) -> Mapping[str, Reader]:
    return {f"{place}/{name}": reader for place in places.split() for name in names.split()}


_OPERATOR = """
    container-toolkit dcgm-exporter dra-driver-nvidia-gpu gpu-feature-discovery k8s-cc-manager k8s-device-plugin
    k8s-dra-driver-gpu k8s-driver-manager k8s-mig-manager kubevirt-gpu-device-plugin vgpu-device-manager
"""
"""Of NVIDIA, for clusters. Source: the Dockerfiles of NVIDIA/k8s-device-plugin, dcgm-exporter,
nvidia-container-toolkit, mig-parted, k8s-driver-manager, k8s-dra-driver-gpu, gpu-feature-discovery,
kubevirt-gpu-device-plugin, vgpu-device-manager and k8s-cc-manager (2026-08): no kernels, and NVIDIA_DISABLE_REQUIRE or
no CUDA. gpu-operator and its validator bring a kernel, which they run, and are not among them."""
_OF_GKE = "fastsocket-installer nri-device-injector nvidia-gpu-device-plugin nvidia-partition-gpu"
"""Source: the Dockerfiles of GoogleCloudPlatform/container-engine-accelerators (2026-06)."""
_OF_GIB = "nccl-plugin-gib nccl-plugin-gib-arm64"
"""They copy the plug-in to the node; the tests are in others. Source: gpudirect-rdma/nccl-rdma-installer*.yaml of the
same."""
_OF_TRAINER = "data-cache dataset-initializer model-initializer trainer-controller-manager"
"""Source: kubeflow/trainer, cmd, Dockerfiles (v2.0 to v2.3)."""
_OF_MPI = "base intel intel-builder mpi-operator mpi-pi mpich mpich-builder openmpi openmpi-builder"
"""Source: kubeflow/mpi-operator, Dockerfiles of build/base and examples/v2beta1/pi (2026-07)."""
_OF_NOTEBOOKS = """
    codeserver codeserver-python jupyter-pytorch jupyter-pytorch-full jupyter-scipy rstudio rstudio-tidyverse
"""
"""For the CPU. Source: kubeflow/kubeflow, components/example-notebook-servers (v1.8 to v1.10)."""

BY_END: Mapping[str, Reader] = {
    "nvidia/nemo": _released(releases_of("nemo"), Base.NGC, r"(?:\.framework)?"),
    "nvidia/nemo-rl": _released(releases_of("nemo-rl"), Base.NGC),
    "nvidia/nemo-automodel": _released(releases_of("nemo-automodel"), Base.NGC),
    "nvidia/nemo-curator": _released(releases_of("nemo-curator"), Base.RELATED),
    "clara/bionemo-framework": _released(releases_of("bionemo"), Base.NGC),
    "tensorrt-llm/release": _released(releases_of("tensorrt-llm"), Base.NGC, r"(?:\.post[0-9]+)?"),
    "clara-holoscan/holoscan": _released(releases_of("holoscan"), Base.RELATED, "-dgpu"),
    "physicsnemo/physicsnemo": _released(releases_of("physicsnemo"), Base.NGC),
    "modulus/modulus": worded(BuiltFor.CUDA, Base.NGC),
    "nvidia/deepstream": _released(releases_of("deepstream"), Base.RELATED, "-[a-z0-9-]+"),
    "riva/riva-speech": _CUDA,
    "gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev": _released(
        releases_of("tcpxo-plugin"), Base.RELATED, "(?:-[0-9])?"
    ),
    "gpudirect-tcpxo/tcpgpudmarxd-dev": _released(releases_of("tcpxo-daemon"), Base.RELATED),
    "hpc-cloud/nccl-tests": _nccl_tests,
    "trainer/deepspeed-runtime": _of_kubeflow(_released(releases_of("kubeflow-runtime"), Base.CUDA)),
    "trainer/mlx-runtime": _of_kubeflow(_released(releases_of("kubeflow-runtime"), Base.CUDA)),
    "trainer/xgboost-runtime": _of_kubeflow(_released(releases_of("kubeflow-xgboost"), Base.CUDA)),
    "trainer/torchtune-trainer": _of_kubeflow(_released(releases_of("kubeflow-torchtune"), Base.PLAIN)),
    "mpioperator/tensorflow-benchmarks": _tensorflow_benchmarks,
    "cupy/cupy": _released(releases_of("cupy"), Base.CUDA),
    "tensorflow/serving": _released(releases_of("tensorflow-serving"), Base.CUDA, "-(?:devel-)?gpu", BuiltFor.NONE),
}
"""By the last two parts of the path."""


BY_NAME: Mapping[str, Reader] = {
    "cuda-vector-add": _cuda_vector_add,
    **dict.fromkeys(
        ("jupyter-pytorch-cuda", "jupyter-pytorch-cuda-full"), _released(releases_of("kubeflow-pytorch"), Base.UNKNOWN)
    ),
    **dict.fromkeys(
        ("jupyter-tensorflow-cuda", "jupyter-tensorflow-cuda-full"),
        _released(releases_of("kubeflow-tensorflow"), Base.UNKNOWN),
    ),
}
"""By the last part of the path."""

BY_NAMESPACE: Mapping[str, Reader] = {
    "gpudirect-gib": _CUDA,
    "gpudirect-tcpx": _CUDA,
    "gpudirect-tcpxo": _CUDA,
}
"""By one of the two parts before the last."""

WITHOUT_CUDA_BY_END: Mapping[str, Reader] = {
    **_under("nvidia k8s cloud-native", _OPERATOR, _needs_driver_only),
    **_under("gpudirect-gib", _OF_GIB, _CPU),
    **_under("trainer", _OF_TRAINER, _of_kubeflow(_CPU)),
    **_under("mpioperator", _OF_MPI, _CPU),
    **_under("kubeflownotebookswg notebook-servers", _OF_NOTEBOOKS, _CPU),
}
"""Images that need no CUDA, by the last two parts of the path."""

WITHOUT_CUDA_BY_NAME: Mapping[str, Reader] = dict.fromkeys(_OF_GKE.split(), _needs_driver_only)
"""By the last part of the path."""
