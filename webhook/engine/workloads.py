"""Workloads: what would happen to the pods that they make. Workloads themselves are never modified."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from webhook.engine.quota_requests import requests_of_pod
from webhook.engine.running_rules import addressed, facts_under, findings_of, told
from webhook.engine.validating import is_claim, simulate, validate_claim
from webhook.engine.workload_quotas import NOTHING_AROUND, Around, TemplateOutcome, Told, findings_together
from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_table import GPUS
from webhook.model.edits import AddGpuLimit
from webhook.model.json_parts import listed, part
from webhook.model.pod import APP, INIT, Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import MOST_ENTRIES, ShapeError, shortened
from webhook.model.subject import PodSubject, subject_of, subject_of_template
from webhook.model.wording import counted, cut
from webhook.model.workloads import Template, number_of_templates, templates_of, unread_gpus, with_runtime, workload_of
from webhook.model.workloads.peaks import starts_now
from webhook.model.workloads.template import count_of
from webhook.outcome import Finding, FindingKind, Injection, Outcome
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.policy.policy_set import InForce, Policy
from webhook.policy.schema import WorkloadsMode
from webhook.rules.gpu_parts import unit_name
from webhook.rules.rule import Stage
from webhook.rules.rule_settings import Mode

KEY = "workloads"
"""Stands for a rule in findings about a workload itself. No rule has this key."""

MOST_TEMPLATES = 100
"""Templates of one object that are judged at admission, while the API server waits. An object of the largest size that
the API server accepts can hold tens of thousands."""
_LONGEST_NAME = 40
"""Characters of the name of a group of pods in a message."""

Excepting = Callable[[Callable[[], PodSubject]], InForce]
"""Says what holds in a namespace for the pods that a function describes, with exceptions."""


@dataclass(frozen=True, slots=True)
class _Context:
    """What the templates of an object are judged by: `policy` and `quotas`, or what `excepting` says of the pods."""

    namespace: str
    policy: Policy
    facts: ClusterFacts
    quotas: Sequence[ConfiguredQuota]
    excepting: Excepting | None
    around: Around = NOTHING_AROUND
    said: set[Finding] = field(default_factory=set)
    """What was found about other templates: the same advice is not given again."""

    def followed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object with what it names elsewhere and its pods are made of."""
        runtimes = self.facts.cluster.runtimes
        return with_runtime(raw, self.namespace, lambda *key: runtimes.get(key)) if runtimes else raw

    def held(self, subject: Callable[[], PodSubject]) -> InForce:
        return InForce(self.policy, tuple(self.quotas)) if self.excepting is None else self.excepting(subject)


@dataclass(frozen=True, slots=True)
class _Found:
    """A finding, with a key by which the finding is recognised in another version of the object.

    The key has no places and no numbers of pods in it. `error` is the error of a malformed template.
    """

    key: Hashable
    finding: Finding
    error: ShapeError | None = None


def template_outcomes(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    namespace: str,
    policy: Policy,
    facts: ClusterFacts,
    quotas: Sequence[ConfiguredQuota] = (),
    *,
    excepting: Excepting | None = None,
    around: Around = NOTHING_AROUND,
) -> tuple[TemplateOutcome, ...]:
    """What would happen to the pods of each template in an object; empty for an object that makes no pods.

    `excepting` says what holds for particular pods instead of `policy` and `quotas`. A limit that the pods of several
    templates exceed together is reported with the first of these templates. Raises ShapeError for a malformed template.
    """
    context = _Context(namespace, policy, facts, quotas, excepting, around)
    outcomes: list[TemplateOutcome] = []
    for template in templates_of(context.followed(raw)):
        try:
            outcomes.append(_judge(raw, template, context))
        except ShapeError as error:
            raise error.at(template.place) from None
    outcomes = _without_groups(raw, outcomes, policy)
    found = _unread(raw, [one.template for one in outcomes], policy)
    unread = [TemplateOutcome(Template({}, one.field), others=(one,)) for one in found]
    for told_of in _together(raw, outcomes, context):
        at = next(at for at, one in enumerate(outcomes) if one.template is told_of.first.template)
        outcomes[at] = replace(outcomes[at], others=(*outcomes[at].others, told_of.finding))
    return (*outcomes, *unread)


def validate_workload(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    namespace: str,
    policy: Policy,
    facts: ClusterFacts,
    quotas: Sequence[ConfiguredQuota] = (),
    *,
    old: Mapping[str, Any] | None = None,
    excepting: Excepting | None = None,
    around: Around = NOTHING_AROUND,
) -> Outcome:
    """Judge a workload by the pods that it would make, and a template of resource claims by its claims, in the policy's
    mode for workloads.

    On UPDATE (`old` is given), only new findings are reported. `excepting` and `around` are as in `template_outcomes`.
    A malformed template brings a warning in mode `warn`; in mode `enforce`, ShapeError is raised.
    """
    if policy.workloads is WorkloadsMode.DISABLED:
        return Outcome(policy, raw)
    context = partial(_Context, namespace, policy, facts, quotas, excepting)
    if old is not None:
        around = replace(around, before=partial(_before, old, context()))
    found = list(_findings(raw, context(around)))
    if old is not None and found:
        known = {one.key for one in _findings(old, context())}
        found = [one for one in found if one.key not in known]
    if policy.workloads is WorkloadsMode.ENFORCE:
        for one in found:
            if one.error is not None:
                raise one.error
        return Outcome(policy, raw, tuple(one.finding for one in found))
    gravest_first = sorted((one.finding for one in found), key=lambda finding: not finding.refuses)
    warned = (replace(one, mode=Mode.WARN, refuses=False) if one.refuses else one for one in gravest_first)
    return Outcome(policy, raw, tuple(warned))


def _findings(raw: Mapping[str, Any], context: _Context) -> Iterator[_Found]:
    """The findings about an object. Templates beyond the limits of an admission review are not judged."""
    if is_claim(raw):
        policy = context.held(lambda: subject_of(raw, str(raw["kind"]))).policy
        for finding in validate_claim(raw, context.namespace, policy, context.facts).findings:
            yield _Found(finding, finding)
    found: list[TemplateOutcome | _Found] = []
    templates: list[Template] = []
    containers = 0
    for number, template in enumerate(templates_of(context.followed(raw), MOST_TEMPLATES + 1)):
        containers += sum(len(listed(template.pod, "spec", key)) for key in (INIT, APP))
        if number == MOST_TEMPLATES or (found and containers > MOST_ENTRIES):
            message = (
                f"not checked, nor are the templates after it: of {number_of_templates(raw)} pod templates the first "
                f"{number} are checked; pods of the others are checked when they are created"
            )
            found.append(_Found(KEY, Finding(KEY, Mode.WARN, FindingKind.ADVICE, template.path, message)))
            break
        templates.append(template)
        try:
            found.append(_judge(raw, template, context))
        except ShapeError as error:
            found.append(_malformed(template, error))
    else:
        found += [_Found(KEY, finding) for finding in _unread(raw, templates, context.policy)]
    judged = _without_groups(raw, [one for one in found if isinstance(one, TemplateOutcome)], context.policy)
    rest = iter(judged)
    for one in found:
        yield from [one] if isinstance(one, _Found) else _placed(next(rest))
    yield from (_Found(one.key, one.finding) for one in _together(raw, judged, context))


def _without_groups(raw: Mapping[str, Any], judged: list[TemplateOutcome], policy: Policy) -> list[TemplateOutcome]:
    """The outcomes; findings about pods that work together are left out unless the object makes several GPU pods.

    The groups of a LeaderWorkerSet work apart from each other.
    """
    of_groups = {active.rule.key for active in policy.rules if active.rule.is_about_groups}
    if not any(it.rule in of_groups for one in judged for it in one.in_pod):
        return judged
    counts = [one.template.pods for one in judged if one.gpus]
    groups = count_of(part(raw, "spec", "replicas"), 1) if raw.get("kind") == "LeaderWorkerSet" else 1
    if None not in counts and sum(filter(None, counts)) > (groups or 1):
        return judged
    return [replace(one, in_pod=tuple([it for it in one.in_pod if it.rule not in of_groups])) for one in judged]


def _in_groups(raw: Mapping[str, Any], judged: Sequence[TemplateOutcome], context: _Context) -> Iterator[Told]:
    """What is wrong with the pods of a group of a LeaderWorkerSet together, where all of them are known."""
    groups = count_of(part(raw, "spec", "replicas"), 1) if raw.get("kind") == "LeaderWorkerSet" else None
    members = [(one.pod, one.template.pods // groups) for one in judged if groups and one.pod and one.template.pods]
    if not members or sum(count for _, count in members) != part(raw, "spec", "leaderWorkerTemplate", "size"):
        return
    for one in judged:
        policy = context.held(partial(subject_of_template, raw, one.template)).policy
        facts = facts_under(policy, context.facts)
        for active in policy.rules:
            if active.rule.validate_in_group is not None and one.pod is not None:
                found = active.rule.validate_in_group(one.pod, members, active.settings, facts)
                for finding in _of_all(policy, findings_of(active, found, one.pod)):
                    if not one.template.is_unknown(finding.field):
                        placed = replace(finding, field=one.template.place(finding.field), about=one.about)
                        yield Told(one, (finding.rule, placed.field), placed)


def _placed(outcome: TemplateOutcome) -> Iterator[_Found]:
    for finding, placed in zip(outcome.in_pod, outcome.findings, strict=True):
        yield _Found((_name(outcome.template), finding), placed)


def _together(raw: Mapping[str, Any], judged: Sequence[TemplateOutcome], context: _Context) -> Iterator[Told]:
    yield from _in_groups(raw, judged, context)
    policy, facts = context.policy, facts_under(context.policy, context.facts)
    yield from findings_together(
        raw, judged, namespace=context.namespace, policy=policy, facts=facts, around=context.around
    )


def _before(old: Mapping[str, Any], context: _Context) -> list[TemplateOutcome]:
    """The pods of an object before an update; none where they did not start."""
    found = []
    for template in templates_of(context.followed(old), MOST_TEMPLATES) if starts_now(old) else ():
        with suppress(ShapeError):
            found.append(_judge(old, template, context))
    return found


def _judge(workload: Mapping[str, Any], template: Template, context: _Context) -> TemplateOutcome:
    """Judge a pod of a template, completed as it will be when it is created.

    Rules that steer do not complete pods that are made for one node each, and only warn where some of the nodes do not
    suit. Rules that judge by nodes do not judge pods whose nodes a queue will choose. Raises ShapeError, with a place
    in the pod, for a malformed template.
    """
    held = context.held(lambda: subject_of_template(workload, template))
    judging = completing = held.policy
    if template.is_per_node:
        completing = judging.only(lambda active: active.rule.stage is not Stage.STEERING)
    if template.is_queued:
        judging = judging.only(lambda active: not active.rule.softens_on_update)
        completing = completing if template.is_per_node else judging
    outcome = simulate(template.made, judging, context.facts, completing=completing, namespace=context.namespace)
    pod = outcome.pod or pod_from_raw(outcome.object, held.policy.accelerators, context.namespace)
    facts = facts_under(held.policy, context.facts)
    found = [Finding(KEY, Mode.WARN, FindingKind.ADVICE, *template.told)] if template.told else []
    found += [*outcome.findings, *_unrepaired(template, outcome.injections)]
    found += _of_replicas(template, pod, held.policy, facts)
    found = [one for one in found if not (template.is_unknown(one.field) or (template.is_queued and one.follows_nodes))]
    if template.is_per_node:
        found = [replace(one, kind=FindingKind.ADVICE, refuses=False) if one.is_kept_off else one for one in found]
    if not any(finding.refuses for finding in found):
        wanted = requests_of_pod(pod, context.namespace, held.quotas, facts)
        found += [replace(one, remedy=addressed(one.remedy, held.policy.contact)) for one in wanted.findings]
    found = [one for one in found if one.kind is not FindingKind.ADVICE or one not in context.said]
    context.said.update(found)
    unit = "share" if found and pod.gpus and unit_name(pod, context.facts, GPUS) == "share" else "GPU"
    about = _about(template, pod.gpu_count, unit)
    return TemplateOutcome(template, pod, tuple(found), outcome.injections, held.quotas, about)


def _of_replicas(template: Template, pod: Pod, policy: Policy, facts: ClusterFacts) -> Iterator[Finding]:
    """What is wrong with all pods of the template together, completed as they will be."""
    if template.pods is None or template.pods < 2:
        return
    for active in policy.rules:
        if active.rule.validate_replicas is not None:
            found = active.rule.validate_replicas(pod, template.pods, active.settings, facts)
            yield from _of_all(policy, findings_of(active, found, pod))


def _of_all(policy: Policy, found: Iterable[Finding]) -> Iterator[Finding]:
    """Findings about several pods. They refuse no single pod, but the object in mode `enforce` for workloads."""
    for finding in found:
        yield told(replace(finding, refuses=finding.refuses and policy.workloads is WorkloadsMode.ENFORCE))


def _about(template: Template, gpus: int = 0, unit: str = "GPU") -> str:
    """Which pods a finding is about, with their number and GPUs: `pod template of Worker (4 pods, 32 GPUs)`."""
    name = f"pod template of {shortened(template.group, _LONGEST_NAME)}" if template.group else "pod template"
    if template.pods is None:
        return f"{name} ({counted(gpus, unit)} in each pod)" if gpus else name
    pods = counted(template.pods, "pod")
    return f"{name} ({pods}, {counted(gpus * template.pods, unit)})" if gpus else f"{name} ({pods})"


def _name(template: Template) -> str:
    """A name for a template that is unique in its object and stays when other templates are removed."""
    return template.group or template.path


def _unrepaired(template: Template, injections: Sequence[Injection]) -> Iterator[Finding]:
    """Missing limits that the policy adds to pods. The API server refuses them in the templates that it validates."""
    for injection in injections if template.is_validated else ():
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


def _malformed(template: Template, error: ShapeError) -> _Found:
    key = _name(template), str(error)
    error.at(template.place)
    finding = Finding(
        KEY,
        Mode.ENFORCE,
        FindingKind.VIOLATION,
        error.place,
        error.fault,
        error.remedy.capitalize(),
        refuses=True,
        about=_about(template),
    )
    return _Found(key, finding, error)


def _unread(raw: Mapping[str, Any], templates: Sequence[Template], policy: Policy) -> Iterator[Finding]:
    """Advice about an object of a known kind that has GPUs where the kind has no pods."""
    is_known = workload_of(raw.get("apiVersion"), raw.get("kind")) is not None
    if is_known and (found := unread_gpus(raw, templates, policy.accelerators.of)):
        place, gpu = found
        message = (
            f"requests {cut(gpu)} at a place where this kind is not known to have pods; its pods are checked only when "
            "they are created"
        )
        remedy = f"Compare the place with the reference of {raw['kind']}"
        yield Finding(KEY, Mode.WARN, FindingKind.ADVICE, place, message, remedy)
