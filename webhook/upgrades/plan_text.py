"""A plan as text for a terminal: what counts first, then pools, then workloads, the worst first, then the matrix."""

from itertools import groupby

from rich.console import Console
from rich.text import Text

from webhook.model.wording import counted, few
from webhook.outcome import printable
from webhook.upgrades.driver_plan import BranchMatrix, DriverPlan, MatrixCell, PlannedPool, Reach, WorkloadChange

_TITLES = {
    WorkloadChange.BREAKS: ("break", "bold red"),
    WorkloadChange.UNKNOWN: ("unknown", "yellow"),
    WorkloadChange.LOSES_NODES: ("lose nodes", "yellow"),
    WorkloadChange.COMPAT_ONLY: ("by forward compatibility only", "yellow"),
    WorkloadChange.UNBLOCKED: ("unblocked", "green"),
    WorkloadChange.GAINS: ("gain nodes", "green"),
    WorkloadChange.SAME: ("the same", "dim"),
}
_MOST_IMAGES = 10
_SHOWN = tuple(change for change in WorkloadChange if change is not WorkloadChange.SAME)


def render_plan(plan: DriverPlan, console: Console) -> None:
    """Print a plan."""
    for error in plan.errors:
        _line(console, f"not read: {error}", "red")
    _images(plan, console)
    for pool in plan.pools:
        _pool(pool, console)
    if plan.pools:
        _summary(plan, console)
    for change in _SHOWN:
        found = plan.at(change)
        if found:
            title, style = _TITLES[change]
            _line(console, f"\n{title}: {counted(len(found), 'workload')}", style)
        for one in found:
            gpus = f", {counted(one.gpus, 'GPU')}" if one.gpus else ""
            _line(console, f"  {one.owner.title}{gpus}: {_nodes(one.before)} -> {_nodes(one.after)}", style)
            _line(console, f"    {one.reason}")
            if one.remedy:
                _line(console, f"    -> {one.remedy}")
    if plan.matrix is not None:
        _matrix(plan.matrix, console)


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text("\n".join(map(printable, text.split("\n"))), style=style), soft_wrap=True)


def _images(plan: DriverPlan, console: Console) -> None:
    images = plan.unknown_images
    if not images:
        return
    _line(console, f"{counted(len(images), 'image')} of which nobody knows what CUDA they need:", "yellow")
    for one in images[:_MOST_IMAGES]:
        gpus = f", {counted(one.gpus, 'GPU')}" if one.gpus else ""
        _line(console, f"  {one.image} ({counted(one.workloads, 'workload')}{gpus}): {one.problem}")
    if len(images) > _MOST_IMAGES:
        _line(console, f"  and {len(images) - _MOST_IMAGES} more; --format json has them all")


def _pool(pool: PlannedPool, console: Console) -> None:
    whom = ", ".join(
        filter(
            None,
            (
                counted(pool.nodes, "node"),
                counted(pool.gpus, "GPU"),
                f"declared pool {few(pool.pools)}" if pool.pools else "",
                few(pool.products) if pool.products else "",
            ),
        )
    )
    now = f"driver {few(pool.drivers)}" if pool.drivers else "an unknown driver"
    then = {"set": f"{now} -> {pool.driver}", "retire": f"{now} -> retired", "add": f"new, {now}"}[pool.action]
    _line(console, f"{pool.selector}: {whom}; {then}", "bold")
    for one in pool.undriven:
        doubt = "" if one.is_certain else " (not certain)"
        _line(
            console,
            f"  not driven{doubt}: {counted(one.gpus, 'GPU')} of {one.product or 'unknown model'}: {one.reason}",
            "red",
        )
    if pool.branch is not None:
        _line(console, f"  {_support(pool)}", "red" if pool.branch.has_ended else "")


def _support(pool: PlannedPool) -> str:
    branch = pool.branch
    if branch is None:
        return ""
    kind = f" ({branch.support})" if branch.support else ""
    if not branch.end:
        return f"branch {branch.number}{kind}: its end is not known"
    if branch.end == "ended":
        return f"branch {branch.number}{kind} has ended: it gets no more releases"
    ends = "ended in" if branch.has_ended else "gets releases until"
    return f"branch {branch.number}{kind} {ends} {branch.end}"


def _summary(plan: DriverPlan, console: Console) -> None:
    parts = [f"{count} {_TITLES[change][0]}" for change, count in plan.counts.items() if count]
    _line(console, f"\n{counted(len(plan.workloads), 'workload')}: {', '.join(parts) or 'none'}", "bold")


def _nodes(reach: Reach) -> str:
    pools = f" and {counted(len(reach.pools), 'pool')}" if reach.pools else ""
    doubt = f", {reach.unknown} unknown" if reach.unknown else ""
    return f"{reach.nodes} of {counted(reach.of, 'node')}{pools}{doubt}"


def _matrix(matrix: BranchMatrix, console: Console) -> None:
    """One paragraph for each kind of nodes, where branches with equal results stand together."""
    _line(console, "\nWhat each driver branch would do, if only these nodes got it", "bold")
    for row in matrix.rows:
        newest = f"newest that breaks nobody: {row.newest}" if row.newest is not None else "every branch breaks some"
        _line(console, f"{row.name} ({counted(row.gpus, 'GPU')}): {newest}")
        for said, cells in groupby(row.cells, key=_said):
            branches = [str(cell.branch) for cell in cells]
            span = branches[0] if len(branches) == 1 else f"{branches[0]} to {branches[-1]}"
            _line(console, f"  {span:<12} {said}", "red" if "break" in said else "")


def _said(cell: MatrixCell) -> str:
    """What a branch does, in words."""
    if cell.drives is False:
        return "does not drive these GPUs"
    parts = [f"{cell.breaks} break" if cell.breaks else "", f"{cell.unknown} unknown" if cell.unknown else ""]
    doubt = "; whether it drives these GPUs is not certain" if cell.drives is None else ""
    return (", ".join(filter(None, parts)) or "nobody breaks") + doubt
