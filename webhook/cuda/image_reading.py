"""An image's name taken apart, and what a reader of names makes of it.

Words in a tag or repository name can say a CUDA version, a CPU build, or another vendor's accelerator.

Words begin and end where letters and digits do, so that focus118, mcu124 and the hash cu118abc say nothing. cuDNN's
version, Python's (py312) and the distribution's (ubuntu22.04) are none of CUDA's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from webhook.cuda.forward_compat import Base
from webhook.cuda.kernels import KernelBuild
from webhook.cuda.need import BuiltFor
from webhook.model.image import ImageReference
from webhook.model.versions import Version

_TOKEN = re.compile(
    r"""
    (?<![a-z0-9])(?:
      # cuda12.8, cuda-11.7.1; cu12.4; cuda118, cu124; cuda12, cuda-12, cu12
      cuda[-_]?(?P<major>[0-9]{1,2})\.(?P<minor>[0-9]{1,2})(?:\.(?P<patch>[0-9]{1,4}))?(?![0-9])
    | cu(?P<dotted>1[0-9]\.[0-9])(?![a-z0-9])
    | (?P<digits>(?:cuda[-_]?(?:9|1[0-9])[0-9](?![0-9.]))|(?:cu(?:9|1[0-9])[0-9](?![a-z0-9])))
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
"""What stands in tags beside versions to tell variants of an image apart."""
_BETWEEN = re.compile(r"[^a-z0-9]+", re.ASCII)
_OLDEST, _NEWEST, _LAST_MINOR = 5, 19, 9
"""A number outside of these is some other version: cuda-1.0 is an application's, cuda-24.04 a distribution's."""


@dataclass(frozen=True, slots=True)
class Words:
    """What the words of one text say. `versions` are those of CUDA, as numbers; `platform` is another vendor's."""

    versions: tuple[tuple[int, ...], ...] = ()
    has_gpu: bool = False
    has_cpu: bool = False
    is_tegra: bool = False
    platform: str = ""
    architectures: tuple[str, ...] = ()
    is_plain: bool = True
    """Whether what stands beside them are versions and names of variants, and no sentence as the name of a branch is:
    add-rocm-support."""

    @property
    def says_cpu(self) -> bool:
        """Whether they tell of a CPU build, and nothing contradicts."""
        return self.has_cpu and not (self.has_gpu or self.versions)

    @property
    def says_both(self) -> bool:
        """Whether they tell of a CPU and of a GPU build."""
        return self.has_cpu and (self.has_gpu or bool(self.versions))

    @property
    def cuda(self) -> Version | None:
        """The CUDA version that all of them agree on, to the number to which they do; None where they do not.

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
    """The numbers of a version; without dots the last digit is the minor number."""
    match token.lastgroup:
        case "minor" | "patch":
            return tuple(int(part) for part in token.group("major", "minor", "patch") if part is not None)
        case "dotted":
            return tuple(map(int, token["dotted"].split(".")))
        case "digits":
            digits = token["digits"].lstrip("cuda-_")
            return int(digits[:-1]), int(digits[-1])
        case "whole":
            return (int(token["whole"].lstrip("cuda-_")),)
    return None


_SHOWN = 80
"""Most characters of a name or tag that evidence shows."""


@dataclass(frozen=True, slots=True)
class Name:
    """The parts of an image's name, and what the words in its tag and in the last part of the repository say."""

    reference: ImageReference
    parts: tuple[str, ...]
    tag: str
    """In small letters."""
    in_tag: Words
    in_last: Words

    @classmethod
    def of(cls, reference: ImageReference) -> "Name":
        """Take a reference apart. Its registry and digest say nothing of CUDA, and are not looked at."""
        parts = tuple(reference.repository.split("/"))
        return cls(reference, parts, reference.tag.lower(), words_in(reference.tag), words_in(parts[-1]))

    @property
    def last(self) -> str:
        """The last part of the repository."""
        return self.parts[-1]

    @property
    def of_repository(self) -> str:
        """The evidence that lies in the repository's name."""
        return f"name {shown(self.reference.repository.removeprefix('library/'))}"

    @property
    def of_tag(self) -> str:
        """The evidence that lies in the tag, and in whose tag it is."""
        repository = shown(self.reference.repository.removeprefix("library/"))
        return f"tag {shown(self.reference.tag)} of {repository}" if self.reference.tag else f"name {repository}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a name says of its image. `is_verified` is false where the table it comes from is not sure of it."""

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
    build: KernelBuild = KernelBuild.UNKNOWN
    outweighs_configuration: bool = False
    """Whether the name says more than the image's configuration, which is that of a base it does not use."""

    def on(self, base: Base) -> "Reading":
        """The same for an image with this base, unless it is none for CUDA."""
        return replace(self, base=base) if self.kind is BuiltFor.CUDA else self


Reader = Callable[[Name], Reading]


def by_words(name: Name, otherwise: BuiltFor = BuiltFor.UNKNOWN) -> Reading:
    """Read the words of a name: those of the tag, then those of the last part, then versions anywhere in the path.

    `otherwise` is what images of this family are whose words say nothing.
    """
    places = ((name.in_tag, name.of_tag), (name.in_last, name.of_repository))
    for words, evidence in places:
        if words.has_cpu or words.versions:
            return _decided(words, evidence)
    for words, evidence in places:
        if words.has_gpu:
            return Reading(BuiltFor.CUDA, evidence=evidence)
    in_path = words_in("/".join(name.parts[:-1]))
    if in_path.versions:
        return _of_versions(in_path, name.of_repository)
    if otherwise is BuiltFor.NONE:
        return without_cuda(name.of_tag)
    return Reading(otherwise, evidence="none" if otherwise is BuiltFor.UNKNOWN else name.of_tag)


def _decided(words: Words, evidence: str) -> Reading:
    if words.says_both:
        return Reading(BuiltFor.UNKNOWN, notes=(f"{evidence} names both CPU and GPU",))
    return without_cuda(evidence) if words.has_cpu else _of_versions(words, evidence)


def _of_versions(words: Words, evidence: str) -> Reading:
    cuda = words.cuda
    is_agreed = cuda is not None and cuda.parts in words.versions
    said = ", ".join(".".join(map(str, version)) for version in words.versions[:4])
    return Reading(BuiltFor.CUDA, cuda, evidence, notes=() if is_agreed else (f"{evidence} names CUDA {said}",))


def without_cuda(evidence: str) -> Reading:
    """An image for the CPU."""
    return Reading(BuiltFor.NONE, None, evidence, Base.PLAIN)


def shown(text: str) -> str:
    """A text as evidence shows it: cut where it is long."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
