"""Findings of many objects, gathered so that each fault is kept once for the object that people change to mend it.

The last functions put two audits of the same objects side by side: the preview of a change of policies.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from webhook.audit.report import AuditFinding, ChangedInjection, Level, Running

MOST_NAMES = 3
"""Pods that a finding names."""

_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DraftFinding:
    """A finding as one object has it. `place` is its field as a pod has it, `edits` what is injected, as people read
    it, and `number` the findings that it stands for.
    """

    finding: AuditFinding
    place: str
    edits: tuple[str, ...] = ()
    number: int = 1


@dataclass(frozen=True, slots=True)
class Gathered:
    """Findings, sorted as in reports. `edits` is what those that complete inject, by their id."""

    findings: tuple[AuditFinding, ...]
    edits: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Entry:
    """All findings that are one, the first of them with the level of the gravest, and the pods they were made in."""

    found: DraftFinding
    count: int = 0
    names: tuple[str, ...] = ()

    def add(self, finding: AuditFinding) -> None:
        """Add the same finding in other pods."""
        mine = self.found.finding
        if finding.level.rank < mine.level.rank:
            graver = replace(mine, level=finding.level, mode=finding.mode, file=finding.file, line=finding.line)
            self.found = replace(self.found, finding=graver)
        if finding.running is not None:
            self.count += finding.running.count
            self.names = tuple(dict.fromkeys((*self.names, *finding.running.names)))[:MOST_NAMES]

    def finding(self) -> AuditFinding:
        """The finding with the pods that it was made in."""
        running = Running(self.count, self.names) if self.count else None
        return replace(self.found.finding, running=running)


class Deduplicator:
    """Takes findings one by one, and keeps as many as are different."""

    def __init__(self) -> None:
        self._entries: dict[_Key, _Entry] = {}
        self._texts: dict[str, str] = {}

    def add(self, found: DraftFinding) -> None:
        """Take a finding."""
        entry = self._entries.get(found.finding.identity)
        if entry is None:
            entry = _Entry(self._sparing(found))
            self._entries[entry.found.finding.identity] = entry
        entry.add(found.finding)

    def _sparing(self, found: DraftFinding) -> DraftFinding:
        """The same with texts that are one object where they are equal: thousands of pods are told the same."""
        finding = replace(
            found.finding,
            field=self._shared(found.finding.field),
            message=self._shared(found.finding.message),
            remedy=self._shared(found.finding.remedy),
        )
        edits = tuple(map(self._shared, found.edits))
        return replace(found, finding=finding, place=self._shared(found.place), edits=edits)

    def _shared(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def gathered(self) -> Gathered:
        """Everything so far. What pods, and workloads that other workloads made, have in common with the template of
        their owner is a finding about that template.
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
    """How far from what people change it was found: in its template, in that of something made from it, in a pod."""
    if finding.pod_group is None:
        return 2
    return int(finding.object.identity != finding.owner.identity)


def _of_pods(found: DraftFinding) -> _Key:
    """What is the same for a template and the pods that are made from it."""
    finding = found.finding
    return (finding.rule, finding.kind, *finding.whose, found.place, finding.message)


def _order(finding: AuditFinding) -> tuple[object, ...]:
    return (finding.level.rank, finding.owner, *finding.identity, finding.source.line or 0)


_Compared = tuple[str, ...]


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
        ChangedInjection(one.object, one.source, one.pod_group, _listed(before, pods), _listed(after, pods))
        for pods, one in examples.items()
        if pods not in refused and before.get(pods) != after.get(pods)
    ]
    return tuple(
        sorted(changed, key=lambda one: (one.object, one.pod_group.group if one.pod_group is not None else ""))
    )


def _refusals(findings: Iterable[AuditFinding]) -> dict[_Compared, list[AuditFinding]]:
    """The refusals by rule and place."""
    found: dict[_Compared, list[AuditFinding]] = defaultdict(list)
    for finding in findings:
        if finding.level is Level.REFUSE:
            found[*_pods(finding), finding.rule, finding.field].append(finding)
    return found


def _beyond(findings: list[AuditFinding], others: list[AuditFinding]) -> list[AuditFinding]:
    """Those that are more than the others, and say what none of these says."""
    said = {other.message for other in others}
    unsaid = [finding for finding in findings if finding.message not in said]
    return unsaid[: max(0, len(findings) - len(others))]


def _injections(gathered: Gathered) -> dict[_Compared, set[str]]:
    found: dict[_Compared, set[str]] = defaultdict(set)
    for finding in gathered.findings:
        if finding.level is Level.COMPLETE:
            found[_pods(finding)].update(gathered.edits[finding.id])
    return found


def _listed(injections: Mapping[_Compared, set[str]], pods: _Compared) -> tuple[str, ...]:
    return tuple(sorted(injections.get(pods, ())))


def _pods(finding: AuditFinding) -> _Compared:
    """Which pods are meant: those of a template, or others of an owner."""
    pod_group = ("template", finding.pod_group.group) if finding.pod_group is not None else ("pod", "")
    return (*finding.whose, *pod_group, *finding.source.identity)
