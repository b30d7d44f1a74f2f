"""Compares two audits of the same objects under different policies."""

from collections import defaultdict
from collections.abc import Sequence

from webhook.audit.report import AuditFinding, ChangedInjection, Level

_Pods = tuple[str, ...]


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


def _refusals(findings: Sequence[AuditFinding]) -> dict[_Pods, list[AuditFinding]]:
    found: dict[_Pods, list[AuditFinding]] = defaultdict(list)
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


def _injections(findings: Sequence[AuditFinding]) -> dict[_Pods, set[str]]:
    found: dict[_Pods, set[str]] = defaultdict(set)
    for finding in findings:
        if finding.level is Level.COMPLETE:
            found[_pods(finding)].update(finding.edits)
    return found


def _pods(finding: AuditFinding) -> _Pods:
    """The key of the pods that a finding is about: the pods of a template, or other pods of an owner."""
    pod_group = ("template", finding.pod_group.group) if finding.pod_group is not None else ("pod", "")
    return (*finding.whose, *pod_group, *finding.source.identity)
