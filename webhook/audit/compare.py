"""What a change of policies changes for the same objects: the preview of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from webhook.audit.gathering import Gathered
from webhook.audit.report import AuditFinding, ChangedInjection, Level

_Key = tuple[str, ...]


def refused_anew(findings: Iterable[AuditFinding], others: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """The refusals among `findings` that are none of the others, in their order.

    Those of one rule about the same place are the same, whatever their words: that the policy allows another number,
    or other nodes are there, changes nothing for whom it refuses as before. Where there are more of them than among the
    others, it is those that nobody has said before.
    """
    mine, theirs = _refusals(findings), _refusals(others)
    return tuple(one for key, found in mine.items() for one in _beyond(found, theirs.get(key, [])))


def changed_injections(proposed: Gathered, in_force: Gathered) -> tuple[ChangedInjection, ...]:
    """What gets something else than it does, in the order of objects.

    Left out is what one of the two refuses: who hears of that need not hear what else would have become of it.
    """
    after, before = _injections(proposed), _injections(in_force)
    refused = {_pods(one) for one in (*proposed.findings, *in_force.findings) if one.level is Level.REFUSE}
    examples = {_pods(one): one for one in (*in_force.findings, *proposed.findings) if one.level is Level.COMPLETE}
    changed = [
        ChangedInjection(one.object, one.source, one.sort, _listed(before, pods), _listed(after, pods))
        for pods, one in examples.items()
        if pods not in refused and before.get(pods) != after.get(pods)
    ]
    return tuple(sorted(changed, key=lambda one: (one.object, one.sort.group if one.sort is not None else "")))


def _refusals(findings: Iterable[AuditFinding]) -> dict[_Key, list[AuditFinding]]:
    """The refusals by rule and place."""
    found: dict[_Key, list[AuditFinding]] = defaultdict(list)
    for finding in findings:
        if finding.level is Level.REFUSE:
            found[*_pods(finding), finding.rule, finding.field].append(finding)
    return found


def _beyond(findings: list[AuditFinding], others: list[AuditFinding]) -> list[AuditFinding]:
    """Those that are more than the others, and say what none of these says."""
    said = {other.message for other in others}
    unsaid = [finding for finding in findings if finding.message not in said]
    return unsaid[: max(0, len(findings) - len(others))]


def _injections(gathered: Gathered) -> dict[_Key, set[str]]:
    found: dict[_Key, set[str]] = defaultdict(set)
    for finding in gathered.findings:
        if finding.level is Level.COMPLETE:
            found[_pods(finding)].update(gathered.edits[finding.id])
    return found


def _listed(injections: Mapping[_Key, set[str]], pods: _Key) -> tuple[str, ...]:
    return tuple(sorted(injections.get(pods, ())))


def _pods(finding: AuditFinding) -> _Key:
    """Which pods are meant: those of a template, or others of an owner."""
    sort = ("template", finding.sort.group) if finding.sort is not None else ("pod", "")
    return (*finding.whose, *sort, *finding.source.identity)
