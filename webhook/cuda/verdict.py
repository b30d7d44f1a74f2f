"""The verdict whether an image runs on nodes, made of the findings of all checks.

An incompatibility outweighs an unknown, and an unknown outweighs a success. So the verdict does not depend on the order
of the checks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from webhook.cuda import checks
from webhook.cuda.checks import CudaFinding, Verdict
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.gate import Gate, legacy_gate
from webhook.cuda.need import BuiltFor, Need
from webhook.cuda.offer import Offer
from webhook.gpus.steering import Cause


def deciding_finding(need: Need, offer: Offer, tables: CudaTables = SHIPPED) -> CudaFinding:
    """The finding that decides about an image for CUDA: the first one of the worst kind."""
    findings = list(_findings(need, offer, tables))
    for verdict in (Verdict.INCOMPATIBLE, Verdict.UNKNOWN):
        worst = next((finding for finding in findings if finding.verdict is verdict), None)
        if worst is not None:
            return worst
    return findings[-1]


def _findings(need: Need, offer: Offer, tables: CudaTables) -> Iterator[CudaFinding]:
    """The objections of the checks, and at the end whether the driver runs the CUDA version."""
    yield from filter(None, (checks.architecture(need, offer), checks.framework(need, offer)))
    if need.cuda is None:
        yield CudaFinding(Verdict.UNKNOWN, Cause.IMAGE, "the CUDA version that the image needs is not known")
        return
    cuda = need.cuda if need.is_cuda_verified else need.cuda.cut(1)
    too_new = checks.gpu_too_new(cuda, need.kernels, offer, tables)
    yield from filter(None, (checks.gpu_too_old(cuda, offer, tables), too_new, checks.driver_for_gpu(offer, tables)))
    yield checks.driver_for_cuda(need, cuda, offer, tables)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an image runs on nodes, the cause, the reason, and the result of the container toolkit's own check."""

    verdict: Verdict
    cause: Cause
    reason: str
    gate: Gate


@lru_cache(maxsize=2048)
def judge(need: Need, offer: Offer, tables: CudaTables = SHIPPED) -> Judgement:
    """The verdict about an image that needs `need` on nodes that offer `offer`."""
    judgement = judge_without_gate(need, offer, tables)
    if need.kind in (BuiltFor.NONE, BuiltFor.OTHER):
        return judgement
    return replace(judgement, gate=legacy_gate(need.env, offer, tables))


def judge_without_gate(need: Need, offer: Offer, tables: CudaTables = SHIPPED) -> Judgement:
    """The verdict without the container toolkit's own check, whose cost depends on what tenants write."""
    if need.kind is BuiltFor.NONE:
        return Judgement(Verdict.COMPATIBLE, Cause.NONE, "the image needs no CUDA", Gate.NOT_APPLICABLE)
    if need.kind is BuiltFor.OTHER:
        reason = f"the image is built for {need.platform or 'another platform'}, not for NVIDIA GPUs"
        return Judgement(Verdict.INCOMPATIBLE, Cause.IMAGE, reason, Gate.NOT_APPLICABLE)
    return Judgement(*deciding_finding(need, offer, tables), Gate.UNKNOWN)
