"""What the name of an image says about the CUDA it needs, by the known families of images.

A family is found by the end of the repository's path, whatever registry or mirror is in front of it:
registry.corp/nvcr-proxy/nvidia/cuda is nvidia/cuda. For an image of no known family, the words in its tag and name
count; a bare version there means nothing. The rows of `data/images.yaml` say how the images of each family are read;
the few families whose tags need code have a reader here.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from webhook.cuda import DATA
from webhook.cuda.compiled_code import build_of, libraries_in
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.forward_compat import Base
from webhook.cuda.image_reading import ImageName, Reading, Words, read_words, without_cuda
from webhook.cuda.need import BuiltFor
from webhook.cuda.releases import MONTHS, RAPIDS, RELEASES, ReleaseRange, built_with, month_of, monthly_cuda, version_of
from webhook.model.image import ImageReference
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_rows, read_table

_RELEASE = r"v?[0-9]+\.[0-9]+\.[0-9]+(?:\.post[0-9]+)?"
_VERSION = r"v?[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}"
_MONTHLY = r"[12][0-9]\.[01][0-9](?:\.[0-9]{1,2})?-(?:tf[12]-)?py3(?![a-z0-9]).*"


@cache
def _form(text: str) -> re.Pattern[str]:
    for name, pattern in (("{release}", _RELEASE), ("{version}", _VERSION), ("{monthly}", _MONTHLY)):
        text = text.replace(name, pattern)
    return re.compile(text, re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A row of `data/images.yaml`, which says what its fields mean."""

    within: str = ""
    named: str = ".*"
    like: str = ".*"
    words: bool = True
    reader: str = ""
    kind: BuiltFor | None = None
    base: str = "foreign"
    cuda: re.Pattern[str] | None = None
    releases: str = ""
    tags: str = "{release}"
    by_tag: Mapping[str, str] = field(default_factory=dict)
    by_name: Mapping[str, str] = field(default_factory=dict)
    floor: Version | None = None
    build: str = "unknown"
    architectures: tuple[str, ...] = field(default=(), metadata={"key": "arch"})

    def fits(self, name: ImageName) -> bool:
        """Whether the row is about this image, which has the part of the path that identifies the family."""
        is_there = not self.within or "/".join(("", *name.parts[:-1])).endswith(f"/{self.within}")
        return is_there and all(
            _form(form).fullmatch(text) for form, text in ((self.named, name.last), (self.like, name.tag))
        )

    def read(self, name: ImageName) -> Reading:
        found = self._of_release(READERS[self.reader](name) if self.reader else self._said(name), name)
        own: dict[str, Any] = {"floor": self.floor, "build": self.build, "architectures": self.architectures}
        return replace(found, **{key: value for key, value in own.items() if value not in (None, "unknown", ())})

    def _said(self, name: ImageName) -> Reading:
        kind = self.kind or (BuiltFor.CUDA if self.releases else BuiltFor.UNKNOWN)
        base = Base[self.base.upper()]
        if not self.words:
            return _without_words(name, kind).on(base)
        if self.cuda is not None and (tag := self.cuda.match(name.tag)):
            return Reading(BuiltFor.CUDA, parse_version(tag[1]), name.tag_evidence, base)
        found = read_words(name, kind)
        is_of_base = found.cuda is not None or not self.releases or base is Base.NGC
        return found.on(base if is_of_base else Base.FOREIGN)

    def _of_release(self, found: Reading, name: ImageName) -> Reading:
        """The reading with what tables say: the CUDA where the words say none, or its major number alone."""
        if found.kind in (BuiltFor.NONE, BuiltFor.OTHER) or found.notes:
            return found
        own = ((self.tags, self.releases),) if self.releases else ()
        by_tag = [(name.tag, name.tag_evidence, *form) for form in (*own, *self.by_tag.items())]
        by_name = [(name.last, name.repository_evidence, *form) for form in self.by_name.items()]
        for text, evidence, form, product in (*by_tag, *by_name):
            match = _form(form).fullmatch(text)
            row = _row_of(product, match.groupdict().get("release") or text) if match else None
            if row is not None:
                if found.cuda is None or (found.cuda.minor is None and found.cuda.major == row.cuda.major):
                    row_base = Base[self.base.upper()]
                    found = Reading(BuiltFor.CUDA, row.cuda, evidence, row_base, is_verified=row.is_verified)
                return replace(found, architectures=row.architectures)
        return found


def _row_of(product: str, release: str) -> ReleaseRange | None:
    """The row of a product's release; a product that is a number stands for that CUDA itself."""
    if product[0].isdigit():
        cuda = parse_version(product)
        return ReleaseRange(cuda, cuda, cuda, "")
    return built_with(RELEASES[product], release)


def _without_words(name: ImageName, kind: BuiltFor) -> Reading:
    if kind is BuiltFor.NONE:  # whatever CUDA their base has
        return replace(without_cuda(name.tag_evidence), outweighs_configuration=True)
    if kind is BuiltFor.UNKNOWN:
        return Reading(kind, notes=(f"the version in {name.tag_evidence} is none of CUDA's",))
    return Reading(kind, evidence=name.tag_evidence)


def _ngc_month(name: ImageName) -> Reading:
    """A monthly release of NVIDIA: the tag says the CUDA, or else the month. Clients (-sdk) have no kernels."""
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
    release = MONTHS.get(month)
    if release is None or name.tag.endswith("-sdk"):
        return found
    if name.last in ("cuda-dl-base", "tensorrt"):  # nobody has read theirs
        return replace(found, floor=release.floor, is_floor_verified=False)
    return replace(
        found, floor=release.floor, is_floor_verified=release.is_floor_verified, certain_floor=release.certain_floor
    )


def _pytorch(name: ImageName) -> Reading:
    """pytorch/pytorch: the tag has the CUDA. Runtime images have theirs from pip, older ones from conda.

    Images since 2.6 certainly have wheels (pytorch/pytorch pull request 134274).
    """
    words = name.tag.replace("_", "-").split("-")
    base = Base.CUDA if "devel" in words else Base.PLAIN if "runtime" in words else Base.UNKNOWN
    torch = version_of(name.tag)
    has_wheels = torch is not None and torch.at_least(Version((2, 6)))
    build = "pytorch-of-pip" if has_wheels else "pytorch-of-conda"
    return replace(read_words(name, BuiltFor.CUDA).on(base), build=build)


_RAPIDS = re.compile(r"([0-9]{2}\.[0-9]{2})-cuda", re.ASCII)
"""Not 26.04a, which is built every night."""


def _rapids(name: ImageName) -> Reading:
    """rapidsai/*: built on nvidia/cuda. Tags have its minor version up to 25.10; later the release says it.

    Since 24.02 its libraries begin at compute capability 7.0 (rapidsai/rapids-cmake, set_architectures.cmake).
    """
    found = read_words(name, BuiltFor.CUDA)
    release = _RAPIDS.match(name.tag) if name.last in ("base", "notebooks") else None
    if found.cuda is not None and found.cuda.minor is None and release:
        known = map(parse_version, RAPIDS.get(release[1], ()))
        found = replace(found, cuda=next((cuda for cuda in known if cuda.major == found.cuda.major), found.cuda))
    if release and release[1] >= "24.02":
        found = replace(found, floor=Version((7, 0)))
    return found.on(Base.RELATED if found.cuda is not None and found.cuda.minor is not None else Base.UNKNOWN)


READERS: Mapping[str, Callable[[ImageName], Reading]] = {
    "ngc-month": _ngc_month,
    "pytorch": _pytorch,
    "rapids": _rapids,
}
"""Readers by their names in rows. No reader is called for a name whose tag says a CPU build or another vendor."""


def _families() -> dict[str, dict[str, list[Family]]]:
    found: dict[str, dict[str, list[Family]]] = {by: {} for by in ("end", "name", "namespace", "service", "anywhere")}
    table = read_table(DATA / "images.yaml")["families"]
    for row, family in zip(table, read_rows(Family, table, "images.yaml"), strict=True):
        for place in row.get("under", (".",)):
            for image in row["images"]:
                found[row["by"]].setdefault(image if place == "." else f"{place}/{image}", []).append(family)
    return found


_FAMILIES = _families()
"""Part of the path that identifies a family -> its text -> the rows about the family. The first that fits counts."""

_ARCHITECTURES: Mapping[str, tuple[str, ...]] = {"amd64": ("amd64",), "arm64v8": ("arm64",)}
"""Docker Hub's namespaces of images for one architecture."""

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
    rows = _rows_about(name)
    words = name.tag_words if rows or name.tag_words.is_plain else _NOTHING
    platform = _platform(name, words)
    if platform:
        return Reading(BuiltFor.OTHER, None, name.tag_evidence, Base.PLAIN, platform=_PLATFORMS[platform])
    if name.tag_words.says_cpu:
        return without_cuda(name.tag_evidence)
    if words.is_tegra or name.repository_words.is_tegra:
        notes = ("it is built for Jetson",)
        return Reading(BuiltFor.CUDA, None, name.tag_evidence, architectures=("arm64",), notes=notes)
    row = next((row for row in rows if row.fits(name)), None)
    found = row.read(name) if row else read_words(name)
    full = None if rows else _LIKE_NVIDIA_CUDA.match(name.tag)
    if full is not None and full[1] in tables.toolkits.released:  # what was added to the base is not known
        found = Reading(BuiltFor.CUDA, parse_version(full[1]), name.tag_evidence, Base.RELATED)
    is_for_cuda = found.kind is BuiltFor.CUDA
    own = next((_ARCHITECTURES[part] for part in name.parts[:-1] if part in _ARCHITECTURES), found.architectures)
    return replace(
        found,
        architectures=words.architectures or name.repository_words.architectures or own,
        build=build_of(name.parts) if found.build == "unknown" and is_for_cuda else found.build,
        libraries=libraries_in(name.parts, name.tag, found.cuda) if is_for_cuda else (),
        is_of_project="/".join(name.parts[-2:]) in _FAMILIES["end"],
    )


_LIKE_NVIDIA_CUDA = re.compile(
    r"([0-9]{1,2}\.[0-9]\.[0-9])(?:-cudnn[0-9.]*)?(?:-tensorrt)?-(?:base|runtime|devel)"
    r"-(?:ubuntu|ubi|rockylinux|centos|opensuse|oraclelinux|amzn|azl|cm)[0-9.]+(?![a-z0-9])",
    re.ASCII,
)
"""Tags of nvidia/cuda in full: X.Y.Z-[cudnn-]{base,runtime,devel}-distribution. An image of no known family that has
such a tag, with a CUDA that was released, is built on it."""


def _platform(name: ImageName, words: Words) -> str:
    """The other vendor's platform that a name says, even beside words of CUDA; empty if it says none."""
    word = _OF_HARDWARE.search(name.last)
    is_sure = word is None or 0 < word.start() < word.end() == len(name.last)
    found = words.platform or (name.repository_words.platform if is_sure else "")
    return found or next((_OTHER_VENDORS[part] for part in name.parts[:-1] if part in _OTHER_VENDORS), "")


def _rows_about(name: ImageName) -> Sequence[Family]:
    parts = name.parts
    places = [("end", "/".join(parts[-2:])), ("name", parts[-1])]
    places += [("namespace", part) for part in reversed(parts[-3:-1])]
    places += [("service", part) for part in parts[-3:-2]]
    places.append(("anywhere", parts[-1]))
    return next((_FAMILIES[by][text] for by, text in places if text in _FAMILIES[by]), ())
