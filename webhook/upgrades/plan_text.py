"""A plan as text for a terminal: what counts first, then pools, then workloads, the worst first, then the matrix."""

from rich.console import Console
from rich.text import Text

from webhook.audit.reports.report_wording import counted
from webhook.outcome import printable
from webhook.upgrades import plan_wording
from webhook.upgrades.driver_plan import BranchMatrix, DriverPlan, PlannedPool, WorkloadChange

_STYLES = {
    WorkloadChange.BREAKS: "bold red",
    WorkloadChange.UNKNOWN: "yellow",
    WorkloadChange.LOSES_NODES: "yellow",
    WorkloadChange.COMPAT_ONLY: "yellow",
    WorkloadChange.UNBLOCKED: "green",
    WorkloadChange.GAINS: "green",
}
_MOST_IMAGES = 10


def render_plan(plan: DriverPlan, console: Console) -> None:
    """Print a plan."""
    for error in plan.errors:
        _line(console, f"not read: {error}", "red")
    _images(plan, console)
    for pool in plan.pools:
        _pool(pool, console)
    if plan.pools:
        _line(console, "")
        _line(console, plan_wording.summary(plan), "bold")
    for change in plan_wording.CHANGED:
        found, style = plan.at(change), _STYLES[change]
        if found:
            _line(console, "")
            _line(console, f"{plan_wording.SEVERAL[change]}: {counted(len(found), 'workload')}", style)
        for one in found:
            _line(console, f"  {one.owner.title}{plan_wording.in_use(one.gpus)}: {plan_wording.moves(one)}", style)
            _line(console, f"    {one.reason}")
            if one.remedy:
                _line(console, f"    -> {one.remedy}")
    if plan.matrix is not None:
        _matrix(plan.matrix, console)


def _line(console: Console, text: str, style: str = "") -> None:
    """Print one line, whatever the texts in it have for line breaks."""
    console.print(Text(printable(text), style=style), soft_wrap=True)


def _images(plan: DriverPlan, console: Console) -> None:
    images = plan.unknown_images
    if not images:
        return
    _line(console, f"{counted(len(images), 'image')} of which nobody knows what CUDA they need:", "yellow")
    for one in images[:_MOST_IMAGES]:
        users = f"{counted(one.workloads, 'workload')}{plan_wording.in_use(one.gpus)}"
        _line(console, f"  {one.image} ({users}): {one.problem}")
    if len(images) > _MOST_IMAGES:
        _line(console, f"  and {len(images) - _MOST_IMAGES} more; --format json has them all")


def _pool(pool: PlannedPool, console: Console) -> None:
    _line(console, f"{pool.selector}: {plan_wording.whom(pool)}; {plan_wording.drivers(pool)}", "bold")
    for one in pool.undriven:
        _line(console, f"  {plan_wording.undriven(one)}", "red")
    if pool.branch is not None:
        _line(console, f"  {plan_wording.support(pool.branch)}", "red" if pool.branch.has_ended else "")


def _matrix(matrix: BranchMatrix, console: Console) -> None:
    """One paragraph for each kind of nodes, where branches with equal results stand together."""
    _line(console, "")
    _line(console, "What each driver branch would do, if only these nodes got it", "bold")
    for row in matrix.pools:
        _line(console, f"{row.name} ({counted(row.gpus, 'GPU')}): {plan_wording.newest(row)}")
        for said, cells in plan_wording.spans(row):
            style = "red" if cells[0].breaks or cells[0].drives is False else ""
            _line(console, f"  {plan_wording.span(cells):<12} {said}", style)
