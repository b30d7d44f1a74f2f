"""Plans as values: one with everything, one of nothing, and one of a large cluster."""

from datetime import UTC, datetime

from tests.audit.sample_report import HOSTILE
from webhook.audit.documents import DocumentError
from webhook.audit.report import ObjectReference, SourceLine
from webhook.cuda.cuda_tables import SHIPPED
from webhook.upgrades.driver_plan import (
    BranchMatrix,
    DriverPlan,
    MatrixCell,
    MatrixRow,
    PlannedPool,
    PlannedWorkload,
    Reach,
    RunsOn,
    UndrivenGpus,
    UnknownImage,
    WorkloadChange,
)
from webhook.upgrades.node_changes import ChangeAction
from webhook.upgrades.planned_nodes import branch_support

CREATED = datetime(2026, 11, 26, 6, 30, 15, tzinfo=UTC)
_BRANCHES = [branch.number for branch in SHIPPED.drivers.rows]
_CHANGES = list(WorkloadChange)
_REACHES = {
    WorkloadChange.BREAKS: (Reach(RunsOn.RUNS, 2, 2), Reach(RunsOn.CANNOT_RUN, 0, 2)),
    WorkloadChange.UNKNOWN: (Reach(RunsOn.RUNS, 2, 2), Reach(RunsOn.UNKNOWN, 0, 2, 2)),
    WorkloadChange.LOSES_NODES: (Reach(RunsOn.RUNS, 1_200, 1_500), Reach(RunsOn.RUNS, 700, 1_500)),
    WorkloadChange.COMPAT_ONLY: (Reach(RunsOn.RUNS, 4, 4), Reach(RunsOn.COMPAT_ONLY, 4, 4)),
    WorkloadChange.UNBLOCKED: (Reach(RunsOn.CANNOT_RUN, 0, 4), Reach(RunsOn.RUNS, 4, 4, 0, ("spare",))),
    WorkloadChange.GAINS: (Reach(RunsOn.RUNS, 1, 4), Reach(RunsOn.RUNS, 4, 4)),
    WorkloadChange.SAME: (Reach(RunsOn.RUNS, 4, 4), Reach(RunsOn.RUNS, 4, 4)),
}
_REASONS = {
    WorkloadChange.BREAKS: "nvidia/cuda:12.4.1-runtime-ubuntu22.04 needs CUDA 12.4.1, and none of the nodes that the "
    "pod could land on can run it",
    WorkloadChange.UNKNOWN: "nobody knows what CUDA registry.corp/train:1 needs",
}
_REMEDIES = {
    WorkloadChange.BREAKS: "Install a driver of branch 580 or older",
    WorkloadChange.UNKNOWN: "Say what registry.corp/train:1 needs in images of cudaDriver",
}


def workload(number: int, change: WorkloadChange) -> PlannedWorkload:
    """One workload of one of 23 namespaces; every third is in a manifest."""
    before, after = _REACHES[change]
    return PlannedWorkload(
        ObjectReference(f"team-{number % 23}", "Job" if number % 4 else "Deployment", f"train-{number}", "apps/v1"),
        (number * 7) % 64,
        change,
        before,
        after,
        _REASONS.get(change, f"of the nodes that change it reaches others, {number % 5} more or less"),
        _REMEDIES.get(change, ""),
        SourceLine() if number % 3 else SourceLine("manifests/train.yaml", number + 1),
    )


def matrix(kinds: int) -> BranchMatrix:
    """Every branch of the tables on some kinds of nodes: the oldest do not drive the GPUs, others break some."""
    supported = tuple(filter(None, (branch_support(one, SHIPPED, CREATED.timestamp()) for one in _BRANCHES)))
    rows = []
    for kind in range(kinds):
        cells = tuple(_cell(at, kind) for at in range(len(_BRANCHES)))
        safe = [one.branch for one in cells if not one.breaks and one.drives is not False]
        driver = f"{_BRANCHES[18 + kind % 6]}.95.05"
        name = f"GPU-{kind}, driver {driver}"
        rows.append(MatrixRow(name, f"GPU-{kind}", driver, kind * 3, kind * 24, max(safe, default=None), cells))
    return BranchMatrix(supported, tuple(rows))


def _cell(at: int, kind: int) -> MatrixCell:
    drives = False if at < 8 + kind % 5 else None if at == 9 + kind % 5 else True
    breaks = max(0, at - 22 - kind % 3) ** 2 if kind % 4 else max(0, 26 - at)
    return MatrixCell(_BRANCHES[at], breaks, (at + kind) % 3 if at > 26 else 0, at % 4, drives)


def sample_plan(kinds: int = 4) -> DriverPlan:
    """A plan with everything that a plan can have, and the worst first."""
    broken = workload(9, WorkloadChange.BREAKS)
    owner = ObjectReference(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    odd = PlannedWorkload(
        owner, 99, WorkloadChange.BREAKS, broken.before, broken.after, HOSTILE, HOSTILE, SourceLine(HOSTILE, 3)
    )
    workloads = [odd, *(workload(number, change) for number, change in enumerate(_CHANGES, start=1))]
    undriven = UndrivenGpus("Tesla-V100", 2, 16, "driver branch 580 is the last for compute capability 7.0", True)
    doubtful = UndrivenGpus("", 1, 8, HOSTILE, False)
    ended, supported = (branch_support(one, SHIPPED, CREATED.timestamp()) for one in (590, 620))
    drivers = ("535.104.05", "550.54.15")
    products = ("Tesla-V100", HOSTILE)
    pools = (
        PlannedPool(
            ChangeAction.SET,
            "pool=training",
            3,
            24,
            ("training",),
            products,
            drivers,
            "590.44.01",
            (undriven, doubtful),
            ended,
        ),
        PlannedPool(ChangeAction.RETIRE, HOSTILE, 1, 8, (), (), ()),
        PlannedPool(ChangeAction.ADD, "new.yaml", 2, 16, (), ("H100",), ("620.10.01",)),
        PlannedPool(ChangeAction.SET, "a in (b,c)", 0, 0, ("spare",), ("H100",), (), "620", (), supported),
    )
    unknown = UnknownImage("registry.corp/train:1", "nobody has looked it up", 2, 24)
    images = (unknown, UnknownImage(HOSTILE, HOSTILE, 1, 0))
    errors = (DocumentError("manifests/a.yaml", 2, 7, "not YAML"), DocumentError("", 0, None, HOSTILE))
    return DriverPlan(CREATED, tuple(workloads), pools, images, matrix(kinds), errors)


def plan_of_nothing() -> DriverPlan:
    """A plan of a cluster without workloads."""
    return DriverPlan(CREATED, (), (sample_plan().pools[0],))


def only_matrix() -> DriverPlan:
    """What --matrix alone gives."""
    return DriverPlan(CREATED, (workload(1, WorkloadChange.SAME),), (), (), matrix(3))


def large_plan(count: int, kinds: int = 40) -> DriverPlan:
    """So many workloads, sorted as a plan sorts them."""
    found = [workload(number, _CHANGES[min(number * number % 11, 6)]) for number in range(count)]
    found.sort(key=lambda one: (one.change.rank, -one.gpus, one.owner))
    return DriverPlan(CREATED, tuple(found), sample_plan().pools[:1], (), matrix(kinds))
