"""One pod template: what would happen to its pods, with places in the object where its author finds them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from webhook.engine.quota_claims import shared_quota_findings
from webhook.engine.running_rules import addressed_to, facts_under, findings_of, told
from webhook.engine.validating import simulate
from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_table import GPUS
from webhook.model.edits import AddGpuLimit
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import shortened
from webhook.model.subject import PodSubject, subject_of_template
from webhook.model.wording import counted
from webhook.model.workloads import Template
from webhook.outcome import Finding, FindingKind, Injection
from webhook.policy.policy_quotas import BoundQuota
from webhook.policy.policy_set import InForce, Policy
from webhook.policy.schema import WorkloadsMode
from webhook.rules.gpu_parts import unit_name
from webhook.rules.rule import Stage
from webhook.rules.rule_settings import Mode

_LONGEST_NAME = 40
"""Characters of the name of a group of pods in a message. A warning has room for 256 in all."""


@dataclass(frozen=True, slots=True)
class TemplateOutcome:
    """What would happen to the pods of one template. `gpus` is how many GPUs the scheduler reserves for each pod.

    The fields of `findings` are places in the object. A finding that `refuses` would refuse the pods.
    """

    template: Template
    gpus: int
    findings: tuple[Finding, ...]
    injections: tuple[Injection, ...]

    @property
    def is_refused(self) -> bool:
        """Whether the API server would refuse the pods."""
        return any(finding.refuses for finding in self.findings)


Excepting = Callable[[Callable[[], PodSubject]], InForce]
"""Says what holds in a namespace for the pods that a function describes, with exceptions."""


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """The policy, facts and quotas that templates are judged by, and their namespace.

    `excepting` says what holds for particular pods; without it there are no exceptions.
    """

    namespace: str
    policy: Policy
    facts: ClusterFacts
    quotas: Sequence[BoundQuota] = ()
    excepting: Excepting | None = None

    @property
    def completing(self) -> Policy:
        """The policy that completes pods which are made for one node each, without the rules that steer them."""
        return self.policy.only(lambda bound: bound.rule.stage is not Stage.STEERING)

    @property
    def queued(self) -> Policy:
        """The policy that judges pods whose nodes a queue will choose, without the rules that judge by nodes."""
        return self.policy.only(lambda bound: not bound.rule.softens_on_update)

    def of(self, workload: Mapping[str, Any], template: Template) -> "TemplateContext":
        """What the pods of one template of a workload are judged by, with the exceptions that hold for them."""
        if self.excepting is None:
            return self
        found = self.excepting(lambda: subject_of_template(workload, template))
        return self if found.policy is self.policy else replace(self, policy=found.policy, quotas=found.quotas)


@dataclass(frozen=True)
class JudgedTemplate:
    """A template and its findings, whose fields are places in a pod of the template. Its pods count in `quotas`."""

    template: Template
    pod: Pod
    findings: tuple[Finding, ...]
    injections: tuple[Injection, ...]
    quotas: Sequence[BoundQuota] = ()
    unit: str = "GPU"
    """What one of its GPUs is called."""

    @property
    def about(self) -> str:
        """Which pods a finding is about, with their number and GPUs."""
        return about(self.template, self.pod.gpu_count, self.unit)

    @cached_property
    def outcome(self) -> TemplateOutcome:
        """What would happen to the pods, with places in the object."""
        whose, place = self.about, self.template.place
        placed = tuple(replace(finding, field=place(finding.field), about=whose) for finding in self.findings)
        return TemplateOutcome(self.template, self.pod.gpu_count, placed, self.injections)


def judge_template(
    workload: Mapping[str, Any], template: Template, where: TemplateContext, said: set[Finding]
) -> JudgedTemplate:
    """Judge a pod of a template of a workload, completed as it will be when it is created.

    `said` is what was found about other templates: the same advice is not given again.

    Raises ShapeError, with a place in the pod, for a malformed template.
    """
    where = where.of(workload, template)
    completing = where.completing if template.is_per_node else None
    policy = where.queued if template.is_queued else where.policy
    outcome = simulate(template.made, policy, where.facts, completing=completing, namespace=where.namespace)
    pod = pod_from_raw(outcome.object, where.policy.accelerators, where.namespace)
    found = (*outcome.findings, *_unrepaired(template, outcome.injections), *_of_replicas(template, pod, where))
    findings = [finding for finding in found if not template.is_unknown(finding.field)]
    if template.is_queued:
        findings = [finding for finding in findings if not finding.follows_nodes]
    if not any(finding.refuses for finding in findings):
        shared = shared_quota_findings(pod, where.namespace, where.quotas, facts_under(where.policy, where.facts))
        findings.extend(addressed_to(where.policy.contact, shared))
    findings = [one for one in findings if one.kind is not FindingKind.ADVICE or one not in said]
    said.update(findings)
    unit = "share" if findings and pod.gpus and unit_name(pod, where.facts, GPUS) == "share" else "GPU"
    return JudgedTemplate(template, pod, tuple(findings), outcome.injections, where.quotas, unit)


def _of_replicas(template: Template, pod: Pod, where: TemplateContext) -> Iterator[Finding]:
    """What is wrong with all pods of the template together, completed as they will be.

    No single pod is refused for such a finding, so it refuses the object, in mode `enforce` for workloads, or nothing.
    """
    if template.pods is None or template.pods < 2:
        return
    facts = facts_under(where.policy, where.facts)
    refuses = where.policy.workloads is WorkloadsMode.ENFORCE
    for bound in where.policy.rules:
        if bound.rule.validate_replicas is not None:
            found = bound.rule.validate_replicas(pod, template.pods, bound.settings, facts)
            for finding in findings_of(bound, found, pod):
                yield told(replace(finding, refuses=finding.refuses and refuses))


def about(template: Template, gpus: int = 0, unit: str = "GPU") -> str:
    """Which pods a finding is about, with their number and GPUs: `pod template of Worker (4 pods, 32 GPUs)`."""
    name = f"pod template of {shortened(template.group, _LONGEST_NAME)}" if template.group else "pod template"
    if template.pods is None:
        return f"{name} ({counted(gpus, unit)} in each pod)" if gpus else name
    pods = counted(template.pods, "pod")
    return f"{name} ({pods}, {counted(gpus * template.pods, unit)})" if gpus else f"{name} ({pods})"


def _unrepaired(template: Template, injections: Sequence[Injection]) -> Iterator[Finding]:
    """Missing limits that the policy adds to pods. In templates that the API server validates, it refuses them."""
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
