"""Pods and updates that an API server reads, each with a few signals of GPUs, or for certain with none."""

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.conditions import signals

Raw = dict[str, Any]
Draw = random.Random

_NOTES = ("nvidia.com/gpu=all", "0.5", "", "x", "/dev/nvidia0", "- path: /dev/dri/card0", "/dev/fuse")
_OF_AGENTS = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}


def pod(draw: Draw, *, may_signal: bool = True) -> Raw:
    """A pod of the name `p`; without `may_signal` nothing in it is about GPUs."""
    spec: Raw = {"containers": [_container(draw, f"c{number}") for number in range(draw.choice((1, 1, 2, 4)))]}
    if draw.random() < 0.25:
        spec["initContainers"] = [_container(draw, "i0") | draw.choice(({}, {"restartPolicy": "Always"}))]
    if draw.random() < 0.15:
        spec["ephemeralContainers"] = [{key: one for key, one in _container(draw, "e0").items() if key != "resources"}]
    found: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    if draw.random() < 0.3:
        spec["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    if draw.random() < 0.1:
        _note(draw, found, signals.HARMLESS_ANNOTATIONS)
    for _ in range(draw.choice((1, 1, 1, 2, 3)) if may_signal else 0):
        draw.choice(SIGNALS)(draw, found)
    if draw.random() < 0.05:
        _grow(draw, draw.choice(spec["containers"]))
    return found


def updated(draw: Draw, new: Raw) -> Raw:
    """What a pod was before it became `new`: the same, or without a part of it."""
    old = copy.deepcopy(new)
    match draw.randrange(6):
        case 0:
            old["metadata"].pop("annotations", None)
        case 1:
            old["spec"].pop("tolerations", None)
        case 2:
            old["spec"].pop("ephemeralContainers", None)
        case 3:
            for container in old["spec"]["containers"]:
                container.pop("resources", None)
        case 4:
            old["metadata"]["labels"] = {"app": "before"}
    return old


def _container(draw: Draw, name: str) -> Raw:
    found: Raw = {"name": name, "image": draw.choice(("registry.example.com/app:1", "nvidia/cuda:13.0.0-base"))}
    if draw.random() < 0.6:
        amounts = {draw.choice(signals.HARMLESS_RESOURCES): draw.choice(("1", 2, "500m")) for _ in range(2)}
        found["resources"] = draw.choice(({"limits": amounts}, {"requests": amounts}, {"limits": {}}, {}))
    if draw.random() < 0.4:
        entry = draw.choice(({"value": "all"}, {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {}))
        found["env"] = [{"name": draw.choice(signals.HARMLESS_VARIABLES), **entry}]
    if draw.random() < 0.2:
        found["volumeMounts"] = [{"name": "v", "mountPath": draw.choice(signals.HARMLESS_PATHS)}]
    if draw.random() < 0.2:
        found["securityContext"] = draw.choice(({}, {"runAsNonRoot": True}, {"privileged": False}))
    return found


def _grow(draw: Draw, container: Raw) -> None:
    """Much of what costs a condition time."""
    match draw.randrange(3):
        case 0:
            container.setdefault("env", []).extend({"name": f"E{number}", "value": "x"} for number in range(300))
        case 1:
            amounts = {f"example.com/device-of-somebody-{number}": "1" for number in range(60)}
            container.setdefault("resources", {})["limits"] = amounts
        case 2:
            mounts = [{"name": "v", "mountPath": f"/data/{number}"} for number in range(200)]
            container.setdefault("volumeMounts", []).extend(mounts)


def _any_container(draw: Draw, found: Raw) -> Raw:
    spec = found["spec"]
    return draw.choice([*spec["containers"], *spec.get("initContainers", ()), *spec.get("ephemeralContainers", ())])


def _asks(draw: Draw, found: Raw) -> None:
    spec = found["spec"]
    one = draw.choice([*spec["containers"], *spec.get("initContainers", ())])
    name, amount = draw.choice(signals.RESOURCES), draw.choice((1, "2", "0", "1500m"))
    parts = draw.choice((("limits",), ("requests",), ("limits", "requests")))
    for part in parts:
        one.setdefault("resources", {}).setdefault(part, {})[name] = amount


def _sets(draw: Draw, found: Raw) -> None:
    value = draw.choice(({"value": "all"}, {"value": "void"}, {"value": ""}, {}, {"valueFrom": {"fieldRef": {}}}))
    _any_container(draw, found).setdefault("env", []).append({"name": draw.choice(signals.VARIABLES), **value})


def _takes(draw: Draw, found: Raw) -> None:
    source = draw.choice(({"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}, "prefix": "NVIDIA_"}))
    _any_container(draw, found)["envFrom"] = [source]


def _mounts_the_host(draw: Draw, found: Raw) -> None:
    path = draw.choice((*signals.PATHS, *signals.HARMLESS_PATHS))
    found["spec"].setdefault("volumes", []).append({"name": "v", "hostPath": {"path": path}})


def _mounts_a_list(draw: Draw, found: Raw) -> None:
    mount = {"name": "v", "mountPath": draw.choice(signals.MOUNT_PATHS)}
    _any_container(draw, found).setdefault("volumeMounts", []).append(mount)


def _is_privileged(draw: Draw, found: Raw) -> None:
    _any_container(draw, found)["securityContext"] = {"privileged": True}


def _runs_under(draw: Draw, found: Raw) -> None:
    found["spec"]["runtimeClassName"] = draw.choice(signals.RUNTIME_CLASSES)


def _annotated(draw: Draw, found: Raw) -> None:
    _note(draw, found, signals.ANNOTATIONS)


def _note(draw: Draw, found: Raw, keys: Sequence[str]) -> None:
    found["metadata"].setdefault("annotations", {})[draw.choice(keys)] = draw.choice(_NOTES)


def _claims(draw: Draw, found: Raw) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    if draw.random() < 0.7:
        found["spec"]["resourceClaims"] = claims
    if draw.random() < 0.7:
        draw.choice(found["spec"]["containers"]).setdefault("resources", {})["claims"] = [{"name": "gpu"}]


def _tolerates(draw: Draw, found: Raw) -> None:
    key = draw.choice((*signals.RESOURCES, "sku", "dedicated", "example.com/GPU-pool"))
    rest = draw.choice(({"operator": "Exists"}, {"value": "gpu"}, {"operator": "Equal", "value": "present"}))
    found["spec"].setdefault("tolerations", []).append({"key": key, **rest})
    if draw.random() < 0.1:
        found["spec"]["tolerations"].append({"operator": "Exists"})


def _is_bound(draw: Draw, found: Raw) -> None:
    found["spec"]["nodeName"] = draw.choice(("big-new", "desk", "nowhere"))


def _is_an_agent(draw: Draw, found: Raw) -> None:
    found["metadata"]["ownerReferences"] = [{**_OF_AGENTS, "controller": draw.random() < 0.8}]


SIGNALS: tuple[Callable[[Draw, Raw], None], ...] = (
    _asks,
    _asks,
    _asks,
    _sets,
    _takes,
    _mounts_the_host,
    _mounts_a_list,
    _is_privileged,
    _runs_under,
    _annotated,
    _annotated,
    _claims,
    _tolerates,
    _tolerates,
    _is_bound,
    _is_an_agent,
)
