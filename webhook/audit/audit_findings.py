"""Findings of an audit: about one reviewed object, and about quotas that are used beyond their limits."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from heapq import nsmallest
from itertools import islice

from webhook.audit.deduplication import MOST_NAMES, DraftFinding
from webhook.audit.owners import Owners
from webhook.audit.quota_report import QuotaInUse
from webhook.audit.report import AuditFinding, Level, ObjectReference, PodGroup, Running, SourceLine
from webhook.audit.review_objects import ReviewedObject, injected
from webhook.engine import TemplateOutcome
from webhook.engine.quota_findings import amount_of_stored
from webhook.ledger.ledger_store import GpuPod
from webhook.model.json_parts import part
from webhook.model.shape import shortened
from webhook.model.workloads import Template, controller_of
from webhook.outcome import LONGEST_FIELD, Finding, FindingKind, Injection
from webhook.policy.policy_quotas import BoundQuota
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION
from webhook.quota.quota_wording import amount_of, number
from webhook.quota.quotas import Limit, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode

MOST_FINDINGS = 100
"""Most findings of one rule and level about one object."""

_SPEC = "spec"
_PART = re.compile(r"[.\[]")
_MOST_PARTS = 64
"""Most parts of a place that are looked up; places in manifests have far fewer."""

_MakeFinding = Callable[..., AuditFinding]
"""Makes a finding about one object from the fields in which its findings differ."""


def findings_of(item: ReviewedObject, owners: Owners, ordinal: int = 1) -> Iterator[DraftFinding]:
    """The findings about an object, template by template for a workload; `ordinal` is as in SourceLine.

    An object can be written to have thousands of findings. The first 100 of each rule and level are kept.
    """
    counts: Counter[tuple[str, Level]] = Counter()
    beyond: dict[tuple[str, Level], DraftFinding] = {}
    for found in _found_in(item, _about(item, owners, ordinal)):
        kind = found.finding.rule, found.finding.level
        counts[kind] += found.number
        if counts[kind] <= MOST_FINDINGS:
            yield found
        else:
            beyond.setdefault(kind, found)
    for kind, found in beyond.items():
        left = counts[kind] - MOST_FINDINGS - 1
        message = f"{found.finding.message}; {left} more like it are left out"
        yield replace(found, finding=replace(found.finding, message=message)) if left else found


def _found_in(item: ReviewedObject, make: _MakeFinding) -> Iterator[DraftFinding]:
    if item.outcome is not None:
        for finding in item.outcome.findings:
            yield DraftFinding(_from_finding(finding, make), finding.field, number=finding.number)
        if item.is_allowed:
            yield from (_from_injection(injection, make, _SPEC) for injection in item.outcome.injections)
    elif not item.pods:
        yield from (DraftFinding(_from_finding(one, make), one.field, number=one.number) for one in item.findings)
    for outcome in item.pods:
        yield from _of_template(outcome, make)


def _about(item: ReviewedObject, owners: Owners, ordinal: int) -> _MakeFinding:
    document = item.document
    uid = part(document.object, "metadata", "uid")
    own = ObjectReference(
        item.namespace, document.kind, item.name, document.api_version, uid if isinstance(uid, str) else ""
    )
    owner = own if controller_of(document.object) is None else owners.root_of(document.object)
    if not owner.namespace and not part(document.object, "metadata", "namespace"):
        owner = replace(owner, namespace=own.namespace)
    return partial(
        AuditFinding,
        object=own,
        owner=owner,
        policy=item.policy.name if item.policy is not None else "",
        source=SourceLine(document.source, document.line or None, ordinal),
        running=Running(1, (item.name,)) if item.outcome is not None and own.uid else None,
    )


def _of_template(outcome: TemplateOutcome, make: _MakeFinding) -> Iterator[DraftFinding]:
    template = outcome.template
    make = partial(make, pod_group=PodGroup(template.group, template.pods, outcome.gpus))
    places = _places_in_a_pod(template)
    for finding in outcome.findings:
        place = _shown(_in_a_pod(finding.field, places))
        yield DraftFinding(_from_finding(finding, make), place, number=finding.number)
    yield from (_from_injection(injection, make, template.place(_SPEC)) for injection in injected(outcome))


def _from_finding(finding: Finding, make: _MakeFinding) -> AuditFinding:
    return make(
        level=Level.of(finding),
        rule=finding.rule,
        mode=finding.mode,
        kind=finding.kind,
        field=_shown(finding.field),
        message=finding.message,
        remedy=finding.remedy,
        file=finding.origin,
        line=finding.line,
        exception=finding.exception.name if finding.exception is not None else "",
    )


def _from_injection(injection: Injection, make: _MakeFinding, field: str) -> DraftFinding:
    edits = tuple(map(str, injection.edits))
    finding = make(
        level=Level.COMPLETE,
        rule=injection.rule,
        mode=Mode.ENFORCE,
        kind=FindingKind.INJECTION,
        field=_shown(field),
        message=", ".join(edits),
        remedy="",
        file=injection.origin,
        line=injection.line,
    )
    return DraftFinding(finding, _SPEC, edits)


def _shown(field: str) -> str:
    """A place, cut if it is too long: custom resources may have names of megabytes."""
    return shortened(field, LONGEST_FIELD)


def _places_in_a_pod(template: Template) -> Mapping[str, str]:
    """Place in the object -> its place in a pod."""
    places = {outside: inside for inside, outside in template.elsewhere.items()}
    return places | {template.path: _SPEC, template.path.removesuffix(f".{_SPEC}"): ""}


def _in_a_pod(field: str, places: Mapping[str, str]) -> str:
    """The place in a pod that corresponds to `field` of the object: the reverse of `Template.place`."""
    ends = [match.start() for match in islice(_PART.finditer(field), _MOST_PARTS)]
    for end in (len(field), *reversed(ends)):
        inside = places.get(field[:end])
        if inside is not None:
            return (inside + field[end:]).removeprefix(".")
    return field


_LEVELS = {Mode.ENFORCE: Level.REFUSE, Mode.WARN: Level.WARN}


def quota_overuse(quotas: Iterable[QuotaInUse], pods: Sequence[GpuPod], policies: PolicySet) -> Iterator[AuditFinding]:
    """One finding for each limit that is exceeded, about the namespace or shared quota; `pods` are all that count."""
    for one in quotas:
        for limit, used in (one.usage.used or {}).items():
            if used > limit.hard:
                yield _over_limit(one.bound, limit, used, _running(pods, limit, one.bound.quota), policies)


def _over_limit(bound: BoundQuota, limit: Limit, used: Fraction, running: Running, policies: PolicySet) -> AuditFinding:
    quota, over = bound.quota, used - limit.hard
    about, policy = ObjectReference("", "Namespace", quota.name, "v1"), policies.for_namespace(quota.name).name
    if quota.scope is QuotaScope.SHARED:
        about, policy = ObjectReference("", "SharedQuota", quota.name, API_VERSION), bound.origin.removesuffix(".yaml")
    allowed = amount_of(limit.hard, limit)
    return AuditFinding(
        level=_LEVELS.get(bound.mode, Level.AUDIT),
        rule=gpu_quota.RULE.key,
        mode=bound.mode,
        kind=FindingKind.VIOLATION,
        object=about,
        owner=about,
        field="spec",
        message=f"GPU quota '{quota.name}' is used beyond its limit: {number(used)} of {allowed} ({number(over)} over)",
        remedy=f"Free {amount_of(over, limit)}, or raise the quota",
        policy=policy,
        file=bound.origin,
        line=bound.line,
        running=running,
    )


def _running(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> Running:
    """How many pods count against a limit, and the names of the pods that use most of it."""
    found = [(-amount, pod.called) for pod in pods if (amount := _amount(pod, limit, quota))]
    return Running(len(found), tuple(name for _, name in nsmallest(MOST_NAMES, found)))


def _amount(pod: GpuPod, limit: Limit, quota: Quota) -> Fraction:
    return amount_of_stored(pod, limit, quota) if quota.covers(pod.namespace) else Fraction(0)
