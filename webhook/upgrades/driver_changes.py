"""What applying a ClusterPolicy or NVIDIADriver would change, as the answer to whoever applies it.

It is a plan for the workloads that have pods, judged within a given time, in few lines. A workload that certainly
breaks, or a GPU that is certainly not driven any more, refuses the object where the policy enforces that.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from webhook.audit.documents import Document, DocumentError
from webhook.audit.object_sources import Background, of_files
from webhook.audit.owners import Owners
from webhook.audit.report import ObjectReference
from webhook.engine.running_rules import told
from webhook.facts.driver_objects import DriverObject, driver_object_from
from webhook.facts.facts import ClusterFacts
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.gpu_pods import COUNTING, stored_from_raw
from webhook.ledger.inventory import read_inventory
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.pod_source import PODS, PodLists
from webhook.model.accelerators import Accelerators
from webhook.model.json_parts import mapped, part
from webhook.model.subject import makers_of, subject_of
from webhook.model.wording import counted, few
from webhook.model.workloads import is_pod
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import WorkloadsMode
from webhook.rules.rule_settings import Mode
from webhook.upgrades.changed_cluster import ChangedCluster, declared_pools
from webhook.upgrades.driver_plan import DriverPlan, PlannedPool, WorkloadChange
from webhook.upgrades.node_changes import KnownNodes, wanted_by
from webhook.upgrades.workload_planner import PlanRequest, WorkloadPlanner

_ALL = "`gpu-policy plan --cluster FILE` shows all"
_ADVICE = partial(Finding, "drivers", Mode.WARN, FindingKind.ADVICE)
_CERTAIN = partial(Finding, "drivers", Mode.WARN, FindingKind.VIOLATION)
_JUDGING = 0.6
"""Share of the time in which workloads are judged; the rest is for counting those that are left."""
_SAID: Mapping[WorkloadChange, tuple[str, str]] = {
    WorkloadChange.BREAKS: ("breaks", "break"),
    WorkloadChange.UNKNOWN: ("is unknown", "are unknown"),
    WorkloadChange.LOSES_NODES: ("loses nodes", "lose nodes"),
    WorkloadChange.COMPAT_ONLY: ("runs by forward compatibility only", "run by forward compatibility only"),
}
"""Changes for the worse, the worst first, and what one workload does, or several."""


class OwnersByPods(Owners):
    """Knows of the owners of a pod what the pod says: the Deployment behind a ReplicaSet."""

    def root_of(self, raw: Mapping[str, Any]) -> ObjectReference:
        root, makers = super().root_of(raw), makers_of(raw)
        return ObjectReference(root.namespace, *makers[-1], "") if len(makers) > 1 else root


@dataclass(frozen=True, slots=True)
class DriverJudge:
    """Judges driver objects by the workloads that run.

    `workloads` reads pods with GPUs, and what makes them if that is known, within so many seconds. It raises
    LedgerError.
    """

    workloads: Callable[[float], Iterable[Document | DocumentError]]
    owners: Owners = field(default_factory=OwnersByPods)

    def outcome(  # noqa: PLR0913  # the object, and all that it is judged by
        self,
        raw: Mapping[str, Any],
        old: DriverObject | None,
        policies: PolicySet,
        facts: ClusterFacts,
        now: float,
        *,
        seconds: float = 600.0,
    ) -> Outcome | None:
        """The outcome for an object that is applied at a moment in seconds since 1970, within `seconds`; `old` is what
        it was before. None where driver objects are not judged. Raises ShapeError for a malformed object.
        """
        if policies.drivers is WorkloadsMode.DISABLED:
            return None
        one = driver_object_from(raw)
        pools = declared_pools(policy.at(now) for policy in policies.policies)
        every = (*pools, *facts.cluster.made)
        known = KnownNodes(facts.cluster.nodes, every, policies.accelerators, policies.cuda.tables)
        wanted = wanted_by(one, old, facts, known)
        found: list[Finding] = []
        if wanted.changes:
            cluster = ChangedCluster(facts, wanted.changes, pools, None, known.tables, known.accelerators)
            plan, left = self._planned(PlanRequest(cluster, policies, datetime.fromtimestamp(now, UTC)), seconds)
            found = [*_lines(plan, one), *([_ADVICE(one.where, left, _ALL)] if left else ())]
        notes = (*wanted.notes, wanted.left_out, *(change.note for change in wanted.changes))
        found += [_ADVICE(one.where, note) for note in filter(None, notes)]
        if policies.drivers is WorkloadsMode.ENFORCE and not wanted.is_contested:  # else it is not rolled out yet
            exception = policies.exceptions.for_driver(one.kind, subject_of(raw, one.kind), now)
            found = [
                told(replace(finding, mode=Mode.ENFORCE, refuses=exception is None, exception=exception))
                if finding.kind is FindingKind.VIOLATION
                else finding
                for finding in found
            ]
        return Outcome(policies.default, raw, tuple(found))

    def _planned(self, request: PlanRequest, seconds: float) -> tuple[DriverPlan, str]:
        """The plan, and what it does not judge; empty if it judges everything."""
        planner = WorkloadPlanner(request, self.owners)
        begun, left, unread = time.monotonic(), set(), ""
        try:
            for one in self.workloads(seconds):
                if isinstance(one, DocumentError) or time.monotonic() - begun < seconds * _JUDGING:
                    planner.add(one)
                else:
                    left.add(planner.owner_of(one))
        except LedgerError as error:
            unread = f"not all pods were judged: {error}"
        plan = planner.plan()
        left -= {one.owner.identity for one in plan.workloads}
        if plan.errors:
            unread = unread or f"{counted(len(plan.errors), 'object')} cannot be read: {plan.errors[0]}"
        return plan, unread or (f"{counted(len(left), 'workload')} more were not judged in the time" if left else "")


def judge_by(source: ApiServer | Path | None, accelerators: Accelerators) -> DriverJudge:
    """Judges by the pods of a cluster that ask for GPUs, or by the objects of an inventory."""
    if isinstance(source, ApiServer):
        lists = PodLists(source, source.now)
        return DriverJudge(lambda seconds: _asking(lists.objects(PODS, ["*"], seconds, COUNTING), accelerators))
    found: list[Document] = []

    def keep(kind: str, raw: Any) -> None:
        if isinstance(raw, dict):
            found.append(Document("", len(found) + 1, 0, {"apiVersion": "v1", **raw, "kind": kind}))

    facts = ClusterFacts() if source is None else read_inventory(source, accelerators, keep).facts
    found.sort(key=lambda one: is_pod(one.api_version, one.kind))
    known = of_files(found, "default", Background(facts))
    return DriverJudge(lambda _seconds: known.documents, known.owners)


def _asking(raws: Iterable[object], accelerators: Accelerators) -> Iterator[Document]:
    for number, raw in enumerate(raws, 1):
        claims = isinstance(raw, dict) and part(raw, "spec", "resourceClaims")
        with suppress(ValueError):  # of a pod without uid, which the API server has not
            if claims or stored_from_raw(raw, accelerators).gpu_pod is not None:
                yield Document("", number, 0, {"apiVersion": "v1", "kind": "Pod", **mapped(raw)})


def _lines(plan: DriverPlan, one: DriverObject) -> Iterator[Finding]:
    """What the plan says: all in one line, and the worst of it in another; nothing if it harms nobody."""
    parts: list[str] = []
    for change, words in _SAID.items():
        if found := plan.at(change):
            homes = sorted({workload.owner.home for workload in found} - {""})
            of = f" of {few(homes)}" if change is WorkloadChange.BREAKS and homes else ""
            first = f"{counted(len(found), 'workload')}{of}" if not parts else f"{len(found)}"
            parts.append(f"{first} {words[len(found) > 1]}")
    left = [gpus for pool in plan.pools for gpus in pool.undriven]
    undriven = {gpus.product or "a GPU of unknown model": gpus.is_certain for gpus in left}
    for is_certain, words in ((True, ("is no longer", "are no longer")), (False, ("may no longer be",) * 2)):
        if names := [name for name, sure in undriven.items() if sure is is_certain]:
            parts.append(f"{few(names)} {words[len(names) > 1]} driven")
    if not parts:
        return
    said = _CERTAIN if plan.at(WorkloadChange.BREAKS) or any(undriven.values()) else _ADVICE
    where = few([_in_few_words(pool, one) for pool in plan.pools], most=200)
    yield said(one.where, f"{where}: {', '.join(parts)}", _ALL)
    for worst in [workload for workload in plan.workloads if workload.change in _SAID][:1]:
        said = _CERTAIN if worst.change is WorkloadChange.BREAKS else _ADVICE
        yield said(worst.owner.title, f"{_SAID[worst.change][0]}: {worst.reason}", worst.remedy)


def _in_few_words(pool: PlannedPool, one: DriverObject) -> str:
    now = few(pool.drivers) if pool.drivers else "an unknown driver"
    by = "" if pool.selector == one.title else f" of {pool.selector}"
    where = [counted(pool.nodes, "node")] if pool.nodes or not pool.pools else []
    where += [f"pool {few(pool.pools)}"] if pool.pools else []
    return f"{now} -> {pool.driver}{by} on {' and '.join(where)}"
