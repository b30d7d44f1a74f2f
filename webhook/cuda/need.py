"""What an image needs of a node, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.cuda.compiled_code import Kernels, Library
from webhook.cuda.libcuda import NO_LIBCUDA, Libcuda
from webhook.model.versions import Version


class BuiltFor(StrEnum):
    """The kind of hardware that an image is built for."""

    CUDA = "cuda"
    """CUDA, whether or not its version is known."""
    NONE = "none"
    """The CPU alone. The image runs on every node."""
    OTHER = "other"
    """Accelerators of another vendor, or an interface that no NVIDIA GPU has."""
    UNKNOWN = "unknown"


class Compat(StrEnum):
    """Whether an image brings the cuda-compat package, with which a data-centre GPU runs it on an older driver."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ImageEnv:
    """The environment variables of an image or container that NVIDIA's container toolkit reads.

    Builds of one image differ. `variants` are the known environments, each as pairs of name and value; only what all
    agree on is certain. If `is_complete` is false, variables are missing, so a check that passes is certain and a check
    that fails is not.
    """

    variants: tuple[tuple[tuple[str, str], ...], ...]
    is_complete: bool = True

    @classmethod
    def of(cls, *variants: Mapping[str, str], is_complete: bool = True) -> "ImageEnv":
        return cls(tuple(tuple(sorted(variant.items())) for variant in variants), is_complete)


@dataclass(frozen=True, slots=True)
class Need:
    """What a container needs of its node, and how that is known.

    `cuda` is None unless the kind is CUDA and the version is known. It has one to three numbers, as many as the
    evidence gives. `is_cuda_verified` is false if nobody has read in a source that the release has this CUDA; its major
    version is certain even then. `compute_floor` is the least compute capability of the framework in the image.
    `is_floor_verified` is false if nobody has read that in its release notes; the image then certainly fails below
    `certain_floor`. `architectures` are the CPU architectures of the image (amd64, arm64), empty if unknown. `env` is
    what the container toolkit reads, None if unknown. `notes` are pieces of evidence that could not be read.
    `platform` names the hardware of an image of kind OTHER, such as ROCm.
    """

    kind: BuiltFor
    cuda: Version | None
    evidence: str
    compat: Compat = Compat.UNKNOWN
    compute_floor: Version | None = None
    is_floor_verified: bool = True
    architectures: tuple[str, ...] = ()
    env: ImageEnv | None = None
    notes: tuple[str, ...] = ()
    platform: str = ""
    certain_floor: Version | None = None
    is_cuda_verified: bool = True
    kernels: Kernels = Kernels.UNKNOWN
    libcuda: Libcuda = NO_LIBCUDA
    is_pending: bool = False
    """Whether the registry has not answered yet, so that more may be known later."""
    libraries: tuple[Library, ...] = ()
    """The builds of GPU code in the image. One has to serve; empty if not known."""
    is_of_project: bool = False
    """Whether the image is a known project's own, by its path."""
    is_changed: bool = False
    """Whether the container's command may install another framework, or runs none of its own."""
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        facts = (self.kind, self.cuda, self.evidence, self.compat, self.env, self.notes, self.is_pending)
        object.__setattr__(self, "_hash", hash(facts))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_for_nvidia(self) -> bool:
        """Whether the image certainly computes on no GPU but NVIDIA's."""
        is_certain = self.kind is BuiltFor.CUDA and (self.cuda is not None or self.is_of_project)
        return is_certain and not self.is_changed and not any(library.is_for_others for library in self.libraries)

    @property
    def spelled(self) -> str:
        """The CUDA version as text; `none` for an image that is not for CUDA, `unknown` if the version is not known."""
        if self.kind in (BuiltFor.NONE, BuiltFor.OTHER):
            return "none"
        return "unknown" if self.cuda is None else str(self.cuda)
