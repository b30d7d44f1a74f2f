"""Keeps each finding once, however many pods have it, for the object that people change to fix it.

The last functions compare two audits of the same objects under different policies.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from webhook.audit.report import AuditFinding, ChangedInjection, Level, Running

MOST_NAMES = 3
"""Most pods that a finding names."""

_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DraftFinding:
    """A finding about one object, before equal findings are merged.

    `place` is the field of the finding as a place in a pod, `edits` are injections in words, and `number` is how many
    findings it stands for.
    """

    finding: AuditFinding
    place: str
    edits: tuple[str, ...] = ()
    number: int = 1


@dataclass(frozen=True, slots=True)
class Gathered:
    """Findings, sorted as in reports. `edits`: id of a finding of `Level.COMPLETE` -> its injections in words."""

    findings: tuple[AuditFinding, ...]
    edits: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Entry:
    """Equal findings, merged: the first one, with the gravest level of all, and the pods that have it."""

    found: DraftFinding
    count: int = 0
    names: tuple[str, ...] = ()

    def add(self, finding: AuditFinding) -> None:
        """Add an equal finding about other pods."""
        first = self.found.finding
        if finding.level.rank < first.level.rank:
            graver = replace(
                first,
                level=finding.level,
                mode=finding.mode,
                file=finding.file,
                line=finding.line,
                exception=finding.exception,
            )
            self.found = replace(self.found, finding=graver)
        if finding.running is not None:
            self.count += finding.running.count
            self.names = tuple(dict.fromkeys((*self.names, *finding.running.names)))[:MOST_NAMES]

    def finding(self) -> AuditFinding:
        """The finding with the pods that have it."""
        running = Running(self.count, self.names) if self.count else None
        return replace(self.found.finding, running=running)


class Deduplicator:
    """Takes findings one by one, and merges equal ones."""

    def __init__(self) -> None:
        self._entries: dict[_Key, _Entry] = {}
        self._texts: dict[str, str] = {}

    def add(self, found: DraftFinding) -> None:
        """Add a finding."""
        entry = self._entries.get(found.finding.identity)
        if entry is None:
            entry = _Entry(self._interned(found))
            self._entries[entry.found.finding.identity] = entry
        entry.add(found.finding)

    def _interned(self, found: DraftFinding) -> DraftFinding:
        """The finding with each text as one object, which saves memory: thousands of pods have equal messages."""
        finding = replace(
            found.finding,
            field=self._same_text(found.finding.field),
            message=self._same_text(found.finding.message),
            remedy=self._same_text(found.finding.remedy),
        )
        edits = tuple(map(self._same_text, found.edits))
        return replace(found, finding=finding, place=self._same_text(found.place), edits=edits)

    def _same_text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def gathered(self) -> Gathered:
        """All findings so far.

        A finding about a pod, or about a workload that another workload made, is left out if the template of its owner
        has the same finding. The finding of the template then counts the pod.
        """
        of_templates: dict[_Key, _Entry] = {}
        entries: list[_Entry] = []
        for entry in sorted(self._entries.values(), key=lambda one: _remoteness(one.found.finding)):
            finding, key = entry.found.finding, _of_pods(entry.found)
            if _remoteness(finding) and key in of_templates:
                of_templates[key].add(entry.finding())
                continue
            entries.append(own := _Entry(entry.found, entry.count, entry.names))
            if finding.pod_group is not None:
                of_templates.setdefault(key, own)
        entries.sort(key=lambda one: _order(one.found.finding))
        edits = {one.found.finding.id: one.found.edits for one in entries if one.found.edits}
        return Gathered(tuple(one.finding() for one in entries), edits)


def _remoteness(finding: AuditFinding) -> int:
    """0 for a finding about the template that people change, 1 about a template made from it, 2 about a pod."""
    if finding.pod_group is None:
        return 2
    return int(finding.object.identity != finding.owner.identity)


def _of_pods(found: DraftFinding) -> _Key:
    """The key that a template and the pods made from it share."""
    finding = found.finding
    return (finding.rule, finding.kind, *finding.whose, found.place, finding.message)


def _order(finding: AuditFinding) -> tuple[object, ...]:
    return (finding.level.rank, finding.owner, *finding.identity, finding.source.line or 0)


_Compared = tuple[str, ...]


def new_refusals(findings: Iterable[AuditFinding], others: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """The refusals among `findings` that are not among `others`, in their order.

    Refusals of one rule about one place count as equal, whatever their messages: if only the allowed number or the
    nodes differ, a pod that was refused before is still refused. If a place has more refusals than before, the refusals
    with new messages are returned.
    """
    refusals, before = _refusals(findings), _refusals(others)
    return tuple(one for key, found in refusals.items() for one in _beyond(found, before.get(key, [])))


def changed_injections(proposed: Gathered, in_force: Gathered) -> tuple[ChangedInjection, ...]:
    """The pods whose injections change, in the order of objects.

    Pods that are refused in one of the two audits are left out: the refusal is reported instead.
    """
    after, before = _injections(proposed), _injections(in_force)
    refused = {_pods(one) for one in (*proposed.findings, *in_force.findings) if one.level is Level.REFUSE}
    examples = {_pods(one): one for one in (*in_force.findings, *proposed.findings) if one.level is Level.COMPLETE}
    changed = [
        ChangedInjection(one.object, one.source, one.pod_group, _listed(before, pods), _listed(after, pods))
        for pods, one in examples.items()
        if pods not in refused and before.get(pods) != after.get(pods)
    ]
    return tuple(
        sorted(changed, key=lambda one: (one.object, one.pod_group.group if one.pod_group is not None else ""))
    )


def _refusals(findings: Iterable[AuditFinding]) -> dict[_Compared, list[AuditFinding]]:
    """The refusals by pods, rule and place."""
    found: dict[_Compared, list[AuditFinding]] = defaultdict(list)
    for finding in findings:
        if finding.level is Level.REFUSE:
            found[*_pods(finding), finding.rule, finding.field].append(finding)
    return found


def _beyond(findings: list[AuditFinding], others: list[AuditFinding]) -> list[AuditFinding]:
    """As many findings as there are more than `others`, with messages that none of `others` has."""
    known = {other.message for other in others}
    new = [finding for finding in findings if finding.message not in known]
    return new[: max(0, len(findings) - len(others))]


def _injections(gathered: Gathered) -> dict[_Compared, set[str]]:
    found: dict[_Compared, set[str]] = defaultdict(set)
    for finding in gathered.findings:
        if finding.level is Level.COMPLETE:
            found[_pods(finding)].update(gathered.edits[finding.id])
    return found


def _listed(injections: Mapping[_Compared, set[str]], pods: _Compared) -> tuple[str, ...]:
    return tuple(sorted(injections.get(pods, ())))


def _pods(finding: AuditFinding) -> _Compared:
    """The key of the pods that a finding is about: the pods of a template, or other pods of an owner."""
    pod_group = ("template", finding.pod_group.group) if finding.pod_group is not None else ("pod", "")
    return (*finding.whose, *pod_group, *finding.source.identity)
