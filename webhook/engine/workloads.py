"""Workloads: what would become of the pods that they make. They themselves are never changed."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.engine.templates import (
    Foreseen,
    JudgedTemplate,
    QuotaTotal,
    TemplateContext,
    about,
    judge_template,
    totals,
)
from webhook.facts.facts import ClusterFacts
from webhook.model.bounds import STORABLE, least_stored
from webhook.model.shape import ShapeError
from webhook.model.workloads import Template, number_of_templates, templates_of
from webhook.model.workloads.parts import mapped
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.bound_quotas import BoundQuota
from webhook.policy.policy_set import Policy
from webhook.policy.schema import WorkloadsMode
from webhook.rules.rule_settings import Mode

KEY = "workloads"
"""What findings about a workload itself are called by; no rule has this name."""

MOST_TEMPLATES = 100
"""Templates of one object that are judged at admission, where somebody waits: an object of the size that the API server
takes can hold tens of thousands."""
MOST_FINDINGS = 2_000
"""Findings about one object, after which no further template is judged at admission; of old objects as of new ones."""


def foresee_pods(
    raw: Mapping[str, Any], namespace: str, policy: Policy, facts: ClusterFacts, quotas: Sequence[BoundQuota] = ()
) -> tuple[Foreseen, ...]:
    """What would become of the pods that an object makes, template by template; empty for one that makes none.

    What all of them pass together is told with the first that has a part in it. Raises ShapeError for a malformed
    template.
    """
    where = TemplateContext(namespace, policy, facts, quotas)
    judged = [_judged(template, where) for template in templates_of(raw)]
    found = _totals(judged, where)
    return tuple(
        _with(one.foreseen, [total for total in found if total.first.template is one.template]) for one in judged
    )


def check_workload(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    namespace: str,
    policy: Policy,
    facts: ClusterFacts,
    quotas: Sequence[BoundQuota] = (),
    *,
    old: Mapping[str, Any] | None = None,
) -> Outcome:
    """Judge a workload by the pods that it would make, as the policy's mode for workloads says.

    On UPDATE (`old` is given) report only what is new. Of a malformed template the mode `warn` warns; `enforce` raises
    ShapeError.
    """
    if policy.workloads is WorkloadsMode.DISABLED:
        return Outcome(policy, raw)
    where = TemplateContext(namespace, policy, facts, quotas)
    told = list(_told(raw, where))
    if old is not None and told:
        known = {one.key for one in _told(old, where)}
        told = [one for one in told if one.key not in known]
    if policy.workloads is WorkloadsMode.ENFORCE:
        for one in told:
            if one.error is not None:
                raise one.error
        return Outcome(policy, raw, tuple(one.finding for one in told))
    gravest_first = sorted((one.finding for one in told), key=lambda finding: not finding.refuses)
    return Outcome(policy, raw, tuple(map(_only_warned, gravest_first)))


@dataclass(frozen=True, slots=True)
class _Told:
    """A finding, and by what it is known again in another version of the object: not by places and numbers of pods.

    `error` is that of a malformed template.
    """

    key: Hashable
    finding: Finding
    error: ShapeError | None = None


def _told(raw: Mapping[str, Any], where: TemplateContext) -> Iterator[_Told]:
    """What is to be said of an object, as far as its templates are judged at admission."""
    judged: list[JudgedTemplate] = []
    told, stored = 0, 0
    for number, template in enumerate(templates_of(raw, MOST_TEMPLATES + 1)):
        stored += least_stored(mapped(template.pod, "spec"))
        if number == MOST_TEMPLATES or told > MOST_FINDINGS or (judged and stored > STORABLE):
            yield _unjudged(template, number, number_of_templates(raw))
            break
        try:
            one = judge_template(template, where)
        except ShapeError as error:
            yield _malformed(template, error)
            continue
        judged.append(one)
        told += len(one.findings)
        for finding, placed in zip(one.findings, one.foreseen.findings, strict=True):
            yield _Told((_name(template), finding), placed)
    for total in _totals(judged, where):
        yield _Told(total.key, _placed(total))


def _judged(template: Template, where: TemplateContext) -> JudgedTemplate:
    try:
        return judge_template(template, where)
    except ShapeError as error:
        raise error.at(template.place) from None


def _with(foreseen: Foreseen, together: Sequence[QuotaTotal]) -> Foreseen:
    return replace(foreseen, findings=(*foreseen.findings, *map(_placed, together))) if together else foreseen


def _name(template: Template) -> str:
    """What tells a template from the others of an object, also after some of them have gone."""
    return template.group or template.path


def _totals(judged: Sequence[JudgedTemplate], where: TemplateContext) -> list[QuotaTotal]:
    """What the pods pass together that are not refused one by one."""
    groups = [one.group for one in judged if not one.foreseen.is_refused]
    return list(totals(groups, where.namespace, where.quotas))


def _placed(total: QuotaTotal) -> Finding:
    template = total.first.template
    if not total.is_only:
        return total.finding
    return replace(total.finding, field=template.place(total.finding.field), about=about(template, total.first.pod))


def _malformed(template: Template, error: ShapeError) -> _Told:
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
    return _Told(key, finding, error)


def _unjudged(first: Template, judged: int, count: int) -> _Told:
    message = (
        f"this pod template and those after it were not checked: of the {count} in the object, {judged} are checked; "
        "their pods are checked when they are created"
    )
    return _Told(KEY, Finding(KEY, Mode.WARN, FindingKind.ADVICE, first.path, message))


def _only_warned(finding: Finding) -> Finding:
    return replace(finding, mode=Mode.WARN, refuses=False) if finding.refuses else finding
