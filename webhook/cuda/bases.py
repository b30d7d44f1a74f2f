"""What images are built on: whether they bring cuda-compat, and what the container toolkit reads in them."""

from enum import Enum, auto
from functools import lru_cache

from webhook.cuda.forward_compat import CompatListings
from webhook.cuda.need import Compat, ImageEnv
from webhook.model.versions import Version

NGC_REQUIREMENT = {"NVIDIA_REQUIRE_CUDA": "cuda>=9.0"}
"""What every framework container of NVIDIA says, from 20.06 to 26.x, whatever its CUDA: no measure of what it needs."""

_NOTHING = ImageEnv.of({})
_NGC = ImageEnv.of(NGC_REQUIREMENT)


class Base(Enum):
    """The image that another one is built on."""

    CUDA = auto()
    """nvidia/cuda of the same CUDA, and its environment unchanged."""
    NGC = auto()
    """The common base of NVIDIA's framework containers."""
    RELATED = auto()
    """nvidia/cuda, of which release or with which changes is not known."""
    PLAIN = auto()
    """An image without CUDA; what CUDA there is came with pip or conda."""
    UNKNOWN = auto()
    """Not known, but a driver for its own CUDA satisfies what it requires."""
    FOREIGN = auto()
    """Nothing is known."""

    @property
    def compat(self) -> Compat:
        """Whether it brings the cuda-compat package."""
        if self is Base.PLAIN:
            return Compat.NO
        return Compat.YES if self in (Base.CUDA, Base.NGC, Base.RELATED) else Compat.UNKNOWN

    def env(self, cuda: Version | None, architectures: tuple[str, ...], known: CompatListings) -> ImageEnv | None:
        """What the toolkit reads in an image with this base and CUDA; None where that is not known."""
        if self is Base.PLAIN:
            return _NOTHING
        if self is Base.NGC:
            return _NGC
        if self is Base.FOREIGN or cuda is None or cuda.minor is None:
            return None
        if self is Base.CUDA:
            return _of_nvidia_cuda(cuda, architectures, known)
        return ImageEnv.of({"NVIDIA_REQUIRE_CUDA": f"cuda>={cuda.cut(2)}"}, is_complete=False)


@lru_cache(maxsize=256)
def _of_nvidia_cuda(cuda: Version, architectures: tuple[str, ...], known: CompatListings) -> ImageEnv | None:
    variants = known.base_image_env(cuda, architectures[0] if len(architectures) == 1 else None)
    return ImageEnv.of(*variants) if variants else None
