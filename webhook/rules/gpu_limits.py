"""Containers request GPUs in whole numbers, in `resources.limits`, and no more of them than the policy allows.

GPUs in `spec.resources` are a violation: Kubernetes takes only cpu, memory and huge pages there. GPUs by a resource
claim (DRA) count against both maxima, if the claim is known when the pod is created; [dra.md](dra.md) says how, and
which claims are refused when they are applied.

A resource that opens all GPUs of a node, such as `gpu.intel.com/i915_monitoring`, stands for the GPUs of the largest
node, or for 8 if no node lists any: a violation if these exceed the maximum, else a warning. Units count by `weights`
of `gpuQuota`, and a share by time-slicing or MPS as its part of a GPU, if all nodes that the pod could run on say so: 9
of 24 shares are 3/8. A GPU that a pod shares by an annotation of KAI or Run:ai counts as one. Device classes
of unknown names in `resources` are not counted.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr

from webhook.gpus.gpu_shares import SHAREABLE
from webhook.model.accelerators import Share, Vendor
from webhook.model.claims import MOST_CLAIMS, ClaimObject, is_too_many
from webhook.model.edits import AddGpuLimit
from webhook.model.gpu_fractions import DEVICES, fraction_faults
from webhook.model.pod import Container, GpuRequest, Pod
from webhook.model.shape import spelled
from webhook.model.wording import PLATFORM_TEAM, cut, few, not_enabled
from webhook.model.workloads.template import FILL_IN, is_placeholder
from webhook.quota.amounts import UnitParts
from webhook.quota.quota_wording import number
from webhook.rules.claimed_gpus import ClaimedGpus, at_least, claimed_gpus, gpus_of_claim, used_by
from webhook.rules.gpu_parts import UNITS, Gpus, fewer, gpus_of, gpus_of_pod, parts_of, spelled_gpus, unit_name
from webhook.rules.rule import Advice, Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import InjectionSettings, TableSettings

_OPENS, _MOST_OF_NODE = "_monitoring", 8  # GPUs of a node that lists none
_WHOLE = "Write a whole number such as 1"
_NOT_COUNTED, _SPLIT = "its GPUs cannot be counted", "Split the claim into several"


class Settings(InjectionSettings, TableSettings):
    """Settings of `gpuLimits`."""

    requests_only: Literal["deny", "repair"] = "deny"
    """What happens to GPUs in requests that are missing in limits: `deny` refuses the pod, `repair` adds the same
    number to limits. Templates of workloads are never repaired."""
    max_per_container: Annotated[int, Field(ge=0)] | None = None
    """Most GPUs of one container; a MIG slice and a claimed device count as one each. Unset: no maximum."""
    max_per_pod: Annotated[int, Field(ge=0)] | None = None
    """Most GPUs that the scheduler may reserve for one pod, counted alike; 0: GPUs are not enabled. Unset: no
    maximum."""
    count_shares: bool = False
    """Whether MIG slices and partitions count in both maxima as their part of a GPU: two `nvidia.com/mig-1g.10gb` of an
    H100 are 2/7. If nodes have different parts, the largest counts. Claimed devices count as one each."""

    _weights: UnitParts = PrivateAttr(default_factory=dict)

    def weighing(self, weights: UnitParts) -> "Settings":
        """These settings beside the `weights` of the policy."""
        settings = self.model_copy()
        settings._weights = settings.weights = weights
        return settings

    @cached_property
    def weights(self) -> UnitParts:
        return self._weights

    @cached_property
    def least(self) -> int | None:
        return min((most for most in (self.max_per_container, self.max_per_pod) if most is not None), default=None)


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddGpuLimit]:
    """Add missing limits to GPUs that stand in requests only, if the policy repairs them."""
    if settings.requests_only != "repair":
        return
    for container in pod.lasting_containers():
        for request in container.gpu_requests:
            if _is_requests_only(request) and _flaw(request) is None:
                yield AddGpuLimit(container, request.resource, _written(request, 0))


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Refuse requests of GPUs that Kubernetes or CUDA cannot meet, or that exceed a maximum of the policy."""
    least, units, parts = settings.least, pod.gpu_count, UNITS
    if units and least is not None and (units > least or settings.weights or pod.resource_claims):
        parts = parts_of(pod, facts, settings.catalogue, settings.weights, counts_slices=settings.count_shares)
    if pod.resources:
        yield from _of_the_whole(pod)
    if pod.fractions or DEVICES in pod.annotations:
        yield from (one.as_advice for one in fraction_faults(pod))
    for container in pod.containers:
        yield from _wrong_amounts(container, are_repaired=settings.requests_only == "repair")
        if len(container.gpu_requests) > 1:
            yield from _mixture(container)
        if parts or (least is not None and container.gpu_count > least):
            yield from _too_many(container, pod, settings, facts, parts)
    for container in pod.containers if pod.may_be_more else ():
        yield from _beyond(container, settings, facts)
    if pod.resource_claims:
        yield from _by_claim(pod, settings, facts, parts)
    if parts or (least is not None and units > least):
        yield from _too_many(None, pod, settings, facts, parts)


def validate_claim(claim: ClaimObject, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse claims and templates, when they are applied, with which every pod would exceed the maximum of a pod."""
    most, claimed = settings.max_per_pod, gpus_of_claim(claim.requests, claim.known, facts)
    if claimed.is_too_large and (most is not None or settings.max_per_container is not None):
        found = "has too many alternatives or too long names of device classes"
        yield Violation(claim.where, found, _NOT_COUNTED, _SPLIT)
    elif most == 0 and claimed.most:
        yield Violation(claim.where, "requests GPUs", *not_enabled(claim.namespace))
    elif most is not None and claimed.most > most:
        found, allowed = f"requests {spelled_gpus(claimed.most)}", f"the policy allows at most {most} per pod"
        yield Violation(claim.where, found, allowed, f"Request {most} or fewer")


def _wrong_amounts(container: Container, *, are_repaired: bool) -> Iterator[Violation]:
    """Amounts of GPUs that Kubernetes refuses. What is wrong with a number itself, such as a fraction, comes first."""
    for request in container.gpu_requests:
        name, is_of_a_class = request.resource, request.accelerator.is_of_a_class
        wrong = _flaw(request)
        if wrong is None and not is_of_a_class:  # a class is a resource of its own, which may stand in requests only
            requested = f"{name} is {_written(request, 0)} in requests"
            if request.limit is None and request.request == 0:
                why, remedy = "Kubernetes refuses that, even for 0", f"Remove {name} from requests"
                wrong = f"{requested} but missing in limits", why, remedy
            elif _is_requests_only(request) and not are_repaired:
                remedy = f"Move the {_written(request, 0)} to resources.limits"
                wrong = f"{requested} but missing in limits", "GPUs are allocated from limits", remedy
            elif None not in (request.request, request.limit) and request.request != request.limit:
                remedy = "Write the same number in both, or in resources.limits only"
                found = f"{requested} and {_written(request, 1)} in limits"
                wrong = found, "GPUs cannot be overcommitted, so both must be equal", remedy
        if wrong is not None:
            yield Violation(f"{container.path}.resources", *wrong, fails_validation=not is_of_a_class)


def _written(request: GpuRequest, part: int) -> str:
    """The amount in requests (part 0) or limits (part 1) as the author wrote it, without quotes."""
    amount = request.written[part]
    return amount.strip() if isinstance(amount, str) else spelled(amount)


def _is_requests_only(request: GpuRequest) -> bool:
    is_missing = request.limit is None and bool(request.request)
    return is_missing and not request.fault and not request.accelerator.is_of_a_class


def _flaw(request: GpuRequest) -> tuple[str, str, str] | None:
    """What is wrong with the number itself: found, allowed, remedy; None if nothing is."""
    name = request.resource
    if request.fault:
        is_open = any(map(is_placeholder, request.written))
        return f"{name} {request.fault}", *(FILL_IN if is_open else ("GPUs are counted in whole numbers", _WHOLE))
    for index, (part, amount) in enumerate((("requests", request.request), ("limits", request.limit))):
        if amount is None or (amount >= 0 and isinstance(amount, int)):
            continue
        found = f"{name} is {_written(request, index)} in {part}"
        if amount < 0:
            return f"{found}, a negative number", "GPUs are counted in whole numbers from 0", _WHOLE
        remedy = f"{_WHOLE}, or request a shared GPU or a MIG slice instead of {name}"
        return f"{found}, a fraction of a GPU", "GPUs are allocated whole", remedy
    return None


def _of_the_whole(pod: Pod) -> Iterator[Violation]:
    """GPUs in `spec.resources`. Source: SupportedPodLevelResources of k8s.io/component-helpers/resource."""
    for name in dict.fromkeys(name for part in ("limits", "requests") for name in pod.resources.get(part) or ()):
        if pod.known.of(name) is not None:
            found = f"requests {cut(name)} for the pod as a whole"
            rule = "Kubernetes takes only cpu, memory and huge pages there, and refuses or ignores GPUs"
            remedy = "Move it to resources.limits of the container that uses the GPU"
            yield Violation("spec.resources", found, rule, remedy, fails_validation=True)


def _by_claim(pod: Pod, settings: Settings, facts: Facts, parts: UnitParts) -> Iterator[Violation | Advice]:
    """Maxima that the pod exceeds only with the GPUs of its resource claims."""
    if settings.max_per_pod is None and settings.max_per_container is None:
        return
    claimed = claimed_gpus(pod, facts)
    if is_too_many(pod.resource_claims):
        found = f"has {len(pod.resource_claims)} resource claims"
        yield Violation("spec.resourceClaims", found, f"at most {MOST_CLAIMS} are counted", "Use fewer claims")
    if too_large := next((one for one in claimed if one.is_too_large), None):
        where = f"spec.resourceClaims[{cut(too_large.name)}]"
        found = "names a claim with too many alternatives or too long names of device classes"
        yield Violation(where, found, _NOT_COUNTED, _SPLIT)
    if settings.max_per_container is not None:
        for container in pod.containers if claimed else ():
            used, where = used_by(container, claimed), f"{container.path}.resources.claims"
            numbers = [at_least(container, one) for one in used]
            yield from _beyond_with(used, numbers, where, gpus_of(container, parts), settings.max_per_container)
    if settings.max_per_pod is not None:
        numbers = [one.most for one in claimed]
        if any(numbers) and not settings.max_per_pod and not pod.gpu_count:
            yield Violation("spec.resourceClaims", "requests GPUs by resource claims", *not_enabled(pod.namespace))
        else:
            counted = gpus_of_pod(pod, parts)
            yield from _beyond_with(claimed, numbers, "spec.resourceClaims", counted, settings.max_per_pod)


def _beyond_with(
    claimed: Sequence[ClaimedGpus], numbers: Sequence[int], where: str, counted: Gpus, allowed: int
) -> Iterator[Violation | Advice]:
    """`numbers` are the GPUs that each claim brings at least, `counted` the GPUs that are requested without claims."""
    brought, what = sum(numbers), "pod" if where == "spec.resourceClaims" else "container"
    if counted > allowed:
        return
    if counted + brought > allowed:
        found = f"requests {spelled_gpus(counted + brought)}, {brought} of them by resource claims"
        if not counted:
            found = f"requests {spelled_gpus(brought)} by resource claims"
        rule, remedy = f"the policy allows at most {allowed} per {what}", f"Request {allowed} or fewer"
        if not allowed:
            rule, remedy = f"the policy allows none for a {what}", "Remove the claim"
        yield Violation(where, found, rule, remedy)
        return
    more = [one.more for one in claimed]
    most = None if None in more else counted + brought + sum(filter(None, more))
    if most is None or most > allowed:
        amount = (
            "all GPUs of a node" if most is None else f"all GPUs of a node, up to {number(Fraction(most - counted))},"
        )
        found = f"requests {amount} by resource claims; the policy allows at most {allowed} per {what}"
        yield Advice(where, found, "Request a number of devices in the claim")


def _mixture(container: Container) -> Iterator[Violation]:
    asked = [r for r in container.gpu_requests if r.count and r.accelerator.vendor is Vendor.NVIDIA]
    slices = [request.resource for request in asked if request.accelerator.share is Share.SLICE]
    whole = [request.resource for request in asked if request.accelerator.share in (Share.WHOLE, Share.SHARED)]
    if slices and whole:
        yield Violation(
            f"{container.path}.resources",
            f"requests {slices[0]} and {whole[0]} together",
            "a CUDA process uses either slices or whole GPUs, never both",
            "Request one of them, or use two containers",
        )


def _beyond(container: Container, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    least, where = settings.least, f"{container.path}.resources"
    if least is None:
        return
    requested = container.gpu_requests if least else ()
    opening = [one.resource for one in requested if one.count and one.accelerator.share is Share.NODE]
    opening = [name for name in opening if name not in settings.weights] if opening else opening
    opened = [(name.endswith(_OPENS) and facts.largest(name.removesuffix(_OPENS))) or _MOST_OF_NODE for name in opening]
    found = f"requests {few(opening)}, which gives access to all GPUs of a node"
    if opening and max(opened) > least:
        rule = f"they may be {max(opened)} GPUs, and the policy allows at most {least}"
        yield Violation(where, found, rule, f"Request single GPUs, or ask {PLATFORM_TEAM}")
    elif opening:
        found += f"; the maximum of {least} counts it as 1"
        yield Advice(where, found, "Request single GPUs, unless the container monitors the node")
    many = [name for name, amount in container.unknown_classes if amount > least]
    if many:
        yield Advice(
            where,
            f"requests more than {least} of {few([cut(name) for name in many])}, which may be GPUs or not",
            "Ask the platform team to declare the class in accelerators.extra",
        )


def _too_many(
    container: Container | None, pod: Pod, settings: Settings, facts: Facts, parts: UnitParts
) -> Iterator[Violation]:
    """More GPUs than a container may have, or the whole pod where `container` is None."""
    if container is None:
        where, what, allowed = "spec", "pod", settings.max_per_pod
        units, gpus = pod.gpu_count, gpus_of_pod(pod, parts)
    else:
        where, what, allowed = f"{container.path}.resources", "container", settings.max_per_container
        units, gpus = container.gpu_count, gpus_of(container, parts)
    if allowed is None or gpus <= allowed:
        return
    unit = unit_name(pod, facts, settings.gpu_table)
    rule = f"the policy allows at most {allowed} per {what}"
    remedy = f"Request {fewer(allowed, pod.gpus, parts, unit)}"
    if not allowed and container is None:
        rule, remedy = not_enabled(pod.namespace)
    elif not allowed:
        rule = "the policy allows none for a container"
        remedy = "Remove it" if units == 1 and gpus <= 1 else "Remove them"
    # what units count may follow from nodes, which a queue or a scheduler may still narrow down
    follows = (allowed > 0 or container is not None) and not SHAREABLE.isdisjoint(pod.gpus) and facts.divides_gpus()
    yield Violation(where, f"requests {spelled_gpus(gpus, units, unit)}", rule, remedy, follows_nodes=follows)


RULE = Rule(
    key="gpuLimits",
    promise="Containers request GPUs in whole numbers, in limits, and no more than the maximum.",
    problem='Kubernetes refuses GPUs in requests only with "Limit must be set for non overcommitable resources", '
    "and nothing keeps a pod from taking all GPUs of a node.",
    example=Example(training_pod(resources="{requests: {nvidia.com/gpu: 4}}")),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    validate_claim=validate_claim,
    judges_fractions=True,
    may_fail_api_validation=True,
    can_mutate=lambda settings: settings.requests_only == "repair",
)
