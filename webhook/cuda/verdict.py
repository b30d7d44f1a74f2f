"""The verdict whether an image runs on nodes, made of the findings of all checks.

An incompatibility outweighs an unknown, and an unknown outweighs a success. So the verdict does not depend on the order
of the checks.

What goes wrong with the libcuda that a container loads is a finding of its own. A libcuda that is older than the driver
ends in error 803 (system driver mismatch), on every GPU. A newer one ends in 804 (forward compatibility is not
supported) on GPUs without forward compatibility: certainly GeForce and Titan. Some RTX cards of workstations have it,
which NVIDIA does not list.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from webhook.cuda import checks
from webhook.cuda.checks import CudaFinding, Verdict
from webhook.cuda.compiled_code import Kernels, Way
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.gate import Gate, legacy_gate
from webhook.cuda.libcuda import NO_LIBCUDA, NO_ROW, ON_GKE, PATH, Libcuda, Loads
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import Offer
from webhook.gpus.steering import Cause
from webhook.model.versions import Version

_COMPAT_DIRECTORY = "/usr/local/cuda/compat"
_CONSUMER = frozenset(("geforce", "geforcertx", "titan", "titanrtx"))


class Effect(StrEnum):
    """How certain it is that CUDA fails."""

    FAILS = "fails"
    MAY_FAIL = "may fail"
    """It depends on what nobody sees, such as the container toolkit's version. It is reported, and nothing follows."""
    DOUBT = "doubt"
    """It depends on what is not known here, such as the third number of a version."""


class LibcudaFinding(NamedTuple):
    """What goes wrong: `reason` is a sentence without capital and period, `remedy` one without period."""

    effect: Effect
    reason: str
    remedy: str


def libcuda(need: Need, offer: Offer, verdict: Verdict, tables: CudaTables) -> LibcudaFinding | None:
    """What goes wrong with the libcuda of a container on nodes, whose verdict with the right one is `verdict`."""
    own = need.libcuda
    is_other = own.row.arch and offer.arch and offer.arch != own.row.arch
    if verdict is Verdict.INCOMPATIBLE or need.kind is not BuiltFor.CUDA or is_other:
        return None
    loads = own.on_gke if offer.is_gke else own.on_toolkit
    if need.compat is Compat.NO and own.row is NO_ROW and loads in (Loads.COMPAT, Loads.UNKNOWN):
        loads = Loads.DRIVER
    found: LibcudaFinding | None = None
    match loads:
        case Loads.COMPAT | Loads.UNKNOWN:
            found = _as_sure_as(own, loads, _with_package(need, offer, tables))
        case Loads.IF_OLDER:
            found = _by_entry_point(need, offer, tables)
        case Loads.DRIVER | Loads.CHOSEN if verdict is Verdict.FORWARD_COMPAT_ONLY:
            found = _never_loaded(own, offer, tables)
        case Loads.DRIVER if not offer.is_gke:
            found = _by_toolkit(need, offer, tables)
        case Loads.NONE:
            reason = f"{PATH} lacks {ON_GKE}, where GKE mounts the driver, so CUDA finds no libcuda"
            found = LibcudaFinding(Effect.MAY_FAIL, reason, _mend(own, offer))
    return found


def _as_sure_as(own: Libcuda, loads: Loads, found: LibcudaFinding | None) -> LibcudaFinding | None:
    if found is not None and loads is Loads.UNKNOWN:
        reason = f"variables in {PATH}, or the command, decide what is loaded; if cuda-compat, {found.reason}"
        return found._replace(effect=Effect.DOUBT, reason=reason)
    if found is not None and found.effect is Effect.FAILS and not own.is_sure:
        return found._replace(effect=Effect.MAY_FAIL, reason=f"{found.reason}, unless envFrom sets {PATH}")
    return found


def _branch(cuda: Version | None, tables: CudaTables) -> int | None:
    """The driver branch of the cuda-compat package of a CUDA version; None if that is not known."""
    native = tables.toolkits.native_driver(cuda) if cuda is not None and cuda.minor is not None else None
    return None if native is None else native.major


def _mend(own: Libcuda, offer: Offer) -> str:
    """The way to the driver's libcuda. LD_LIBRARY_PATH in a pod replaces the image's."""
    system = own.row.directory or f"/usr/lib/{'aarch64' if offer.arch == 'arm64' else 'x86_64'}-linux-gnu"
    if own.variable == PATH:
        return f"Let env {PATH} begin with {ON_GKE}:{system}"
    if own.variable:
        return f"Remove env {own.variable}"
    release = f"Use release {own.row.mended} or newer of the image, or set" if own.row.mended else "Set"
    smi = ", and PATH with /usr/local/nvidia/bin" if offer.is_gke and own.row.has_entry_point else ""
    return f"{release} env {PATH}={ON_GKE}:{system}:/usr/local/cuda/lib64{smi}"


def _with_package(need: Need, offer: Offer, tables: CudaTables) -> LibcudaFinding | None:
    own, driver, branch = need.libcuda, offer.driver, _branch(need.libcuda.cuda, tables)
    package = "its cuda-compat library" + (f" (driver branch {branch})" if branch is not None else "")
    loads = f"{package} is loaded before the driver's"
    failing = Effect.FAILS if need.compat is Compat.YES or own.row is not NO_ROW else Effect.DOUBT
    effect: Effect | None = Effect.DOUBT
    if driver is None:
        effect = Effect.MAY_FAIL if offer.is_gke else None
        reason = "so CUDA fails with error 803 where the driver is newer"
    elif branch is None or driver.major == branch:
        reason = f"so CUDA fails with error 803 if the driver ({driver}) is newer, which is not known"
    elif driver.major > branch:
        effect = failing
        reason = f"which is newer ({driver}), so CUDA fails with error 803 (system driver mismatch)"
    elif offer.is_data_center:
        effect = None if own.cuda is not None and tables.is_base(own.cuda, driver.major, offer.arch) else Effect.DOUBT
        reason = f"which is older ({driver}), and it is not known whether the library runs on that branch"
    elif (traits := tables.gpus.traits_of(offer.product)) and traits.brands and _CONSUMER.issuperset(traits.brands):
        effect = failing
        reason = (
            f"which is older ({driver}); {offer.product} has no forward compatibility, so CUDA fails with error 804"
        )
    else:
        gpu = offer.product or "the GPU"
        reason = f"which is older ({driver}), so CUDA fails with error 804 if {gpu} has no forward compatibility"
    return None if effect is None else LibcudaFinding(effect, f"{loads}, {reason}", _mend(own, offer))


def _by_entry_point(need: Need, offer: Offer, tables: CudaTables) -> LibcudaFinding | None:
    """What goes wrong where the entry point loads cuda-compat if the driver is older."""
    branch, again = _branch(need.libcuda.cuda, tables), need.libcuda.row.again
    if offer.driver is None or branch is None:
        return None
    if again is not None and offer.driver.major >= again:
        reason = f"its entry point loads cuda-compat with driver {again} and newer, so CUDA may fail with error 803"
        return LibcudaFinding(Effect.DOUBT, reason, "Set command to the program itself, which skips the entry point")
    return _with_package(need, offer, tables) if offer.driver.major < branch else None


def _never_loaded(own: Libcuda, offer: Offer, tables: CudaTables) -> LibcudaFinding:
    """What is needed where only cuda-compat runs the image, which does not load it by itself."""
    runs = f"driver {offer.driver} runs CUDA {own.cuda} only with cuda-compat"
    if own.lost_entry_point:
        reason = f"{runs}, and the pod's command replaces the entry point that loads it"
        return LibcudaFinding(Effect.MAY_FAIL, reason, "Use args instead of command, so that the entry point runs")
    variable = f"{own.row.switch}=1" if own.row.switch else f"{PATH}={_COMPAT_DIRECTORY}:/usr/local/cuda/lib64"
    remedy = f"env {variable}, as long as no node of the pod has a driver newer than branch {_branch(own.cuda, tables)}"
    toolkit = "Set" if offer.is_gke else "Use NVIDIA container toolkit 1.17.5 or newer there, which loads it, or set"
    reason = f"{runs}, which the image is not known to load by itself"
    return LibcudaFinding(Effect.MAY_FAIL, reason, f"{toolkit} {remedy}")


def _by_toolkit(need: Need, offer: Offer, tables: CudaTables) -> LibcudaFinding | None:
    """What goes wrong where the container toolkit loads a newer cuda-compat on a GPU that has no use for it."""
    cuda, driver = need.libcuda.cuda, offer.driver
    if need.compat is not Compat.YES or offer.is_data_center is not False or driver is None or cuda is None:
        return None
    known = _branch(cuda, tables)
    branch = known or max((row.driver.major for row in tables.toolkits.rows if row.cuda.major == cuda.major), default=0)
    if driver.major >= branch:
        return None
    order = (
        f"of branch {branch} before driver {driver}"
        if known
        else f"before driver {driver} if the library is newer (its branch is at most {branch})"
    )
    reason = (
        f"the container toolkit (all but 1.17.4) loads its cuda-compat library {order}; CUDA may then fail with error "
        f"804 on {offer.product}"
    )
    reported = tables.drivers.reported_by(driver)
    image = f"Use an image of CUDA {reported} or older, or set" if reported is not None else "Set"
    return LibcudaFinding(Effect.MAY_FAIL, reason, _mend(NO_LIBCUDA, offer).replace("Set", image, 1))


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
