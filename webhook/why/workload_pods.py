"""The pods of a workload, and the objects between, such as ReplicaSets. Of any number of pods few are kept."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import orjson

from webhook.kubernetes.api_server import METADATA_LIST
from webhook.kubernetes.discovery import PODS, ApiResource
from webhook.model.json_parts import listed, mapped, part
from webhook.model.requirements import is_extended
from webhook.model.workloads import WORKLOADS, controller_of
from webhook.why.explanation import Explanation, PodsAlike, ReasonCode
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
"""Groups of pods that are explained in full; pods beyond them are explained by their own status alone."""
_MOST_NAMES = 5
_MOST_CONTAINERS = 200
_ABOUT_NODES = (
    *("nodeSelector", "tolerations", "schedulerName", "runtimeClassName", "resourceClaims"),
    *("resources", "overhead", "priorityClassName"),
)
"""Fields of a pod's spec that decide where it may run, beside affinity."""

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
    """The pods of a workload. `alive_of` counts those that have not finished, by the uid of their controller, and
    `over_of` those that have; `others` are in no group, and are put together by their reason.
    """

    groups: list[AlikePods] = field(default_factory=list)
    alive_of: Counter[str] = field(default_factory=Counter)
    over_of: Counter[str] = field(default_factory=Counter)
    others: list[PodsAlike] = field(default_factory=list)

    @property
    def alive(self) -> int:
        """The number of pods that have not finished."""
        return self.alive_of.total()

    def of(self, controller: Raw) -> int:
        """The number of pods of a controller, with those that have finished."""
        uid = text(controller, "metadata", "uid")
        return self.alive_of[uid] + self.over_of[uid]


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


def grouped(  # noqa: PLR0913  # a workload, where it is, and how to read more
    raw: Raw,
    parts: Sequence[Raw],
    namespace: str,
    reader: ClusterReader,
    states_of: StatesOf,
    *,
    briefly: Callable[[Raw], Explanation],
) -> PodGroups:
    """The pods of a workload, in groups of pods that have one reason.

    `briefly` explains a pod for which there is no group any more, without a request about it.
    """
    uids = {text(one, "metadata", "uid") for one in (raw, *parts)}
    labels = label_selector(mapped(raw, "spec", "selector"))
    found: dict[tuple[object, ...], AlikePods] = {}
    others: dict[tuple[ReasonCode, bool], PodsAlike] = {}
    pods = PodGroups()
    for pod in reader.items(PODS, namespace, "which pods it has", labels=labels):
        if text(controller_of(pod), "uid") not in uids:
            continue
        is_over = text(pod, "status", "phase") in FINISHED
        (pods.over_of if is_over else pods.alive_of)[text(controller_of(pod), "uid")] += 1
        key = likeness(pod, states_of)
        if key not in found and len(found) >= _MOST_GROUPS:
            _add_other(others, pod, briefly(pod), is_over=is_over)
            continue
        group = found.setdefault(key, AlikePods(pod))
        group.count += 1
        if len(group.names) < _MOST_NAMES:
            group.names.append(text(pod, "metadata", "name"))
    pods.groups, pods.others = list(found.values()), list(others.values())
    return pods


def _add_other(
    others: dict[tuple[ReasonCode, bool], PodsAlike], pod: Raw, found: Explanation, *, is_over: bool
) -> None:
    known = others.get((found.code, is_over), PodsAlike(found, 0, (), is_over))
    names = (*known.names, text(pod, "metadata", "name"))[:_MOST_NAMES]
    others[found.code, is_over] = PodsAlike(known.explanation, known.count + 1, names, is_over)


def likeness(pod: Raw, states_of: StatesOf) -> tuple[object, ...]:
    """What pods of one workload have in common that have one reason.

    Neither the names of healthy nodes nor of controllers: a workload on a thousand nodes is one kind of pods.
    """
    statuses = [
        one for key in ("initContainerStatuses", "containerStatuses") for one in listed(pod, "status", key)[:50]
    ]
    node = text(pod, "spec", "nodeName")
    return (
        text(pod, "status", "phase"),
        text(pod, "status", "reason"),
        "deletionTimestamp" in pod["metadata"],
        gates_of(pod),
        _node_of(pod, node, states_of) if node else (_wishes(pod), text(condition(pod, "PodScheduled"), "message")),
        text(condition(pod, "Ready"), "status"),
        tuple(_status(one) for one in statuses),
    )


def _status(raw: object) -> tuple[object, ...]:
    ended = part(raw, "state", "terminated", "exitCode")
    waits = text(raw, "state", "waiting", "reason"), text(raw, "lastState", "terminated", "reason")
    return (*waits, part(raw, "ready") is True, ended if isinstance(ended, int) else None)


def _node_of(pod: Raw, node: str, states_of: StatesOf) -> tuple[object, ...]:
    """What matters of the node of a pod: its fault, or else how many of the pod's devices it offers."""
    states = states_of([node])
    devices = sorted(_devices(pod))
    if states is None:
        return "not read", *devices
    state = states.get(node)
    if state is None or not state.is_ready:
        return "" if state is None else state.fault, *devices
    left = tuple((name, state.allocatable.get(name, 0)) for name in devices)
    is_whole = all(amount and amount >= state.capacity.get(name, 0) for name, amount in left)
    return (left,) if is_whole else (left, node)


def _devices(pod: Raw) -> set[str]:
    """The extended resources that the containers of a pod request."""
    containers = (
        one for key in ("initContainers", "containers") for one in listed(pod, "spec", key)[:_MOST_CONTAINERS]
    )
    return {name for one in containers for name in mapped(one, "resources", "limits") if is_extended(name)}


def _wishes(pod: Raw) -> bytes:
    """A digest of what decides where a pod may run: requests, images, and the fields about nodes."""
    spec = mapped(pod, "spec")
    containers = [
        {key: part(one, key) for key in ("image", "resources")}
        for kind in ("initContainers", "containers")
        for one in listed(spec, kind)
    ]
    wishes: Mapping[str, object] = {key: spec.get(key) for key in _ABOUT_NODES}
    affinity = part(spec, "affinity", "nodeAffinity")
    written = orjson.dumps([containers, wishes, affinity], option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return blake2b(written, digest_size=16).digest()
