"""The verdict whether an image runs on nodes, made of the findings of all checks.

An incompatibility outweighs an unknown, and an unknown outweighs a success. So the verdict does not depend on the order
of the checks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from webhook.cuda import checks
from webhook.cuda.checks import CudaFinding, Verdict
from webhook.cuda.compiled_code import Kernels, Way
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.gate import Gate, legacy_gate
from webhook.cuda.libcuda_check import Effect, LibcudaFinding, libcuda
from webhook.cuda.need import BuiltFor, Need
from webhook.cuda.offer import Offer
from webhook.gpus.steering import Cause


def deciding_finding(need: Need, offer: Offer, tables: CudaTables = SHIPPED) -> CudaFinding:
    """The finding that decides about an image for CUDA: the first one of the worst kind."""
    findings = [_softened(finding) if need.is_changed else finding for finding in _findings(need, offer, tables)]
    for verdict in (Verdict.INCOMPATIBLE, Verdict.UNKNOWN, Verdict.FORWARD_COMPAT_ONLY):
        worst = next((finding for finding in findings if finding.verdict is verdict), None)
        if worst is not None:
            return worst
    return findings[-1]


def _softened(finding: CudaFinding) -> CudaFinding:
    """What a finding about the GPU or vendor comes to if the container may run another framework than the image's."""
    if finding.verdict is not Verdict.INCOMPATIBLE or finding.cause not in {Cause.GPU, Cause.IMAGE}:
        return finding
    reason = f"{finding.reason}; but its command may install another framework, or only waits for somebody"
    return finding._replace(verdict=Verdict.UNKNOWN, reason=reason, common="")


def _findings(need: Need, offer: Offer, tables: CudaTables) -> Iterator[CudaFinding]:
    """The objections of the checks, and at the end whether the driver runs the CUDA version."""
    compiled = checks.compiled_code(need, offer, tables)
    yield from filter(None, (checks.architecture(need, offer), checks.framework(need, offer), compiled))
    if need.cuda is None:
        yield CudaFinding(Verdict.UNKNOWN, Cause.IMAGE, "the CUDA version that the image needs is not known")
        return
    cuda = need.cuda if need.is_cuda_verified else need.cuda.cut(1)
    ways = {way for _, way in checks.ways(need, offer)}
    kernels = Kernels.WITH_PTX if Way.PTX in ways else need.kernels
    too_new = None if Way.CODE in ways else checks.gpu_too_new(cuda, kernels, offer, tables)
    yield from filter(None, (checks.gpu_too_old(cuda, offer, tables), too_new, checks.driver_for_gpu(offer, tables)))
    yield checks.driver_for_cuda(need, cuda, offer, tables)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an image runs on nodes with the driver's libcuda, or as the container toolkit chooses, and why.

    `gate` is the result of the container toolkit's own check, `libcuda` what goes wrong with the libcuda that it loads.
    """

    verdict: Verdict
    cause: Cause
    reason: str
    gate: Gate
    libcuda: LibcudaFinding | None = None
    is_on_cpu: bool = False
    """Whether the program starts all the same, and computes on the CPU."""
    common: str = ""
    """The reason without what the name of the nodes says, such as their driver; empty if there is no such form."""

    def counting(self, *effects: Effect) -> "Judgement":
        """The judgement if what goes wrong with libcuda counts where it has one of these effects."""
        if self.libcuda is None or self.libcuda.effect not in effects or self.verdict is Verdict.INCOMPATIBLE:
            return self
        verdict = Verdict.INCOMPATIBLE if self.libcuda.effect is Effect.FAILS else Verdict.UNKNOWN
        return replace(self, verdict=verdict, cause=Cause.DRIVER, reason=self.libcuda.reason, common="")


@lru_cache(maxsize=2048)
def judge(need: Need, offer: Offer, tables: CudaTables = SHIPPED) -> Judgement:
    """The verdict about an image that needs `need` on nodes that offer `offer`."""
    if need.kind is BuiltFor.NONE:
        return Judgement(Verdict.COMPATIBLE, Cause.NONE, "the image needs no CUDA", Gate.NOT_APPLICABLE)
    if need.kind is BuiltFor.OTHER:
        reason = f"the image is built for {need.platform or 'another platform'}, not for NVIDIA GPUs"
        other = CudaFinding(Verdict.INCOMPATIBLE, Cause.IMAGE, reason)
        verdict, cause, reason, *_ = _softened(other) if need.is_changed else other
        return Judgement(verdict, cause, reason, Gate.NOT_APPLICABLE)
    found = deciding_finding(need, offer, tables)
    verdict, cause, reason, common = found.verdict, found.cause, found.reason, found.common
    wrong = libcuda(need, offer, verdict, tables)
    gate = legacy_gate(need.env, offer, tables)
    if gate is Gate.FAIL and verdict is not Verdict.INCOMPATIBLE:
        without_arch = legacy_gate(need.env, replace(offer, compute=None), tables)
        if without_arch is not Gate.FAIL:
            verdict, cause, common = Verdict.UNKNOWN, Cause.GPU, ""
            reason = (
                f"its NVIDIA_REQUIRE_CUDA asks for another compute capability (arch); {checks.gpu_of(offer)}, and it "
                "is not known whether the container toolkit of the node checks that"
            )
    return Judgement(verdict, cause, reason, gate, wrong, is_on_cpu=found.is_on_cpu, common=common)
