"""How tags are read whose release tells the CUDA: of any family with a list of releases, and of servers of models.

A tag that names its CUDA itself is believed first. A table is asked only for the tags that it is about: what else
follows the release in a tag may be a build of its own.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from webhook.cuda.forward_compat import Base
from webhook.cuda.image_reading import Name, Reader, Reading, by_words, without_cuda
from webhook.cuda.kernels import KernelBuild
from webhook.cuda.need import BuiltFor
from webhook.cuda.releases import ReleaseRange, built_with, releases_of, version_of
from webhook.model.versions import Version

RELEASE = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:\.post[0-9]+)?", re.ASCII)
"""Tags that are a release and nothing else."""
VERSION = re.compile(r"v?[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}", re.ASCII)
"""Tags that are a version of two or three numbers and nothing else: others are built apart."""
AT_THE_BEGINNING = re.compile(r"v?[0-9]+\.[0-9].*", re.ASCII)
"""Tags that begin with a release, whatever follows."""


def tags_like(form: str) -> re.Pattern[str]:
    """The tags of a form, in which {release} and {version} stand for those above."""
    return re.compile(form.replace("{release}", RELEASE.pattern).replace("{version}", VERSION.pattern), re.ASCII)


def of_release(table: tuple[ReleaseRange, ...], name: Name, tag: str = "") -> Reading:
    """What the table says of the release in a tag, that of the name where no other is given."""
    row = built_with(table, tag or name.tag)
    verified = row is None or row.is_verified
    return Reading(BuiltFor.CUDA, row.cuda if row else None, name.of_tag, is_verified=verified)


def released(
    table: tuple[ReleaseRange, ...], base: Base, tags: re.Pattern[str] = RELEASE, otherwise: BuiltFor = BuiltFor.CUDA
) -> Reader:
    """A reader for a family: the words of its tags, else the table for `tags`.

    `otherwise` is what images are whose words say nothing. Of a version that nobody has read, not even the base is
    known, unless all of NVIDIA's are on the same one.
    """

    def read(name: Name) -> Reading:
        found = by_words(name, otherwise)
        if found.kind is not BuiltFor.CUDA or found.cuda is not None or found.notes:
            return found.on(base)
        of_table = of_release(table, name) if tags.fullmatch(name.tag) else found
        if of_table.cuda is None:
            return found.on(Base.NGC if base is Base.NGC else Base.FOREIGN)
        return of_table.on(base)

    return read


def of_gpu_tags(table: tuple[ReleaseRange, ...], tags: re.Pattern[str] = AT_THE_BEGINNING) -> Reader:
    """A reader for a family on nvidia/cuda whose tags have -gpu, and without it no CUDA."""

    def read(name: Name) -> Reading:
        if name.in_tag.versions:
            return by_words(name)
        if not name.in_tag.has_gpu:
            return without_cuda(name.of_tag)
        found = of_release(table, name) if tags.fullmatch(name.tag) else by_words(name)
        return found.on(Base.CUDA) if found.cuda else found

    return read


_RAY = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:\.[a-z0-9]+)?(?:-py[0-9]+)?(?:-gpu)?(?:-aarch64)?", re.ASCII)
"""Tags of Ray: {release}[-{Python}][-gpu][-{processor}]."""
_RELEASE_WITH_V = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)
_SGLANG = re.compile(rf"{RELEASE.pattern}(?:-runtime)?", re.ASCII)
_TEXT_EMBEDDINGS = re.compile(
    r"(?:(?P<gpus>cuda|turing|86|89|hopper|100|120|121)-)?(?P<release>[0-9]+\.[0-9]+(?:\.[0-9]+)?|latest)(?:-grpc)?",
    re.ASCII,
)
_DJL_TABLES: Mapping[str, tuple[ReleaseRange, ...]] = {
    "pytorch-gpu": releases_of("djl-pytorch"),
    "lmi": releases_of("djl-lmi"),
    "deepspeed": releases_of("djl-deepspeed"),
    "tensorrt-llm": releases_of("djl-tensorrt-llm"),
}
_DJL = re.compile(rf"(?P<release>{RELEASE.pattern})-(?P<kind>{'|'.join(_DJL_TABLES)})", re.ASCII)
_NOTEBOOK = re.compile(r"tensorflow-(?P<release>[0-9.]+)-notebook-gpu", re.ASCII)
_LLAMA_CPP = re.compile(r"(?:full|light|server)-cuda-b(?P<build>[0-9]{1,6})", re.ASCII)
_LMDEPLOY = re.compile(rf"(?P<release>{RELEASE.pattern})(?P<suffix>-cu1[12])?", re.ASCII)

_EMBEDDINGS_FLOORS: Mapping[str | None, Version] = {
    "cuda": Version((7, 5)),
    "turing": Version((7, 5)),
    None: Version((8, 0)),
    "86": Version((8, 6)),
    "89": Version((8, 9)),
    "hopper": Version((9, 0)),
    "100": Version((10, 0)),
    "120": Version((12, 0)),
    "121": Version((12, 1)),
}
"""The compute capability that an image of text-embeddings-inference is compiled for. It refuses older GPUs when it
starts (backends/candle/src/compute_cap.rs of the project)."""
_HUGGINGFACE_SERVER_FOR_CPU = Version((0, 15))
"""From this release on KServe's server without -gpu is built from huggingface_server_cpu.Dockerfile."""
_WITH_NEWER_PYTORCH = Version((3, 3, 1))
"""From this text-generation-inference on, PyTorch is built for CUDA 12.8 and knows newer GPUs than the base does."""
_WITH_FLOOR = 3
"""The first version of text-generation-inference whose kernels begin at compute capability 8.0."""


def vllm(name: Name) -> Reading:
    """vllm/vllm-openai: -cuNNN tells the CUDA, else the version does. Its kernels begin at compute capability 7.0.

    Some of its own kernels come with PTX; those of PyTorch, which it needs, are pip's.
    """
    differs = "arm64" in name.in_tag.architectures and built_with(releases_of("vllm-for-arm"), name.tag) is not None
    found = (_VLLM_FOR_ARM if differs else _VLLM)(name).on(Base.CUDA)
    return replace(found, floor=Version((7, 0)), build=KernelBuild.PYTORCH_OF_PIP)


def like_vllm(name: Name) -> Reading:
    """A repository called vllm-openai elsewhere: a copy or an image on top, if its tags begin as releases do.

    Only of copies is it known that they have vLLM's versions: those of lmcache/vllm-openai are LMCache's, where 0.5.4
    has vLLM 0.27.1 (issue 5101 of LMCache/LMCache), and mirrors seldom keep the organisation.
    """
    if not _RELEASE_WITH_V.match(name.tag):
        return by_words(name, BuiltFor.CUDA)
    if name.parts[-2:-1] == _COPIES_OF_VLLM or name.in_tag.versions:
        return vllm(name).on(Base.RELATED)
    return Reading(BuiltFor.CUDA, evidence=name.of_tag, base=Base.RELATED)


_COPIES_OF_VLLM = ("aibrix",)


def on_vllm(name: Name) -> Reading:
    """aibrix/vllm-openai-aibrix-kvcache: built on the vLLM of its tag."""
    return vllm(name).on(Base.RELATED)


def sglang(name: Name) -> Reading:
    """lmsysorg/sglang: -cuNNN tells the CUDA, else the release does; gb200 is a machine with Arm processors."""
    words = name.tag.split("-")
    if "xeon" in words:
        return without_cuda(name.of_tag)
    found = replace(_SGLANG_RELEASED(name).on(Base.CUDA), build=KernelBuild.PYTORCH_OF_PIP)
    return replace(found, architectures=("arm64",)) if "gb200" in words or "gb300" in words else found


def text_generation_inference(name: Name) -> Reading:
    """huggingface/text-generation-inference: the version tells, but not for builds with another engine."""
    if "trtllm" in name.tag or "llamacpp" in name.tag:
        return Reading(BuiltFor.CUDA, None, name.of_tag)
    found, version = _TEXT_GENERATION(name).on(Base.RELATED), version_of(name.tag)
    if version is None:
        return found
    if not version.at_least(_WITH_NEWER_PYTORCH):
        found = replace(found, build=KernelBuild.PYTORCH_OF_CONDA)
    if version.major < _WITH_FLOOR:
        return found
    return replace(found, floor=Version((8, 0)), is_floor_verified=False)


def text_embeddings_inference(name: Name) -> Reading:
    """huggingface/text-embeddings-inference: an image for each compute capability, and one for several (cuda-)."""
    tag = _TEXT_EMBEDDINGS.fullmatch(name.tag)
    if tag is None:
        return by_words(name, BuiltFor.CUDA).on(Base.CUDA)
    found = of_release(releases_of("text-embeddings-inference"), name, tag["release"]).on(Base.CUDA)
    return replace(found, floor=_EMBEDDINGS_FLOORS[tag["gpus"]])


def lmdeploy(name: Name) -> Reading:
    """openmmlab/lmdeploy: releases end in -cuNN, whose minor version the release tells; older ones are NVIDIA's."""
    tag = _LMDEPLOY.fullmatch(name.tag)
    if tag is None:
        return by_words(name, BuiltFor.CUDA).on(Base.RELATED)
    table = _LMDEPLOY_TABLES[tag["suffix"] or ""]
    found, words = of_release(table, name, tag["release"]), by_words(name, BuiltFor.CUDA)
    base = Base.NGC if table is releases_of("lmdeploy") and found.cuda else Base.RELATED
    return (found if found.cuda else words).on(base)


def kaito(name: Name) -> Reading:
    """aks/kaito/*: kaito-base and images of models have PyTorch and vLLM of pip on an image of Python."""
    if not name.last.startswith("kaito-") or "rag" in name.last:
        return by_words(name)
    table = releases_of("kaito-base") if name.last == "kaito-base" else releases_of("kaito-models")
    return released(table, Base.PLAIN)(name)


def huggingface_server(name: Name) -> Reading:
    """kserve/huggingfaceserver: -gpu where there is CUDA, but for releases of the time when there was none without."""
    if name.in_tag.has_gpu or name.in_tag.versions:
        return _HUGGINGFACE_SERVER(name)
    version = version_of(name.tag)
    if version is not None and version.at_least(_HUGGINGFACE_SERVER_FOR_CPU):
        return without_cuda(name.of_tag)
    found = of_release(releases_of("old-huggingface-server"), name)
    return found.on(Base.RELATED) if found.cuda else by_words(name)


def llama_cpp(name: Name) -> Reading:
    """ggml-org/llama.cpp: builds are numbered, and the number tells the CUDA."""
    tag = _LLAMA_CPP.fullmatch(name.tag)
    found = of_release(releases_of("llama-cpp"), name, f"{tag['build']}.0") if tag else by_words(name)
    return found.on(Base.RELATED)


def djl_serving(name: Name) -> Reading:
    """deepjavalibrary/djl-serving: the end of the tag says which image it is, the release its CUDA."""
    tag = _DJL.fullmatch(name.tag)
    if tag is None:
        return by_words(name)
    return of_release(_DJL_TABLES[tag["kind"]], name, tag["release"]).on(Base.RELATED)


def kubeflow_images_public(name: Name) -> Reading:
    """kubeflow-images-public/tensorflow-X.Y.Z-notebook-gpu: the CUDA that this TensorFlow is built for."""
    found = _NOTEBOOK.fullmatch(name.last)
    if found is None:
        return by_words(name)
    return replace(of_release(releases_of("tensorflow"), name, found["release"]), evidence=name.of_repository)


def ray(name: Name) -> Reading:
    """rayproject/ray: -gpu is one of the images with -cuNNN, which the release tells; the others are for the CPU."""
    if name.in_tag.has_gpu or name.in_tag.versions:
        return _RAY_GPU(name)
    return by_words(name, BuiltFor.NONE).on(Base.RELATED)


_VLLM_FOR_ARM = released(releases_of("vllm-for-arm"), Base.CUDA, AT_THE_BEGINNING)
_VLLM = released(releases_of("vllm"), Base.CUDA, AT_THE_BEGINNING)
_SGLANG_RELEASED = released(releases_of("sglang"), Base.CUDA, _SGLANG)
_TEXT_GENERATION = released(releases_of("text-generation-inference"), Base.RELATED, AT_THE_BEGINNING)
_HUGGINGFACE_SERVER = released(
    releases_of("huggingface-server"), Base.UNKNOWN, re.compile(rf"{RELEASE.pattern}(?:-rc[0-9])?-gpu", re.ASCII)
)
_RAY_GPU = released(releases_of("ray"), Base.RELATED, _RAY)
_LMDEPLOY_TABLES: Mapping[str, tuple[ReleaseRange, ...]] = {
    "": releases_of("lmdeploy"),
    "-cu12": releases_of("lmdeploy-12"),
    "-cu11": releases_of("lmdeploy-11"),
}
