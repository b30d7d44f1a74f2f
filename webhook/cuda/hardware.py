"""Whether a GPU and a CPU can run an image, whatever the driver, and whether the driver can drive the GPU."""

from webhook.cuda.cuda_finding import Cause, CudaFinding, Verdict, driver_of, gpu_of
from webhook.cuda.drivers import branches_reporting
from webhook.cuda.gpus import first_cuda, generation_of, least_compute
from webhook.cuda.kernels import Kernels
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer
from webhook.cuda.products import model_of
from webhook.model.versions import Version


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
