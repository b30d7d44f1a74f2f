"""What the API server checks of a pod, as far as injections could break it; and what an author may rely on."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.model.accelerators import accelerator
from webhook.model.edits import Edit, SetActiveDeadline, SetPriorityClass
from webhook.model.node import PriorityClass
from webhook.model.quantity import parse_quantity
from webhook.model.shape import FormatError

_EFFECTS = (None, "", "NoSchedule", "PreferNoSchedule", "NoExecute")


def faults(pod: dict[str, Any]) -> set[str]:
    """What API validation would refuse in the pod; empty where nothing."""
    spec = pod.get("spec") or {}
    volumes = [volume["name"] for volume in spec.get("volumes") or ()]
    found = {f"volume {name} twice" for name in volumes if volumes.count(name) > 1}
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        found |= {f"{container['name']}: {fault}" for fault in _of_container(container, volumes)}
    found |= {f"toleration {entry}" for entry in spec.get("tolerations") or () if not _is_toleration(entry)}
    found |= set(_of_affinity(((spec.get("affinity") or {}).get("nodeAffinity")) or {}))
    found |= set(_of_spread(spec.get("topologySpreadConstraints") or []))
    if not 1 <= (spec.get("activeDeadlineSeconds") or 1) < 2**31:
        found.add("activeDeadlineSeconds")
    return found


def _of_container(container: dict[str, Any], volumes: list[str]) -> Iterator[str]:
    mounts = container.get("volumeMounts") or []
    paths = [mount["mountPath"] for mount in mounts]
    yield from (f"mount path {path} twice" for path in paths if paths.count(path) > 1)
    yield from (f"volume {mount['name']} is not declared" for mount in mounts if mount["name"] not in volumes)
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in {**limits, **requests}:
        if accelerator(name) is None:
            continue
        if name not in limits:
            yield f"{name} without limit"
            continue
        try:
            amount = parse_quantity(limits[name])
            if parse_quantity(requests.get(name, limits[name])) != amount:
                yield f"{name} unequal"
        except FormatError:
            yield f"{name} is no quantity"


def _is_toleration(entry: dict[str, Any]) -> bool:
    if entry.get("operator") == "Exists":
        sound = not entry.get("value")
    else:
        sound = bool(entry.get("key")) and entry.get("operator") in (None, "Equal")
    seconds = entry.get("tolerationSeconds") is None or entry.get("effect") == "NoExecute"
    return sound and seconds and entry.get("effect") in _EFFECTS


def _of_affinity(affinity: dict[str, Any]) -> Iterator[str]:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = (required.get("nodeSelectorTerms") or []) if required is not None else [{}]
    if not terms:
        yield "no terms"
    preferences = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    yield from (f"weight {entry['weight']}" for entry in preferences if not 1 <= entry["weight"] <= 100)
    for term in [*terms, *(entry["preference"] for entry in preferences)]:
        for expression in (term or {}).get("matchExpressions") or ():
            values = expression.get("values") or []
            expected = {"In": bool(values), "NotIn": bool(values), "Gt": len(values) == 1, "Lt": len(values) == 1}
            if not expected.get(expression["operator"], not values):
                yield f"expression {expression}"


def _of_spread(constraints: list[dict[str, Any]]) -> Iterator[str]:
    kinds = [(one["topologyKey"], one["whenUnsatisfiable"]) for one in constraints]
    yield from (f"spread {kind} twice" for kind in kinds if kinds.count(kind) > 1)
    for one in constraints:
        selector, keys = one.get("labelSelector"), one.get("matchLabelKeys") or []
        if one["maxSkew"] < 1 or (keys and selector is None):
            yield f"spread {one}"
        yield from (f"spread over {key} twice" for key in keys if key in (selector or {}).get("matchLabels", {}))


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """Places where something that stood in `before` is changed in `after`. null is nothing, and lists may grow."""
    if before is None:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return [place for key in before for place in lost(before[key], after.get(key), f"{path}/{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        pairs = enumerate(zip(before, after, strict=False))
        return [place for index, (one, other) in pairs for place in lost(one, other, f"{path}/{index}")]
    return [] if before == after and type(before) is type(after) else [path]


def lost_beyond(
    edits: Iterable[Edit], before: dict[str, Any], after: dict[str, Any], classes: Mapping[str, PriorityClass]
) -> list[str]:
    """The same without what these edits may take, and nothing else ever may.

    A PriorityClass may take the place of one that nobody chose: none, or the default of the cluster. What Kubernetes
    computed from that must then be what follows from the new one. A deadline may take the place of a later one.
    """
    taken = {place for edit in edits for place in _may_take(edit, before["spec"], after["spec"], classes)}
    return [place for place in lost(before, after) if place not in taken]


def _may_take(
    edit: Edit, before: dict[str, Any], after: dict[str, Any], classes: Mapping[str, PriorityClass]
) -> Iterator[str]:
    match edit:
        case SetPriorityClass(chosen):
            name = before.get("priorityClassName")
            if not name or (name in classes and classes[name].is_default):
                yield "/spec/priorityClassName"
                policy = "PreemptLowerPriority" if chosen.preempts else "Never"
                computed = {"priority": chosen.value, "preemptionPolicy": policy}
                yield from (f"/spec/{key}" for key, value in computed.items() if after.get(key) == value)
        case SetActiveDeadline():
            if (before.get("activeDeadlineSeconds") or 0) > after["activeDeadlineSeconds"]:
                yield "/spec/activeDeadlineSeconds"


def names_set_twice(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Variables that were added to a container although it sets them."""
    twice: list[str] = []
    for part in ("initContainers", "containers"):
        pairs = zip(before["spec"].get(part) or (), after["spec"].get(part) or (), strict=True)
        for old, new in pairs:
            own = [entry["name"] for entry in old.get("env") or ()]
            added = [entry["name"] for entry in (new.get("env") or ())[len(own) :]]
            twice += [name for name in added if name in own or added.count(name) > 1]
    return twice
