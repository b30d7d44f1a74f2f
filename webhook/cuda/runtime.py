"""Whether a driver runs a CUDA version: with all its features, by minor-version compatibility, or with cuda-compat."""

from webhook.cuda.cuda_finding import Cause, CudaFinding, Verdict, driver_of
from webhook.cuda.drivers import NEWEST_BRANCH
from webhook.cuda.forward_compat import base_branches, is_base
from webhook.cuda.gpus import branches_of
from webhook.cuda.need import Compat, Need
from webhook.cuda.offer import Offer
from webhook.cuda.toolkits import FLOORS, Threshold, native_driver, threshold_of
from webhook.model.versions import Version

_HAS_COMPAT = {Compat.YES: True, Compat.NO: False, Compat.UNKNOWN: None}


def driver_for_cuda(need: Need, cuda: Version, offer: Offer) -> CudaFinding:
    """What the driver makes of the CUDA version that the image needs."""
    if offer.driver is None and offer.cuda is None:
        problems = f" ({'; '.join(offer.problems)})" if offer.problems else ""
        return CudaFinding(Verdict.UNKNOWN, Cause.DRIVER, f"the node's driver is not known{problems}")
    runs = _runs(cuda, offer)
    if runs:
        return CudaFinding(Verdict.COMPATIBLE, Cause.NONE, _fit(need, cuda, offer))
    reason = f"{_needed(cuda)}; {driver_of(offer)}"
    if runs is None:
        return CudaFinding(Verdict.UNKNOWN, Cause.DRIVER, f"{reason}, and whether that is enough is not known")
    return _forward(need, cuda, offer, reason)


def _runs(cuda: Version, offer: Offer) -> bool | None:
    """Whether the driver runs a CUDA version by itself; None where that is not known."""
    threshold = threshold_of(cuda)
    by_version: bool | None = None
    if offer.driver is not None:
        if threshold is None:
            by_version = None if offer.driver.major > NEWEST_BRANCH else False
        else:
            by_version = _reaches(threshold, offer.driver, is_exact=offer.is_driver_exact)
    if by_version is None and offer.cuda is not None:
        return _is_reported(cuda, offer.cuda)
    return by_version


def _reaches(threshold: Threshold, driver: Version, *, is_exact: bool) -> bool | None:
    """Whether a driver is beyond a threshold; only the beginning of its version is known where it is not exact."""
    if driver.at_least(threshold.high) if is_exact else driver.reaches(threshold.high):
        return True
    reaches_low = driver.at_least(threshold.low) if is_exact else driver.reaches(threshold.low)
    return False if reaches_low is False else None


def _is_reported(cuda: Version, reported: Version) -> bool | None:
    """Whether a driver that reports `reported` as its newest CUDA runs another version."""
    if cuda.minor is not None:
        reaches = reported.reaches(cuda.cut(2))
    else:
        reaches = True if reported.major > cuda.major else None if reported.major == cuda.major else False
    if reaches or reported.major != cuda.major or cuda.major < min(FLOORS):
        return reaches
    floor = FLOORS.get(cuda.major)
    return True if floor is not None and reported.reaches(floor.reported) else None


def _needed(cuda: Version) -> str:
    """The driver that a CUDA version needs, and why that one."""
    threshold = threshold_of(cuda)
    if threshold is None:
        return f"CUDA {cuda} is newer than every driver known here, up to branch {NEWEST_BRANCH}"
    floor = FLOORS.get(cuda.major)
    if floor is not None and floor.driver == threshold.high:
        return f"needs driver {threshold.high} or newer (CUDA {cuda.major}, minor-version compatibility)"
    return f"needs driver {threshold.high} or newer (CUDA {cuda})"


def _fit(need: Need, cuda: Version, offer: Offer) -> str:
    """Why the driver is enough, and what does not work all the same where it is older than the CUDA version."""
    unseen = "" if offer.compute is not None else "; the GPU is not known, so it was not checked"
    native = native_driver(cuda) if cuda.minor is not None else None
    if native is None:
        return f"{_needed(cuda)}; {driver_of(offer)}{unseen}"
    if offer.driver is None:
        is_native = offer.cuda is not None and offer.cuda.reaches(cuda.cut(2)) is not False
    else:
        is_native = offer.driver.at_least(native)
    spelled = f"driver {native}" if len(native.parts) > 1 else f"driver branch {native}"
    if is_native:
        return f"needs {spelled} or newer (CUDA {cuda}, native); {driver_of(offer)}{unseen}"
    limits = f"code that is compiled at run time (PTX) and the newest features of CUDA {cuda} need {spelled}"
    if need.compat is Compat.YES and offer.is_data_center is False:
        limits += (
            "; beware: the container toolkit may load the cuda-compat libraries of the image, which fail on"
            f" {offer.product or 'this GPU'} with error 804"
        )
    return f"{_needed(cuda)}; {driver_of(offer)}; {limits}{unseen}"


def _forward(need: Need, cuda: Version, offer: Offer, reason: str) -> CudaFinding:
    """What forward compatibility makes of a driver that is too old."""
    branches = {is_base(cuda, branch, offer.arch) for branch in branches_of(offer)}
    listed = ", ".join(map(str, base_branches(cuda)))
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
        reason = f"{reason}, and forward compatibility does not help: {refused}"
        return CudaFinding(Verdict.INCOMPATIBLE, Cause.DRIVER, reason)
    doubts = " and ".join(text for is_met, _, text in conditions if is_met is None)
    if doubts:
        reason = f"{reason}; forward compatibility may help, but whether {doubts} is not known"
        return CudaFinding(Verdict.UNKNOWN, Cause.DRIVER, reason)
    reason = f"{reason} and runs it by forward compatibility only: with the cuda-compat package of the image"
    return CudaFinding(Verdict.FORWARD_COMPAT_ONLY, Cause.DRIVER, reason)
