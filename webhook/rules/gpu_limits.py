"""Containers request GPUs in whole numbers, in `resources.limits`, and no more of them than the policy allows.

GPUs of the pod as a whole (`spec.resources`) are a violation: Kubernetes takes only cpu, memory and huge pages there.

GPUs that come by a resource claim (DRA) count against both maxima, if the claim is known when the pod is created. Where
a request has alternatives, the one with most GPUs counts. All GPUs of a node (`allocationMode: All`) count as one, and
bring a warning, unless ResourceSlices show that no node has too many. Of a container that names some requests of a
claim it is only certain that it gets as many GPUs as the smallest requests have. At most 128 claims of a pod are
counted, and of a claim at most 32 different alternatives with 512 characters of device classes; larger ones are
violations. Claims, and templates of claims, with more GPUs than a pod may have are refused when they are applied.
A resource that opens all GPUs of a node, such as `gpu.intel.com/i915_monitoring`, may be as many GPUs as the largest
node has, or 8 where no node lists any. More than the maximum is a violation, and less a warning.

What one unit counts as by `weights` of `gpuQuota`, it counts here, too. Where the labels of all nodes that the pod
could run on say that GPUs are shared by time-slicing or MPS, a share counts as the part of a GPU that it is: 9 of 24
shares are 3/8 of a GPU. Where some of these nodes have whole GPUs, or do not say how many pods share one, it counts as
a whole GPU.

Not counted are claims beyond the first 4,096 of a namespace, and a device class of an unknown name that a container
requests as an extended resource.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from webhook.cuda.cuda_tables import tables_in
from webhook.gpus.gpu_catalogue import Catalogue, catalogue_of
from webhook.gpus.gpu_shares import SHAREABLE
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import Share, Vendor
from webhook.model.claim_object import ClaimObject
from webhook.model.claims import MOST_CLAIMS, is_too_many
from webhook.model.container import Container
from webhook.model.edits import AddGpuLimit
from webhook.model.pod import Pod
from webhook.model.wording import PLATFORM_TEAM, cut, few, not_enabled
from webhook.quota.unit_parts import UnitParts
from webhook.rules.claimed_gpus import ClaimedGpus, at_least, claimed_gpus, gpus_of_claim, used_by
from webhook.rules.gpu_amounts import flaw_of, is_requests_only, written, wrong_amounts
from webhook.rules.gpu_parts import (
    UNITS,
    Gpus,
    fewer,
    gpus_of,
    gpus_of_pod,
    parts_of,
    spelled,
    spelled_gpus,
    unit_name,
)
from webhook.rules.rule import Advice, Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import InjectionSettings

_OPENS, _MOST_OF_NODE = "_monitoring", 8  # GPUs of a node that lists none
_NOT_COUNTED, _SPLIT = "its GPUs cannot be counted", "Split the claim into several"


class Settings(InjectionSettings):
    """Settings of `gpuLimits`."""

    requests_only: Literal["deny", "repair"] = "deny"
    """What happens to GPUs that stand in requests but not in limits, which Kubernetes refuses: `deny` refuses the pod
    and says how to mend it, `repair` adds the same number to the limits. Templates of workloads are never repaired."""
    max_per_container: Annotated[int, Field(ge=0)] | None = None
    """Most GPUs that one container may request; a MIG slice and a claimed device count as one each, unless
    `countShares` says otherwise. Unset: no maximum."""
    max_per_pod: Annotated[int, Field(ge=0)] | None = None
    """Most GPUs that the scheduler may reserve for one pod, counted in the same way; 0 says that GPUs are not enabled.
    Unset: no maximum."""
    count_shares: bool = False
    """Whether MIG slices and partitions, too, count in both maxima as the part of a GPU that they are, instead of one
    each: two `nvidia.com/mig-1g.10gb` of an H100 are 2/7 of a GPU, and so are two `nvidia.com/gpu` where the labels of
    nodes say that they are such slices. If the pod could run on nodes with other parts or whole GPUs, the largest part
    counts. Claimed devices count as one each."""

    _table: GpuTable = PrivateAttr(default_factory=lambda: GPUS)  # a default is copied whole each time
    _weights: UnitParts = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        """Remember the GPU models of the policies with these settings."""
        self._table = tables_in(context).gpus

    def weighing(self, weights: UnitParts) -> "Settings":
        """These settings beside the `weights` of the policy."""
        settings = self.model_copy()
        settings._weights = settings.weights = weights
        return settings

    @cached_property
    def weights(self) -> UnitParts:
        """What the policy says that one unit of a resource counts."""
        return self._weights

    @cached_property
    def least(self) -> int | None:
        """The smaller of the maxima."""
        return min((most for most in (self.max_per_container, self.max_per_pod) if most is not None), default=None)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The GPU models of the policies with these settings."""
        return catalogue_of(self._table)


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddGpuLimit]:
    """Add missing limits to GPUs that stand in requests only, if the policy repairs them."""
    if settings.requests_only != "repair":
        return
    for container in pod.lasting_containers():
        for request in container.gpu_requests:
            if is_requests_only(request) and flaw_of(request) is None:
                yield AddGpuLimit(container, request.resource, written(request, 0))


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Refuse requests of GPUs that Kubernetes or CUDA cannot meet, or that exceed a maximum of the policy."""
    least, units, parts = settings.least, pod.gpu_count, UNITS
    if units and least is not None and (units > least or settings.weights or pod.resource_claims):
        parts = parts_of(pod, facts, settings.catalogue, settings.weights, counts_slices=settings.count_shares)
    if pod.resources:
        yield from _of_the_whole(pod)
    for container in pod.containers:
        where = f"{container.path}.resources"
        for wrong in wrong_amounts(container, are_repaired=settings.requests_only == "repair"):
            fails = wrong.fails_validation
            yield Violation(where, wrong.found, wrong.allowed, wrong.remedy, fails_validation=fails)
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


def _of_the_whole(pod: Pod) -> Iterator[Violation]:
    """GPUs in the resources of the pod as a whole.

    Source: SupportedPodLevelResources of k8s.io/component-helpers/resource.
    """
    for name in dict.fromkeys(name for part in ("limits", "requests") for name in pod.resources.get(part) or ()):
        if pod.known.of(name) is not None:
            found = f"requests {cut(name)} for the pod as a whole"
            rule = "Kubernetes takes only cpu, memory and huge pages there, and refuses or ignores GPUs"
            remedy = "Move it to resources.limits of the container that uses the GPU"
            yield Violation("spec.resources", found, rule, remedy, fails_validation=True)


def _by_claim(pod: Pod, settings: Settings, facts: Facts, parts: UnitParts) -> Iterator[Violation | Advice]:
    """Maxima that the pod passes with the GPUs of its resource claims, and does not pass without them."""
    if settings.max_per_pod is None and settings.max_per_container is None:
        return
    claimed = claimed_gpus(pod, facts)
    yield from _uncountable(pod, claimed)
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


def _uncountable(pod: Pod, claimed: Sequence[ClaimedGpus]) -> Iterator[Violation]:
    """More than is counted: claims of the pod, or requests of a claim."""
    if is_too_many(pod.resource_claims):
        found = f"has {len(pod.resource_claims)} resource claims"
        yield Violation("spec.resourceClaims", found, f"at most {MOST_CLAIMS} are counted", "Use fewer claims")
    for name in [one.name for one in claimed if one.is_too_large][:1]:
        yield Violation(
            f"spec.resourceClaims[{cut(name)}]",
            "names a claim with too many alternatives or too long names of device classes",
            _NOT_COUNTED,
            _SPLIT,
        )


def _beyond_with(
    claimed: Sequence[ClaimedGpus], numbers: Sequence[int], where: str, counted: Gpus, allowed: int
) -> Iterator[Violation | Advice]:
    """A maximum that is passed with these claims, or may be passed because one of them is for all GPUs of a node.

    `numbers` are the GPUs that each claim brings at least, `counted` the GPUs that are requested without claims.
    """
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
        amount = "all GPUs of a node" if most is None else f"all GPUs of a node, up to {spelled(most - counted)},"
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
    """Resources that give more GPUs than the maximum, and advice where that is not known."""
    least, where = settings.least, f"{container.path}.resources"
    if least is None:
        return
    requested = container.gpu_requests if least else ()
    opening = [one.resource for one in requested if one.count and one.accelerator.share is Share.NODE]
    opening = [name for name in opening if name not in settings.weights] if opening else opening
    opened = [(name.endswith(_OPENS) and facts.largest(name.removesuffix(_OPENS))) or _MOST_OF_NODE for name in opening]
    found = f"requests {few(opening)}, which gives access to all GPUs of a node"
    if opening and max(opened) > least:
        rule = f"these may be {max(opened)}, and the policy allows at most {least}"
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
    """More GPUs than a container may have, or the whole pod where `container` is None.

    What units count may follow from nodes, which a queue or a scheduler may still narrow down.
    """
    if container is None:
        where, what, allowed = "spec", "pod", settings.max_per_pod
        units, gpus = pod.gpu_count, gpus_of_pod(pod, parts)
    else:
        where, what, allowed = f"{container.path}.resources", "container", settings.max_per_container
        units, gpus = container.gpu_count, gpus_of(container, parts)
    if allowed is None or gpus <= allowed:
        return
    unit = unit_name(pod, facts, settings.catalogue.table)
    rule = f"the policy allows at most {allowed} per {what}"
    remedy = f"Request {fewer(allowed, pod.gpus, parts, unit)}"
    if not allowed and container is None:
        rule, remedy = not_enabled(pod.namespace)
    elif not allowed:
        rule = "the policy allows none for a container"
        remedy = "Remove it" if units == 1 and gpus <= 1 else "Remove them"
    follows = (allowed > 0 or container is not None) and not SHAREABLE.isdisjoint(pod.gpus) and facts.divides_gpus()
    yield Violation(where, f"requests {spelled_gpus(gpus, units, unit)}", rule, remedy, follows_nodes=follows)


RULE = Rule(
    key="gpuLimits",
    promise="Containers request GPUs in whole numbers, in limits, and no more than the maximum.",
    problem='Kubernetes refuses GPUs that stand in requests but not in limits with "Limit must be set for '
    'non overcommitable resources", which does not say what to do; and nothing keeps a pod from taking all GPUs of a '
    "node.",
    examples=(
        Example(training_pod(resources="{requests: {nvidia.com/gpu: 4}}")),
        Example(training_pod(resources="{limits: {nvidia.com/gpu: 8}}"), {"maxPerPod": 4}),
    ),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    validate_claim=validate_claim,
    may_fail_api_validation=True,
    can_mutate=lambda settings: settings.requests_only == "repair",
)
