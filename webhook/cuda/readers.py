"""Readers for families of images whose tags need more than their words to be understood.

A reader is called only for a name whose tag says neither a CPU build nor another vendor.
"""

import re
from dataclasses import replace

from webhook.cuda.forward_compat import Base
from webhook.cuda.image_reading import ImageName, Reading, is_cuda, read_words, without_cuda
from webhook.cuda.kernels import KernelBuild
from webhook.cuda.need import BuiltFor
from webhook.cuda.release_readers import VERSION, released
from webhook.cuda.releases import (
    RAPIDS,
    MonthlyRelease,
    month_of,
    monthly_cuda,
    monthly_release,
    releases_of,
    version_of,
)
from webhook.model.versions import Version, parse_version

_TOOLKIT = re.compile(r"v?([0-9]{1,2}(?:\.[0-9]{1,2}(?:\.[0-9]{1,4})?)?)(?=[-_]|\Z)", re.ASCII)
_WHOLE_TOOLKIT = re.compile(
    r"([0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,4})?)(?:-cudnn[0-9.]*)?(?:-tensorrt)?-(?:base|runtime|devel)(?![a-z0-9])",
    re.ASCII,
)
_LIKE_NVIDIA_CUDA = re.compile(
    r"([0-9]{1,2}\.[0-9]\.[0-9])(?:-cudnn[0-9.]*)?(?:-tensorrt)?-(?:base|runtime|devel)"
    r"-(?:ubuntu|ubi|rockylinux|centos|opensuse|oraclelinux|amzn|azl|cm)[0-9.]+(?![a-z0-9])",
    re.ASCII,
)
"""Tags of nvidia/cuda in full: X.Y.Z-[cudnn-]{base,runtime,devel}-distribution."""
_MONTHLY = re.compile(r"[12][0-9]\.[01][0-9](?:\.[0-9]{1,2})?-(?:tf[12]-)?py3(?![a-z0-9])", re.ASCII)

_WITHOUT_FRAMEWORK = frozenset(("cuda-dl-base", "tensorrt"))
"""Monthly containers whose least compute capability nobody has read."""


def nvidia_cuda(name: ImageName) -> Reading:
    """nvidia/cuda: the tag begins with the version of the toolkit."""
    cuda = _leading(_TOOLKIT, name.tag)
    found = (Reading(BuiltFor.CUDA, cuda, name.tag_evidence) if cuda else read_words(name, BuiltFor.CUDA)).on(Base.CUDA)
    return replace(found, build=KernelBuild.USER)


def like_nvidia_cuda(name: ImageName) -> Reading:
    """A repository called cuda in another place: a copy, if its tags have the form of nvidia/cuda's tags."""
    cuda = _leading(_WHOLE_TOOLKIT, name.tag)
    return (
        Reading(BuiltFor.CUDA, cuda, name.tag_evidence, Base.RELATED, build=KernelBuild.USER)
        if cuda
        else read_words(name)
    )


def of_no_family(name: ImageName, toolkits: frozenset[str]) -> Reading:
    """An image of no known family: its words, and a tag in the full form of nvidia/cuda's tags.

    Such a tag is that of the base if its CUDA is among the known `toolkits`. What was added to the base is not known.
    """
    found = _LIKE_NVIDIA_CUDA.match(name.tag)
    if found is not None and found[1] in toolkits:
        return Reading(BuiltFor.CUDA, parse_version(found[1]), name.tag_evidence, Base.RELATED)
    return read_words(name)


def cuda_samples(name: ImageName) -> Reading:
    """k8s/cuda-sample and nvidia/samples: NVIDIA's samples, one in each image."""
    return replace(read_words(name, BuiltFor.CUDA).on(Base.RELATED), build=KernelBuild.CUDA_SAMPLES)


def ngc_release(name: ImageName) -> Reading:
    """A monthly release of NVIDIA: the tag tells the CUDA, or else the month."""
    found = read_words(name, BuiltFor.CUDA).on(Base.NGC)
    month = month_of(name.tag)
    if month is None or found.kind is not BuiltFor.CUDA:
        return found
    if found.cuda is None:
        cuda, is_verified = monthly_cuda(month, name.tag)
        notes = () if cuda else (f"no table knows the CUDA of {name.tag_evidence}",)
        found = replace(found, cuda=cuda, evidence=name.tag_evidence, is_verified=is_verified, notes=notes)
    if name.last == "tensorrt":
        found = replace(found, is_verified=False)
    return _with_floor(found, monthly_release(month), name)


def _with_floor(found: Reading, release: MonthlyRelease | None, name: ImageName) -> Reading:
    """The reading with the least compute capability of the framework. Clients (-sdk) have no kernels."""
    if release is None or name.tag.endswith("-sdk"):
        return found
    if name.last in _WITHOUT_FRAMEWORK:
        return replace(found, floor=release.floor, is_floor_verified=False)
    return replace(
        found,
        floor=release.floor,
        is_floor_verified=release.is_floor_verified,
        certain_floor=release.certain_floor,
    )


def like_ngc_release(name: ImageName) -> Reading:
    """A repository named like an NVIDIA framework: a copy, if its tags have the form of NVIDIA's tags."""
    return ngc_release(name) if _MONTHLY.match(name.tag) else read_words(name)


def merlin(name: ImageName) -> Reading:
    """nvidia/merlin/*: a bare month is Merlin's own, not that of its base."""
    return ngc_release(name) if _MONTHLY.match(name.tag) else read_words(name, BuiltFor.CUDA).on(Base.NGC)


def pytorch(name: ImageName) -> Reading:
    """pytorch/pytorch: the tag has the CUDA. Runtime images have theirs from pip, older ones from conda."""
    words = name.tag.replace("_", "-").split("-")
    base = Base.CUDA if "devel" in words else Base.PLAIN if "runtime" in words else Base.UNKNOWN
    torch = version_of(name.tag)
    has_wheels = torch is not None and torch.at_least(_FIRST_OF_WHEELS)
    build = KernelBuild.PYTORCH_OF_PIP if has_wheels else KernelBuild.PYTORCH_OF_CONDA
    return replace(read_words(name, BuiltFor.CUDA).on(base), build=build)


_FIRST_OF_WHEELS = Version((2, 6))
"""Images since then certainly have wheels (pytorch/pytorch pull request 134274): it is the first without packages of
conda."""


def rapids(name: ImageName) -> Reading:
    """rapidsai/*: built on nvidia/cuda. Tags have its minor version up to 25.10; later the release tells it.

    Since 24.02 its libraries begin at compute capability 7.0 (rapidsai/rapids-cmake, set_architectures.cmake).
    """
    found = read_words(name, BuiltFor.CUDA)
    release = _RAPIDS_RELEASE.match(name.tag) if name.last in ("base", "notebooks") else None
    if found.cuda is not None and found.cuda.minor is None and release:
        known = map(parse_version, RAPIDS.get(release[1], ()))
        found = replace(found, cuda=next((cuda for cuda in known if cuda.major == found.cuda.major), found.cuda))
    if release and release[1] >= "24.02":
        found = replace(found, floor=Version((7, 0)))
    return found.on(Base.RELATED if found.cuda is not None and found.cuda.minor is not None else Base.UNKNOWN)


_RAPIDS_RELEASE = re.compile(r"([0-9]{2}\.[0-9]{2})-cuda", re.ASCII)
"""Not 26.04a, which is built every night."""


def google(name: ImageName) -> Reading:
    """Deep learning and Vertex AI containers of Google: the repository's name has the CUDA."""
    if name.last == "tf2-gpu.2-15" and not name.tag_words.versions:
        return Reading(BuiltFor.CUDA, Version((12,)), name.repository_evidence, Base.UNKNOWN)
    return read_words(name).on(Base.UNKNOWN)


def azure(name: ImageName) -> Reading:
    """azureml/*: the repository's name has the CUDA. MPI images without one are for the CPU."""
    is_mpi = name.last.startswith(("openmpi", "intelmpi"))
    return read_words(name, BuiltFor.NONE if is_mpi else BuiltFor.UNKNOWN).on(Base.UNKNOWN)


def infrastructure(name: ImageName) -> Reading:
    """Drivers, device plugins and exporters of NVIDIA: their versions are not CUDA versions, and they need no CUDA."""
    return Reading(BuiltFor.UNKNOWN, notes=(f"the version in {name.tag_evidence} is none of CUDA's",))


_NIM_LLM = re.compile(r"llama-?3(?:[.][0-9])?-[0-9]+b-(?:instruct|base)", re.ASCII)
_nim_llm = released(releases_of("nim-llm"), Base.FOREIGN, VERSION)


def nim(name: ImageName) -> Reading:
    """nim/<organisation>/<model>: the tag is the version of the service; each service has versions of its own."""
    is_llm = name.parts[-2] == "meta" and _NIM_LLM.fullmatch(name.last) is not None
    return _nim_llm(name) if is_llm else read_words(name, BuiltFor.CUDA).on(Base.FOREIGN)


def nccl_tests(name: ImageName) -> Reading:
    """hpc-cloud/nccl-tests: tags begin with cudaX.Y.Z since CUDA 12.8; earlier images were built with 12.2.

    Later images have no cuda-compat.
    """
    found = replace(read_words(name, BuiltFor.CUDA).on(Base.UNKNOWN), build=KernelBuild.NCCL_TESTS_OF_AWS)
    is_early = found.cuda is None and name.tag.startswith("efa1.3")
    return replace(found, cuda=Version((12, 2)), evidence=name.tag_evidence) if is_early else found


def cuda_vector_add(name: ImageName) -> Reading:
    """cuda-vector-add of Kubernetes: CUDA 8.0 at first. Nobody has read the CUDA of later versions.

    Source: kubernetes/kubernetes, test/images/nvidia-cuda/Dockerfile (v1.7) and test/images/cuda-vector-add/BASEIMAGE.
    """
    cuda = Version((8, 0)) if name.tag in ("v0.1", "1.0") else None
    return Reading(BuiltFor.CUDA, cuda, name.tag_evidence, Base.RELATED, build=KernelBuild.CUDA_SAMPLES)


def tensorflow_benchmarks(name: ImageName) -> Reading:
    """mpioperator/tensorflow-benchmarks: `latest` is built on horovod's image for CUDA 10.1.

    Source: kubeflow/mpi-operator, examples/v2beta1/tensorflow-benchmarks/Dockerfile (since 2021).
    """
    cuda = Version((10, 1)) if name.tag == "latest" else None
    return Reading(BuiltFor.CUDA, cuda, name.tag_evidence, Base.UNKNOWN)


def driver_only(name: ImageName) -> Reading:
    """Images that use only the driver of the node, or no GPU at all, whatever CUDA their base has."""
    return replace(without_cuda(name.tag_evidence), outweighs_configuration=True)


def _leading(pattern: re.Pattern[str], tag: str) -> Version | None:
    """The CUDA version that the tag begins with; None if it begins with none."""
    found = pattern.match(tag)
    parts = tuple(map(int, found[1].split("."))) if found else ()
    return Version(parts) if is_cuda(parts) else None
