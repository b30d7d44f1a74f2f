"""A plan as values: what changes for each workload and each pool of nodes. Every format is made from these values.

All texts may come from tenants; each format escapes them as it needs. The shape of the JSON is a contract:
`docs/plan-schema.json` describes it, `apiVersion` names it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.audit.report import ObjectReference, SourceLine
from webhook.audit.reports.as_json import dumps, plain
from webhook.upgrades.node_changes import ChangeAction

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

    @property
    def counts(self) -> Mapping[WorkloadChange, int]:
        return {change: len(self.at(change)) for change in WorkloadChange}

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
    made["workloads"] = [_workload(one) for one in made["workloads"]]
    created = f"{plan.created:%Y-%m-%dT%H:%M:%SZ}"
    return dumps({"apiVersion": API_VERSION, "kind": KIND, **made, "created": created, "counts": counts})


def _workload(made: dict[str, Any]) -> dict[str, Any]:
    owner = made.pop("owner")
    del owner["uid"]
    return {**owner, **made}
