"""A plan with everything that a plan can have."""

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
BEFORE, AFTER = Reach(RunsOn.RUNS, 1_200, 1_500), Reach(RunsOn.RUNS, 700, 1_500, 3, ("spare",))


def workload(number: int, change: WorkloadChange, text: str = "as it is") -> PlannedWorkload:
    owner = ObjectReference(f"team-{number}", "Job", f"train-{number}", "batch/v1")
    source = SourceLine() if number % 3 else SourceLine("manifests/train.yaml", number + 1)
    return PlannedWorkload(owner, number * 7, change, BEFORE, AFTER, text, f"mend {text}", source)


def sample_plan() -> DriverPlan:
    """With a workload of each change, and one whose author means harm."""
    owner = ObjectReference(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    odd = PlannedWorkload(owner, 99, WorkloadChange.BREAKS, BEFORE, AFTER, HOSTILE, HOSTILE, SourceLine(HOSTILE, 3))
    undriven = UndrivenGpus("Tesla-V100", 2, 16, "driver branch 580 is the last for compute capability 7.0", True)
    ended, living = (branch_support(one, SHIPPED, CREATED.timestamp()) for one in (590, 620))
    assert ended is not None
    assert living is not None
    drivers, products = ("535.104.05", "550.54.15"), ("Tesla-V100", HOSTILE)
    set_, doubtful = ChangeAction.SET, UndrivenGpus("", 1, 8, HOSTILE, False)
    pools = (
        PlannedPool(set_, "pool=a", 3, 24, ("a",), products, drivers, "590.44.01", (undriven, doubtful), ended),
        PlannedPool(ChangeAction.RETIRE, HOSTILE, 1, 8, (), (), ()),
        PlannedPool(ChangeAction.ADD, "new.yaml", 2, 16, (), ("H100",), ("620.10.01",)),
        PlannedPool(set_, "a in (b,c)", 0, 0, ("spare",), ("H100",), (), "620", (), living),
    )
    cells = (MatrixCell(580, 0, 0, 0, True), MatrixCell(590, 3, 0, 1, True), MatrixCell(620, 0, 0, 0, False))
    matrix = BranchMatrix((ended, living), (MatrixRow("GPU, driver 580", "GPU", "580.95.05", 3, 24, 580, cells),))
    images = (UnknownImage("registry.corp/train:1", "nobody has looked it up", 2, 24), UnknownImage(HOSTILE, "", 1, 0))
    errors = (DocumentError("manifests/a.yaml", 2, 7, "not YAML"), DocumentError("", 0, None, HOSTILE))
    workloads = (odd, *(workload(number, change) for number, change in enumerate(WorkloadChange, start=1)))
    return DriverPlan(CREATED, workloads, pools, images, matrix, errors)
