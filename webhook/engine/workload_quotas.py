"""The pods of a workload together, against quotas and nodes: what never fits, what does not fit now, and when there are
more pods than usual.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from webhook.engine.quota_requests import KEY, amount_of_stored, largest_of
from webhook.engine.running_rules import findings_of
from webhook.facts.facts import ClusterFacts
from webhook.ledger.ledger_store import GpuPod
from webhook.ledger.ledgers import InUse
from webhook.model.json_parts import part, text
from webhook.model.pod import KUEUE_QUEUE, Pod
from webhook.model.wording import counted
from webhook.model.workloads import Template
from webhook.model.workloads.peaks import Gang, Peak, Pods, Scaler, group_of, peaks_of, stages_of, starts_now
from webhook.outcome import Finding, FindingKind, Injection
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.policy.policy_set import ConfiguredRule, Policy
from webhook.quota import quota_wording
from webhook.quota.amounts import amounts, unit_of, used
from webhook.quota.demand import pod_demand
from webhook.quota.quota_wording import is_unspecified
from webhook.quota.quotas import Demand, Excess, Gated, Limit, Quota
from webhook.rules import schedulable
from webhook.rules.rule import Advice
from webhook.rules.rule_settings import Mode


@dataclass(frozen=True)
class TemplateOutcome:
    """What would happen to the pods of one template. Its pods count in `quotas`.

    `in_pod` are the findings with places in a pod of the template, `others` those with places in the object. A finding
    that `refuses` would refuse the pods. `pod` is a pod as it is completed; None for what is no template.
    """

    template: Template
    pod: Pod | None = None
    in_pod: tuple[Finding, ...] = ()
    injections: tuple[Injection, ...] = ()
    quotas: Sequence[ConfiguredQuota] = ()
    about: str = ""
    """Which pods findings are about, with their number and GPUs."""
    others: tuple[Finding, ...] = ()

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, with places in the object."""
        place = self.template.place
        placed = [replace(one, field=place(one.field), about=self.about) for one in self.in_pod]
        return (*placed, *self.others)

    @property
    def gpus(self) -> int:
        """How many GPUs the scheduler reserves for each pod."""
        return self.pod.gpu_count if self.pod is not None else 0

    @property
    def is_refused(self) -> bool:
        """Whether the API server would refuse the pods."""
        return any(finding.refuses for finding in self.in_pod)


@dataclass(frozen=True, slots=True)
class Around:
    """What is known beside an object when it is applied.

    `in_use` says what is in use of a quota now, None where nobody knows. `scalers` may change the replicas of the
    object. `before` are its pods before an update; None for a new object.
    """

    in_use: Callable[[Quota], InUse | None] = lambda _: None
    scalers: Sequence[Scaler] = ()
    before: Callable[[], Sequence[TemplateOutcome]] | None = None


NOTHING_AROUND = Around()


class Told(NamedTuple):
    """A finding about the pods of several templates, or about the pods of one; `first` is the first template.

    The finding is recognised by `key` in another version of the object.
    """

    first: TemplateOutcome
    key: Hashable
    finding: Finding


def findings_together(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    judged: Sequence[TemplateOutcome],
    *,
    namespace: str,
    policy: Policy,
    facts: ClusterFacts,
    around: Around,
) -> Iterator[Told]:
    """What is found about the pods of an object together, each limit once; of nodes only as `schedulable` has it.

    Templates whose pods are refused one by one are left out.
    """
    pods = [(one, one.pod) for one in judged if one.pod is not None and not one.is_refused]
    with_gpus = [one for one, pod in pods if pod.gpus or pod.fractions or pod.resource_claims]
    quotas = {id(active): active for one in with_gpus for active in one.quotas}.values()
    nodes = [one for one in policy.rules if one.rule is schedulable.RULE and facts.knows_nodes()]
    if not with_gpus or not (quotas or nodes):
        return
    peaks = list(peaks_of(raw, [one.template for one in with_gpus], around.scalers))
    group, stages = group_of(raw, [one.template for one, _ in pods]) if quotas else None, stages_of(raw)
    for active in quotas:
        of_quota = [one for one in with_gpus if any(own is active for own in one.quotas)]
        asking = _asking(of_quota, active.quota, namespace, facts)
        now = None if not asking or _waits(raw, of_quota, active.quota) else around.in_use(active.quota)
        for limit in active.quota.limits:
            together = _Together(active, limit, asking, stages)
            if not together.each or max(together.each.values()) > limit.hard:
                continue
            never = together.never(group)
            if now is not None and together.may_be_short(now, peaks):
                known = None if around.before is None else _asking(around.before(), active.quota, namespace, facts)
                old = None if known is None else _Together(active, limit, known, stages)
                for found in _not_now(together, now, old, raw, group, peaks):
                    yield found
                    now = None  # once for each quota
            if never is not None:
                yield never
                continue
            for peak in [one for one in peaks if together.total(one.pods) > limit.hard]:
                peaks.remove(peak)
                yield together.beyond(peak)
    for rule in nodes if len(with_gpus) == 1 else ():
        for peak in peaks:
            yield from _beyond_nodes(peak, with_gpus[0], rule, facts)


_Demands = Sequence[tuple[TemplateOutcome, Demand]]
"""Templates whose pods count against a quota, and what each pod counts."""


def _asking(outcomes: Sequence[TemplateOutcome], quota: Quota, namespace: str, facts: ClusterFacts) -> _Demands:
    pods = ((one, one.pod) for one in outcomes)
    found = ((one, pod_demand(pod, namespace, quota.counting, facts).all) for one, pod in pods if pod is not None)
    return [(one, demand) for one, demand in found if demand is not None]


def _waits(raw: Mapping[str, Any], outcomes: Sequence[TemplateOutcome], quota: Quota) -> bool:
    """Whether the object, or a queue, keeps its pods back, so that they count later."""
    if not starts_now(raw) or part(raw, "spec", "paused") is True:
        return True
    pods = [one.pod for one in outcomes if one.pod is not None and quota.counting.gated is Gated.LATER]
    return any(pod.is_gated or KUEUE_QUEUE in pod.labels for pod in pods)


_USUAL: Pods = {}


class _Together:
    """The pods of an object that count against one limit: `each` what one pod of a template counts, by its path."""

    def __init__(
        self, active: ConfiguredQuota, limit: Limit, demands: _Demands, stages: Sequence[Set[str]] = ()
    ) -> None:
        self.active, self.quota, self.limit = active, active.quota, limit
        counted = [(one, demand, amount) for one, demand in demands if (amount := amounts(demand, self.quota)[limit])]
        self.outcomes = [one for one, _, _ in counted]
        self.each = {one.template.path: amount for one, _, amount in counted}
        self.usual = {one.template.path: one.template.pods or 0 for one in self.outcomes}
        if stages:  # the largest of those that follow each other
            at_once = [{one.template.path for one in self.outcomes if one.template.group in names} for names in stages]
            paths = max(at_once, key=lambda paths: self.total(dict.fromkeys(self.usual.keys() - paths, 0)))
            self.usual |= dict.fromkeys(self.usual.keys() - paths, 0)
        units = {unit_of(demand, limit, self.quota) for _, demand, _ in counted}
        self._unit = units.pop() if len(units) == 1 else None
        self._is_open = any(is_unspecified(demand, self.quota) for _, demand, _ in counted)

    def number(self, pods: Pods = _USUAL) -> int:
        """The number of pods; of templates that are not in `pods`, as many as usual."""
        return sum(pods.get(path, usual) for path, usual in self.usual.items())

    def total(self, pods: Pods = _USUAL) -> Fraction:
        """What so many pods count together."""
        return sum((each * pods.get(path, self.usual[path]) for path, each in self.each.items()), Fraction(0))

    def free(self, now: InUse) -> Fraction:
        return max(Fraction(0), self.limit.hard - used(now.counts, self.quota)[self.limit])

    def may_be_short(self, now: InUse, peaks: Sequence[Peak]) -> bool:
        """Whether a pod, all pods, or those at a peak are more than is free."""
        return max(self.total(), *self.each.values(), *(self.total(one.pods) for one in peaks)) > self.free(now)

    def differ_from(self, old: "_Together") -> bool:
        """Whether an update changes a template, so that its pods are made anew."""
        before = {one.template.path: one.template.pod for one in old.outcomes}
        return any(before.get(one.template.path, one.template.pod) != one.template.pod for one in self.outcomes)

    def excess(self, asks: Fraction, in_use: Fraction = Fraction(0)) -> Excess:
        return Excess(self.limit, asks, in_use, self._unit)

    def told(self, key: Hashable, found: tuple[str, str], outcomes: Sequence[TemplateOutcome]) -> Told:
        active, first = self.active, outcomes[0]
        mode = Mode.AUDIT if active.mode is Mode.AUDIT else Mode.WARN
        finding = Finding(KEY, mode, FindingKind.VIOLATION, "spec", *found, origin=active.origin, line=active.line)
        if len(outcomes) == 1:
            finding = replace(finding, field=first.template.place("spec"), about=first.about)
        return Told(first, (self.quota.key, self.limit, key), finding)

    def never(self, group: Gang | None) -> Told | None:
        """That the pods, or those of one group, do not fit although nothing else is in use."""
        if self.total() <= self.limit.hard:
            return None
        running = [one for one in self.outcomes if self.usual[one.template.path]]
        is_only, size = len(running) == 1, Fraction(0) if group is None else self.total(group.pods)
        if group is not None and (size > self.limit.hard or group.number > 1):
            said = group.name, group.number, self.number(group.pods)
            found = quota_wording.too_many_groups(self.quota, self.excess(size), *said)
        else:
            asks = self.each[running[0].template.path] if is_only else self.total()
            kinds = () if is_only else [one.template.group for one in running]
            excess, is_open = self.excess(asks), self._is_open
            found = quota_wording.too_many_pods(self.quota, excess, self.number(), kinds, is_unspecified=is_open)
        return self.told("all", found, running)

    def beyond(self, peak: Peak) -> Told:
        """That the pods are too many at a peak."""
        room = self.limit.hard - self.total(dict.fromkeys(peak.pods, 0))
        fits = int(room * peak.units // sum(self.each.get(path, 0) * pods for path, pods in peak.pods.items()))
        excess = self.excess(self.total(peak.pods))
        fitting = self.number({path: pods * fits // peak.units for path, pods in peak.pods.items()})
        tail = _tail(peak, fitting, never_ends=any(self.total(one) > self.limit.hard for one in peak.needed))
        found = quota_wording.at_peak(self.quota, excess, peak.why, self.number(peak.pods), tail)
        return self.told(peak.why, (found, peak.remedy.format(fits)), self.outcomes)


def _tail(peak: Peak, fitting: int, *, never_ends: bool) -> str:
    if peak.is_update:
        return ", so the update never ends" if never_ends else ", so new pods wait until old ones have ended"
    return f", enough for {fitting} of them" if "{}" in peak.remedy else ""


def _not_now(  # noqa: PLR0913, PLR0917  # all that decides
    pods: _Together, now: InUse, old: _Together | None, raw: Mapping[str, Any], group: Gang | None, peaks: list[Peak]
) -> Iterator[Told]:
    """That one pod, one group, all pods, or the pods that an update adds, do not fit into what is free.

    What the object counted before an update is in use already, and so may be pods that bear its name.
    """
    limit, quota, asks = pods.limit, pods.quota, pods.total()
    taken, free = used(now.counts, quota)[limit], pods.free(now)
    own = (amount_of_stored(one, limit, quota) for one in now.pods if is_own(one, raw))
    already = sum(own, Fraction(0)) if old is None else old.total()
    more = asks - already
    alone = [
        one
        for one in pods.outcomes
        if pods.each[one.template.path] > free and one.template.pods != 0 and (one.template.pods or old is None)
    ]

    def told(asked: Fraction, whose: str, tail: str, outcomes: Sequence[TemplateOutcome], remedy: str = "") -> Told:
        largest, excess = largest_of(now.pods, limit, quota) if now.tells else None, pods.excess(asked, taken)
        said = f"{whose} {quota_wording.asked_for(asked, excess)}{tail}"
        found = quota_wording.not_free(quota, excess, largest, said, remedy)
        return pods.told(("now", asked), found, outcomes)

    if alone and (not already or (more > free and (old is None or pods.number() > old.number()))):
        yield told(pods.each[alone[0].template.path], "requests", "", alone[:1])
    elif more > free and group is not None and not already and free < (size := pods.total(group.pods)) <= limit.hard:
        number = counted(pods.number(group.pods), "pod")
        yield told(size, f"{group.name} ({number}) requests", " together", pods.outcomes, "Free some")
    elif more > free and asks <= limit.hard:
        adds = f" together, {quota_wording.amount_of(more, limit)} more than now" if already else " together"
        whose = f"its {pods.number()} pods request" if pods.number() > 1 else "its pod requests"
        yield told(asks, whose, adds, pods.outcomes, "Free some")
    elif old is not None and asks <= limit.hard and pods.differ_from(old):
        left = free - max(more, Fraction(0))
        for peak in [one for one in peaks if any(pods.total(each) - asks > left for each in one.needed)]:
            peaks.remove(peak)
            yield told(pods.total(peak.pods) - asks, f"{peak.why}, which requests", "", pods.outcomes, peak.remedy)


def is_own(pod: GpuPod, raw: Mapping[str, Any]) -> bool:
    """Whether a pod in use is, or may be, of this object.

    Pods of the kinds of Kubernetes name their makers. Those of other kinds may have makers whose names only begin with
    the name of the object.
    """
    kind, name = text(raw, "kind"), text(raw, "metadata", "name")
    if text(raw, "apiVersion").partition("/")[0] in ("v1", "apps", "batch"):
        return (kind, name) in pod.makers
    return any(one == name or one.startswith(f"{name}-") for _, one in pod.makers)


def _beyond_nodes(peak: Peak, one: TemplateOutcome, rule: ConfiguredRule, facts: ClusterFacts) -> Iterator[Told]:
    """That the nodes of today have no room for the pods at a peak; nothing where nodes are made on demand."""
    pods, most, pod = one.template.pods or 0, peak.pods.get(one.template.path, 0), one.pod
    fits = None if pod is None else facts.most_pods(pod)
    if fits is None or not max(pods, 1) <= fits < most:
        return
    if peak.is_update and all(each.get(one.template.path, 0) <= fits for each in peak.needed):
        return
    gpus = counted(one.gpus * most, "GPU")
    found = (
        f"{peak.why}, so {most} pods request {gpus} together; the nodes of today that fit have room for {fits} of them"
    )
    if peak.is_update:
        found += _tail(peak, fits, never_ends=True)
    place = one.template.place("spec")
    said = Advice(place, found, peak.remedy.format(fits * peak.units // most), follows_nodes=True)
    for finding in findings_of(rule, [said], pod):
        yield Told(one, (peak.why, "nodes"), replace(finding, about=one.about))
