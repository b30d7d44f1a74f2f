"""How the tags of one family of images are read, where the words in them are not enough.

A reader sees a name whose tag speaks neither of a CPU build nor of another vendor.
"""

import re
from dataclasses import replace

from webhook.cuda.forward_compat import Base
from webhook.cuda.image_reading import Name, Reading, by_words, is_cuda, without_cuda
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
"""Containers of the monthly releases of which nobody has read where they begin."""


def nvidia_cuda(name: Name) -> Reading:
    """nvidia/cuda: the tag begins with the version of the toolkit."""
    cuda = _leading(_TOOLKIT, name.tag)
    found = (Reading(BuiltFor.CUDA, cuda, name.of_tag) if cuda else by_words(name, BuiltFor.CUDA)).on(Base.CUDA)
    return replace(found, build=KernelBuild.USER)


def like_nvidia_cuda(name: Name) -> Reading:
    """A repository called cuda elsewhere: a copy, if its tags have the form of nvidia/cuda's."""
    cuda = _leading(_WHOLE_TOOLKIT, name.tag)
    return Reading(BuiltFor.CUDA, cuda, name.of_tag, Base.RELATED, build=KernelBuild.USER) if cuda else by_words(name)


def of_no_family(name: Name, toolkits: frozenset[str]) -> Reading:
    """An image of no family that is known: its words, and a tag that has the whole form of nvidia/cuda's.

    Such a tag is that of the base, if that CUDA is among the known `toolkits`; what stands on the base is not known.
    """
    found = _LIKE_NVIDIA_CUDA.match(name.tag)
    if found is not None and found[1] in toolkits:
        return Reading(BuiltFor.CUDA, parse_version(found[1]), name.of_tag, Base.RELATED)
    return by_words(name)


def cuda_samples(name: Name) -> Reading:
    """k8s/cuda-sample and nvidia/samples: NVIDIA's samples, one of them in each image."""
    return replace(by_words(name, BuiltFor.CUDA).on(Base.RELATED), build=KernelBuild.CUDA_SAMPLES)


def ngc_release(name: Name) -> Reading:
    """A monthly release of NVIDIA: the month tells the CUDA, unless the tag does."""
    found = by_words(name, BuiltFor.CUDA).on(Base.NGC)
    month = month_of(name.tag)
    if month is None or found.kind is not BuiltFor.CUDA:
        return found
    if found.cuda is None:
        cuda, is_verified = monthly_cuda(month, name.tag)
        notes = () if cuda else (f"no table knows the CUDA of {name.of_tag}",)
        found = replace(found, cuda=cuda, evidence=name.of_tag, is_verified=is_verified, notes=notes)
    if name.last == "tensorrt":
        found = replace(found, is_verified=False)
    return _with_floor(found, monthly_release(month), name)


def _with_floor(found: Reading, release: MonthlyRelease | None, name: Name) -> Reading:
    """The compute capability that the framework begins at; clients (-sdk) have no kernels."""
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


def like_ngc_release(name: Name) -> Reading:
    """A repository with the name of an NVIDIA framework elsewhere: a copy, if its tags have the form of NVIDIA's."""
    return ngc_release(name) if _MONTHLY.match(name.tag) else by_words(name)


def merlin(name: Name) -> Reading:
    """nvidia/merlin/*: a bare month is Merlin's own, and not that of its base."""
    return ngc_release(name) if _MONTHLY.match(name.tag) else by_words(name, BuiltFor.CUDA).on(Base.NGC)


def pytorch(name: Name) -> Reading:
    """pytorch/pytorch: the CUDA stands in the tag; runtime images have theirs from pip, older ones from conda."""
    words = name.tag.replace("_", "-").split("-")
    base = Base.CUDA if "devel" in words else Base.PLAIN if "runtime" in words else Base.UNKNOWN
    found = replace(by_words(name, BuiltFor.CUDA).on(base), build=KernelBuild.PYTORCH_OF_CONDA)
    torch = version_of(name.tag)
    if found.cuda is None or found.cuda.parts != (12, 8) or torch is None or not torch.at_least(_TORCH_29):
        return found
    return replace(found, floor=Version((7, 0)), is_floor_verified=torch.parts[:2] == _TORCH_29.parts)


_TORCH_29 = Version((2, 9))
"""Its builds for CUDA 12.8 begin at compute capability 7.0 (Comfy-Org/ComfyUI pull request 16438)."""


def rapids(name: Name) -> Reading:
    """rapidsai/*: built on nvidia/cuda, whose second number tags named up to 25.10; then the release tells it.

    Since 24.02 its libraries begin at compute capability 7.0 (rapidsai/rapids-cmake, set_architectures.cmake).
    """
    found = by_words(name, BuiltFor.CUDA)
    release = _RAPIDS_RELEASE.match(name.tag) if name.last in ("base", "notebooks") else None
    if found.cuda is not None and found.cuda.minor is None and release:
        known = map(parse_version, RAPIDS.get(release[1], ()))
        found = replace(found, cuda=next((cuda for cuda in known if cuda.major == found.cuda.major), found.cuda))
    if release and release[1] >= "24.02":
        found = replace(found, floor=Version((7, 0)))
    return found.on(Base.RELATED if found.cuda is not None and found.cuda.minor is not None else Base.UNKNOWN)


_RAPIDS_RELEASE = re.compile(r"([0-9]{2}\.[0-9]{2})-cuda", re.ASCII)
"""Not 26.04a, which is built every night."""


def google(name: Name) -> Reading:
    """Deep learning and Vertex AI containers of Google: the CUDA stands in the repository's name."""
    if name.last == "tf2-gpu.2-15" and not name.in_tag.versions:
        return Reading(BuiltFor.CUDA, Version((12,)), name.of_repository, Base.UNKNOWN)
    return by_words(name).on(Base.UNKNOWN)


def azure(name: Name) -> Reading:
    """azureml/*: the CUDA stands in the repository's name; MPI images without it are for the CPU."""
    is_mpi = name.last.startswith(("openmpi", "intelmpi"))
    return by_words(name, BuiltFor.NONE if is_mpi else BuiltFor.UNKNOWN).on(Base.UNKNOWN)


def infrastructure(name: Name) -> Reading:
    """Drivers, device plugins and exporters of NVIDIA: their versions are none of CUDA's, and they need none of it."""
    return Reading(BuiltFor.UNKNOWN, notes=(f"the version in {name.of_tag} is none of CUDA's",))


_NIM_LLM = re.compile(r"llama-?3(?:[.][0-9])?-[0-9]+b-(?:instruct|base)", re.ASCII)
_nim_llm = released(releases_of("nim-llm"), Base.FOREIGN, VERSION)


def nim(name: Name) -> Reading:
    """nim/<organisation>/<model>: the tag is the version of the service, and services count for themselves."""
    is_llm = name.parts[-2] == "meta" and _NIM_LLM.fullmatch(name.last) is not None
    return _nim_llm(name) if is_llm else by_words(name, BuiltFor.CUDA).on(Base.FOREIGN)


def nccl_tests(name: Name) -> Reading:
    """hpc-cloud/nccl-tests: cudaX.Y.Z stands in front since CUDA 12.8; before, all were built with 12.2.

    cuda-compat is removed from the later ones.
    """
    found = replace(by_words(name, BuiltFor.CUDA).on(Base.UNKNOWN), build=KernelBuild.NCCL_TESTS_OF_AWS)
    is_early = found.cuda is None and name.tag.startswith("efa1.3")
    return replace(found, cuda=Version((12, 2)), evidence=name.of_tag) if is_early else found


def cuda_vector_add(name: Name) -> Reading:
    """cuda-vector-add of Kubernetes: 8.0 at first; nobody has read what later versions are built with.

    Source: kubernetes/kubernetes, test/images/nvidia-cuda/Dockerfile (v1.7) and test/images/cuda-vector-add/BASEIMAGE.
    """
    cuda = Version((8, 0)) if name.tag in ("v0.1", "1.0") else None
    return Reading(BuiltFor.CUDA, cuda, name.of_tag, Base.RELATED, build=KernelBuild.CUDA_SAMPLES)


def tensorflow_benchmarks(name: Name) -> Reading:
    """mpioperator/tensorflow-benchmarks: `latest` is on horovod's image for CUDA 10.1.

    Source: kubeflow/mpi-operator, examples/v2beta1/tensorflow-benchmarks/Dockerfile (since 2021).
    """
    cuda = Version((10, 1)) if name.tag == "latest" else None
    return Reading(BuiltFor.CUDA, cuda, name.of_tag, Base.UNKNOWN)


def driver_only(name: Name) -> Reading:
    """Images that use the driver of the node, or nothing of a GPU at all, whatever their base says of CUDA."""
    return replace(without_cuda(name.of_tag), outweighs_configuration=True)


def _leading(pattern: re.Pattern[str], tag: str) -> Version | None:
    """The CUDA version that the tag begins with, None where it begins with something else."""
    found = pattern.match(tag)
    parts = tuple(map(int, found[1].split("."))) if found else ()
    return Version(parts) if is_cuda(parts) else None
