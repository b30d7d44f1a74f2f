"""A plan as values, which change for each workload and each pool of nodes, and as the report that audits print.

What breaks is a finding as grave as a refusal. What is done to nodes, images whose needs nobody knows, and the matrix
are tables besides. All texts may come from tenants; each format escapes them as it needs. The shape of the JSON is a
contract: `docs/plan-schema.json` describes it, `apiVersion` names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from webhook.audit.documents import DocumentError
from webhook.audit.report import (
    AuditFinding,
    AuditReport,
    Counts,
    Level,
    ObjectReference,
    ReportSubject,
    Section,
    SourceLine,
)
from webhook.audit.reports.as_json import dumps, plain
from webhook.audit.reports.report_wording import counted
from webhook.audit.writing import rendered
from webhook.model.wording import few
from webhook.outcome import FindingKind
from webhook.rules.rule_settings import Mode
from webhook.upgrades.node_changes import ChangeAction

if TYPE_CHECKING:
    from rich.console import Console

API_VERSION = "gpupolicy.dev/v1alpha1"
KIND = "DriverPlan"


class WorkloadChange(StrEnum):
    """What a plan changes for a workload, the worst first."""

    BREAKS = "breaks"
    """It runs now, or may; then certainly nowhere."""
    UNKNOWN = "unknown"
    """It is not known whether it still runs on nodes that change."""
    LOSES_NODES = "losesNodes"
    """It runs on fewer nodes."""
    COMPAT_ONLY = "compatOnly"
    """It runs on some nodes only with the cuda-compat package of its image, and without it now."""
    UNBLOCKED = "unblocked"
    """It runs nowhere now, and then it does."""
    GAINS = "gains"
    """It runs on more nodes."""
    SAME = "same"
    """Nothing."""

    @property
    def rank(self) -> int:
        return list(WorkloadChange).index(self)


class RunsOn(StrEnum):
    """Whether a pod runs anywhere, in one word."""

    RUNS = "runs"
    """On some node with the driver alone."""
    COMPAT_ONLY = "compatOnly"
    """Only with the cuda-compat package of its image."""
    UNKNOWN = "unknown"
    """On no node for certain, but on some perhaps."""
    CANNOT_RUN = "cannotRun"
    """On none of the nodes that it could be scheduled to."""
    NO_NODES = "noNodes"
    """It could be scheduled to no node."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a workload gets at one moment: it runs for certain on `nodes` of the `of` nodes that it may land on.

    For `unknown` of the others this is not known. `pools` are the declared pools that run it, which
    may have no node at the moment.
    """

    verdict: RunsOn
    nodes: int
    of: int
    unknown: int = 0
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """What a plan changes for one workload; a pod without an owner is its own workload.

    `gpus` are in use by its running pods; for a workload that only a manifest has, its pods would use them.
    `reason` is a sentence without its period. `remedy` says how a workload that breaks would run, or how to find
    out what is not known; empty for none. `source` is where a manifest was read; workloads of clusters have none.
    """

    owner: ObjectReference
    gpus: int
    change: WorkloadChange
    before: Reach
    after: Reach
    reason: str
    remedy: str = ""
    source: SourceLine = field(default_factory=SourceLine)


@dataclass(frozen=True, slots=True)
class UnknownImage:
    """An image whose needs nobody knows, and why; so many `workloads` and `gpus` use it."""

    image: str
    problem: str
    workloads: int
    gpus: int


@dataclass(frozen=True, slots=True)
class UndrivenGpus:
    """GPUs that a driver does not drive any more, or not yet. `is_certain` is false where nobody has read it."""

    product: str
    nodes: int
    gpus: int
    reason: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class BranchSupport:
    """A driver branch and its end: the month of its last release as YYYY-MM, `ended`, or None if not known."""

    branch: int
    support: str | None
    end: str | None
    has_ended: bool | None


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """What is done to some nodes, as it was written in `selector`; for new nodes the file that has them.

    `drivers` are what the nodes have now, `driver` is what they get; None for nodes that go and for new nodes.
    `pools` are declared pools that are meant.
    """

    action: ChangeAction
    selector: str
    nodes: int
    gpus: int
    pools: tuple[str, ...]
    products: tuple[str, ...]
    drivers: tuple[str, ...]
    driver: str | None = None
    undriven: tuple[UndrivenGpus, ...] = ()
    branch: BranchSupport | None = None


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One branch on one kind of nodes: how many workloads break, how many lose nodes, and for how many it is unknown.

    `drives` is whether the branch drives the GPUs: false if certainly not, None if that is not known.
    """

    branch: int
    breaks: int
    unknown: int
    loses_nodes: int
    drives: bool | None


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """The branches on one kind of nodes. `newest` is the newest that certainly breaks nobody and drives the GPUs.

    `name` says which nodes they are, for people; `nodes` is 0 for a declared pool without nodes.
    """

    name: str
    product: str | None
    driver: str | None
    nodes: int
    gpus: int
    newest: int | None
    branches: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class BranchMatrix:
    """The branches that get releases, and those of the nodes, on every kind of nodes, one kind changed at a time."""

    branches: tuple[BranchSupport, ...]
    pools: tuple[MatrixRow, ...]


@dataclass(frozen=True, slots=True)
class DriverPlan:
    """A plan. `workloads` are sorted by change, the worst first, then by GPUs, then by name."""

    created: datetime
    """In UTC, with time zone."""
    workloads: tuple[PlannedWorkload, ...]
    pools: tuple[PlannedPool, ...]
    unknown_images: tuple[UnknownImage, ...] = ()
    matrix: BranchMatrix | None = None
    errors: tuple[DocumentError, ...] = ()
    """Objects, or parts of the cluster, that could not be read."""

    def at(self, change: WorkloadChange) -> Sequence[PlannedWorkload]:
        return [one for one in self.workloads if one.change is change]

    def exit_status(self, fail_on: WorkloadChange | None = WorkloadChange.BREAKS) -> int:
        """1: a workload has this change or a worse one. 2: unusable input, which beats 1. Otherwise 0."""
        if self.errors:
            return 2
        return int(fail_on is not None and any(one.change.rank <= fail_on.rank for one in self.workloads))


def to_json(plan: DriverPlan) -> str:
    """The plan for programs, as indented JSON in ASCII; values that do not apply are null."""
    counts = {
        change: {"workloads": len(found), "gpus": sum(one.gpus for one in found)}
        for change in WorkloadChange
        for found in [plan.at(change)]
    }
    made = plain(plan)
    for one in made["workloads"]:
        del one["owner"]["uid"]
    made["workloads"] = [{**one.pop("owner"), **one} for one in made["workloads"]]
    created = f"{plan.created:%Y-%m-%dT%H:%M:%SZ}"
    return dumps({"apiVersion": API_VERSION, "kind": KIND, **made, "created": created, "counts": counts})


_SAID: Mapping[WorkloadChange, tuple[Level | None, str, str]] = {
    WorkloadChange.BREAKS: (Level.REFUSE, "break", "With the planned drivers, the workload runs on none of its nodes."),
    WorkloadChange.UNKNOWN: (Level.WARN, "unknown", "It is not known whether the workload runs with the drivers."),
    WorkloadChange.LOSES_NODES: (Level.WARN, "lose nodes", "With the planned drivers, the workload has fewer nodes."),
    WorkloadChange.COMPAT_ONLY: (
        Level.WARN,
        "by forward compatibility only",
        "With the planned drivers, the workload runs by forward compatibility only.",
    ),
    WorkloadChange.UNBLOCKED: (Level.AUDIT, "unblocked", "The workload runs nowhere now, and does with the drivers."),
    WorkloadChange.GAINS: (Level.AUDIT, "gain nodes", "With the planned drivers, the workload runs on more nodes."),
    WorkloadChange.SAME: (None, "the same", ""),
}
"""The level of findings about a change, None for no finding; what workloads do, after their number; what it means."""
_TITLES = {Level.REFUSE: "Breaks", Level.WARN: "At risk", Level.AUDIT: "Better"}
_UNDRIVEN = "undriven"
_RULES: dict[str, str] = {key: meaning for key, (_, _, meaning) in _SAID.items()}
_RULES[_UNDRIVEN] = "The planned driver does not drive the GPUs."


def rendered_plan(plan: DriverPlan, form: str, console: "Console | None" = None) -> str:
    """The plan in one of the formats of plans; as `text` for the console, which prints nothing."""
    return to_json(plan) if form == "json" else rendered(as_report(plan), form, console)


def as_report(plan: DriverPlan) -> AuditReport:
    """The plan with a finding for each workload that changes, and for GPUs that their new driver does not drive."""
    findings = [finding for pool in plan.pools for finding in _undriven(pool)]
    findings += (_changed(one, level) for one in plan.workloads if (level := _SAID[one.change][0]) is not None)
    findings.sort(key=lambda one: one.level.rank)
    sections = (
        Section("planned", "Nodes", ("Nodes", "Which", "Driver", "Branch"), [_pool(one) for one in plan.pools], 3),
        Section(
            "images",
            f"Images whose CUDA nobody knows: {len(plan.unknown_images):,}",
            ("Image", "Used by", "Why"),
            [_image(one) for one in plan.unknown_images],
            2,
        ),
        Section(
            "matrix",
            "Driver branches: what each would do, if only these nodes got it",
            ("Nodes", "GPUs", "Newest branch", "Branches"),
            [] if plan.matrix is None else [_row(row) for row in plan.matrix.pools],
            3,
        ),
    )
    breaks = WorkloadChange.BREAKS  # also said where it is nobody
    counted_by = [(change, len(plan.at(change))) for change in WorkloadChange]
    found = [(change, count) for change, count in counted_by if count or (change is breaks and plan.workloads)]
    totals = tuple((_SAID[change][0] or "rest", _SAID[change][1], count) for change, count in found if plan.pools)
    parts = ", ".join(f"{count:,} {what}" for _, what, count in totals)
    said = f"{counted(len(plan.workloads), 'workload')}: {parts or 'none'}"
    if not plan.pools:
        said = "Nothing changes" if plan.matrix is None else "What each driver branch would do"
    subject = ReportSubject("GPU driver plan", "gpu-policy plan", said, totals, _TITLES, _RULES, sections)
    counts = Counts(workloads=len(plan.workloads))
    return AuditReport(plan.created, "", "", False, counts, tuple(findings), plan.errors, subject=subject)


def _undriven(pool: PlannedPool) -> Iterator[AuditFinding]:
    """GPUs that their new driver does not drive; the option stands for its nodes, which no file has."""
    owner = ObjectReference("", "Nodes", pool.selector, "")
    for gpus in pool.undriven:
        level = Level.REFUSE if gpus.is_certain else Level.WARN
        what = f"{counted(gpus.gpus, 'GPU')} of {gpus.product or 'unknown model'}"
        yield _finding(level, _UNDRIVEN, owner, what, gpus.reason, "", SourceLine())


def _changed(one: PlannedWorkload, level: Level) -> AuditFinding:
    where = ", ".join(filter(None, (_in_use(one.gpus), f"{_reach(one.before)} -> {_reach(one.after)}")))
    return _finding(level, one.change, one.owner, where, one.reason, one.remedy, one.source)


def _finding(  # noqa: PLR0913, PLR0917  # the parts of a finding that plans have
    level: Level, rule: str, owner: ObjectReference, field: str, message: str, remedy: str, source: SourceLine
) -> AuditFinding:
    kind = FindingKind.ADVICE
    return AuditFinding(level, rule, Mode.AUDIT, kind, owner, owner, field, message, remedy, "", "", 0, source)


def _reach(reach: Reach) -> str:
    """How far a workload gets, such as `3 of 5 nodes and 1 pool, 1 unknown`."""
    pools = f" and {counted(len(reach.pools), 'pool')}" if reach.pools else ""
    doubt = f", {reach.unknown:,} unknown" if reach.unknown else ""
    return f"{reach.nodes:,} of {counted(reach.of, 'node')}{pools}{doubt}"


def _in_use(gpus: int) -> str:
    return counted(gpus, "GPU") if gpus else ""


def _pool(pool: PlannedPool) -> tuple[str, ...]:
    """The nodes of an option: how many, their GPUs, declared pools and models; their drivers now and then."""
    which = (
        counted(pool.nodes, "node"),
        counted(pool.gpus, "GPU"),
        f"pool {few(pool.pools)}" if pool.pools else "",
        few(pool.products) if pool.products else "",
    )
    has_gpus = pool.gpus or pool.products or pool.action is ChangeAction.SET
    now = f"driver {few(pool.drivers)}" if pool.drivers else "an unknown driver" if has_gpus else "no driver"
    then = {
        ChangeAction.SET: f"{now} -> {pool.driver}",
        ChangeAction.RETIRE: f"{now} -> retired",
        ChangeAction.ADD: f"new, {now}",
    }[pool.action]
    return pool.selector, ", ".join(filter(None, which)), then, "" if pool.branch is None else _support(pool.branch)


def _support(branch: BranchSupport) -> str:
    kind = f" ({branch.support})" if branch.support else ""
    if not branch.end:
        return f"branch {branch.branch}{kind}: its end is not known"
    if branch.end == "ended":
        return f"branch {branch.branch}{kind} has ended: it gets no more releases"
    ends = "ended in" if branch.has_ended else "gets releases until"
    return f"branch {branch.branch}{kind} {ends} {branch.end}"


def _image(one: UnknownImage) -> tuple[str, ...]:
    users = ", ".join(filter(None, (counted(one.workloads, "workload"), _in_use(one.gpus))))
    return one.image, users, one.problem


def _row(row: MatrixRow) -> tuple[str | int | tuple[str, ...], ...]:
    """One kind of nodes; neighbouring branches that do the same stand together, the newest first."""
    newest = f"newest that breaks nobody: {row.newest}" if row.newest is not None else why_no_newest(row)
    spans = [(said, [cell.branch for cell in cells]) for said, cells in groupby(reversed(row.branches), key=_cell)]
    lines = [f"{of[-1]} to {of[0]}: {said}" if len(of) > 1 else f"{of[0]}: {said}" for said, of in spans]
    return row.name, counted(row.gpus, "GPU"), newest, tuple(lines)


def _cell(cell: MatrixCell) -> str:
    if cell.drives is False:
        return "does not drive these GPUs"
    counts = ((cell.breaks, "break"), (cell.unknown, "unknown"), (cell.loses_nodes, "lose nodes"))
    doubt = "; whether it drives these GPUs is not certain" if cell.drives is None else ""
    return (", ".join(f"{count:,} {what}" for count, what in counts if count) or "nobody breaks") + doubt


def why_no_newest(row: MatrixRow) -> str:
    """Why no branch certainly breaks nobody and drives the GPUs of a row without `newest`."""
    driving = [cell for cell in row.branches if cell.drives is not False]
    if not driving:
        return "no branch drives these GPUs"
    if all(cell.breaks for cell in driving):
        return "every branch that drives these GPUs breaks some"
    return "no branch is known to break nobody"
