"""Memory of what a replica knows of images: 10,000 references as a cluster has them, and as an attacker names them.

    python -m tests.benchmarks.images_memory

What is kept has to be all of it, except where it would take more than the cache may; that many have to be there.
"""

import gc
import hashlib
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.benchmarks.runs import demand, head, row, sized
from webhook.cuda.cuda_tables import SHIPPED
from webhook.images.cache import MOST_BYTES, MOST_REFERENCES, ImageCache, LookupResult
from webhook.model.image import ImageConfig

Mix = Callable[[], Iterator[tuple[str, LookupResult]]]

COUNT = sized(MOST_REFERENCES, 500)
"""References that are looked up."""
ENVIRONMENTS = 60
"""Different ones in the realistic mix: most images are built on one of a few dozen bases."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What is left of a mix, and what it takes: as Python's allocator counts it, and as the cache estimates it."""

    references: int
    bytes: int
    estimate: int

    @property
    def is_sound(self) -> bool:
        """Whether all references are kept, or as many as there is room for, and the estimate is not too low."""
        room = self.references < COUNT and self.estimate > MOST_BYTES * 0.9
        return (self.references == COUNT or room) and self.bytes < self.estimate <= MOST_BYTES


def main() -> None:
    """Print what each mix takes."""
    head("", "references kept", "MiB")
    for name, mix in MIXES.items():
        found = measured(mix)
        demand(found.is_sound, f"{name}: {found}; {COUNT} references are expected, or {MOST_BYTES} bytes of them")
        row(f"{COUNT:,} {name}", f"{found.references:,}", f"{found.bytes / 2**20:.1f}")


def measured(mix: Mix) -> Measured:
    """Remember a mix and see what it takes."""
    gc.collect()
    tracemalloc.start()
    cache = ImageCache()
    for reference, result in mix():
        cache.put(reference, result)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return Measured(len(cache), taken, cache.bytes)


def realistic() -> Iterator[tuple[str, LookupResult]]:
    """Tags of 500 repositories, each with an image of its own."""
    for number in range(COUNT):
        reference = f"registry.corp.example/machine-learning/team-{number % 500}/trainer:2026.07.{number:05d}-cuda"
        architectures = tuple(f"{name}64" for name in ("amd", "arm"))
        yield reference, _found(number, ImageConfig(_digest(number), _env(number % ENVIRONMENTS), architectures))


def distinct_environments() -> Iterator[tuple[str, LookupResult]]:
    """Images whose variables are as long as possible, and never the same."""
    for number in range(COUNT):
        env = {"NVIDIA_REQUIRE_CUDA": f"cuda>={number}" + "x" * 4096, "CUDA_VERSION": str(number)}
        yield f"docker.io/mallory/image:{number}", _found(number, ImageConfig(_digest(number), env))


def failures() -> Iterator[tuple[str, LookupResult]]:
    """Images that do not exist."""
    for number in range(COUNT):
        problem = f"docker.io: mallory/image:{number} is not there, or not for everybody to see ({'x' * 200})"
        yield f"docker.io/mallory/image:{number}", LookupResult(float(number), 600.0, problem=problem)


def _found(number: int, config: ImageConfig) -> LookupResult:
    return LookupResult(float(number), 3600.0, config)


def _env(number: int) -> dict[str, str]:
    """The variables of an nvidia/cuda image, as long as they are there."""
    version = f"{11 + number % 3}.{number % 9}.{number % 4}"
    brands = SHIPPED.forward_compat.brands["all"]
    floors = [f"brand={brand},driver>={low},driver<{low + 1}" for low in (470, 525, 535) for brand in brands]
    return {
        "CUDA_VERSION": version,
        "NV_CUDA_CUDART_VERSION": f"{version}-{number}",
        "NVIDIA_REQUIRE_CUDA": " ".join([f"cuda>={version.rpartition('.')[0]}", *floors]),
        "NVIDIA_VISIBLE_DEVICES": "all",
    }


def _digest(number: int) -> str:
    return "sha256:" + hashlib.sha256(str(number).encode()).hexdigest()


MIXES: dict[str, Mix] = {
    f"as clusters have them, of {ENVIRONMENTS} environments": realistic,
    "with an environment of 4 KiB each": distinct_environments,
    "that do not exist": failures,
}


if __name__ == "__main__":
    main()
