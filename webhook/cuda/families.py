"""What the name of an image says about the CUDA it needs, by the known families of images.

A family is found by the end of the repository's path, whatever registry or mirror is in front of it:
registry.corp/nvcr-proxy/nvidia/cuda is nvidia/cuda. For an image of no known family, the words in its tag and name
count; a bare version there means nothing. The families are in `data/images.yaml`, whose rows name their readers.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from webhook.cuda import DATA, readers, release_readers
from webhook.cuda.compiled_code import libraries_in
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.forward_compat import Base
from webhook.cuda.image_reading import ImageName, Reader, Reading, Words, read_words, without_cuda
from webhook.cuda.kernels import KernelBuild, build_of
from webhook.cuda.need import BuiltFor
from webhook.cuda.release_readers import AT_THE_BEGINNING, RELEASE, of_gpu_tags, released, released_by, tags_like
from webhook.cuda.releases import releases_of
from webhook.model.image import ImageReference
from webhook.yaml_files.shipped_tables import read_table

_ARCHITECTURES: Mapping[str, tuple[str, ...]] = {"amd64": ("amd64",), "arm64v8": ("arm64",)}
"""Docker Hub's namespaces of images for one architecture."""

READERS: Mapping[str, Reader] = {
    "nvidia-cuda": readers.nvidia_cuda,
    "like-nvidia-cuda": readers.like_nvidia_cuda,
    "ngc-month": readers.ngc_release,
    "like-ngc-month": readers.like_ngc_release,
    "cuda-samples": readers.cuda_samples,
    "cuda-vector-add": readers.cuda_vector_add,
    "infrastructure": readers.infrastructure,
    "driver-only": readers.driver_only,
    "merlin": readers.merlin,
    "nim": readers.nim,
    "nccl-tests": readers.nccl_tests,
    "pytorch": readers.pytorch,
    "tensorflow-benchmarks": readers.tensorflow_benchmarks,
    "rapids": readers.rapids,
    "google": readers.google,
    "azure": readers.azure,
    "vllm": release_readers.vllm,
    "like-vllm": release_readers.like_vllm,
    "on-vllm": release_readers.on_vllm,
    "sglang": release_readers.sglang,
    "text-generation-inference": release_readers.text_generation_inference,
    "kaito": release_readers.kaito,
    "huggingface-server": release_readers.huggingface_server,
    "kubeflow-images-public": release_readers.kubeflow_images_public,
}
"""Readers without parameters, by their names in the rows."""


def _reader_of(row: Mapping[str, Any]) -> Reader:
    """The reader that a row names, with the parameters of the row. Raises KeyError for an unknown reader."""
    name, base = row["reader"], Base[row.get("base", "foreign").upper()]
    if name == "cpu":
        reader: Reader = _word_reader(BuiltFor.NONE, Base.FOREIGN)
    elif name == "words":
        reader = _word_reader(BuiltFor(row.get("kind", BuiltFor.UNKNOWN)), base)
    elif name == "gpu-tags":
        reader = of_gpu_tags(releases_of(row["releases"]), _tags(row, AT_THE_BEGINNING))
    elif name == "releases":
        kind = BuiltFor(row.get("kind", BuiltFor.CUDA))
        reader = released(releases_of(row["releases"]), base, _tags(row, RELEASE), kind)
    else:
        reader = READERS[name]
    if "byTag" in row:
        forms = [(tags_like(form), releases_of(product)) for form, product in row["byTag"].items()]
        reader = released_by(forms, base, reader)
    return _within(tuple(row["within"].split("/")), reader) if "within" in row else reader


def _tags(row: Mapping[str, Any], otherwise: re.Pattern[str]) -> re.Pattern[str]:
    return tags_like(row["tags"]) if "tags" in row else otherwise


def _word_reader(otherwise: BuiltFor, base: Base) -> Reader:
    """A reader of words. `otherwise` is the kind of an image whose words say nothing."""

    def read(name: ImageName) -> Reading:
        return read_words(name, otherwise).on(base)

    return read


def _within(place: tuple[str, ...], reader: Reader) -> Reader:
    """The reader for images below this path. Elsewhere only the words of a name are read."""

    def read(name: ImageName) -> Reading:
        return reader(name) if name.parts[-1 - len(place) : -1] == place else read_words(name)

    return read


def _families() -> Mapping[str, Mapping[str, Reader]]:
    """The families of `data/images.yaml`: part of the path that identifies a family -> its text -> its reader."""
    found: dict[str, dict[str, Reader]] = {by: {} for by in ("end", "name", "namespace", "service", "anywhere")}
    for row in read_table(DATA / "images.yaml")["families"]:
        reader = _reader_of(row)
        places = ["" if place == "." else f"{place}/" for place in row.get("under", (".",))]
        found[row["by"]] |= {f"{place}{image}": reader for place in places for image in row["images"]}
    return found


_FAMILIES = _families()
_BY_END, _BY_NAME = _FAMILIES["end"], _FAMILIES["name"]
_BY_NAMESPACE, _BY_SERVICE, _ANYWHERE = _FAMILIES["namespace"], _FAMILIES["service"], _FAMILIES["anywhere"]

_NOTHING = Words()
"""The words of a tag that looks like the name of a branch, for an image of no known family."""

_OTHER_VENDORS: Mapping[str, str] = {
    "rocm": "ROCm",
    "gaudi-docker": "Gaudi",
    "tpu-pytorch": "TPU",
    "tpu-pytorch-releases": "TPU",
    "ascendai": "Ascend",
}
"""Namespaces whose images are all for another vendor's accelerators. Names that a team may also have, such as neuron,
are left out; images for Neuron also say so in their own name."""

_OF_HARDWARE = re.compile(r"(?<![a-z0-9])(?:gaudi[0-9]*|[hntx]pu|cann[0-9.]*)(?![a-z0-9])", re.ASCII)
"""Words that say what an image is built for only at the end of its name: vllm-tpu, but not tpu-migration or gaudi."""

_PLATFORMS: Mapping[str, str] = {
    "ROCm": "AMD ROCm",
    "XPU": "Intel XPUs",
    "Neuron": "AWS Neuron",
    "Gaudi": "Intel Gaudi",
    "TPU": "Google TPUs",
    "Ascend": "Huawei Ascend",
    "MUSA": "Moore Threads MUSA",
}


def look_up(reference: ImageReference, tables: CudaTables = SHIPPED) -> Reading:
    """What the name of an image says. Registry and digest do not matter.

    >>> from webhook.model.image import parse_reference
    >>> str(look_up(parse_reference("registry.corp/proxy/nvidia/cuda:12.4.1-base-ubuntu22.04")).cuda)
    '12.4.1'
    """
    name = ImageName.of(reference)
    reader = _reader(name)
    is_believed = reader is not None or name.tag_words.is_plain
    words = name.tag_words if is_believed else _NOTHING
    platform = _platform(name, words)
    if platform:
        return Reading(BuiltFor.OTHER, None, name.tag_evidence, Base.PLAIN, platform=_PLATFORMS[platform])
    if name.tag_words.says_cpu:
        return without_cuda(name.tag_evidence)
    if words.is_tegra or name.repository_words.is_tegra:
        return Reading(
            BuiltFor.CUDA, None, name.tag_evidence, architectures=("arm64",), notes=("it is built for Jetson",)
        )
    found = reader(name) if reader is not None else readers.of_no_family(name, tables.toolkits.released)
    build = build_of(name.parts) if found.build is KernelBuild.UNKNOWN and found.kind is BuiltFor.CUDA else found.build
    libraries = libraries_in(name.parts, name.tag, found.cuda) if found.kind is BuiltFor.CUDA else ()
    architectures = _architectures(name, words) or found.architectures
    is_own = "/".join(name.parts[-2:]) in _BY_END
    return replace(found, architectures=architectures, build=build, libraries=libraries, is_of_project=is_own)


def _architectures(name: ImageName, words: Words) -> tuple[str, ...]:
    """The CPU architectures that the words of a name say."""
    own = next((_ARCHITECTURES[part] for part in name.parts[:-1] if part in _ARCHITECTURES), ())
    return words.architectures or name.repository_words.architectures or own


def _platform(name: ImageName, words: Words) -> str:
    """The other vendor's platform that a name says, even beside words of CUDA; empty if it says none."""
    word = _OF_HARDWARE.search(name.last)
    is_sure = word is None or 0 < word.start() < word.end() == len(name.last)
    found = words.platform or (name.repository_words.platform if is_sure else "")
    return found or next((_OTHER_VENDORS[part] for part in name.parts[:-1] if part in _OTHER_VENDORS), "")


def _reader(name: ImageName) -> Reader | None:
    """The reader of the image; None if its family is not known."""
    parts = name.parts
    found = _BY_END.get("/".join(parts[-2:])) or _BY_NAME.get(parts[-1])
    if found is None and len(parts) > 1:
        namespaces = (part for part in reversed(parts[-3:-1]) if part in _BY_NAMESPACE)
        found = next((_BY_NAMESPACE[part] for part in namespaces), None)
    if found is None and len(parts) > 2:
        found = _BY_SERVICE.get(parts[-3])
    return found or _ANYWHERE.get(parts[-1])
