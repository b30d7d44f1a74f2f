"""An image's name taken apart, and what a reader of names makes of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from webhook.cuda.bases import Base
from webhook.cuda.kernels import KernelBuild
from webhook.cuda.need import BuiltFor
from webhook.cuda.tokens import Words, words_in
from webhook.model.image import ImageReference
from webhook.model.versions import Version

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
