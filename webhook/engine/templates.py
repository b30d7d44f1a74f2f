"""One pod template: what would become of the pods that are made from it, told where its author can find it.

The first half compares workloads with quotas: some pods can never fit, whatever is in use when they come.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from webhook.engine.quota_claims import KEY, finding_of, uncounted_of_pots
from webhook.engine.running_rules import addressed_to, facts_under, told
from webhook.engine.validating import foresee
from webhook.facts.facts import ClusterFacts
from webhook.model.edits import AddGpuLimit
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import shortened
from webhook.model.wording import counted
from webhook.model.workloads import Template
from webhook.outcome import Finding, FindingKind, Injection
from webhook.policy.bound_quotas import BoundQuota
from webhook.policy.policy_set import Policy
from webhook.policy.schema import WorkloadsMode
from webhook.quota import quota_wording
from webhook.quota.amounts import amounts
from webhook.quota.claimed_gpus import demand_of
from webhook.quota.quota_wording import is_unspecified, objections
from webhook.quota.quotas import Excess, Limit, QuotaScope
from webhook.rules.rule import Stage
from webhook.rules.rule_settings import Mode


@dataclass(frozen=True, slots=True)
class Group:
    """The pods of one template, each of which will be like `pod`."""

    template: Template
    pod: Pod


@dataclass(frozen=True, slots=True)
class QuotaTotal:
    """What is told of a quota that the pods of a workload pass together, and never one of them alone.

    `key` is the same however many they are. `first` are the pods that it is about, or the first of them; where they are
    the only ones, `finding` has the place in such a pod, otherwise in the object.
    """

    key: tuple[str, Limit]
    finding: Finding
    first: Group
    is_only: bool


def pot_findings(pod: Pod, namespace: str, quotas: Sequence[BoundQuota]) -> Iterator[Finding]:
    """Why a pod never fits into a pot; what the namespace's own quota says of it is left to the rule."""
    yield from uncounted_of_pots(pod, quotas)
    for bound in quotas:
        demand = demand_of(pod, namespace, bound.quota.counting)
        if demand is not None and bound.quota.scope is QuotaScope.POT:
            yield from (finding_of(bound, objection) for objection in objections(demand, bound.quota))


def totals(groups: Sequence[Group], namespace: str, quotas: Sequence[BoundQuota]) -> Iterator[QuotaTotal]:
    """The limits that all pods of a workload pass together, each once.

    A template that does not say how many pods it makes counts as none.
    """
    counted = [group for group in groups if group.template.pods and group.pod.gpus]
    for bound in quotas:
        for limit in bound.quota.limits if counted else ():
            found = _total(bound, limit, counted, namespace)
            if found is not None:
                yield found


def _total(bound: BoundQuota, limit: Limit, groups: Sequence[Group], namespace: str) -> QuotaTotal | None:
    shares: list[tuple[Group, Fraction]] = []
    is_open = False
    for group in groups:
        demand = demand_of(group.pod, namespace, bound.quota.counting)
        if demand is not None and (one := amounts(demand, bound.quota)[limit]):
            shares.append((group, one))
            is_open |= is_unspecified(demand, bound.quota)
    asks = sum((one * (group.template.pods or 0) for group, one in shares), Fraction(0))
    if asks <= limit.hard or any(one > limit.hard for _, one in shares):
        return None
    is_only, (first, one) = len(shares) == 1, shares[0]
    pods = sum(group.template.pods or 0 for group, _ in shares)
    if is_only:
        excess = Excess(limit, one, Fraction(0))
        told = quota_wording.too_many_pods(bound.quota, excess, pods, is_unspecified=is_open)
    else:
        excess = Excess(limit, asks, Fraction(0))
        names = [group.template.group for group, _ in shares]
        told = quota_wording.too_many_kinds_of_pods(bound.quota, excess, pods, names, is_unspecified=is_open)
    mode = Mode.AUDIT if bound.mode is Mode.AUDIT else Mode.WARN
    finding = Finding(KEY, mode, FindingKind.VIOLATION, "spec", *told, origin=bound.origin, line=bound.line)
    return QuotaTotal((bound.quota.key, limit), finding, first, is_only)


_LONGEST_NAME = 40
"""Characters of what an object calls its pods that are shown; a warning has room for 256 in all."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would become of the pods of one template. `gpus` are those that the scheduler reserves for one of them.

    The fields of `findings` are places in the object; `refuses` says of each whether the pods would be refused.
    """

    template: Template
    gpus: int
    findings: tuple[Finding, ...]
    injections: tuple[Injection, ...]

    @property
    def is_refused(self) -> bool:
        """Whether the API server would refuse the pods."""
        return any(finding.refuses for finding in self.findings)


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """What templates are judged against."""

    namespace: str
    policy: Policy
    facts: ClusterFacts
    quotas: Sequence[BoundQuota] = ()

    @property
    def completing(self) -> Policy:
        """What completes pods that are made for one node each, which cannot be steered."""
        rules = tuple(bound for bound in self.policy.rules if bound.rule.stage is not Stage.STEERING)
        return replace(self.policy, rules=rules)

    @property
    def queued(self) -> Policy:
        """What judges pods of which a queue is yet to decide where they run: all but what follows from the nodes."""
        return replace(self.policy, rules=tuple(bound for bound in self.policy.rules if not bound.rule.follows_nodes))


@dataclass(frozen=True)
class JudgedTemplate:
    """A template with what was found, the fields of which are places in such a pod."""

    template: Template
    pod: Pod
    findings: tuple[Finding, ...]
    injections: tuple[Injection, ...]

    @property
    def group(self) -> Group:
        """The pods, as quotas count them."""
        return Group(self.template, self.pod)

    @cached_property
    def foreseen(self) -> Foreseen:
        """The same with places in the object."""
        whose, place = about(self.template, self.pod), self.template.place
        placed = tuple(replace(finding, field=place(finding.field), about=whose) for finding in self.findings)
        return Foreseen(self.template, self.pod.gpu_count, placed, self.injections)


def judge_template(template: Template, where: TemplateContext) -> JudgedTemplate:
    """Judge a pod as the template makes it, completed as it will be.

    Raises ShapeError for a malformed template, with a place in such a pod.
    """
    completing = where.completing if template.is_per_node else None
    policy = where.queued if template.is_queued else where.policy
    outcome = foresee(template.made, policy, where.facts, completing=completing, namespace=where.namespace)
    pod = pod_from_raw(outcome.object, where.policy.accelerators, where.namespace)
    found = (*outcome.findings, *_unrepaired(template, outcome.injections), *_of_replicas(template, pod, where))
    findings = [finding for finding in found if not template.is_unknown(finding.field)]
    if not any(finding.refuses for finding in findings):
        of_pots = pot_findings(pod, where.namespace, where.quotas)
        findings.extend(addressed_to(where.policy.contact, of_pots))
    return JudgedTemplate(template, pod, tuple(findings), outcome.injections)


def _of_replicas(template: Template, pod: Pod, where: TemplateContext) -> Iterator[Finding]:
    """What is wrong with several pods made alike, as they will be.

    None of them is refused for it when it is created, so that it refuses the object, where the policy refuses any, or
    nothing.
    """
    if template.pods is None or template.pods < 2:
        return
    facts = facts_under(where.policy, where.facts)
    refuses = where.policy.workloads is WorkloadsMode.ENFORCE
    for bound in where.policy.rules:
        if bound.rule.validate_replicas is not None:
            for finding in told(bound, bound.rule.validate_replicas(pod, template.pods, bound.settings, facts)):
                yield replace(finding, refuses=finding.refuses and refuses)


def about(template: Template, pod: Pod | None = None) -> str:
    """Which pods are meant, how many they are, and how many GPUs all of them ask for, where that is known.

    `pod template of Worker (4 pods, 32 GPUs)`.
    """
    name = f"pod template of {shortened(template.group, _LONGEST_NAME)}" if template.group else "pod template"
    gpus = pod.gpu_count if pod is not None else 0
    if template.pods is None:
        return f"{name} ({counted(gpus, 'GPU')} in each pod)" if gpus else name
    pods = counted(template.pods, "pod")
    return f"{name} ({pods}, {counted(gpus * template.pods, 'GPU')})" if gpus else f"{name} ({pods})"


def _unrepaired(template: Template, injections: Sequence[Injection]) -> Iterator[Finding]:
    """What is repaired in pods, and refused by the API server in the templates that it judges itself."""
    if not template.is_validated:
        return
    for injection in injections:
        for edit in injection.edits:
            if isinstance(edit, AddGpuLimit):
                yield Finding(
                    injection.rule,
                    Mode.ENFORCE,
                    FindingKind.VIOLATION,
                    f"{edit.container.path}.resources",
                    f"{edit.resource} is {edit.quantity} in requests but missing in limits; Kubernetes refuses that in "
                    "a workload, and the policy repairs pods only",
                    f"Move the {edit.quantity} to resources.limits",
                    refuses=True,
                    fails_validation=True,
                    origin=injection.origin,
                    line=injection.line,
                )
