"""What an audit found, as values: the one thing that every format of report is made from.

All texts may come from tenants; whoever writes them somewhere escapes them as that place demands.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from webhook.audit.documents import DocumentError
from webhook.audit.quota_report import Reported
from webhook.outcome import Finding, FindingKind, printable
from webhook.rules.rule_settings import Mode


class Level(StrEnum):
    """What a finding means for the pods it is about, the gravest first."""

    REFUSE = "refuse"
    """They would be refused."""
    WARN = "warn"
    """They would be admitted, and their author warned."""
    AUDIT = "audit"
    """They would be admitted, and it would only be recorded."""
    COMPLETE = "complete"
    """They would be completed."""

    @property
    def rank(self) -> int:
        """0 for the gravest."""
        return list(Level).index(self)

    @property
    def severity(self) -> str:
        """The same in the words of policy reports."""
        return _SEVERITIES[self]

    @classmethod
    def of(cls, finding: Finding) -> "Level":
        """What a finding of the engine means."""
        if finding.refuses:
            return cls.REFUSE
        return cls.WARN if finding.warns else cls.AUDIT


_SEVERITIES: Mapping[Level, str] = {
    Level.REFUSE: "high",
    Level.WARN: "medium",
    Level.AUDIT: "low",
    Level.COMPLETE: "info",
}


class FailOn(StrEnum):
    """From which level on an audit ends with status 1."""

    REFUSE = "refuse"
    WARN = "warn"
    NEVER = "never"


@dataclass(frozen=True, slots=True, order=True)
class ObjectReference:
    """An object. `namespace` is empty for those that are in none, and `uid` for those that are in no cluster."""

    namespace: str
    kind: str
    name: str
    api_version: str
    uid: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        """What people call it: kind, namespace and name."""
        place = f"{self.namespace}/" if self.namespace else ""
        return printable(f"{self.kind} {place}{self.name}")

    @property
    def identity(self) -> tuple[str, ...]:
        """What stays the same for as long as people call it the same: its API group, but not the version."""
        return (self.api_version.rpartition("/")[0], self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an object was read: a file, or `-` for standard input, and the line it begins on, from 1. Objects of a
    cluster have neither.

    `nth` says which of the file's objects it is, from 1, among those with a generateName that are called the same.
    """

    file: str = ""
    line: int | None = None
    nth: int = 1

    @property
    def identity(self) -> tuple[str, str]:
        """What tells objects of one name apart, wherever in their file they move."""
        return self.file, str(self.nth)


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Which pods of a workload are meant: what it calls them, how many run at a time (None where it does not say), and
    the GPUs of each.
    """

    group: str
    pods: int | None
    gpus: int


@dataclass(frozen=True, slots=True)
class Running:
    """Pods of a cluster that a finding was made in: how many, and the names of the first ones."""

    count: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that was found, once for each object that people can change.

    `message` says what was found and what is allowed, without a period at its end, and so does `remedy`, which is empty
    where there is none. For `Level.COMPLETE` the message lists what is injected.
    """

    level: Level
    rule: str
    mode: Mode
    kind: FindingKind
    object: ObjectReference
    """Where it was found: a workload, or a pod, the first of those that share the finding."""
    owner: ObjectReference
    """What people change to mend it: the workload behind a pod; the object itself where nothing owns it."""
    field: str
    """A place in `object`."""
    message: str
    remedy: str
    policy: str
    """Name of the policy that holds for the object."""
    file: str
    """File of the policy directory that had the last word on the rule."""
    line: int
    """Where in it, from 1; 0 where that is not known."""
    source: SourceLine = SourceLine()
    pod_group: PodGroup | None = None
    """Given where the finding is about the template of a workload."""
    running: Running | None = None
    """Given where pods that exist are concerned."""

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells the findings of one report apart."""
        pod_group = self.pod_group.group if self.pod_group is not None else ""
        return (self.rule, self.kind, *self.whose, pod_group, self.field, self.message, *self.source.identity)

    @property
    def whose(self) -> tuple[str, ...]:
        """Whom it is told of: the owner, in one namespace, since one that is in none may own objects of all."""
        return (*self.owner.identity, self.object.namespace)

    @property
    def id(self) -> str:
        """32 hex digits that stay the same from one audit to the next, and differ between findings of one report."""
        return sha256("\0".join(self.identity).encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Counts:
    """Objects that were looked at, errors not counted. `refused`, `warned` and `completed` are how many of `pods` and
    `workloads` have a finding of that level, each counted once, under the gravest. `queued` are those of the workloads
    with GPU pods of which a queue is yet to decide where they run, so that nothing was said that follows from nodes.
    """

    pods: int = 0
    workloads: int = 0
    others: int = 0
    refused: int = 0
    warned: int = 0
    completed: int = 0
    queued: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """The nodes of one GPU model with one driver. `cuda` is the newest version that the driver offers, such as 12.4.

    `model` and `driver` are empty where nodes do not say, and then so is `cuda`; `gpus` counts `resource`.
    """

    model: str
    resource: str
    nodes: int
    gpus: int
    driver: str
    cuda: str


@dataclass(frozen=True, slots=True)
class ChangedInjection:
    """A workload or pod that gets something else than before: what is listed is as people read it, sorted."""

    object: ObjectReference
    source: SourceLine
    pod_group: PodGroup | None
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the policies of an audit change against those of another directory, over the same objects."""

    directory: str
    hash: str
    newly_refused: tuple[AuditFinding, ...]
    """Findings of this audit, of objects that the others would not refuse, or not for this."""
    no_longer_refused: tuple[AuditFinding, ...]
    """Findings of the others that are none of this audit."""
    changed_injections: tuple[ChangedInjection, ...]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Everything that an audit found, sorted: by level, then namespace, kind and name of the owner."""

    created: datetime
    """With its time zone, which is UTC."""
    directory: str
    """Of the policies."""
    hash: str
    is_of_cluster: bool
    counts: Counts
    findings: tuple[AuditFinding, ...]
    errors: tuple[DocumentError, ...] = ()
    capacity: tuple[Capacity, ...] = ()
    quotas: Sequence[Reported] = ()
    comparison: Comparison | None = None

    def at(self, level: Level) -> Iterator[AuditFinding]:
        """The findings of one level."""
        return (finding for finding in self.findings if finding.level is level)

    def exit_status(self, fail_on: FailOn = FailOn.REFUSE) -> int:
        """0 nothing from that level on, 1 findings, 2 unusable input, which beats 1."""
        if self.errors:
            return 2
        failing = {FailOn.REFUSE: {Level.REFUSE}, FailOn.WARN: {Level.REFUSE, Level.WARN}, FailOn.NEVER: set[Level]()}
        return int(any(finding.level in failing[fail_on] for finding in self.findings))
