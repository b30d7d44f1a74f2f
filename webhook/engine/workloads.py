"""Workloads: what would happen to the pods that they make. Workloads themselves are never modified."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from webhook.engine.applied_claims import is_claim, validate_claim
from webhook.engine.quota_findings import KEY as QUOTA_KEY
from webhook.engine.running_rules import facts_under
from webhook.engine.templates import (
    Excepting,
    JudgedTemplate,
    TemplateContext,
    TemplateOutcome,
    about,
    judge_template,
)
from webhook.facts.facts import ClusterFacts
from webhook.model.json_parts import listed
from webhook.model.pod import APP, INIT
from webhook.model.shape import MOST_ENTRIES, ShapeError
from webhook.model.subject import subject_of
from webhook.model.wording import cut
from webhook.model.workloads import Template, number_of_templates, templates_of, unread_gpus, workload_of
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_quotas import BoundQuota
from webhook.policy.policy_set import Policy
from webhook.policy.schema import WorkloadsMode
from webhook.quota import quota_wording
from webhook.quota.amounts import amounts, unit_of
from webhook.quota.pod_demand import pod_demand
from webhook.quota.quota_wording import is_unspecified
from webhook.quota.quotas import Excess, Limit
from webhook.rules.rule_settings import Mode

KEY = "workloads"
"""The name of a rule in findings about a workload itself. No rule has this key."""

MOST_TEMPLATES = 100
"""Templates of one object that are judged at admission, while the API server waits. An object of the largest size that
the API server accepts can hold tens of thousands."""
MOST_FINDINGS = 2_000
"""Findings about one object, old or new, after which no further template is judged at admission."""


@dataclass(frozen=True, slots=True)
class _WorkloadFinding:
    """A finding, with a key by which the finding is recognised in another version of the object.

    The key has no places and no numbers of pods in it. `error` is the error of a malformed template.
    """

    key: Hashable
    finding: Finding
    error: ShapeError | None = None


@dataclass(frozen=True, slots=True)
class _QuotaTotal:
    """A limit of a quota that the pods of a workload exceed together, and none of them alone.

    `key` does not depend on how many pods there are. `first` is the first template with pods that count. If it is the
    only one, `finding.field` is a place in such a pod, otherwise a place in the workload.
    """

    key: tuple[str, Limit]
    finding: Finding
    first: JudgedTemplate
    is_only: bool


def template_outcomes(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    namespace: str,
    policy: Policy,
    facts: ClusterFacts,
    quotas: Sequence[BoundQuota] = (),
    *,
    excepting: Excepting | None = None,
) -> tuple[TemplateOutcome, ...]:
    """What would happen to the pods of each template in an object; empty for an object that makes no pods.

    `excepting` says what holds for particular pods instead of `policy` and `quotas`. A limit that the pods of several
    templates exceed together is reported with the first of these templates. Raises ShapeError for a malformed template.
    """
    where = TemplateContext(namespace, policy, facts, quotas, excepting)
    said = set[Finding]()
    judged = [_judged(raw, template, where, said) for template in templates_of(raw)]
    found = list(_totals(judged, where))
    return (
        *(_with(one.outcome, [total for total in found if total.first.template is one.template]) for one in judged),
        *(
            TemplateOutcome(Template({}, one.finding.field), 0, (one.finding,), ())
            for one in _unread(raw, [one.template for one in judged], where)
        ),
    )


def validate_workload(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    namespace: str,
    policy: Policy,
    facts: ClusterFacts,
    quotas: Sequence[BoundQuota] = (),
    *,
    old: Mapping[str, Any] | None = None,
    excepting: Excepting | None = None,
) -> Outcome:
    """Judge a workload by the pods that it would make, and a template of resource claims by its claims, in the policy's
    mode for workloads.

    On UPDATE (`old` is given), only new findings are reported. `excepting` is as in `template_outcomes`. A malformed
    template brings a warning in mode `warn`; in mode `enforce`, ShapeError is raised.
    """
    if policy.workloads is WorkloadsMode.DISABLED:
        return Outcome(policy, raw)
    where = TemplateContext(namespace, policy, facts, quotas, excepting)
    found = list(_findings(raw, where))
    if old is not None and found:
        known = {one.key for one in _findings(old, where)}
        found = [one for one in found if one.key not in known]
    if policy.workloads is WorkloadsMode.ENFORCE:
        for one in found:
            if one.error is not None:
                raise one.error
        return Outcome(policy, raw, tuple(one.finding for one in found))
    gravest_first = sorted((one.finding for one in found), key=lambda finding: not finding.refuses)
    return Outcome(policy, raw, tuple(map(_only_warned, gravest_first)))


def _findings(raw: Mapping[str, Any], where: TemplateContext) -> Iterator[_WorkloadFinding]:
    """The findings about an object. Templates beyond the limits of an admission review are not judged."""
    for finding in _claimed(raw, where):
        yield _WorkloadFinding(finding, finding)
    judged: list[JudgedTemplate] = []
    templates: list[Template] = []
    said = set[Finding]()
    found, containers = 0, 0
    for number, template in enumerate(templates_of(raw, MOST_TEMPLATES + 1)):
        containers += sum(len(listed(template.pod, "spec", key)) for key in (INIT, APP))
        if number == MOST_TEMPLATES or found > MOST_FINDINGS or (judged and containers > MOST_ENTRIES):
            yield _unjudged(template, number, number_of_templates(raw))
            break
        templates.append(template)
        try:
            one = judge_template(raw, template, where, said)
        except ShapeError as error:
            yield _malformed(template, error)
            continue
        judged.append(one)
        found += len(one.findings)
        for finding, placed in zip(one.findings, one.outcome.findings, strict=True):
            yield _WorkloadFinding((_name(template), finding), placed)
    else:
        yield from _unread(raw, templates, where)
    for total in _totals(judged, where):
        yield _WorkloadFinding(total.key, _placed(total))


def _claimed(raw: Mapping[str, Any], where: TemplateContext) -> Sequence[Finding]:
    """The findings about a template of resource claims, with the exceptions that hold for it."""
    if not is_claim(raw):
        return ()
    policy = (
        where.policy if where.excepting is None else where.excepting(lambda: subject_of(raw, str(raw["kind"]))).policy
    )
    return validate_claim(raw, where.namespace, policy, where.facts).findings


def _judged(raw: Mapping[str, Any], template: Template, where: TemplateContext, said: set[Finding]) -> JudgedTemplate:
    try:
        return judge_template(raw, template, where, said)
    except ShapeError as error:
        raise error.at(template.place) from None


def _with(outcome: TemplateOutcome, together: Sequence[_QuotaTotal]) -> TemplateOutcome:
    return replace(outcome, findings=(*outcome.findings, *map(_placed, together))) if together else outcome


def _name(template: Template) -> str:
    """A name for a template that is unique in its object and stays when other templates are removed."""
    return template.group or template.path


def _totals(judged: Sequence[JudgedTemplate], where: TemplateContext) -> Iterator[_QuotaTotal]:
    """The limits that the pods exceed together, each once. Templates whose pods are refused one by one are left out.

    A template that does not say how many pods it makes counts as none.
    """
    admitted = [one for one in judged if not one.outcome.is_refused]
    counted = [one for one in admitted if one.template.pods and (one.pod.gpus or one.pod.resource_claims)]
    bounds = {id(bound): bound for one in counted for bound in one.quotas}
    for bound in bounds.values():
        counting = [one for one in counted if any(own is bound for own in one.quotas)]
        for limit in bound.quota.limits:
            found = _total(bound, limit, counting, where)
            if found is not None:
                yield found


def _total(
    bound: BoundQuota, limit: Limit, templates: Sequence[JudgedTemplate], where: TemplateContext
) -> _QuotaTotal | None:
    shares: list[tuple[JudgedTemplate, Fraction]] = []
    is_open, units = False, set[tuple[str, Fraction] | None]()
    facts = facts_under(where.policy, where.facts)
    for one in templates:
        demand = pod_demand(one.pod, where.namespace, bound.quota.counting, facts).all
        if demand is not None and (amount := amounts(demand, bound.quota)[limit]):
            shares.append((one, amount))
            units.add(unit_of(demand, limit, bound.quota))
            is_open |= is_unspecified(demand, bound.quota)
    asks = sum((amount * (one.template.pods or 0) for one, amount in shares), Fraction(0))
    if asks <= limit.hard or any(amount > limit.hard for _, amount in shares):
        return None
    is_only, (first, amount) = len(shares) == 1, shares[0]
    pods = sum(one.template.pods or 0 for one, _ in shares)
    kinds = () if is_only else [one.template.group for one, _ in shares]
    excess = Excess(limit, amount if is_only else asks, Fraction(0), units.pop() if len(units) == 1 else None)
    found = quota_wording.too_many_pods(bound.quota, excess, pods, kinds, is_unspecified=is_open)
    mode = Mode.AUDIT if bound.mode is Mode.AUDIT else Mode.WARN
    finding = Finding(QUOTA_KEY, mode, FindingKind.VIOLATION, "spec", *found, origin=bound.origin, line=bound.line)
    return _QuotaTotal((bound.quota.key, limit), finding, first, is_only)


def _placed(total: _QuotaTotal) -> Finding:
    template = total.first.template
    if not total.is_only:
        return total.finding
    return replace(total.finding, field=template.place(total.finding.field), about=total.first.about)


def _malformed(template: Template, error: ShapeError) -> _WorkloadFinding:
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
        about=about(template),
    )
    return _WorkloadFinding(key, finding, error)


def _unjudged(first: Template, judged: int, count: int) -> _WorkloadFinding:
    message = (
        f"not checked, like all pod templates after it: the object has {count} of them, and {judged} are checked; pods "
        "of the others are checked when they are created"
    )
    return _WorkloadFinding(KEY, Finding(KEY, Mode.WARN, FindingKind.ADVICE, first.path, message))


def _unread(
    raw: Mapping[str, Any], templates: Sequence[Template], where: TemplateContext
) -> Iterator[_WorkloadFinding]:
    """That an object of a known kind has GPUs where that kind has no pods."""
    is_known = workload_of(raw.get("apiVersion"), raw.get("kind")) is not None
    if is_known and (found := unread_gpus(raw, templates, where.policy.accelerators.of)):
        place, gpu = found
        message = f"requests {cut(gpu)} where no pods of this kind are read, so only pods that it makes are checked"
        remedy = f"Compare the place with the reference of {raw['kind']}"
        yield _WorkloadFinding(KEY, Finding(KEY, Mode.WARN, FindingKind.ADVICE, place, message, remedy))


def _only_warned(finding: Finding) -> Finding:
    return replace(finding, mode=Mode.WARN, refuses=False) if finding.refuses else finding
