"""The parts of an image's name, the words in them, and what a reader of names concludes.

Words in a tag or repository name can say a CUDA version, a CPU build, or another vendor's accelerator. Words are whole
runs of letters and digits, so focus118, mcu124 and the hash cu118abc say nothing. The versions of cuDNN, Python (py312)
and distributions (ubuntu22.04) are not CUDA versions.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from webhook.cuda.compiled_code import Library
from webhook.cuda.forward_compat import Base
from webhook.cuda.need import BuiltFor
from webhook.model.image import ImageReference
from webhook.model.shape import shortened
from webhook.model.versions import Version

_TOKEN = re.compile(
    r"""
    (?<![a-z0-9])(?:
      # cuda12.8, cuda-11.7.1; cu12.4; cuda118, cu124, cu1281; cuda12, cuda-12, cu12
      cuda[-_]?(?P<major>[0-9]{1,2})\.(?P<minor>[0-9]{1,2})(?:\.(?P<patch>[0-9]{1,4}))?(?![0-9])
    | cu(?P<dotted>1[0-9]\.[0-9])(?![a-z0-9])
    | (?P<digits>(?:cuda[-_]?(?:9|1[0-9])[0-9](?![0-9.]))|(?:cu(?:9[0-9]|1[0-9][0-9]{1,2})(?![a-z0-9])))
    | (?P<whole>(?:cuda(?:9|1[0-9])(?![0-9]|\.[0-9]))|(?:cuda[-_]1[0-3](?![a-z0-9.]))|(?:cu(?:9|1[0-9])(?![a-z0-9.])))
    | (?P<cpu>(?:cpu|(?:no|non|without)[-_]?cuda)(?:[-_]?only)?(?![a-z0-9]))
    | (?P<XPU>(?:xpu|(?:gpu|server|full|light)-intel)(?![a-z0-9]))
    | (?P<gpu>(?:cuda|gpu|cudnn[0-9.]*|cublas)(?![a-z0-9]))
    | (?P<tegra>(?:igpu|l4t|jetson|jetpack[0-9.]*|tegra)(?![a-z0-9]))
    | (?P<amd64>(?:amd64|x86[-_]64)(?![a-z0-9]))
    | (?P<arm64>(?:arm64|aarch64|sbsa|graviton)(?![a-z0-9]))
    | (?P<ppc64le>ppc64le(?![a-z0-9]))
    | (?P<ROCm>(?:rocm[0-9.]*|hipblas|amdgpu)(?![a-z0-9]))
    | (?P<Neuron>(?:(?:training|inference)-neuronx?|neuronx|neuron(?=-py)|inferentia|trainium)(?![a-z0-9]))
    | (?P<Gaudi>(?:gaudi[0-9]*|habana|hpu)(?![a-z0-9]))
    | (?P<TPU>tpu(?![a-z0-9]))
    | (?P<Ascend>(?:vllm-ascend|npu|cann[0-9.]*)(?![a-z0-9]))
    | (?P<MUSA>(?:(?:server|full|light)-musa|musa[0-9.]+)(?![a-z0-9]))
    )
    """,
    re.VERBOSE | re.ASCII,
)
_PLATFORMS = frozenset(("ROCm", "XPU", "Neuron", "Gaudi", "TPU", "Ascend", "MUSA"))
_ARCHITECTURES = frozenset(("amd64", "arm64", "ppc64le"))
_OF_VARIANTS = frozenset(
    """
    all alpine base beta bookworm bullseye candidate common core debian dev devel dgpu distroless edge exp ffmpeg
    final fp full ga inference jammy jupyter latest linux main master nightly noble notebook ompi onnx openmpi prod
    production py python pytorch rc release rhel rocky run runtime serve server serving slim snapshot stable
    tensorflow test tf torch training transformers trixie ubi ubuntu v vllm
    """.split()  # noqa: SIM905  # many quotes say less
)
"""Words in tags that tell variants of an image apart."""
_BETWEEN = re.compile(r"[^a-z0-9]+", re.ASCII)
_OLDEST, _NEWEST, _LAST_MINOR = 5, 19, 9
"""Other numbers are no CUDA versions: cuda-1.0 is the version of an application, cuda-24.04 of a distribution."""


@dataclass(frozen=True, slots=True)
class Words:
    """What the words of a text say. `versions` are CUDA versions; `platform` is another vendor's accelerator."""

    versions: tuple[tuple[int, ...], ...] = ()
    has_gpu: bool = False
    has_cpu: bool = False
    is_tegra: bool = False
    platform: str = ""
    architectures: tuple[str, ...] = ()
    is_plain: bool = True
    """Whether all other words are versions and names of variants. False for the name of a branch: add-rocm-support."""

    @property
    def says_cpu(self) -> bool:
        return self.has_cpu and not (self.has_gpu or self.versions)

    @property
    def cuda(self) -> Version | None:
        """The CUDA version that all words agree on, with the numbers on which they agree; None if they disagree.

        >>> str(words_in("cuda12.4.1-cu124").cuda), str(words_in("cuda12.1-cu124").cuda), words_in("cu118-cu121").cuda
        ('12.4.1', '12', None)
        """
        if not self.versions:
            return None
        agreed = max(self.versions, key=len)
        for version in self.versions:
            while agreed[: len(version)] != version[: len(agreed)]:
                agreed = agreed[:-1]
        return Version(agreed) if agreed else None


def is_cuda(version: tuple[int, ...]) -> bool:
    """Whether these numbers can be a version of CUDA."""
    return bool(version) and _OLDEST <= version[0] <= _NEWEST and max(version[1:2], default=0) <= _LAST_MINOR


@lru_cache(maxsize=1024)
def words_in(text: str) -> Words:
    """Read a tag or a name; capitals count as small letters.

    >>> words_in("2.9.0-gpu-py312-cu130-ubuntu22.04-ec2").cuda
    Version(parts=(13, 0), text='')
    """
    found: list[tuple[int, ...]] = []
    names: list[str] = []
    for token in _TOKEN.finditer(text.lower()):
        version = _version_of(token)
        if version is None:
            names.append(token.lastgroup or "")
        elif is_cuda(version):
            found.append(version)
        else:
            names.append("gpu")
    return Words(
        versions=tuple(found),
        has_gpu="gpu" in names,
        has_cpu="cpu" in names,
        is_tegra="tegra" in names,
        platform=next((name for name in names if name in _PLATFORMS), ""),
        architectures=tuple(dict.fromkeys(name for name in names if name in _ARCHITECTURES)),
        is_plain=not names or _is_plain(text),
    )


def _is_plain(text: str) -> bool:
    rest = _BETWEEN.split(_TOKEN.sub("-", text.lower()))
    return all(word in _OF_VARIANTS or not word.isalpha() for word in rest)


def _version_of(token: re.Match[str]) -> tuple[int, ...] | None:
    """The numbers of a version. Without dots, 128 is 12.8, 1281 is 12.8.1, and 92 is 9.2."""
    match token.lastgroup:
        case "minor" | "patch":
            return tuple(int(part) for part in token.group("major", "minor", "patch") if part is not None)
        case "dotted":
            return tuple(map(int, token["dotted"].split(".")))
        case "digits":
            digits = token["digits"].lstrip("cuda-_")
            return (int(digits[:2]), *map(int, digits[2:])) if len(digits) > 2 else (int(digits[0]), int(digits[1]))
        case "whole":
            return (int(token["whole"].lstrip("cuda-_")),)
    return None


_SHOWN = 80
"""Most characters of a name or tag that evidence shows."""


@dataclass(frozen=True, slots=True)
class ImageName:
    """The parts of an image's name, and the words in its tag and in the last part of its repository."""

    reference: ImageReference
    parts: tuple[str, ...]
    tag: str
    """In small letters."""
    tag_words: Words
    repository_words: Words

    @classmethod
    def of(cls, reference: ImageReference) -> "ImageName":
        """Take a reference apart. Registry and digest are ignored, because they say nothing about CUDA."""
        parts = tuple(reference.repository.split("/"))
        return cls(reference, parts, reference.tag.lower(), words_in(reference.tag), words_in(parts[-1]))

    @property
    def last(self) -> str:
        return self.parts[-1]

    @property
    def repository_evidence(self) -> str:
        return f"name {shortened(self.reference.repository.removeprefix('library/'), _SHOWN)}"

    @property
    def tag_evidence(self) -> str:
        if not self.reference.tag:
            return self.repository_evidence
        return f"tag {shortened(self.reference.tag, _SHOWN)} of {self.repository_evidence.removeprefix('name ')}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a name says about its image. `is_verified` is false if it comes from an unverified row of a table.

    `floor` is the least compute capability of the framework in the image; see `Need.compute_floor`.
    """

    kind: BuiltFor
    cuda: Version | None = None
    evidence: str = "none"
    base: Base = Base.FOREIGN
    floor: Version | None = None
    is_floor_verified: bool = True
    certain_floor: Version | None = None
    is_verified: bool = True
    notes: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    platform: str = ""
    build: str = "unknown"
    libraries: tuple[Library, ...] = ()
    is_of_project: bool = False
    """Whether its path ends like the paths of a known project's own images."""
    outweighs_configuration: bool = False
    """Whether the image's configuration is ignored, because it comes from a base whose CUDA the image does not use."""

    def on(self, base: Base) -> "Reading":
        """A copy with this base; no change for an image that is not for CUDA."""
        return replace(self, base=base) if self.kind is BuiltFor.CUDA else self


def read_words(name: ImageName, otherwise: BuiltFor = BuiltFor.UNKNOWN) -> Reading:
    """Read the words of a name: first the tag, then the last part of the repository, then versions in the whole path.

    `otherwise` is the kind of an image whose words say nothing.
    """
    places = ((name.tag_words, name.tag_evidence), (name.repository_words, name.repository_evidence))
    for words, evidence in places:
        if words.has_cpu and not words.says_cpu:
            return Reading(BuiltFor.UNKNOWN, notes=(f"{evidence} names both CPU and GPU",))
        if words.has_cpu or words.versions:
            return without_cuda(evidence) if words.has_cpu else _of_versions(words, evidence)
    for words, evidence in places:
        if words.has_gpu:
            return Reading(BuiltFor.CUDA, evidence=evidence)
    in_path = words_in("/".join(name.parts[:-1]))
    if in_path.versions:
        return _of_versions(in_path, name.repository_evidence)
    if otherwise is BuiltFor.NONE:
        return without_cuda(name.tag_evidence)
    return Reading(otherwise, evidence="none" if otherwise is BuiltFor.UNKNOWN else name.tag_evidence)


def _of_versions(words: Words, evidence: str) -> Reading:
    cuda = words.cuda
    is_agreed = cuda is not None and cuda.parts in words.versions
    said = ", ".join(".".join(map(str, version)) for version in words.versions[:4])
    return Reading(BuiltFor.CUDA, cuda, evidence, notes=() if is_agreed else (f"{evidence} names CUDA {said}",))


def without_cuda(evidence: str) -> Reading:
    """The reading of an image for the CPU."""
    return Reading(BuiltFor.NONE, None, evidence, Base.PLAIN)
