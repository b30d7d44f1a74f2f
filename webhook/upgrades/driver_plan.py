"""A plan as values: what changes for each workload and each pool of nodes. Every format is made from these values.

All texts may come from tenants; each format escapes them as it needs. The shape of `to_json` is a contract:
`docs/plan-schema.json` describes it, `apiVersion` names it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from webhook.audit.documents import DocumentError
from webhook.audit.report import ObjectReference, SourceLine
from webhook.upgrades.node_changes import ChangeAction
from webhook.upgrades.standing import RunsOn

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
        """0 for the worst change."""
        return list(WorkloadChange).index(self)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a workload gets at one moment: it runs for certain on `nodes` of the `of` nodes that it may land on.

    Of the others, it is not known of `unknown` whether they run it. `pools` are the declared pools that run it, which
    may have no node at the moment.
    """

    verdict: RunsOn
    nodes: int
    of: int
    unknown: int = 0
    pools: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The values for programs."""
        return {
            "verdict": self.verdict,
            "nodes": self.nodes,
            "of": self.of,
            "unknown": self.unknown,
            "pools": list(self.pools),
        }


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """What a plan changes for one workload; a pod without an owner is its own workload.

    `gpus` are in use by its running pods; for a workload that only a manifest has, those that its pods would use.
    `reason` is a sentence without its period. `remedy` is what would make a workload run that breaks, or would make
    known what is not; empty for none. `source` is where a manifest was read; workloads of clusters have none.
    """

    owner: ObjectReference
    gpus: int
    change: WorkloadChange
    before: Reach
    after: Reach
    reason: str
    remedy: str = ""
    source: SourceLine = field(default_factory=SourceLine)

    def to_json(self) -> dict[str, object]:
        """The row for programs."""
        return {
            "apiVersion": self.owner.api_version,
            "kind": self.owner.kind,
            "namespace": self.owner.namespace,
            "name": self.owner.name,
            "gpus": self.gpus,
            "change": self.change,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "reason": self.reason,
            "remedy": self.remedy,
            "source": {"file": self.source.file, "line": self.source.line} if self.source.file else None,
        }


@dataclass(frozen=True, slots=True)
class UnknownImage:
    """An image of which nobody knows what it needs, and why; `workloads` and `gpus` use it."""

    image: str
    problem: str
    workloads: int
    gpus: int

    def to_json(self) -> dict[str, object]:
        """The image for programs."""
        return {"image": self.image, "problem": self.problem, "workloads": self.workloads, "gpus": self.gpus}


@dataclass(frozen=True, slots=True)
class UndrivenGpus:
    """GPUs that a driver does not drive any more, or not yet. `is_certain` is false where nobody has read it."""

    product: str
    nodes: int
    gpus: int
    reason: str
    is_certain: bool

    def to_json(self) -> dict[str, object]:
        """The GPUs for programs."""
        return {
            "product": self.product,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "reason": self.reason,
            "isCertain": self.is_certain,
        }


@dataclass(frozen=True, slots=True)
class BranchSupport:
    """A driver branch and its end: the month of its last release as YYYY-MM, `ended`, or empty if not known."""

    number: int
    support: str
    end: str
    has_ended: bool | None

    def to_json(self) -> dict[str, object]:
        """The branch for programs."""
        return {
            "branch": self.number,
            "support": self.support or None,
            "end": self.end or None,
            "hasEnded": self.has_ended,
        }


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """What is done to some nodes, as it was written in `selector`; for new nodes the file that has them.

    `drivers` are those of the nodes now, `driver` the one that they get; empty where it stays, and for nodes that go.
    `pools` are declared pools that are meant.
    """

    action: ChangeAction
    selector: str
    nodes: int
    gpus: int
    pools: tuple[str, ...]
    products: tuple[str, ...]
    drivers: tuple[str, ...]
    driver: str
    undriven: tuple[UndrivenGpus, ...] = ()
    branch: BranchSupport | None = None

    def to_json(self) -> dict[str, object]:
        """The entry for programs."""
        return {
            "action": self.action,
            "selector": self.selector,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "pools": list(self.pools),
            "products": list(self.products),
            "drivers": list(self.drivers),
            "driver": self.driver or None,
            "undriven": [one.to_json() for one in self.undriven],
            "branch": self.branch.to_json() if self.branch is not None else None,
        }


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One branch on one kind of nodes: workloads that break, that lose nodes, and of which it is not known.

    `drives` is whether the branch drives the GPUs: false if certainly not, None if that is not known.
    """

    branch: int
    breaks: int
    unknown: int
    drives: bool | None
    loses: int = 0

    def to_json(self) -> dict[str, object]:
        """The cell for programs."""
        return {
            "branch": self.branch,
            "breaks": self.breaks,
            "unknown": self.unknown,
            "losesNodes": self.loses,
            "drives": self.drives,
        }


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """Every branch on one kind of nodes. `newest` is the newest that certainly breaks nobody and drives the GPUs.

    `name` says which nodes they are, for people; `nodes` is 0 for a declared pool without nodes.
    """

    name: str
    product: str
    driver: str
    nodes: int
    gpus: int
    newest: int | None
    cells: tuple[MatrixCell, ...]

    def to_json(self) -> dict[str, object]:
        """The row for programs."""
        return {
            "name": self.name,
            "product": self.product or None,
            "driver": self.driver or None,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "newest": self.newest,
            "branches": [cell.to_json() for cell in self.cells],
        }


@dataclass(frozen=True, slots=True)
class BranchMatrix:
    """Every branch of the tables on every kind of nodes, one kind changed at a time. `branches` are its columns."""

    branches: tuple[BranchSupport, ...]
    rows: tuple[MatrixRow, ...]

    def to_json(self) -> dict[str, object]:
        """The matrix for programs."""
        return {
            "branches": [one.to_json() for one in self.branches],
            "pools": [one.to_json() for one in self.rows],
        }


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
        """The workloads with one change."""
        return [one for one in self.workloads if one.change is change]

    @property
    def counts(self) -> Mapping[WorkloadChange, int]:
        """How many workloads have each change."""
        found = Counter(one.change for one in self.workloads)
        return {change: found[change] for change in WorkloadChange}

    def exit_status(self, fail_on: WorkloadChange | None = WorkloadChange.BREAKS) -> int:
        """1: a workload has this change or a worse one. 2: unusable input, which beats 1. Otherwise 0."""
        if self.errors:
            return 2
        return int(fail_on is not None and any(one.change.rank <= fail_on.rank for one in self.workloads))

    def to_json_counts(self) -> dict[str, dict[str, int]]:
        """How many workloads have each change, and their GPUs, for programs."""
        gpus = {change: sum(one.gpus for one in self.at(change)) for change in WorkloadChange}
        return {change.value: {"workloads": count, "gpus": gpus[change]} for change, count in self.counts.items()}

    def to_json(self) -> dict[str, object]:
        """The whole plan for programs."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "created": f"{self.created:%Y-%m-%dT%H:%M:%SZ}",
            "counts": self.to_json_counts(),
            "unknownImages": [one.to_json() for one in self.unknown_images],
            "pools": [one.to_json() for one in self.pools],
            "workloads": [one.to_json() for one in self.workloads],
            "matrix": self.matrix.to_json() if self.matrix is not None else None,
            "errors": [
                {"source": one.source, "document": one.number, "line": one.line, "message": one.message}
                for one in self.errors
            ],
        }
