"""Every check of an image against nodes asked, and the worst answer that is certain taken.

What is certainly wrong outweighs what is not known, and that outweighs what is right, so that an answer never depends
on the order in which faults are found.
"""

from collections.abc import Iterator

from webhook.cuda import hardware
from webhook.cuda.cuda_finding import Cause, CudaFinding, Verdict
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer
from webhook.cuda.runtime import driver_for_cuda


def find(need: Need, offer: Offer) -> CudaFinding:
    """The finding that decides about an image for CUDA: the first of the worst."""
    findings = list(_findings(need, offer))
    for verdict in (Verdict.INCOMPATIBLE, Verdict.UNKNOWN):
        worst = next((finding for finding in findings if finding.verdict is verdict), None)
        if worst is not None:
            return worst
    return findings[-1]


def _findings(need: Need, offer: Offer) -> Iterator[CudaFinding]:
    """What the checks object to, and last what the driver makes of the CUDA version."""
    yield from filter(None, (hardware.architecture(need, offer), hardware.framework(need, offer)))
    if need.cuda is None:
        yield CudaFinding(Verdict.UNKNOWN, Cause.IMAGE, "the CUDA version that the image needs is not known")
        return
    cuda = need.cuda if need.is_cuda_verified else need.cuda.cut(1)
    yield from filter(None, (hardware.gpu_too_old(cuda, offer), hardware.gpu_too_new(cuda, need.kernels, offer)))
    yield from filter(None, (hardware.driver_for_gpu(offer),))
    yield driver_for_cuda(need, cuda, offer)
