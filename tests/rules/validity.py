"""What the API server checks of a pod, as far as injections could break it; and what an author may rely on."""

from collections.abc import Iterator
from typing import Any

from webhook.model.accelerators import accelerator
from webhook.model.quantity import QuantityError, parse_quantity

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
        except QuantityError:
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
