"""Which CUDA and which drivers run on a GPU, by its compute capability.

Sources: ARCH, the page "CUDA Toolkit, Driver, and Architecture Matrix" of the data-centre driver documentation;
CUDAJL, the compatibility tables of CUDA.jl; BWCG, the Blackwell compatibility guide (code for X.Y runs on X.Z, Z >= Y,
and on no other major version, so the first toolkit of the major version counts). What is in none is unverified.

The checks below the tables say whether a GPU and a CPU can run an image, whatever the driver, and whether the driver
can drive the GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from webhook.cuda.cuda_finding import Cause, CudaFinding, Verdict, driver_of, gpu_of
from webhook.cuda.drivers import branches_reporting
from webhook.cuda.kernels import Kernels
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer
from webhook.cuda.products import model_of
from webhook.cuda.toolkits import NEWEST
from webhook.model.versions import Version, parse_version


@dataclass(frozen=True, slots=True)
class Generation:
    """GPUs of one compute capability, and the driver branches that drive them; None where there is no bound."""

    compute: Version
    family: str
    first_branch: int | None = None
    last_branch: int | None = None
    is_first_verified: bool = True


def _row(
    compute: str, family: str, first: int | None = None, last: int | None = None, *, verified: bool = True
) -> Generation:
    return Generation(parse_version(compute), family, first, last, verified)


GENERATIONS: tuple[Generation, ...] = (
    _row("3.5", "kepler", last=470),
    _row("3.7", "kepler", last=470),
    _row("5.0", "maxwell", last=580),
    _row("5.2", "maxwell", last=580),
    _row("6.0", "pascal", last=580),
    _row("6.1", "pascal", last=580),
    _row("7.0", "volta", last=580),
    _row("7.5", "turing", 410),
    _row("8.0", "ampere", 450),
    _row("8.6", "ampere", 455),
    _row("8.7", "ampere"),
    _row("8.9", "ada-lovelace", 520),
    _row("9.0", "hopper", 520),
    _row("10.0", "blackwell", 570),
    _row("10.3", "blackwell", 575, verified=False),
    _row("10.7", "rubin", 615),
    _row("11.0", "blackwell"),
    _row("12.0", "blackwell", 570),
    _row("12.1", "blackwell", 580, verified=False),
)
"""Every known compute capability, in order. Source: ARCH; 8.7 and 11.0 are Jetson."""

_BY_COMPUTE = {row.compute.parts: row for row in GENERATIONS}


@dataclass(frozen=True, slots=True)
class First:
    """The first CUDA with code for a GPU: none older than `possible`, all from `sure` on; None where not known."""

    possible: Version
    sure: Version | None


def _first(possible: str, sure: str | None = None) -> First:
    return First(parse_version(possible), parse_version(sure or possible))


FIRST_BY_MAJOR: Mapping[int, First] = {
    3: _first("5.0"),
    5: _first("6.0"),
    6: _first("8.0"),
    7: _first("9.0"),
    8: _first("11.0"),
    9: _first("11.8"),
    10: _first("12.8"),
    11: _first("12.8", "13.0"),
    12: _first("12.8"),
}
"""By major compute capability. Source: ARCH, CUDAJL. CUDA 12.8 and 12.9 know 11.0 under its former number 10.1."""

FIRST_BY_COMPUTE: Mapping[tuple[int, ...], First] = {(10, 7): _first("12.8", "13.4")}
"""Exceptions. Toolkits know 10.7 from 13.4 on; whether older code for 10.0 runs there, nobody has said."""

LEAST_BY_CUDA: Mapping[int, Version] = {
    10: parse_version("3.0"),
    11: parse_version("3.5"),
    12: parse_version("5.0"),
    13: parse_version("7.5"),
}
"""The least compute capability that each major version of CUDA has code for. Source: ARCH, CUDAJL."""


def least_compute(cuda: Version) -> Version | None:
    """The least compute capability that a CUDA version runs on; None where the table does not reach back.

    Support is only ever dropped, so a newer major version needs what the newest known one needs, or more.
    """
    return LEAST_BY_CUDA.get(min(cuda.major, max(LEAST_BY_CUDA)))


@lru_cache(maxsize=256)
def first_cuda(compute: Version) -> First | None:
    """The first CUDA with code for a GPU; None for old GPUs that the table lacks.

    No known toolkit has code for GPUs newer than the table.
    """
    if compute.major > max(FIRST_BY_MAJOR):
        return First(NEWEST.cut(2), None)
    return FIRST_BY_COMPUTE.get(compute.parts) or FIRST_BY_MAJOR.get(compute.major)


def generation_of(compute: Version) -> Generation | None:
    """The row of a compute capability; None where there is none."""
    return _BY_COMPUTE.get(compute.parts)


def architecture(need: Need, offer: Offer) -> CudaFinding | None:
    """The image exists for the CPU."""
    if not need.architectures or not offer.arch or offer.arch in need.architectures:
        return None
    reason = f"the image is built for {' and '.join(need.architectures)}; the node is {offer.arch}"
    return CudaFinding(Verdict.INCOMPATIBLE, Cause.ARCHITECTURE, reason)


def framework(need: Need, offer: Offer) -> CudaFinding | None:
    """The framework in the image has code for the GPU."""
    floor, compute = need.compute_floor, offer.compute
    if floor is None or compute is None or compute.at_least(floor):
        return None
    certain = floor if need.is_floor_verified else need.certain_floor
    is_certain = certain is not None and not compute.at_least(certain)
    least = certain if is_certain else floor
    doubt = "" if is_certain else ", as far as is known"
    reason = f"the framework in the image needs compute capability {least} or newer{doubt}; {gpu_of(offer)}"
    return CudaFinding(Verdict.INCOMPATIBLE if is_certain else Verdict.UNKNOWN, Cause.GPU, reason)


def gpu_too_old(cuda: Version, offer: Offer) -> CudaFinding | None:
    """CUDA still has code for the GPU."""
    least = least_compute(cuda)
    if least is None or offer.compute is None or offer.compute.at_least(least):
        return None
    reason = f"CUDA {cuda.major} needs compute capability {least} or newer; {gpu_of(offer)}"
    return CudaFinding(Verdict.INCOMPATIBLE, Cause.GPU, reason)


_WITHOUT_CODE = {
    Kernels.WITHOUT_PTX: "the image brings no PTX, which the driver could compile",
    Kernels.WITH_PTX: "the image brings PTX, which the driver compiles, but perhaps not all its code has PTX",
    Kernels.NONE: "the image brings no kernels, and it is not known whether those that are added to it have PTX",
    Kernels.UNKNOWN: "it is not known whether the image brings PTX, which the driver compiles",
}


def gpu_too_new(cuda: Version, kernels: Kernels, offer: Offer) -> CudaFinding | None:
    """CUDA already has code for the GPU, or the image may bring PTX, which the driver compiles for newer GPUs."""
    first = first_cuda(offer.compute) if offer.compute is not None else None
    if first is None:
        return None
    if cuda.reaches(first.possible) is False:
        others = "only" if first.possible == first.sure else "at best"
        code = f"CUDA {cuda} has no code for {_gpu(offer)}, {others} CUDA {first.possible} and newer"
        is_certain = kernels is Kernels.WITHOUT_PTX
        reason = f"{code}; {_WITHOUT_CODE[kernels]}"
        return CudaFinding(Verdict.INCOMPATIBLE if is_certain else Verdict.UNKNOWN, Cause.GPU, reason)
    if first.sure is not None and cuda.reaches(first.sure):
        return None
    reason = f"it is not known whether CUDA {cuda} has code for {_gpu(offer)}"
    return CudaFinding(Verdict.UNKNOWN, Cause.GPU, reason)


def _gpu(offer: Offer) -> str:
    """The GPU within a sentence."""
    return f"compute capability {offer.compute}" + (f" ({offer.product})" if offer.product else "")


def branches_of(offer: Offer) -> tuple[int, ...]:
    """The driver branches that the nodes may have; empty where nothing is known of them."""
    if offer.driver is not None:
        return (offer.driver.major,)
    return branches_reporting(offer.cuda) if offer.cuda is not None else ()


def driver_for_gpu(offer: Offer) -> CudaFinding | None:
    """The driver drives the GPU: a branch may be too old for it, and one may have dropped it."""
    generation = generation_of(offer.compute) if offer.compute is not None else None
    branches = branches_of(offer)
    if generation is None or not branches:
        return None
    first, last = generation.first_branch, generation.last_branch
    if first is not None and min(branches) < first:
        is_certain = generation.is_first_verified and max(branches) < first
        return _too_old(offer, f"driver branch {first}", is_certain=is_certain)
    if last is not None and max(branches) > last:
        reason = f"driver branch {last} is the last for {_gpu(offer)}; {driver_of(offer)}"
        return CudaFinding(Verdict.INCOMPATIBLE if min(branches) > last else Verdict.UNKNOWN, Cause.DRIVER, reason)
    return _driver_for_model(offer)


def _driver_for_model(offer: Offer) -> CudaFinding | None:
    """The same for a single product; what is known of these is not certain."""
    model = model_of(offer.product) if offer.product else None
    driver = offer.driver or Version((min(branches_of(offer)),))
    if model is None or model.first_driver is None or driver.at_least(model.first_driver):
        return None
    return _too_old(offer, f"driver {model.first_driver}", is_certain=False)


def _too_old(offer: Offer, needed: str, *, is_certain: bool) -> CudaFinding:
    doubt = "" if is_certain else ", as far as is known"
    reason = f"{_gpu(offer)} needs {needed} or newer{doubt}; {driver_of(offer)}"
    return CudaFinding(Verdict.INCOMPATIBLE if is_certain else Verdict.UNKNOWN, Cause.DRIVER, reason)
