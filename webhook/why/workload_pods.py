"""The pods of a workload in groups that are alike, the objects between, such as ReplicaSets, and which of these lack
pods. Of any number of pods that are alike one is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import orjson

from webhook.kubernetes.api_server import METADATA_LIST
from webhook.kubernetes.discovery import PODS
from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.requirements import is_extended
from webhook.model.workloads import WORKLOADS, controller_of, templates_of
from webhook.why.held_back import gates_of
from webhook.why.observed import FINISHED, NodeState, Raw, condition
from webhook.why.reading import ClusterReader

BUILT_IN_GROUPS = frozenset({"", "apps", "batch"})
_MAKES = {("apps", "Deployment"): (("apps", "ReplicaSet"),), ("batch", "CronJob"): (("batch", "Job"),)}
"""Built-in kinds that make pods through other objects."""
_LEAVES = frozenset({"ReplicaSet", "Job", "StatefulSet", "DaemonSet", "ReplicationController"})
_MOST_WHOLE = 20
"""Objects between a workload and its pods that are read whole, those with the fewest pods."""
MOST_NAMES = 5
_ABOUT_NODES = (
    *("nodeSelector", "tolerations", "schedulerName", "runtimeClassName", "resourceClaims"),
    *("resources", "overhead", "priorityClassName"),
)
"""Fields of a pod's spec that decide where it may run, beside affinity."""

StatesOf = Callable[[Iterable[str]], dict[str, NodeState] | None]
"""Reads the states of nodes."""


def uid_of(raw: Raw | None) -> str:
    """The uid of an object; empty for None."""
    return text(raw, "metadata", "uid")


def owner_of(raw: Raw) -> str:
    """The uid of the controller of an object; empty if none."""
    return text(controller_of(raw), "uid")


@dataclass(slots=True)
class AlikePods:
    """Pods that are alike: the first one, how many there are, and the first names."""

    first: Raw
    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, pod: Raw) -> None:
        self.count += 1
        if len(self.names) < MOST_NAMES:
            self.names.append(text(pod, "metadata", "name"))

    @property
    def is_over(self) -> bool:
        return text(self.first, "status", "phase") in FINISHED


@dataclass(slots=True)
class WorkloadPods:
    """The pods of a workload. `alive_of` counts the pods that have not finished, by the uid of their controller, and
    `made_of` all pods.
    """

    groups: list[AlikePods] = field(default_factory=list)
    alive_of: Counter[str] = field(default_factory=Counter)
    made_of: Counter[str] = field(default_factory=Counter)

    @property
    def alive(self) -> int:
        return self.alive_of.total()


def parts_of(raw: Raw, namespace: str, reader: ClusterReader) -> list[Raw]:
    """The metadata of the objects that a workload has made to make its pods, directly and through others."""
    group, kind = text(raw, "apiVersion").rpartition("/")[0], text(raw, "kind")
    if kind in _LEAVES and group in BUILT_IN_GROUPS:
        return []
    made: defaultdict[str, list[Raw]] = defaultdict(list)
    for pair in _MAKES.get((group, kind)) or (key for key, one in WORKLOADS.items() if one.is_namespaced):
        if (resource := reader.find(*pair)) is not None:
            for one in reader.items(resource, namespace, f"which {resource.name} it has made", accept=METADATA_LIST):
                made[owner_of(one)].append(one)
    found = {uid_of(raw): raw}
    owners = list(found)
    for owner in owners:  # which grows
        below = {uid: one for one in made[owner] if (uid := uid_of(one)) not in found} if owner else {}
        found |= below
        owners += below
    return list(found.values())[1:]


def pods_of(raw: Raw, parts: Sequence[Raw], namespace: str, reader: ClusterReader, states_of: StatesOf) -> WorkloadPods:
    """The pods of a workload, in groups of pods that have one reason."""
    uids = {uid_of(one) for one in (raw, *parts)}
    labels = label_selector(mapped(raw, "spec", "selector"))
    groups: dict[tuple[object, ...], AlikePods] = {}
    pods = WorkloadPods()
    for pod in reader.items(PODS, namespace, "which pods it has", labels=labels):
        owner = owner_of(pod)
        if owner in uids:
            pods.made_of[owner] += 1
            pods.alive_of[owner] += text(pod, "status", "phase") not in FINISHED
            groups.setdefault(likeness(pod, states_of), AlikePods(pod)).add(pod)
    pods.groups = list(groups.values())
    return pods


def label_selector(selector: Raw) -> str:
    """A LabelSelector as a query has it, as far as matchLabels say; empty if that cannot be said."""
    labels = mapped(selector, "matchLabels")
    if not all(isinstance(value, str) for value in labels.values()):
        return ""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def likeness(pod: Raw, states_of: StatesOf) -> tuple[object, ...]:
    """What pods of one workload have in common that have one reason.

    Neither the names of healthy nodes nor of controllers: a workload on a thousand nodes is one kind of pods.
    """
    node = text(pod, "spec", "nodeName")
    statuses = (one for key in ("initContainerStatuses", "containerStatuses") for one in listed(pod, "status", key))
    return (
        text(pod, "status", "phase"),
        text(pod, "status", "reason"),
        "deletionTimestamp" in pod["metadata"],
        gates_of(pod),
        _node_of(pod, node, states_of) if node else (_wishes(pod), text(condition(pod, "PodScheduled"), "message")),
        text(condition(pod, "Ready"), "status"),
        tuple(map(_status, statuses)),
    )


def _status(raw: object) -> tuple[object, ...]:
    waits = text(raw, "state", "waiting", "reason"), text(raw, "lastState", "terminated", "reason")
    return (*waits, part(raw, "ready") is True, str(part(raw, "state", "terminated", "exitCode")))


def _node_of(pod: Raw, node: str, states_of: StatesOf) -> tuple[object, ...]:
    """What matters of the node of a pod: its fault, or else how many of the pod's devices it offers."""
    limits = (mapped(one, "resources", "limits") for one in _containers(pod))
    devices = sorted({name for one in limits for name in one if is_extended(name)})
    states = states_of([node])
    if states is None:
        return "not read", *devices
    state = states.get(node)
    if state is None or not state.is_ready:
        return "" if state is None else state.fault, *devices
    left = tuple((name, state.allocatable.get(name, 0)) for name in devices)
    is_whole = all(amount and amount >= state.capacity.get(name, 0) for name, amount in left)
    return (left,) if is_whole else (left, node)


def _containers(pod: Raw) -> list[object]:
    return [*listed(pod, "spec", "initContainers"), *listed(pod, "spec", "containers")]


def _wishes(pod: Raw) -> bytes:
    containers = [{key: part(one, key) for key in ("image", "resources")} for one in _containers(pod)]
    wishes = [part(pod, "spec", key) for key in _ABOUT_NODES]
    affinity = part(pod, "spec", "affinity", "nodeAffinity")
    return orjson.dumps([containers, wishes, affinity], option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


# How many pods there should be.


def desired_pods(raw: Raw) -> int | None:
    """How many pods a workload wants to have now; None if it does not say."""
    if text(raw, "kind") == "DaemonSet":
        wanted = part(raw, "status", "desiredNumberScheduled")
        return wanted if type(wanted) is int else None
    counts = [template.pods for template in templates_of(raw)]
    known = [count for count in counts if count is not None]
    if not counts or len(known) < len(counts) or text(raw, "kind") == "CronJob":
        return None
    done, total = part(raw, "status", "succeeded"), part(raw, "spec", "completions")
    if text(raw, "kind") == "Job" and type(done) is int and done:  # without completions, the first success ends it
        return min(sum(known), max(total - done, 0)) if type(total) is int else None
    return sum(known)


def counts_for_certain(raw: Raw) -> bool:
    """Whether a workload certainly lacks pods if it has fewer than `desired_pods`: operators may have their reasons."""
    return text(raw, "apiVersion").rpartition("/")[0] in BUILT_IN_GROUPS and text(raw, "kind") != "CronJob"


def whole_parts(parts: Sequence[Raw], pods: WorkloadPods, namespace: str, reader: ClusterReader) -> Iterator[Raw]:
    """The parts: the newest, which a rollout fills, then those with the fewest pods; the first 20 are read whole."""
    newest = sorted(parts, key=lambda one: text(one, "metadata", "creationTimestamp"), reverse=True)
    others = sorted(newest[1:], key=lambda one: pods.made_of[uid_of(one)])
    for number, one in enumerate((*newest[:1], *others)):
        whole = _whole(one, namespace, reader) if number < _MOST_WHOLE else None
        yield one if whole is None else whole


def _whole(raw: Raw, namespace: str, reader: ClusterReader) -> Raw | None:
    resource = reader.find(text(raw, "apiVersion").rpartition("/")[0], text(raw, "kind"))
    name = text(raw, "metadata", "name")
    return None if resource is None else reader.get(resource, namespace, name, f"the state of its {resource.name}")


def lacks_pods(raw: Raw, pods: WorkloadPods) -> bool:
    """Whether a part that makes pods itself has fewer than it wants; False if only its metadata is known."""
    ends = (condition(raw, kind) for kind in ("Complete", "SuccessCriteriaMet", "Failed"))
    if any(text(end, "status") == "True" for end in ends):
        return False
    wanted = None if True in (part(raw, "spec", "suspend"), part(raw, "spec", "paused")) else desired_pods(raw)
    return wanted is not None and pods.alive_of[uid_of(raw)] < wanted
