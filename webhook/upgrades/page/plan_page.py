"""The plan as one page of HTML that works without network, without a server, and even without JavaScript.

Texts are treated as in the page of audits, with which it shares its frame, style and script. Workloads become rows of
texts: the table shows the first rows, and the script has all of them as data.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from webhook.audit.report import SourceLine
from webhook.audit.reports.html.page import Total, bar, share_of
from webhook.audit.reports.html.page_parts import TableAbout, page_of
from webhook.audit.reports.report_wording import counted, home, place
from webhook.outcome import printable
from webhook.upgrades import plan_wording
from webhook.upgrades.driver_plan import (
    BranchMatrix,
    BranchSupport,
    DriverPlan,
    MatrixCell,
    MatrixRow,
    PlannedPool,
    PlannedWorkload,
    Reach,
    WorkloadChange,
)
from webhook.upgrades.node_changes import ChangeAction


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One workload. Every value is printable text; unknown and missing values are empty."""

    change: str
    kind: str
    name: str
    namespace: str
    reach: str
    message: str
    gpus: str
    remedy: str
    before: str
    after: str
    source: str


_COLUMNS = tuple(field.name for field in fields(WorkloadRow))
_ABOUT = TableAbout(
    noun="workload",
    place="workloads",
    graded="change",
    grades=tuple(WorkloadChange),
    choices=("namespace", "kind"),
    numbers=("gpus",),
    details=(("message", "Why"), ("remedy", "Remedy"), ("before", "Now"), ("after", "Then"), ("source", "Source")),
    titles={change.value: title for change, title in plan_wording.ONE.items()},
)


def workload_row(one: PlannedWorkload) -> WorkloadRow:
    """The row of a workload."""
    texts = (
        one.change,
        one.owner.kind,
        one.owner.name,
        home(one.owner),
        f"{_few(one.before)} \u2192 {_few(one.after)}",
        one.reason,
        str(one.gpus) if one.gpus else "",
        one.remedy,
        plan_wording.reach(one.before),
        plan_wording.reach(one.after),
        place(one.source),
    )
    return WorkloadRow(*map(printable, texts))


def _few(reach: Reach) -> str:
    pools = f" + {counted(len(reach.pools), 'pool')}" if reach.pools else ""
    return f"{reach.nodes:,} of {reach.of:,}{pools}"


@dataclass(frozen=True, slots=True)
class PoolFigure:
    """One option: what it means, and what its nodes have to be told. `faults` are grave."""

    pool: PlannedPool
    now: str
    then: str
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def _pool(pool: PlannedPool) -> PoolFigure:
    now = ", ".join(pool.drivers) or "unknown"
    then = {ChangeAction.SET: pool.driver or "", ChangeAction.RETIRE: "retired", ChangeAction.ADD: "new nodes"}[
        pool.action
    ]
    ends = () if pool.branch is None else (plan_wording.support(pool.branch),)
    has_ended = pool.branch is not None and pool.branch.has_ended
    faults = tuple(plan_wording.undriven(one) for one in pool.undriven)
    return PoolFigure(pool, now, then, faults + (ends if has_ended else ()), () if has_ended else ends)


@dataclass(frozen=True, slots=True)
class CellFigure:
    """One branch on one kind of nodes. `style` is a word for how bad it is; `number` may be empty.

    `tags` say that it is the driver of now, or the newest branch that breaks nobody.
    """

    style: str
    number: str
    word: str
    more: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowFigure:
    """Every branch on one kind of nodes, the newest first."""

    row: MatrixRow
    cells: tuple[CellFigure, ...]

    @property
    def why_no_newest(self) -> str:
        """Why no branch is safe, in words."""
        return plan_wording.why_no_newest(self.row)


@dataclass(frozen=True, slots=True)
class BranchHead:
    """The head of a column: a branch, what kind it is, and its end in words."""

    number: int
    support: str
    end: str
    has_ended: bool


@dataclass(frozen=True, slots=True)
class MatrixFigure:
    """The matrix with at most MOST_SHOWN kinds of nodes."""

    heads: tuple[BranchHead, ...]
    rows: tuple[RowFigure, ...]
    kinds: int


_SHADES = 4
"""Shades of colour for cells with workloads that break; each cell has its number, too."""


def _matrix(matrix: BranchMatrix) -> MatrixFigure:
    most = max((cell.breaks for row in matrix.pools for cell in row.branches), default=0)
    rows = tuple(
        RowFigure(row, tuple(_cell(cell, row, most) for cell in reversed(row.branches)))
        for row in matrix.pools[:MOST_SHOWN]
    )
    return MatrixFigure(tuple(map(_head, reversed(matrix.branches))), rows, len(matrix.pools))


def _head(branch: BranchSupport) -> BranchHead:
    if not branch.end:
        end = "end not known"
    elif branch.end == "ended":
        end = "ended"
    else:
        end = f"{'ended' if branch.has_ended else 'until'} {branch.end}"
    return BranchHead(branch.branch, branch.support or "", end, bool(branch.has_ended))


def _cell(cell: MatrixCell, row: MatrixRow, most: int) -> CellFigure:
    is_now = (row.driver or "").partition(".")[0] == str(cell.branch)
    tags = (*(["now"] if is_now else []), *(["newest"] if cell.branch == row.newest else []))
    doubts = (
        *([f"{cell.unknown:,} unknown"] if cell.unknown else []),
        *(["may not drive"] if cell.drives is None else []),
    )
    more = (*doubts, *([f"{cell.loses_nodes:,} lose nodes"] if cell.loses_nodes else []))
    if cell.drives is False:
        return CellFigure("undriven", "", "not driven", (f"{cell.breaks:,} break",) if cell.breaks else (), tags)
    if cell.breaks:
        shade = -(-_SHADES * cell.breaks // most)
        return CellFigure(
            f"breaking-{shade}", f"{cell.breaks:,}", "breaks" if cell.breaks == 1 else "break", more, tags
        )
    return CellFigure("doubtful" if doubts else "fine", "0", "break", more, tags)


MOST_SHOWN = 200
"""Most entries of a list that the page shows; JSON has all entries."""
MOST_WITHOUT_SCRIPT = 300
"""Rows of the table if JavaScript is off."""


_SHORT = {WorkloadChange.COMPAT_ONLY: plan_wording.ONE[WorkloadChange.COMPAT_ONLY]}
"""Words that are short enough to stand beside others."""


def _totals(counts: Mapping[WorkloadChange, int], whole: int) -> Iterator[Total]:
    for change, count in counts.items():
        if count or change in (WorkloadChange.BREAKS, WorkloadChange.SAME):
            yield Total(change, _SHORT.get(change, plan_wording.SEVERAL[change]), count, share_of(count, whole))


def render(plan: DriverPlan) -> str:
    """The whole page; equal plans give equal pages."""
    rows: Sequence[WorkloadRow] = [workload_row(one) for one in plan.workloads]
    totals = tuple(_totals(plan.counts, len(rows)))
    return page_of(
        (__package__, "plan_page.html"),
        _ABOUT,
        _COLUMNS,
        rows,
        plan=plan,
        verdict=plan_wording.verdict(plan),
        totals=totals if plan.pools and rows else (),
        totals_bar=bar(((one.style, one.count) for one in totals), len(rows)),
        changes=[(change, plan_wording.ONE[change], count) for change, count in plan.counts.items() if count],
        titles=plan_wording.ONE,
        pools=[_pool(one) for one in plan.pools],
        matrix=_matrix(plan.matrix) if plan.matrix is not None else None,
        errors=[(place(SourceLine(one.source, one.line)), one.message) for one in plan.errors],
        rows=rows[:MOST_WITHOUT_SCRIPT],
        most_shown=MOST_SHOWN,
        counted=counted,
    )
