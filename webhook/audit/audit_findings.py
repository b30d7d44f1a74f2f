"""Findings of an audit: about one reviewed object, each once for all objects, compared with those of another audit of
the same objects, and about quotas that are used beyond their limits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from heapq import nsmallest

from webhook.audit.owners import Owners, reference_of
from webhook.audit.quota_report import QuotaInUse
from webhook.audit.report import AuditFinding, ChangedInjection, Level, ObjectReference, PodGroup, Running, SourceLine
from webhook.audit.review_objects import ReviewedObject, injected
from webhook.engine import TemplateOutcome
from webhook.engine.quota_requests import amount_of_stored
from webhook.ledger.ledger_store import GpuPod
from webhook.model.json_parts import part
from webhook.model.workloads import Template, controller_of
from webhook.outcome import Finding, FindingKind, Injection
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION
from webhook.quota.quota_wording import amount_of, number
from webhook.quota.quotas import Limit, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode

MOST_NAMES = 3
_SPEC = "spec"


def findings_of(item: ReviewedObject, owners: Owners) -> Iterator[AuditFinding]:
    """What was found in an object, and what is injected, template by template for a workload."""
    own, owner = _references(item, owners)
    policy = item.policy.name if item.policy is not None else ""
    source = SourceLine(item.document.source, item.document.line or None)
    running = Running(1, (item.name,)) if item.outcome is not None and own.uid else None
    for pods, findings, injections in _results(item):
        template = None if pods is None else pods.template
        group = None if pods is None else PodGroup(pods.template.group, pods.template.pods, pods.gpus)
        places = {} if template is None else _places_in_a_pod(template)
        made = partial(
            AuditFinding, object=own, owner=owner, policy=policy, source=source, pod_group=group, running=running
        )
        for finding in findings:
            yield made(
                level=Level.of(finding),
                rule=finding.rule,
                mode=finding.mode,
                kind=finding.kind,
                field=finding.where,
                message=finding.message,
                remedy=finding.remedy,
                file=finding.origin,
                line=finding.line,
                exception=finding.exception.name if finding.exception is not None else "",
                place=_in_a_pod(finding.where, places),
            )
        for injection in injections:
            edits = tuple(map(str, injection.edits))
            yield made(
                level=Level.COMPLETE,
                rule=injection.rule,
                mode=Mode.ENFORCE,
                kind=FindingKind.INJECTION,
                field=_SPEC if template is None else template.place(_SPEC),
                message=", ".join(edits),
                remedy="",
                file=injection.origin,
                line=injection.line,
                place=_SPEC,
                edits=edits,
            )


def _results(
    item: ReviewedObject,
) -> Iterator[tuple[TemplateOutcome | None, Iterable[Finding], Iterable[Injection]]]:
    """Findings and injections for each template, or for the object itself (None)."""
    if not item.pods:
        yield None, item.findings, item.outcome.injections if item.outcome is not None and item.is_allowed else ()
    for pods in item.pods:
        yield pods, pods.findings, injected(pods)


def _references(item: ReviewedObject, owners: Owners) -> tuple[ObjectReference, ObjectReference]:
    raw = item.document.object
    own = replace(reference_of(raw), namespace=item.namespace)
    owner = own if controller_of(raw) is None else owners.root_of(raw)
    if not owner.namespace and not part(raw, "metadata", "namespace"):
        owner = replace(owner, namespace=own.namespace)
    return own, owner


def _places_in_a_pod(template: Template) -> Mapping[str, str]:
    """Place in the object -> its place in a pod."""
    places = {outside: inside for inside, outside in template.elsewhere.items()}
    return places | {template.path: _SPEC, template.path.removesuffix(f".{_SPEC}"): ""}


def _in_a_pod(field: str, places: Mapping[str, str]) -> str:
    """The place in a pod that corresponds to `field` of the object: the reverse of `Template.place`."""
    for end in (len(field), *(at for at in reversed(range(len(field))) if field[at] in ".[")):
        if (inside := places.get(field[:end])) is not None:
            return (inside + field[end:]).removeprefix(".")
    return field


class Deduplicator:
    """Keeps each finding once, however many pods have it, for the object that people change to fix it."""

    def __init__(self) -> None:
        self._findings: dict[tuple[str, ...], AuditFinding] = {}

    def add(self, finding: AuditFinding) -> None:
        key = finding.identity
        known = self._findings.get(key)
        self._findings[key] = finding if known is None else _merged(known, finding)

    def findings(self) -> tuple[AuditFinding, ...]:
        """All findings so far, sorted as in reports.

        A finding about a pod, or about a workload that another workload made, is left out if the template of its owner
        has the same finding. The finding of the template then counts the pod.
        """
        of_templates: dict[tuple[str, ...], int] = {}
        kept: list[AuditFinding] = []
        for finding in sorted(self._findings.values(), key=_remoteness):
            key = (finding.rule, finding.kind, *finding.whose, finding.place, finding.message)
            if _remoteness(finding) and key in of_templates:
                kept[of_templates[key]] = _merged(kept[of_templates[key]], finding)
                continue
            if finding.pod_group is not None:
                of_templates.setdefault(key, len(kept))
            kept.append(finding)
        return tuple(sorted(kept, key=_order))


def _merged(first: AuditFinding, finding: AuditFinding) -> AuditFinding:
    """The first of two equal findings, with the graver level of the two and the pods of both."""
    if finding.level.rank < first.level.rank:
        first = replace(
            first,
            level=finding.level,
            mode=finding.mode,
            file=finding.file,
            line=finding.line,
            exception=finding.exception,
        )
    if finding.running is None:
        return first
    known = first.running or Running(0, ())
    names = tuple(dict.fromkeys((*known.names, *finding.running.names)))[:MOST_NAMES]
    return replace(first, running=Running(known.count + finding.running.count, names))


def _remoteness(finding: AuditFinding) -> int:
    """0 for a finding about the template that people change, 1 about a template made from it, 2 about a pod."""
    if finding.pod_group is None:
        return 2
    return int(finding.object.identity != finding.owner.identity)


def _order(finding: AuditFinding) -> tuple[object, ...]:
    return (finding.level.rank, finding.owner, *finding.identity, finding.source.line or 0)


_Key = tuple[str, ...]


def new_refusals(findings: Sequence[AuditFinding], others: Sequence[AuditFinding]) -> tuple[AuditFinding, ...]:
    """The refusals among `findings` that are not among `others`, in their order.

    Refusals of one rule about one place count as equal, whatever their messages: if only the allowed number or the
    nodes differ, a pod that was refused before is still refused. If a place has more refusals than before, the refusals
    with new messages are returned.
    """
    before = _refusals(others)
    new: list[AuditFinding] = []
    for place, refusals in _refusals(findings).items():
        known = before.get(place, [])
        messages = {refusal.message for refusal in known}
        changed = [refusal for refusal in refusals if refusal.message not in messages]
        new += changed[: max(0, len(refusals) - len(known))]
    return tuple(new)


def _refusals(findings: Sequence[AuditFinding]) -> dict[_Key, list[AuditFinding]]:
    found: dict[_Key, list[AuditFinding]] = defaultdict(list)
    for finding in findings:
        if finding.level is Level.REFUSE:
            found[*_pods(finding), finding.rule, finding.field].append(finding)
    return found


def changed_injections(
    proposed: Sequence[AuditFinding], in_force: Sequence[AuditFinding]
) -> tuple[ChangedInjection, ...]:
    """The pods whose injections change, in the order of objects.

    Pods that are refused in one of the two audits are left out: the refusal is reported instead.
    """
    after, before = _injections(proposed), _injections(in_force)
    both = (*in_force, *proposed)
    refused = {_pods(finding) for finding in both if finding.level is Level.REFUSE}
    examples = {_pods(finding): finding for finding in both if finding.level is Level.COMPLETE}
    changed = [
        ChangedInjection(
            example.object,
            example.source,
            example.pod_group,
            tuple(sorted(before.get(pods, ()))),
            tuple(sorted(after.get(pods, ()))),
        )
        for pods, example in examples.items()
        if pods not in refused and before.get(pods) != after.get(pods)
    ]
    return tuple(
        sorted(changed, key=lambda one: (one.object, one.pod_group.group if one.pod_group is not None else ""))
    )


def _injections(findings: Sequence[AuditFinding]) -> dict[_Key, set[str]]:
    found: dict[_Key, set[str]] = defaultdict(set)
    for finding in findings:
        if finding.level is Level.COMPLETE:
            found[_pods(finding)].update(finding.edits)
    return found


def _pods(finding: AuditFinding) -> _Key:
    """The key of the pods that a finding is about: the pods of a template, or other pods of an owner."""
    pod_group = ("template", finding.pod_group.group) if finding.pod_group is not None else ("pod", "")
    return (*finding.whose, *pod_group, finding.source.file)


_LEVELS = {Mode.ENFORCE: Level.REFUSE, Mode.WARN: Level.WARN}


def quota_overuse(quotas: Iterable[QuotaInUse], pods: Sequence[GpuPod], policies: PolicySet) -> Iterator[AuditFinding]:
    """One finding for each limit that is exceeded, about the namespace or shared quota; `pods` are all that count."""
    for active, usage in quotas:
        for limit, used in (usage.used or {}).items():
            if used > limit.hard:
                yield _over_limit(active, limit, used, _running(pods, limit, active.quota), policies)


def _over_limit(
    active: ConfiguredQuota, limit: Limit, used: Fraction, running: Running, policies: PolicySet
) -> AuditFinding:
    quota, over = active.quota, used - limit.hard
    about, policy = ObjectReference("", "Namespace", quota.name, "v1"), policies.for_namespace(quota.name).name
    if quota.scope is QuotaScope.SHARED:
        about, policy = (
            ObjectReference("", "SharedQuota", quota.name, API_VERSION),
            active.origin.removesuffix(".yaml"),
        )
    allowed = amount_of(limit.hard, limit)
    return AuditFinding(
        level=_LEVELS.get(active.mode, Level.AUDIT),
        rule=gpu_quota.RULE.key,
        mode=active.mode,
        kind=FindingKind.VIOLATION,
        object=about,
        owner=about,
        field=_SPEC,
        message=f"GPU quota '{quota.name}' is used beyond its limit: {number(used)} of {allowed} ({number(over)} over)",
        remedy=f"Free {amount_of(over, limit)}, or raise the quota",
        policy=policy,
        file=active.origin,
        line=active.line,
        running=running,
    )


def _running(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> Running:
    """How many pods count against a limit, and the names of the pods that use most of it."""
    found = [
        (-amount, pod.called)
        for pod in pods
        if quota.covers(pod.namespace) and (amount := amount_of_stored(pod, limit, quota))
    ]
    return Running(len(found), tuple(name for _, name in nsmallest(MOST_NAMES, found)))
