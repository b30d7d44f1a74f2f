"""Pods of which one list or map, or two, are as long as a size in bytes allows, filled with what rules look at."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from tests.lab.growth.schema import LIST, MAP, Place, fields_of, inner

Item = Callable[[str], Any]
"""Makes an item of a list from a text that no other item has."""

POOL, ZONE = "example.com/pool", "topology.kubernetes.io/zone"
"""Labels of nodes, the first of which the policy requires a value of."""

BASE: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team", "labels": {"app": "train"}},
    "spec": {
        "containers": [
            {
                "name": "trainer",
                "image": "nvcr.io/nvidia/pytorch:25.09-py3",
                "resources": {
                    "limits": {"nvidia.com/gpu": "2", "memory": "64Gi"},
                    "requests": {"cpu": "8", "memory": "64Gi"},
                },
            }
        ],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    },
}


def _expression(label: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": label, "operator": operator, "values": [*values]}


def _terms(label: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [_expression(label, operator, *values)]}


def _container(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": f"registry.example.com/{name}:1", **more}


def _gpus(amount: str = "1", resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    return {"resources": {"limits": {resource: amount}}}


_VISIBLE = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
_CONTAINERS: tuple[Item, ...] = (
    lambda text: _container(text, **_gpus()),
    lambda text: _container(text, **_gpus("2"), envFrom=[{"secretRef": {"name": "a"}}], securityContext={}),
    lambda text: _container(text, env=[_VISIBLE], securityContext={"privileged": True}),
    lambda text: _container(text, resources={"requests": {"nvidia.com/gpu": "1", "memory": "1Gi"}}),
    lambda text: _container(text, **_gpus("1", f"nvidia.com/{text.upper()}")),
)
ITEMS: Mapping[str, tuple[Item, ...]] = {
    "V1NodeSelectorRequirement": (
        lambda text: _expression(POOL, "In", "gpu", text),
        lambda text: _expression(POOL, "In", text),
        lambda text: _expression(POOL, "NotIn", text),
        lambda text: _expression(POOL, "Gt", str(len(text))),
        lambda text: _expression(POOL, "Lt", text.strip("abcdefghijklmnopqrstuvwxyz") or "1"),
        lambda text: _expression(text, "Exists"),
        lambda text: _expression("nvidia.com/gpu.product", "NotIn", text),
        lambda text: _expression("metadata.name", "In", text),
    ),
    "V1NodeSelectorTerm": (
        lambda text: _terms(POOL, "In", "gpu", text),
        lambda text: _terms(POOL, "In", text),
        lambda text: _terms(POOL, "NotIn", text),
        lambda text: _terms(text, "DoesNotExist"),
        lambda text: _terms(ZONE, "In", text),
        lambda text: {"matchFields": [_expression("metadata.name", "In", text)]},
        lambda _: {},
    ),
    "V1PreferredSchedulingTerm": (
        lambda text: {"weight": 1, "preference": _terms(POOL, "In", text)},
        lambda text: {"weight": 1, "preference": _terms("nvidia.com/gpu.present", "In", "true", text)},
    ),
    "V1Toleration": (
        lambda text: {"key": text, "operator": "Exists"},
        lambda text: {"key": "nvidia.com/gpu", "operator": "Equal", "value": text, "effect": "NoSchedule"},
        lambda text: {"key": "nvidia.com/gpu", "operator": "Gt", "value": text.strip("abcdefghijklmnopqrstuvwxyz")},
    ),
    "V1Container": _CONTAINERS,
    "V1EphemeralContainer": _CONTAINERS,
    "V1EnvVar": (
        lambda text: {"name": text, "value": text},
        lambda text: {"name": "NVIDIA_VISIBLE_DEVICES", "value": text},
        lambda text: {"name": f"NVIDIA_REQUIRE_{text}", "value": "cuda>=12.4"},
        lambda text: {"name": f"NCCL_{text}", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ),
    "V1EnvFromSource": (
        lambda text: {"prefix": text, "configMapRef": {"name": text}},
        lambda text: {"configMapRef": {"name": text}},
    ),
    "V1Volume": (
        lambda text: {"name": text, "emptyDir": {"medium": "Memory"}},
        lambda text: {"name": text, "hostPath": {"path": f"/dev/nvidia{text}"}},
        lambda text: {"name": f"gpu-policy-shm-{text.strip('abcdefghijklmnopqrstuvwxyz')}"},
    ),
    "V1VolumeMount": (
        lambda text: {"name": text, "mountPath": f"/mnt/{text}"},
        lambda text: {"name": text, "mountPath": "/dev/shm"},
        lambda text: {"name": f"gpu-policy-shm-{text.strip('abcdefghijklmnopqrstuvwxyz')}", "mountPath": "/x"},
    ),
    "V1OwnerReference": (lambda text: {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": text, "uid": text},),
}
"""Items of lists by their type, in the forms that rules tell apart. Those of all other types are made of the schema."""

KEYS: Mapping[str, tuple[Item, ...]] = {
    "limits": (
        lambda text: f"nvidia.com/{text.upper()}",
        lambda text: f"example.com/{text}",
        lambda text: f"hugepages-{text}",
    ),
    "requests": (lambda text: f"nvidia.com/{text.upper()}", lambda text: f"example.com/{text}"),
    "overhead": (lambda text: f"example.com/{text}", lambda text: f"hugepages-{text}"),
    "annotations": (lambda text: f"cuda.gpupolicy.dev/{text}", lambda text: text),
}
"""Keys of maps by the name of the map, where rules tell them apart."""

VALUES = ("In", "NotIn", "both")
"""The operators of the expressions that hold a long list of values; `both` are two of half the length."""


def forms(place: Place) -> int:
    """In how many forms the items of a list or map can be made."""
    if place.keys[-2] == "values":
        return len(VALUES)
    return len(
        KEYS.get(place.keys[-2], ITEMS.get(place.type, (None,))) if place.is_map else ITEMS.get(place.type, (None,))
    )


def long_pod(size: int, *long: tuple[Place, int], salt: str = "") -> dict[str, Any]:
    """A pod of about `size` bytes more than BASE, in which these are long, each in the form of this number.

    Where there are two and one is a list inside the items of the other, each of those items has as many as there are
    items.
    """
    pod = copy.deepcopy(dict(BASE))
    first, *others = sorted(long, key=lambda one: len(one[0].path))
    if len(others) == 1 and others[0][0].path.startswith(f"{first[0].path}."):
        _fill_nested(pod, size, first, others[0], salt)
    else:
        for place, form in long:
            _fill(_holders(pod, "V1Pod", place.keys[:-1], form), place, form, size // len(long), _names(salt))
    return pod


def _names(salt: str) -> Iterator[str]:
    return (f"{salt}{number}" for number in count(1))


def _fill(holders: Sequence[Any], place: Place, form: int, size: int, names: Iterator[str]) -> None:
    """Append items until they come to as many bytes."""
    for holder in holders:
        room = size // len(holders)
        while room > 0:
            room -= _add(holder, place, form, next(names))


def _add(holder: Any, place: Place, form: int, name: str) -> int:
    item = _item(place, form, name)
    if not place.is_map:
        holder.append(item)
        return len(json.dumps(item)) + 2
    makers = KEYS.get(place.keys[-2], (lambda text: text,))
    entry = makers[form % len(makers)](name)
    holder[entry] = item
    return len(entry) + len(json.dumps(item)) + 6


def _item(place: Place, form: int, name: str) -> Any:
    makers = ITEMS.get(place.type)
    return makers[form % len(makers)](name) if makers else _plain(place, name)


def _plain(place: Place, name: str) -> Any:
    if place.is_map and place.keys[-2] in ("limits", "requests", "overhead"):
        return "1"
    return _of_schema(place.type, name)


def _of_schema(kind: str, name: str) -> Any:
    """The least that a value of a type is: texts in all fields that hold one."""
    if kind == "str":
        return name
    if kind == "int":
        return int(name.strip("abcdefghijklmnopqrstuvwxyz") or 1)
    return {field: name for field, found in fields_of(kind).items() if found == "str"}


def _holders(above: Any, kind: str, keys: Sequence[str], form: int) -> list[Any]:
    """The lists or maps to be filled, made where they are missing."""
    if keys[-1] != "values" or keys[-2:-1] != (LIST,):
        return [_walk(above, kind, keys)]
    operator = VALUES[form % len(VALUES)]
    operators = ("In", "NotIn") if operator == "both" else (operator,)
    expressions = [{"key": POOL, "operator": one, "values": []} for one in operators]
    siblings = _walk(above, kind, keys[:-2])
    siblings += expressions
    return [expression["values"] for expression in expressions]


def _first(kind: str) -> Any:
    """The item of a list in which another list is to be long."""
    if kind in ("V1NodeSelectorTerm", "V1PreferredSchedulingTerm"):
        return {}
    return _item(Place(LIST, kind), 0, "first")


def _object(kind: str) -> str:
    found = inner(kind)
    return found[1] if found else kind


def _fill_nested(
    pod: dict[str, Any], size: int, outer: tuple[Place, int], nested: tuple[Place, int], salt: str
) -> None:
    """As many outer items as inner ones in each."""
    place, form = outer
    below = Place(nested[0].path.removeprefix(place.path).removeprefix("."), nested[0].type)
    names = _names(salt)
    length = 1
    while _bytes_of(outer, nested, length + 1) * (length + 1) < size:
        length += 1
    holder = _holders(pod, "V1Pod", place.keys[:-1], form)[0]
    for _ in range(length):
        item = _item(place, form, next(names))
        inside = _holders(item, place.type, below.keys[:-1], nested[1])
        for one in inside:
            for _ in range(max(1, length // len(inside))):
                _add(one, nested[0], nested[1], next(names))
        holder.append(item)


def _bytes_of(outer: tuple[Place, int], nested: tuple[Place, int], length: int) -> int:
    one = len(json.dumps(_item(*outer, "name12345")))
    return one + length * (len(json.dumps(_item(*nested, "name12345"))) + 12)


def _walk(item: Any, kind: str, keys: Sequence[str]) -> Any:
    at = item
    for number, part in enumerate(keys):
        if part in (LIST, MAP):
            at = at[0]
            continue
        kind = fields_of(_object(kind))[part]
        found = inner(kind)
        if at.get(part) is None:
            at[part] = [] if found and found[0] == LIST else {}
        if number + 1 < len(keys) and keys[number + 1] == LIST and not at[part]:
            at[part].append(_first(found[1] if found else ""))
        at = at[part]
    return at
