"""What an image needs of a node, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from webhook.cuda.kernels import Kernels
from webhook.model.versions import Version


class BuiltFor(StrEnum):
    """What an image is built for."""

    CUDA = "cuda"
    """CUDA, be its version known or not."""
    NONE = "none"
    """The CPU; it runs everywhere."""
    OTHER = "other"
    """Accelerators of another vendor, or an interface that no NVIDIA GPU has."""
    UNKNOWN = "unknown"
    """Nothing says so."""


class Compat(StrEnum):
    """Whether an image brings the cuda-compat package, with which a data-centre GPU runs it on an older driver."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ImageEnv:
    """What the environment of a container holds of NVIDIA's container toolkit: names and values.

    Builds of one image differ: `variants` holds all that are known, and what they agree on is certain. Where
    `is_complete` is false they only hold a part: what satisfies it is let through, and nothing else is certain.
    """

    variants: tuple[tuple[tuple[str, str], ...], ...]
    is_complete: bool = True

    @classmethod
    def of(cls, *variants: Mapping[str, str], is_complete: bool = True) -> "ImageEnv":
        """The environment with these variants."""
        return cls(tuple(tuple(sorted(variant.items())) for variant in variants), is_complete)


@dataclass(frozen=True, slots=True)
class Need:
    """What one container needs of the node it runs on, and how that is known.

    `cuda` is None unless the kind is CUDA and the version known; it has as many numbers as the evidence gives, one to
    three. `compute_floor` is the least compute capability of the framework in the image, as its release notes say;
    `is_floor_verified` is false where nobody has read them; below `certain_floor` it then does not run all the same.
    `is_cuda_verified` is false where nobody has read that the release has this CUDA; its first number is certain even
    then. `architectures` are the CPU architectures the image exists
    for (amd64, arm64), empty where unknown. `env` is what the container toolkit sees, None where unknown. `notes` are
    pieces of evidence that could not be read, with the offending text. `platform` names what an image of kind OTHER is
    for, such as ROCm.
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
    is_pending: bool = False
    """Whether the registry is still to be asked, so that a later answer may say more."""
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        facts = (self.kind, self.cuda, self.evidence, self.compat, self.env, self.notes, self.is_pending)
        object.__setattr__(self, "_hash", hash(facts))

    def __hash__(self) -> int:
        return self._hash

    @property
    def spelled(self) -> str:
        """The CUDA version, `none` for images that are not for CUDA, `unknown`."""
        if self.kind in (BuiltFor.NONE, BuiltFor.OTHER):
            return "none"
        return "unknown" if self.cuda is None else str(self.cuda)
