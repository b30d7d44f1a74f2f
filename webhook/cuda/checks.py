"""The checks that make up a verdict.

They check whether CPU and GPU can run the image, whether its code is compiled for the GPU, whether the driver supports
the GPU, and whether the driver runs the CUDA version: with all its features, by minor-version compatibility, or with
cuda-compat. A check without an objection returns None.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from webhook.cuda.compiled_code import Kernels, Library, Way
from webhook.cuda.cuda_tables import CudaTables
from webhook.cuda.drivers import Threshold
from webhook.cuda.need import Compat, Need
from webhook.cuda.offer import Offer
from webhook.gpus.steering import Cause
from webhook.model.versions import Version


class Verdict(StrEnum):
    """Whether an image runs on nodes."""

    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"
    FORWARD_COMPAT_ONLY = "forward-compat-only"
    """Only with the cuda-compat package that the image brings."""
    UNKNOWN = "unknown"


class CudaFinding(NamedTuple):
    """The result of a check. `reason` is a sentence without capital and period; it names both sides."""

    verdict: Verdict
    cause: Cause
    reason: str
    is_on_cpu: bool = False
    """Whether the program starts all the same, and computes on the CPU."""
    common: str = ""
    """The reason without what the name of the nodes says, such as their driver; empty if there is no such form."""


def gpu_of(offer: Offer) -> str:
    """The name of the GPU, with its compute capability if that is known."""
    name = offer.product or "the GPU"
    return f"{name} has {offer.compute}" if offer.compute is not None else name


def driver_of(offer: Offer) -> str:
    """The driver of the nodes, as a clause."""
    if offer.driver is None:
        return f"the node's driver reports CUDA {offer.cuda}"
    return f"the node has {offer.driver}{'' if offer.is_driver_exact else ', and the rest of its version is not known'}"


def architecture(need: Need, offer: Offer) -> CudaFinding | None:
    """Check that the image is built for the CPU architecture of the nodes."""
    if not need.architectures or not offer.arch or offer.arch in need.architectures:
        return None
    reason = f"the image is built for {' and '.join(need.architectures)}; the node is {offer.arch}"
    return CudaFinding(Verdict.INCOMPATIBLE, Cause.ARCHITECTURE, reason)


def framework(need: Need, offer: Offer) -> CudaFinding | None:
    """Check that the framework in the image has code for the GPU."""
    floor, compute = need.compute_floor, offer.compute
    if floor is None or compute is None or compute.at_least(floor):
        return None
    certain = floor if need.is_floor_verified else need.certain_floor
    is_certain = certain is not None and not compute.at_least(certain)
    least = certain if is_certain else floor
    doubt = "" if is_certain else ", as far as is known"
    what = f"the framework in the image needs compute capability {least} or newer{doubt}"
    return _of_gpu(Verdict.INCOMPATIBLE if is_certain else Verdict.UNKNOWN, what, offer)


def _of_gpu(verdict: Verdict, what: str, offer: Offer, *, is_on_cpu: bool = False) -> CudaFinding:
    return CudaFinding(verdict, Cause.GPU, f"{what}; {gpu_of(offer)}", is_on_cpu, what)


def ways(need: Need, offer: Offer) -> list[tuple[Library, Way]]:
    """The libraries in the image for the processor of the nodes, each with the way in which it runs on their GPU."""
    found = [one for one in need.libraries if not offer.arch or one.cpu in ("", offer.arch)]
    return [(one, Way.UNKNOWN if offer.compute is None else one.way(offer.compute)) for one in found]


def compiled_code(need: Need, offer: Offer, tables: CudaTables) -> CudaFinding | None:
    """Check that one of the libraries in the image has code for the GPU, which the driver can load."""
    libraries = ways(need, offer)
    serving = [(required_driver(one, way, need, tables), one) for one, way in libraries if way is not Way.NONE]
    if libraries and not serving:
        return _no_code([one for one, _ in libraries], offer)
    lacking = [(driver, one) for driver, one in serving if driver and not _has_driver(offer, driver, tables)]
    if not branches_of(offer, tables) or not lacking or len(lacking) < len(serving):
        return None
    driver, one = min(lacking, key=lambda option: option[0])
    what = f"the code in the image for {_gpu(offer)} needs driver {driver} or newer"
    reason = f"{what}; {driver_of(offer)}"
    if _has_driver(offer, driver, tables) is None or not one.is_verified or need.is_changed:
        return CudaFinding(Verdict.UNKNOWN, Cause.DRIVER, f"as far as is known, {reason}")
    if one.is_on_cpu or need.cuda is None:
        return CudaFinding(Verdict.UNKNOWN, Cause.DRIVER, reason, one.is_on_cpu)
    return _forward(need, need.cuda, offer, tables, what)


def _no_code(libraries: Sequence[Library], offer: Offer) -> CudaFinding:
    least = min(one.least for one in libraries if one.least is not None)
    if offer.compute is not None and not offer.compute.at_least(least):
        what = f"the framework in the image needs compute capability {least} or newer"
    else:
        known = dict.fromkeys(str(version) for one in libraries for version in (*one.code, *(one.ptx or ())))
        what = f"the code in the image is for compute capability {' and '.join(known)} alone"
    if any(one.is_on_cpu for one in libraries):
        return _of_gpu(Verdict.UNKNOWN, what, offer, is_on_cpu=True)
    is_certain = all(one.is_verified for one in libraries)
    doubt = "" if is_certain else ", as far as is known"
    verdict = Verdict.INCOMPATIBLE if is_certain else Verdict.UNKNOWN
    return _of_gpu(verdict, f"{what}{doubt}", offer)


def required_driver(library: Library, way: Way, need: Need, tables: CudaTables) -> Version | None:
    """The driver that a library needs beyond what the CUDA of the image needs; None if it needs no more."""
    cuda = library.cuda or need.cuda
    found = [library.driver]
    if way is Way.PTX:
        found.append(library.ptx_driver or (tables.toolkits.native_driver(cuda) if cuda is not None else None))
    if library.cuda is not None and (threshold := tables.toolkits.threshold_of(library.cuda)) is not None:
        found.append(threshold.high)
    return max((driver for driver in found if driver is not None), default=None)


def _has_driver(offer: Offer, driver: Version, tables: CudaTables) -> bool | None:
    if offer.driver is not None:
        return _reaches(Threshold(driver, driver), offer.driver, is_exact=offer.is_driver_exact)
    branches = branches_of(offer, tables)
    return False if max(branches, default=driver.major) < driver.major else None


def gpu_too_old(cuda: Version, offer: Offer, tables: CudaTables) -> CudaFinding | None:
    """Check that the CUDA version still supports the GPU."""
    least = tables.capabilities.least_compute(cuda)
    if least is None or offer.compute is None or offer.compute.at_least(least):
        return None
    return _of_gpu(Verdict.INCOMPATIBLE, f"CUDA {cuda.major} needs compute capability {least} or newer", offer)


_WITHOUT_CODE = {
    Kernels.WITHOUT_PTX: "the image brings no PTX, which the driver could compile",
    Kernels.WITH_PTX: "the image brings PTX, which the driver compiles, but perhaps not all its code has PTX",
    Kernels.NONE: "the image brings no kernels, and it is not known whether kernels that are added have PTX",
    Kernels.UNKNOWN: "it is not known whether the image brings PTX, which the driver compiles",
}


def gpu_too_new(cuda: Version, kernels: Kernels, offer: Offer, tables: CudaTables) -> CudaFinding | None:
    """Check that the CUDA version already has code for the GPU, or that the image brings PTX for newer GPUs."""
    first = tables.first_cuda(offer.compute) if offer.compute is not None else None
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
    return f"compute capability {offer.compute}" + (f" ({offer.product})" if offer.product else "")


def branches_of(offer: Offer, tables: CudaTables) -> tuple[int, ...]:
    """The driver branches that the nodes may have; empty if nothing is known of their driver."""
    if offer.driver is not None:
        return (offer.driver.major,)
    return tables.drivers.branches_reporting(offer.cuda) if offer.cuda is not None else ()


def driver_for_gpu(offer: Offer, tables: CudaTables) -> CudaFinding | None:
    """Check that the driver supports the GPU. Its branch may be too old, or may have dropped the GPU."""
    generation = tables.generation_of(offer.compute)
    branches = branches_of(offer, tables)
    if generation is None or not branches:
        return None
    first, last = generation.first_branch, generation.last_branch
    if first is not None and min(branches) < first:
        is_certain = generation.is_verified and max(branches) < first
        return _too_old(offer, f"driver branch {first}", is_certain=is_certain)
    if last is not None and max(branches) > last:
        verdict = Verdict.INCOMPATIBLE if min(branches) > last else Verdict.UNKNOWN
        return _of_driver(verdict, f"driver branch {last} is the last for {_gpu(offer)}", offer)
    traits = tables.gpus.traits_of(offer.product) if offer.product else None
    driver = offer.driver or Version((min(branches),))
    if traits is None or traits.first_driver is None or driver.at_least(traits.first_driver):
        return None
    return _too_old(offer, f"driver {traits.first_driver}", is_certain=False)  # of models no table is certain


def _too_old(offer: Offer, needed: str, *, is_certain: bool) -> CudaFinding:
    doubt = "" if is_certain else ", as far as is known"
    verdict = Verdict.INCOMPATIBLE if is_certain else Verdict.UNKNOWN
    return _of_driver(verdict, f"{_gpu(offer)} needs {needed} or newer{doubt}", offer)


def _of_driver(verdict: Verdict, what: str, offer: Offer, rest: str = "") -> CudaFinding:
    return CudaFinding(verdict, Cause.DRIVER, f"{what}; {driver_of(offer)}{rest}", common=f"{what}{rest}")


_HAS_COMPAT = {Compat.YES: True, Compat.NO: False, Compat.UNKNOWN: None}


def driver_for_cuda(need: Need, cuda: Version, offer: Offer, tables: CudaTables) -> CudaFinding:
    """Check that the driver runs the CUDA version that the image needs."""
    if offer.driver is None and offer.cuda is None:
        problems = f" ({'; '.join(offer.problems)})" if offer.problems else ""
        return CudaFinding(Verdict.UNKNOWN, Cause.DRIVER, f"the node's driver is not known{problems}")
    runs = _runs(cuda, offer, tables)
    if runs:
        return CudaFinding(Verdict.COMPATIBLE, Cause.NONE, _fit(cuda, offer, tables))
    needed = _needed(cuda, tables)
    if runs is None:
        return _of_driver(Verdict.UNKNOWN, needed, offer, ", and whether that is enough is not known")
    return _forward(need, cuda, offer, tables, needed)


def _runs(cuda: Version, offer: Offer, tables: CudaTables) -> bool | None:
    """Whether the driver runs a CUDA version without cuda-compat; None if that is not known."""
    threshold = tables.toolkits.threshold_of(cuda)
    by_version: bool | None = None
    if offer.driver is not None:
        if threshold is None:
            by_version = False if tables.drivers.is_before(offer.driver, cuda.major) else None
        else:
            by_version = _reaches(threshold, offer.driver, is_exact=offer.is_driver_exact)
    if by_version is None and offer.driver is not None:
        reported = tables.drivers.reported_by(offer.driver)
        by_version = False if reported is not None and reported.major < cuda.major else None
    if by_version is None and offer.cuda is not None:
        return _is_reported(cuda, offer.cuda, tables)
    return by_version


def _reaches(threshold: Threshold, driver: Version, *, is_exact: bool) -> bool | None:
    """Whether a driver reaches a threshold. If `is_exact` is false, only the first numbers of its version are known."""
    if driver.at_least(threshold.high) if is_exact else driver.reaches(threshold.high):
        return True
    reaches_low = driver.at_least(threshold.low) if is_exact else driver.reaches(threshold.low)
    return False if reaches_low is False else None


def _is_reported(cuda: Version, reported: Version, tables: CudaTables) -> bool | None:
    """Whether a driver whose newest CUDA is `reported` runs the version `cuda`."""
    if cuda.minor is not None:
        reaches = reported.reaches(cuda.cut(2))
    else:
        reaches = True if reported.major > cuda.major else None if reported.major == cuda.major else False
    if reaches or reported.major != cuda.major or cuda.major < min(tables.toolkits.floors):
        return reaches
    floor = tables.toolkits.floors.get(cuda.major)
    return True if floor is not None and reported.reaches(floor.reported) else None


def _needed(cuda: Version, tables: CudaTables) -> str:
    threshold = tables.toolkits.threshold_of(cuda)
    if threshold is None and tables.drivers.rows[-1].cuda.major >= cuda.major:
        return f"which driver CUDA {cuda} needs is not known here"
    if threshold is None:
        return f"CUDA {cuda} is newer than every driver known here, up to branch {tables.drivers.newest}"
    floor = tables.toolkits.floors.get(cuda.major)
    if floor is not None and floor.driver == threshold.high:
        return f"needs driver {threshold.high} or newer (CUDA {cuda.major}, minor-version compatibility)"
    return f"needs driver {threshold.high} or newer (CUDA {cuda})"


def _fit(cuda: Version, offer: Offer, tables: CudaTables) -> str:
    """Why the driver is new enough, and which features do not work if it is older than the CUDA version."""
    unseen = "" if offer.compute is not None else "; the GPU is not known, so it was not checked"
    native = tables.toolkits.native_driver(cuda) if cuda.minor is not None else None
    if native is None:
        return f"{_needed(cuda, tables)}; {driver_of(offer)}{unseen}"
    if offer.driver is None:
        is_native = offer.cuda is not None and offer.cuda.reaches(cuda.cut(2)) is not False
    else:
        is_native = offer.driver.at_least(native)
    spelled = f"driver {native}" if len(native.parts) > 1 else f"driver branch {native}"
    if is_native:
        return f"needs {spelled} or newer (CUDA {cuda}, native); {driver_of(offer)}{unseen}"
    limits = f"code that is compiled at run time (PTX) and the newest features of CUDA {cuda} need {spelled}"
    return f"{_needed(cuda, tables)}; {driver_of(offer)}; {limits}{unseen}"


def _forward(need: Need, cuda: Version, offer: Offer, tables: CudaTables, needed: str) -> CudaFinding:
    """Check whether forward compatibility lets a driver that is too old run the CUDA version."""
    branches = {tables.is_base(cuda, branch, offer.arch) for branch in branches_of(offer, tables)}
    listed = ", ".join(map(str, tables.forward_compat.base_branches(cuda)))
    conditions = (
        (_HAS_COMPAT[need.compat], "the image has no cuda-compat package", "the image has the package for it"),
        (offer.is_data_center, f"{offer.product} is no data-centre GPU", "the GPU is a data-centre GPU"),
        (
            branches.pop() if len(branches) == 1 else None,
            f"cuda-compat of CUDA {cuda} does not run on the driver's branch"
            + (f", only on {listed}" if listed else ""),
            f"cuda-compat of CUDA {cuda} runs on the driver's branch",
        ),
    )
    refused = next((text for is_met, text, _ in conditions if is_met is False), None)
    if refused is not None:
        found = _of_driver(Verdict.INCOMPATIBLE, needed, offer, f", and forward compatibility does not help: {refused}")
        return found._replace(common=f"{needed}, and {refused}")
    doubts = " and ".join(text for is_met, _, text in conditions if is_met is None)
    if doubts:
        return _of_driver(
            Verdict.UNKNOWN, needed, offer, f"; forward compatibility may help, but whether {doubts} is not known"
        )
    by_compat = " and runs it by forward compatibility only: with the cuda-compat package of the image"
    return _of_driver(Verdict.FORWARD_COMPAT_ONLY, needed, offer, by_compat)
