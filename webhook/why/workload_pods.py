"""The pods of a workload, and the objects between, such as ReplicaSets. Of any number of pods few are kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from webhook.kubernetes.api_server import METADATA_LIST
from webhook.kubernetes.discovery import PODS, ApiResource
from webhook.model.json_parts import listed, mapped, part
from webhook.model.workloads import WORKLOADS, controller_of
from webhook.why.held_back import gates_of
from webhook.why.node_usage import NodeState
from webhook.why.observed import Raw, condition, text
from webhook.why.reading import ClusterReader, label_selector

FINISHED = ("Succeeded", "Failed")
"""Phases of pods that hold nothing any more."""
_MAKES = {("apps", "Deployment"): (("apps", "ReplicaSet"),), ("batch", "CronJob"): (("batch", "Job"),)}
"""Built-in kinds that make pods through other objects, which have no further objects between."""
_LEAVES = frozenset({"ReplicaSet", "Job", "StatefulSet", "DaemonSet", "ReplicationController"})
_BUILT_IN = frozenset({"", "apps", "batch"})
_MOST_PARTS = 500
_MOST_WHOLE = 20
"""Objects between a workload and its pods that are read whole, for their conditions."""
_MOST_STEPS = 8
_MOST_GROUPS = 24
"""Groups of pods that differ; pods beyond them are counted, and not explained."""
_MOST_NAMES = 5

StatesOf = Callable[[Sequence[str]], dict[str, NodeState] | None]
"""Reads the states of nodes."""


@dataclass(slots=True)
class AlikePods:
    """Pods of a workload that are alike: the first one, how many there are, and the first names."""

    first: Raw
    count: int = 0
    names: list[str] = field(default_factory=list)


@dataclass(slots=True)
class PodGroups:
    """The pods of a workload. `alive` have not finished; `others` are in no group."""

    groups: list[AlikePods] = field(default_factory=list)
    alive: int = 0
    others: int = 0


def parts_of(raw: Raw, namespace: str, reader: ClusterReader) -> Iterator[Raw]:
    """The objects that a workload has made to make its pods, directly and through others; at most 500."""
    group, kind = text(raw, "apiVersion").rpartition("/")[0], text(raw, "kind")
    if kind in _LEAVES and group in _BUILT_IN:
        return
    known = _MAKES.get((group, kind))
    kinds = known or tuple(key for key, one in WORKLOADS.items() if one.is_namespaced)
    made: list[tuple[ApiResource, Raw]] = []
    for pair in kinds:
        resource = reader.find(*pair)
        if resource is not None:
            found = reader.items(resource, namespace, f"which {resource.name} it has made", accept=METADATA_LIST)
            made += [(resource, one) for one in found if controller_of(one) is not None]
    below = _below(text(raw, "metadata", "uid"), made, 1 if known else _MOST_STEPS)
    newest = sorted(below, key=lambda pair: text(pair[1], "metadata", "creationTimestamp"), reverse=True)
    for number, (resource, one) in enumerate(newest[:_MOST_PARTS]):
        name = text(one, "metadata", "name")
        whole = (
            reader.get(resource, namespace, name, f"the state of its {resource.name}") if number < _MOST_WHOLE else None
        )
        yield whole if whole is not None else one


def _below(uid: str, made: list[tuple[ApiResource, Raw]], steps: int) -> list[tuple[ApiResource, Raw]]:
    by_owner: dict[str, list[tuple[ApiResource, Raw]]] = {}
    for pair in made:
        by_owner.setdefault(text(controller_of(pair[1]), "uid"), []).append(pair)
    found: list[tuple[ApiResource, Raw]] = []
    level, seen = [uid], {uid}
    for _ in range(steps):
        pairs = [pair for owner in level for pair in by_owner.get(owner, ())]
        pairs = [pair for pair in pairs if text(pair[1], "metadata", "uid") not in seen]
        level = [text(pair[1], "metadata", "uid") for pair in pairs]
        seen.update(level)
        found += pairs
    return found


def grouped(raw: Raw, parts: Sequence[Raw], namespace: str, reader: ClusterReader, states_of: StatesOf) -> PodGroups:
    """The pods of a workload, in groups of pods that have one reason."""
    uids = {text(one, "metadata", "uid") for one in (raw, *parts)}
    labels = label_selector(mapped(raw, "spec", "selector"))
    found: dict[tuple[object, ...], AlikePods] = {}
    pods = PodGroups()
    for pod in reader.items(PODS, namespace, "which pods it has", labels=labels):
        if text(controller_of(pod), "uid") not in uids:
            continue
        pods.alive += text(pod, "status", "phase") not in FINISHED
        key = likeness(pod, states_of)
        if key not in found and len(found) >= _MOST_GROUPS:
            pods.others += 1
            continue
        group = found.setdefault(key, AlikePods(pod))
        group.count += 1
        if len(group.names) < _MOST_NAMES:
            group.names.append(text(pod, "metadata", "name"))
    pods.groups = list(found.values())
    return pods


def likeness(pod: Raw, states_of: StatesOf) -> tuple[object, ...]:
    """What pods of one workload have in common that have one reason."""
    statuses = [
        one for key in ("initContainerStatuses", "containerStatuses") for one in listed(pod, "status", key)[:50]
    ]
    node = text(pod, "spec", "nodeName")
    state = (states_of([node]) or {}).get(node) if node else None
    return (
        text(controller_of(pod), "uid"),
        text(pod, "status", "phase"),
        text(pod, "status", "reason"),
        "deletionTimestamp" in pod["metadata"],
        gates_of(pod),
        bool(node),
        node if state is None or not state.is_ready else tuple(sorted(state.allocatable.items())),
        text(condition(pod, "PodScheduled"), "message"),
        tuple((text(one, "state", "waiting", "reason"), part(one, "ready") is True) for one in statuses),
    )
