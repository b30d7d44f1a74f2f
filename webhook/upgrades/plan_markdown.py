"""A plan as Markdown for a comment on a pull request: one sentence, what breaks, then details, of a bounded size.

Texts that tenants may have written are in code spans, as in reports of audits.
"""

from collections.abc import Iterable

from webhook.audit.reports.as_markdown import Page, code
from webhook.audit.reports.report_wording import counted, moment, place
from webhook.upgrades import plan_wording
from webhook.upgrades.driver_plan import BranchMatrix, DriverPlan, PlannedPool, PlannedWorkload, WorkloadChange

_WORKLOAD = ("Workload", "GPUs", "Nodes now", "Then", "Why", "Remedy")


def render(plan: DriverPlan) -> str:
    """The plan in at most 65,536 characters, which is GitHub's limit; the last sentence says what is left out."""
    page = Page("gpu-policy cuda plan --format json")
    total = plan_wording.summary(plan) if plan.pools else plan_wording.verdict(plan)
    page.paragraph(f"**GPU driver plan**, {moment(plan.created)}: {total}.")
    errors = ((code(str(error)),) for error in plan.errors)
    page.table(("What",), errors, summary=f"Could not be read: {len(plan.errors):,}")
    page.table(("Nodes", "Which", "Driver", "What to know"), map(_pool, plan.pools))
    _workloads(page, plan.at(WorkloadChange.BREAKS))
    for change in plan_wording.CHANGED[1:]:
        found = plan.at(change)
        _workloads(page, found, summary=f"{plan_wording.SEVERAL[change].capitalize()}: {len(found):,}")
    if plan.matrix is not None:
        _matrix(page, plan.matrix)
    images = (
        (code(one.image), f"{one.workloads:,}", f"{one.gpus:,}", code(one.problem)) for one in plan.unknown_images
    )
    summary = f"Images of which nobody knows what they need: {len(plan.unknown_images):,}"
    page.table(("Image", "Workloads", "GPUs", "Why"), images, summary=summary)
    return str(page)


def _pool(pool: PlannedPool) -> tuple[str, ...]:
    notes = [plan_wording.undriven(one) for one in pool.undriven]
    if pool.branch is not None:
        notes.append(plan_wording.support(pool.branch))
    told = "<br>".join(map(code, notes))
    return code(pool.selector), code(plan_wording.whom(pool)), code(plan_wording.drivers(pool)), told


def _workloads(page: Page, workloads: Iterable[PlannedWorkload], *, summary: str = "") -> None:
    page.table(_WORKLOAD, map(_workload, workloads), summary=summary)


def _workload(one: PlannedWorkload) -> tuple[str, ...]:
    name = "<br>".join(code(part) for part in (one.owner.title, place(one.source)) if part)
    before, after = plan_wording.reach(one.before), plan_wording.reach(one.after)
    return name, f"{one.gpus:,}", before, after, code(one.reason), code(one.remedy)


def _matrix(page: Page, matrix: BranchMatrix) -> None:
    """One row for each kind of nodes, where branches with equal results stand together, the newest first."""
    rows = (
        (
            f"{code(row.name)}<br>{counted(row.nodes, 'node')}, {counted(row.gpus, 'GPU')}",
            str(row.newest) if row.newest is not None else plan_wording.why_no_newest(row),
            "<br>".join(f"{plan_wording.span(cells)}: {said}" for said, cells in [*plan_wording.spans(row)][::-1]),
        )
        for row in matrix.pools
    )
    page.table(("Nodes", "Newest that breaks nobody", "Branches"), rows, summary="Every branch on every kind of nodes")
