"""What was read of a cluster about nodes, pods and workloads, before anything is concluded from it.

Amounts are in the units of `webhook.model.requirements.demand_of`: cpu in millicores, sizes in bytes, else counts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from webhook.audit.quota_report import ReportedQuota
from webhook.audit.report import ObjectReference
from webhook.facts.facts import ClusterFacts
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.requirements import demand_of, is_compared, is_extended, rounded_up, thousandths_of
from webhook.policy.policy_set import Policy

FINISHED = ("Succeeded", "Failed")
"""Phases of pods that hold nothing any more."""
_PODS = "pods"


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node at this moment. `fault` says why it takes no pods; empty if it does. `is_ready`: its kubelet is.

    `allocatable` is what pods may use, `capacity` what the node has.
    """

    name: str
    is_ready: bool
    fault: str
    allocatable: Mapping[str, int]
    capacity: Mapping[str, int] = field(default_factory=dict)


def node_state(raw: Mapping[str, Any]) -> NodeState:
    """Read a node of any shape."""
    fault = _not_ready(raw)
    is_ready = not fault
    if is_ready and part(raw, "spec", "unschedulable") is True:
        fault = "it is cordoned"
    if is_ready and part(raw, "metadata", "deletionTimestamp"):
        fault = "it is being deleted"
    name = str(part(raw, "metadata", "name") or "")
    return NodeState(name, is_ready, fault, _amounts(raw, "allocatable"), _amounts(raw, "capacity"))


def _amounts(raw: Mapping[str, Any], key: str) -> dict[str, int]:
    return {
        name: rounded_up(name, found)
        for name, quantity in mapped(raw, "status", key).items()
        if (is_compared(name) or name == _PODS) and (found := thousandths_of(quantity)) is not None
    }


def _not_ready(raw: Mapping[str, Any]) -> str:
    ready = next((one for one in listed(raw, "status", "conditions") if part(one, "type") == "Ready"), None)
    if ready is None or (status := part(ready, "status")) == "True":
        return ""
    said = part(ready, "message") or part(ready, "reason")
    state = "its kubelet does not report" if status == "Unknown" else "it is not ready"
    return f"{state}: {said}"[:300] if isinstance(said, str) and said else state


class NodeUsage:
    """What the pods on each node request, and the namespaces that hold the GPUs of each."""

    def __init__(self, accelerators: Accelerators = BUILT_IN) -> None:
        self._accelerators = accelerators
        self._used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._holders: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, raw: Mapping[str, Any]) -> None:
        """Count a pod, if it is on a node and has not finished. A pod that cannot be read counts as one pod alone."""
        node = part(raw, "spec", "nodeName")
        if not isinstance(node, str) or not node or part(raw, "status", "phase") in FINISHED:
            return
        self._used[node][_PODS] += 1
        with suppress(ValueError):
            pod = pod_from_raw(raw, self._accelerators)
            self._used[node].update(demand_of(pod))
            if pod.gpus:
                self._holders[node][str(part(raw, "metadata", "namespace") or "")] += pod.gpu_count

    def free(self, state: NodeState, resource: str) -> int:
        """How much of a resource no pod on the node requests; never below 0."""
        return max(state.allocatable.get(resource, 0) - self.requested(state.name, resource), 0)

    def has_room(self, state: NodeState, demand: Mapping[str, int]) -> bool:
        wanted = {name: amount for name, amount in demand.items() if is_compared(name)} | {_PODS: 1}
        listed_or_needed = (name for name in wanted if name in state.allocatable or is_extended(name))
        return all(self.free(state, name) >= wanted[name] for name in listed_or_needed)

    def requested(self, node: str, resource: str) -> int:
        return self._used[node][resource]

    def holders(self, nodes: Iterable[str]) -> list[tuple[str, int]]:
        """The namespaces with GPUs on these nodes, those with the most first."""
        total = Counter[str]()
        for node in nodes:
            total.update(self._holders[node])
        return sorted(total.items(), key=lambda one: (-one[1], one[0]))


def fitting_names(pod: Pod, facts: ClusterFacts) -> tuple[str, ...]:
    """The names of the nodes with room for everything that the pod requests, if no other pod ran there."""
    table, runtime_class = facts.cluster.table, facts.runtime_class(pod.runtime_class or "")
    mask = table.feasible_nodes(pod, runtime_class)
    return tuple(name for at, name in enumerate(table.nodes) if mask >> at & 1)


Raw = Mapping[str, Any]
"""An object as JSON has it."""


def condition(raw: object, kind: str, *path: str) -> Raw:
    """The condition of a type in `status.conditions`, or in the list at `path`; empty if there is none."""
    found = (one for one in listed(raw, *(path or ("status", "conditions"))) if part(one, "type") == kind)
    return mapped(next(found, None))


_AFTERTHOUGHTS = (". no new claims to deallocate", ". still not schedulable", ". not found")
"""What the scheduler appends to its reasons after it has tried to make room."""


def reasons_of_scheduler(message: str) -> str:
    """Why a scheduler finds no node, without what it says of making room, which helps nobody.

    A text that says nothing else is left whole.

    >>> reasons_of_scheduler("0/1 nodes are available: 1 too small. no new claims to deallocate, preemption: 0/1")
    '0/1 nodes are available: 1 too small.'
    """
    kept = message.partition("preemption: ")[0].rstrip(" ,")
    for words in _AFTERTHOUGHTS:
        kept = kept[: 1 - len(words)] if kept.endswith(words) else kept
    return kept or message


def said_by_scheduler(raw: object) -> str:
    """What the scheduler says of a pod that it has not placed; empty if it says nothing."""
    return reasons_of_scheduler(text(condition(raw, "PodScheduled"), "message"))


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """The newest event of one reason about an object. `last` is its time as the API server writes it."""

    about: ObjectReference
    reason: str
    message: str
    last: str
    count: int = 1
    is_warning: bool = False

    @classmethod
    def of(cls, raw: Raw, about: ObjectReference) -> "SeenEvent":
        count = part(raw, "series", "count") or part(raw, "count")
        times = (
            text(raw, "series", "lastObservedTime"),
            text(raw, "lastTimestamp"),
            text(raw, "eventTime"),
            text(raw, "metadata", "creationTimestamp"),
        )
        return cls(
            about,
            text(raw, "reason"),
            text(raw, "message"),
            next(filter(None, times), ""),
            count if isinstance(count, int) else 1,
            is_warning=text(raw, "type") == "Warning",
        )

    @property
    def source(self) -> str:
        return f"event {self.reason} of {self.about.kind} {self.about.name}"


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """What a queue says of a pod or workload: who keeps it, which queue, and why it waits; empty if it does not say."""

    keeper: str
    queue: str = ""
    message: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The cluster around a pod. What could not be read is None.

    `facts` are those of the policy, with its node pools. `states` has the nodes by name, `usage` what the pods on them
    request. `quotas` are those of the namespace; `holders` are the owners of its GPU pods with their GPUs, most first.
    `on_nodes` knows only nodes that pods are on, and is for where `facts` are not known.
    """

    policy: Policy | None = None
    facts: ClusterFacts | None = None
    states: Mapping[str, NodeState] | None = None
    usage: NodeUsage | None = None
    quotas: tuple[ReportedQuota, ...] = ()
    holders: tuple[tuple[str, int], ...] = ()
    on_nodes: ClusterFacts = field(default_factory=ClusterFacts)


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod with its events, the newest first, and what is around it.

    `pod` is what rules see; None if it cannot be read, and then `fault` says why. `is_beside_gpus`: it belongs to a
    workload with GPUs, so that it matters even if it requests none, as the launcher of an MPIJob. `refusal` is what
    quotas say now of a gated pod, if it started, or of the group of a pod; `lacking` says that this lacks pods.
    """

    raw: Raw
    pod: Pod | None
    around: Surroundings = Surroundings()
    events: tuple[SeenEvent, ...] = ()
    entry: QueueEntry | None = None
    fault: str = ""
    is_beside_gpus: bool = False
    refusal: str = ""
    lacking: str = ""

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown; empty if the status says nothing."""
        return text(self.raw, "status", "phase")

    @property
    def node(self) -> str:
        return text(self.raw, "spec", "nodeName")

    @property
    def node_state(self) -> NodeState | None:
        return (self.around.states or {}).get(self.node)

    @property
    def scheduler(self) -> str:
        return text(self.raw, "spec", "schedulerName") or "default-scheduler"

    def event(self, *reasons: str) -> SeenEvent | None:
        return newest(self.events, *reasons)


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """A workload with its parts, and their events, the newest first.

    `parts` are the objects between it and its pods, such as ReplicaSets. `pods` is the number of its pods that are not
    finished, `desired` how many it wants; None if it does not say. `lacking` has the uids of the parts that make pods
    and lack some. `refusal` is what the policies would say now of the pods that it makes; empty if they would be
    admitted, or no policy is known.
    """

    raw: Raw
    reference: ObjectReference
    parts: tuple[Raw, ...] = ()
    events: tuple[SeenEvent, ...] = ()
    pods: int = 0
    desired: int | None = None
    lacking: frozenset[str] = frozenset()
    refusal: str = ""
    has_gpus: bool = True
    entry: QueueEntry | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether pods of a part cannot be made now, as in a rollout whose old pods still run."""
        failures = (condition(raw, "ReplicaFailure") for raw in (*self.parts, self.raw))
        return bool(self.lacking) or any(text(failure, "status") == "True" for failure in failures)

    @property
    def is_short(self) -> bool:
        """Whether it lacks pods, as far as it says how many it wants."""
        return self.pods < self.desired if self.desired is not None else not self.pods


def may_have_gpus(pod: Pod, policy: Policy | None) -> bool:
    """Whether a pod requests GPUs, or parts of them. Without a policy any extended resource may be one."""
    if pod.gpus or pod.fractions or pod.resource_claims or pod.requests_classes:
        return True
    return policy is None and any(map(is_extended, demand_of(pod)))


def newest(events: Iterable[SeenEvent], *reasons: str) -> SeenEvent | None:
    """The newest event of one of these reasons; None if there is none."""
    found = [event for event in events if event.reason in reasons]
    return max(found, key=lambda event: event.last, default=None)
