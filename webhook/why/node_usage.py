"""What nodes have for pods, and what the pods on them request: the difference is free.

Amounts are in the units of `webhook.model.requirements.demand_of`: cpu in millicores, sizes in bytes, else counts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from webhook.facts import node_index
from webhook.facts.facts import ClusterFacts
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.json_parts import listed, mapped, part
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.requirements import demand_of, is_compared, is_extended, rounded_up, thousandths_of

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
    mask = node_index.feasible_nodes(table, pod, runtime_class)
    return tuple(name for at, name in enumerate(table.nodes) if mask >> at & 1)
