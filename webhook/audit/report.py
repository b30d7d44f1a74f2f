"""The report of an audit as values, from which every format is made.

All texts may come from tenants; each format escapes them as it needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256

from webhook.audit.documents import DocumentError
from webhook.audit.quota_report import ReportedQuota
from webhook.outcome import Finding, FindingKind, printable
from webhook.rules.rule_settings import Mode


class Level(StrEnum):
    """What a finding means for the pods, the gravest level first."""

    REFUSE = "refuse"
    """The pods would be refused."""
    WARN = "warn"
    """The pods would be admitted, and their author warned."""
    SKIP = "skip"
    """The pods would be refused without an exception. They are admitted, and their author gets a warning."""
    AUDIT = "audit"
    """The pods would be admitted, and the finding only recorded."""
    COMPLETE = "complete"
    """The pods would be mutated."""

    @property
    def rank(self) -> int:
        return list(Level).index(self)

    @property
    def severity(self) -> str:
        return _SEVERITIES[self]

    @classmethod
    def of(cls, finding: Finding) -> "Level":
        if finding.refuses:
            return cls.REFUSE
        if finding.exception is not None:
            return cls.SKIP
        return cls.WARN if finding.warns else cls.AUDIT


_SEVERITIES: Mapping[Level, str] = {
    Level.REFUSE: "high",
    Level.WARN: "medium",
    Level.SKIP: "low",
    Level.AUDIT: "low",
    Level.COMPLETE: "info",
}


@dataclass(frozen=True, slots=True, order=True)
class ObjectReference:
    """An object. `namespace` is empty for cluster-scoped objects, `uid` for objects that are not from a cluster."""

    namespace: str
    kind: str
    name: str
    api_version: str
    uid: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return printable(f"{self.kind} {place}{self.name}")

    @property
    def home(self) -> str:
        """The namespace that the object is in, or is; empty for cluster-scoped objects."""
        is_namespace = (self.api_version, self.kind, self.namespace) == ("v1", "Namespace", "")
        return self.name if is_namespace else self.namespace

    @property
    def identity(self) -> tuple[str, ...]:
        """API group, kind, namespace and name; not the version, which may change."""
        return (self.api_version.rpartition("/")[0], self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an object was read: its file, or `-` for standard input, and its first line; of a cluster neither."""

    file: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The pods of one template: the workload's name for them, how many run (None if not known), the GPUs of each."""

    group: str
    pods: int | None
    gpus: int


MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Running:
    """Pods of a cluster that have a finding: how many, and the names of the first ones."""

    count: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One finding, once for each object that people can change.

    `message` says what was found and what is allowed; `remedy` says how to fix it, and is empty if there is no fix.
    Neither ends with a period. For `Level.COMPLETE` the message lists what is injected.
    """

    level: Level
    rule: str
    mode: Mode
    kind: FindingKind
    object: ObjectReference
    """The workload or pod that has the finding; the first one if several share it."""
    owner: ObjectReference
    """The object that people change to fix it: the workload behind a pod, or the object itself."""
    field: str
    """A place in `object`."""
    message: str
    remedy: str
    policy: str
    file: str
    """File of the policy directory that sets the mode of the rule."""
    line: int
    """Line in `file`, from 1; 0 if unknown."""
    source: SourceLine = SourceLine()
    pod_group: PodGroup | None = None
    """Given if the finding is about the template of a workload."""
    running: Running | None = None
    """Given if existing pods have the finding."""
    exception: str = ""
    """The name of the exception without which the pods would be refused; given with `Level.SKIP`."""
    place: str = ""
    """`field` as a place in a pod, by which pods are found to have a finding of their template; not in reports."""
    edits: tuple[str, ...] = ()
    """The injections of `Level.COMPLETE`, one by one; not in reports."""

    @property
    def identity(self) -> tuple[str, ...]:
        pod_group = self.pod_group.group if self.pod_group is not None else ""
        return (self.rule, self.kind, *self.whose, pod_group, self.field, self.message, self.source.file)

    @property
    def whose(self) -> tuple[str, ...]:
        """The owner and the namespace of the object; a cluster-scoped owner may have objects in all namespaces."""
        return (*self.owner.identity, self.object.namespace)

    @property
    def id(self) -> str:
        """32 hex digits that stay the same from one audit to the next, and differ between findings of one report."""
        return sha256("\0".join(self.identity).encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many objects were looked at, without errors.

    `refused`, `warned` and `completed` are pods, workloads and claims with findings of that level; each object counts
    once, under its gravest level. `queued` are the workloads with GPU pods that wait in a queue, which decides later
    where they run; they have no findings that depend on nodes. `claims` are ResourceClaims, and templates of them.
    `unsent` are objects of namespaces that the webhook is never asked about; they are not judged.
    """

    pods: int = 0
    workloads: int = 0
    others: int = 0
    refused: int = 0
    warned: int = 0
    completed: int = 0
    queued: int = 0
    claims: int = 0
    unsent: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """The nodes of one GPU model with one driver. `cuda` is the newest version that the driver offers, such as 12.4.

    `gpus` counts units of `resource`. `unit` says what one unit is, such as `1g.5gb, shared by 2 (mps)`, and is empty
    for a whole GPU; `part` is how much of a GPU it is. `model`, `driver` and `cuda` are empty if the nodes do not say
    them.
    """

    model: str
    resource: str
    nodes: int
    gpus: int
    driver: str
    cuda: str
    unit: str = ""
    part: Fraction = Fraction(1)

    @property
    def physical(self) -> Fraction:
        return self.gpus * self.part


@dataclass(frozen=True, slots=True)
class ChangedInjection:
    """A workload or pod whose injections change; `before` and `after` list the injections in words, sorted."""

    object: ObjectReference
    source: SourceLine
    pod_group: PodGroup | None
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the policies of an audit change, compared with the policies of another directory."""

    directory: str
    hash: str
    newly_refused: tuple[AuditFinding, ...]
    """Refusals under these policies but not under the other ones."""
    no_longer_refused: tuple[AuditFinding, ...]
    """Refusals under the other policies but not under these."""
    changed_injections: tuple[ChangedInjection, ...]


@dataclass(frozen=True, slots=True)
class PendingPods:
    """GPU pods of one owner that are Pending for one reason: one of docs/why.md, with its message and remedy."""

    owner: ObjectReference
    reason: str
    message: str
    remedy: str
    pods: Running


Cell = str | int | Fraction | tuple[str, ...]
"""A text, a number, the used share of a limit, or several lines."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table. Where its cells are too long for one, the first `heads` cells of a row are a line of their own.

    `key` names the section: the level of findings, or a word.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    heads: int = 0


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """What a report is about that is no audit: the words for it, and what it has besides findings.

    `total` is the result in one sentence without a period, and `totals` are its numbers: how grave, of what, how many.
    `levels` are the titles of findings of each level, `rules` says what each of their rules means, and `command` is
    what printed the report.
    """

    title: str
    command: str
    total: str
    totals: tuple[tuple[str, str, int], ...]
    levels: Mapping[Level, str]
    rules: Mapping[str, str]
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The results of an audit. Findings are sorted by level, then by namespace, kind and name of the owner."""

    created: datetime
    """In UTC, with time zone."""
    directory: str
    hash: str
    is_of_cluster: bool
    counts: Counts
    findings: tuple[AuditFinding, ...]
    errors: tuple[DocumentError, ...] = ()
    capacity: tuple[Capacity, ...] = ()
    quotas: Sequence[ReportedQuota] = ()
    comparison: Comparison | None = None
    pending: tuple[PendingPods, ...] = ()
    """The GPU pods of a cluster that are Pending, the gravest reason first."""
    subject: ReportSubject | None = None
    """None for an audit."""

    @property
    def command(self) -> str:
        return f"{'gpu-policy audit' if self.subject is None else self.subject.command} --format json"

    def at(self, level: Level) -> Iterator[AuditFinding]:
        return (finding for finding in self.findings if finding.level is level)

    def exit_status(self, fail_on: Level | None = Level.REFUSE) -> int:
        """0: no finding of that level or a graver one. 1: such findings. 2: unusable input, which beats 1."""
        if self.errors:
            return 2
        return int(fail_on is not None and any(one.level.rank <= fail_on.rank for one in self.findings))
