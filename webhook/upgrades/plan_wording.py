"""The words about a plan that all formats for people share. No text is escaped or made printable here."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from webhook.audit.reports.report_wording import counted
from webhook.model.wording import few
from webhook.upgrades.driver_plan import (
    BranchSupport,
    DriverPlan,
    MatrixCell,
    MatrixRow,
    PlannedPool,
    PlannedWorkload,
    Reach,
    UndrivenGpus,
    WorkloadChange,
)
from webhook.upgrades.node_changes import ChangeAction

SEVERAL: Mapping[WorkloadChange, str] = {
    WorkloadChange.BREAKS: "break",
    WorkloadChange.UNKNOWN: "unknown",
    WorkloadChange.LOSES_NODES: "lose nodes",
    WorkloadChange.COMPAT_ONLY: "by forward compatibility only",
    WorkloadChange.UNBLOCKED: "unblocked",
    WorkloadChange.GAINS: "gain nodes",
    WorkloadChange.SAME: "the same",
}
"""What workloads do, after their number."""
ONE: Mapping[WorkloadChange, str] = {
    **SEVERAL,
    WorkloadChange.BREAKS: "breaks",
    WorkloadChange.LOSES_NODES: "loses nodes",
    WorkloadChange.COMPAT_ONLY: "compatibility only",
    WorkloadChange.GAINS: "gains nodes",
}
"""What one workload does."""
CHANGED = tuple(change for change in WorkloadChange if change is not WorkloadChange.SAME)


def verdict(plan: DriverPlan) -> str:
    """The gravest result in one sentence without a period."""
    counts, whole = plan.counts, len(plan.workloads)
    if not plan.pools:
        return "What each driver branch would do"
    if not whole:
        return "No workload with GPUs was looked at"
    unknown = counts[WorkloadChange.UNKNOWN]
    doubt = f", {unknown:,} {'is' if unknown == 1 else 'are'} unknown" if unknown else ""
    breaking = counts[WorkloadChange.BREAKS]
    if breaking:
        breaks = "breaks" if breaking == 1 else "break"
        return f"{breaking:,} of {counted(whole, 'workload')} {breaks}{doubt}"
    return f"None of {counted(whole, 'workload')} breaks{doubt}" if whole > 1 else f"The workload does not break{doubt}"


def summary(plan: DriverPlan) -> str:
    """How many workloads have each change, in one sentence without a period."""
    parts = [f"{count:,} {SEVERAL[change]}" for change, count in plan.counts.items() if count]
    return f"{counted(len(plan.workloads), 'workload')}: {', '.join(parts) or 'none'}"


def reach(one: Reach) -> str:
    """How far a workload gets, such as `3 of 5 nodes and 1 pool, 1 unknown`."""
    pools = f" and {counted(len(one.pools), 'pool')}" if one.pools else ""
    doubt = f", {one.unknown:,} unknown" if one.unknown else ""
    return f"{one.nodes:,} of {counted(one.of, 'node')}{pools}{doubt}"


def moves(one: PlannedWorkload) -> str:
    """How far a workload gets now and then."""
    return f"{reach(one.before)} -> {reach(one.after)}"


def in_use(gpus: int) -> str:
    """`, 8 GPUs`; empty for none."""
    return f", {counted(gpus, 'GPU')}" if gpus else ""


def whom(pool: PlannedPool) -> str:
    """The nodes of an option: how many, their GPUs, declared pools and models."""
    parts = (
        counted(pool.nodes, "node"),
        counted(pool.gpus, "GPU"),
        f"declared pool {few(pool.pools)}" if pool.pools else "",
        few(pool.products) if pool.products else "",
    )
    return ", ".join(filter(None, parts))


def drivers(pool: PlannedPool) -> str:
    """The drivers of the nodes of an option now and then."""
    now = f"driver {few(pool.drivers)}" if pool.drivers else "an unknown driver" if pool.gpus else "no driver"
    if pool.action is ChangeAction.SET:
        return f"{now} -> {pool.driver}"
    return f"{now} -> retired" if pool.action is ChangeAction.RETIRE else f"new, {now}"


def undriven(one: UndrivenGpus) -> str:
    """GPUs that are not driven, in a sentence without a period."""
    doubt = "" if one.is_certain else " (not certain)"
    return f"not driven{doubt}: {counted(one.gpus, 'GPU')} of {one.product or 'unknown model'}: {one.reason}"


def support(branch: BranchSupport) -> str:
    """A branch and its end, in a sentence without a period."""
    kind = f" ({branch.support})" if branch.support else ""
    if not branch.end:
        return f"branch {branch.branch}{kind}: its end is not known"
    if branch.end == "ended":
        return f"branch {branch.branch}{kind} has ended: it gets no more releases"
    ends = "ended in" if branch.has_ended else "gets releases until"
    return f"branch {branch.branch}{kind} {ends} {branch.end}"


def cell(one: MatrixCell) -> str:
    """What a branch does on one kind of nodes."""
    if one.drives is False:
        return "does not drive these GPUs"
    counts = ((one.breaks, "break"), (one.unknown, "unknown"), (one.loses_nodes, "lose nodes"))
    doubt = "; whether it drives these GPUs is not certain" if one.drives is None else ""
    return (", ".join(f"{count:,} {what}" for count, what in counts if count) or "nobody breaks") + doubt


def newest(row: MatrixRow) -> str:
    """The newest branch that certainly breaks nobody on one kind of nodes, or why there is none."""
    return f"newest that breaks nobody: {row.newest}" if row.newest is not None else why_no_newest(row)


def why_no_newest(row: MatrixRow) -> str:
    """Why no branch certainly breaks nobody and drives the GPUs of a row without `newest`."""
    driving = [cell for cell in row.branches if cell.drives is not False]
    if not driving:
        return "no branch drives these GPUs"
    if all(cell.breaks for cell in driving):
        return "every branch that drives these GPUs breaks some"
    return "no branch is known to break nobody"


def spans(row: MatrixRow) -> Iterator[tuple[str, Sequence[MatrixCell]]]:
    """What branches do on one kind of nodes; neighbours that do the same are together."""
    for said, cells in groupby(row.branches, key=cell):
        yield said, list(cells)


def span(cells: Sequence[MatrixCell]) -> str:
    """The branches of neighbouring cells, such as `470 to 535`."""
    first, last = cells[0].branch, cells[-1].branch
    return str(first) if first == last else f"{first} to {last}"
