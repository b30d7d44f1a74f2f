"""Readers for families of images whose release tells the CUDA: those with a list of releases, and model servers.

A CUDA version in the tag comes first. The list of releases counts only for tags in the form that it covers, because a
suffix after the release may mean another build.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from webhook.cuda.forward_compat import Base
from webhook.cuda.image_reading import ImageName, Reader, Reading, read_words, without_cuda
from webhook.cuda.kernels import KernelBuild
from webhook.cuda.need import BuiltFor
from webhook.cuda.releases import ReleaseRange, built_with, releases_of, version_of
from webhook.model.versions import Version

RELEASE = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:\.post[0-9]+)?", re.ASCII)
"""Tags that are a release and nothing else."""
VERSION = re.compile(r"v?[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}", re.ASCII)
"""Tags that are a version of two or three numbers and nothing else. Other tags are other builds."""
AT_THE_BEGINNING = re.compile(r"v?[0-9]+\.[0-9].*", re.ASCII)
"""Tags that begin with a release, with any suffix."""


def tags_like(form: str) -> re.Pattern[str]:
    """The pattern of a form, in which {release} and {version} stand for the patterns above."""
    return re.compile(form.replace("{release}", RELEASE.pattern).replace("{version}", VERSION.pattern), re.ASCII)


def of_release(table: tuple[ReleaseRange, ...], name: ImageName, tag: str = "") -> Reading:
    """What the table says about the release in a tag. The default is the tag of the name."""
    row = built_with(table, tag or name.tag)
    if row is None:
        return Reading(BuiltFor.CUDA, None, name.tag_evidence)
    return Reading(
        BuiltFor.CUDA, row.cuda, name.tag_evidence, is_verified=row.is_verified, architectures=row.architectures
    )


def released(
    table: tuple[ReleaseRange, ...], base: Base, tags: re.Pattern[str] = RELEASE, otherwise: BuiltFor = BuiltFor.CUDA
) -> Reader:
    """A reader for a family: the words of a tag, or else the table, for tags in the form `tags`.

    `otherwise` is the kind of an image whose words say nothing. For a version that the table lacks, the base counts as
    unknown, unless it is NVIDIA's common base.
    """

    def words(name: ImageName) -> Reading:
        found = read_words(name, otherwise)
        return found.on(base if found.cuda is not None or base is Base.NGC else Base.FOREIGN)

    return released_by([(tags, table)], base, words)


def released_by(
    forms: Sequence[tuple[re.Pattern[str], tuple[ReleaseRange, ...]]], base: Base, otherwise: Reader
) -> Reader:
    """A reader for a family whose tags have several forms, each with a table. `otherwise` reads the words of the tag.

    The table tells the CUDA where the words say none, and its minor number where they say the major one alone.
    """

    def read(name: ImageName) -> Reading:
        words = otherwise(name)
        if words.kind in (BuiltFor.NONE, BuiltFor.OTHER) or words.notes:
            return words
        for form, table in forms:
            if tag := form.fullmatch(name.tag):
                row = of_release(table, name, tag.groupdict().get("release") or name.tag).on(base)
                cuda = words.cuda
                if row.cuda is not None and (cuda is None or (cuda.minor is None and cuda.major == row.cuda.major)):
                    return row
                return replace(words, architectures=row.architectures)
        return words

    return read


def of_gpu_tags(table: tuple[ReleaseRange, ...], tags: re.Pattern[str] = AT_THE_BEGINNING) -> Reader:
    """A reader for a family built on nvidia/cuda, whose images have CUDA only if their tag has -gpu."""

    def read(name: ImageName) -> Reading:
        if name.tag_words.versions:
            return read_words(name)
        if not name.tag_words.has_gpu:
            return without_cuda(name.tag_evidence)
        found = of_release(table, name) if tags.fullmatch(name.tag) else read_words(name)
        return found.on(Base.CUDA) if found.cuda else found

    return read


_RELEASE_WITH_V = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)
_SGLANG = re.compile(rf"{RELEASE.pattern}(?:-runtime)?", re.ASCII)
_NOTEBOOK = re.compile(r"tensorflow-(?P<release>[0-9.]+)-notebook-gpu", re.ASCII)

_HUGGINGFACE_SERVER_FOR_CPU = Version((0, 15))
"""The first release whose image without -gpu is for the CPU (KServe's huggingface_server_cpu.Dockerfile)."""
_WITH_NEWER_PYTORCH = Version((3, 3, 1))
"""The first text-generation-inference whose PyTorch is built for CUDA 12.8, with code for newer GPUs than its base."""


def vllm(name: ImageName) -> Reading:
    """vllm/vllm-openai: -cuNNN tells the CUDA, or else the version. Its kernels begin at compute capability 7.0.

    Some of its own kernels have PTX. It needs the kernels of PyTorch, which come from pip.
    """
    differs = "arm64" in name.tag_words.architectures and built_with(releases_of("vllm-for-arm"), name.tag) is not None
    found = (_VLLM_FOR_ARM if differs else _VLLM)(name).on(Base.CUDA)
    return replace(found, floor=Version((7, 0)), build=KernelBuild.PYTORCH_OF_PIP)


def like_vllm(name: ImageName) -> Reading:
    """A repository called vllm-openai in another place: a copy or an image on top, if its tags begin with a release.

    Only copies certainly have vLLM's versions. Those of lmcache/vllm-openai are LMCache's, whose 0.5.4 has vLLM 0.27.1
    (issue 5101 of LMCache/LMCache), and mirrors seldom keep the organisation.
    """
    if not _RELEASE_WITH_V.match(name.tag):
        return read_words(name, BuiltFor.CUDA)
    if name.parts[-2:-1] == _COPIES_OF_VLLM or name.tag_words.versions:
        return vllm(name).on(Base.RELATED)
    return Reading(BuiltFor.CUDA, evidence=name.tag_evidence, base=Base.RELATED)


_COPIES_OF_VLLM = ("aibrix",)


def on_vllm(name: ImageName) -> Reading:
    """aibrix/vllm-openai-aibrix-kvcache: built on the vLLM of its tag."""
    return vllm(name).on(Base.RELATED)


def sglang(name: ImageName) -> Reading:
    """lmsysorg/sglang: -cuNNN tells the CUDA, or else the release. gb200 is a machine with Arm processors."""
    words = name.tag.split("-")
    if "xeon" in words:
        return without_cuda(name.tag_evidence)
    found = replace(_SGLANG_RELEASED(name).on(Base.CUDA), build=KernelBuild.PYTORCH_OF_PIP)
    return replace(found, architectures=("arm64",)) if "gb200" in words or "gb300" in words else found


def text_generation_inference(name: ImageName) -> Reading:
    """huggingface/text-generation-inference: the version tells the CUDA, except for builds with another engine."""
    if "trtllm" in name.tag or "llamacpp" in name.tag:
        return Reading(BuiltFor.CUDA, None, name.tag_evidence)
    found, version = _TEXT_GENERATION(name).on(Base.RELATED), version_of(name.tag)
    if version is None:
        return found
    return found if version.at_least(_WITH_NEWER_PYTORCH) else replace(found, build=KernelBuild.PYTORCH_OF_CONDA)


def kaito(name: ImageName) -> Reading:
    """aks/kaito/*: kaito-base and the model images have PyTorch and vLLM from pip, on a Python image."""
    if not name.last.startswith("kaito-") or "rag" in name.last:
        return read_words(name)
    table = releases_of("kaito-base") if name.last == "kaito-base" else releases_of("kaito-models")
    return released(table, Base.PLAIN)(name)


def huggingface_server(name: ImageName) -> Reading:
    """kserve/huggingfaceserver: images with -gpu have CUDA. Before there were images for the CPU, all had CUDA."""
    if name.tag_words.has_gpu or name.tag_words.versions:
        return _HUGGINGFACE_SERVER(name)
    version = version_of(name.tag)
    if version is not None and version.at_least(_HUGGINGFACE_SERVER_FOR_CPU):
        return without_cuda(name.tag_evidence)
    found = of_release(releases_of("old-huggingface-server"), name)
    return found.on(Base.RELATED) if found.cuda else read_words(name)


def kubeflow_images_public(name: ImageName) -> Reading:
    """kubeflow-images-public/tensorflow-X.Y.Z-notebook-gpu: the CUDA for which this TensorFlow is built."""
    found = _NOTEBOOK.fullmatch(name.last)
    if found is None:
        return read_words(name)
    return replace(of_release(releases_of("tensorflow"), name, found["release"]), evidence=name.repository_evidence)


_VLLM_FOR_ARM = released(releases_of("vllm-for-arm"), Base.CUDA, AT_THE_BEGINNING)
_VLLM = released(releases_of("vllm"), Base.CUDA, AT_THE_BEGINNING)
_SGLANG_RELEASED = released(releases_of("sglang"), Base.CUDA, _SGLANG)
_TEXT_GENERATION = released(releases_of("text-generation-inference"), Base.RELATED, AT_THE_BEGINNING)
_HUGGINGFACE_SERVER = released(
    releases_of("huggingface-server"), Base.UNKNOWN, re.compile(rf"{RELEASE.pattern}(?:-rc[0-9])?-gpu", re.ASCII)
)
