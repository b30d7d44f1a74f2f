"""Reads parts of objects of unknown shape. Missing parts, and parts of another type, are None or empty; nothing raises.

The second half makes templates of such parts. A template may have the /dev/shm that an operator mounts by itself, so
that no finding predicts another one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.container import Mount
from webhook.model.shape import shortened
from webhook.model.workloads.template import Template

MOST_PODS = 2**31 - 1
"""The largest count in Kubernetes, which has 32 bits."""

_FILLED_IN = "filled in"
"""Stands for an amount that another program fills in. It is no quantity, so it is never compared with one."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LONGEST_KEY = 63


def part(raw: object, *path: str) -> Any:
    """The value at these keys; None where a key is missing or its parent is no map."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


def mapped(raw: object, *path: str) -> dict[str, Any]:
    """The map at these keys; an empty map where there is none."""
    found = part(raw, *path)
    return found if isinstance(found, dict) else {}


def listed(raw: object, *path: str) -> list[Any]:
    """The list at these keys; an empty list where there is none."""
    found = part(raw, *path)
    return found if isinstance(found, list) else []


def entries(raw: object, *path: str, named_by: str = "name") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The maps in the list or map at these keys, each with its place and its name or key before it.

    >>> list(entries({"a": [{"name": "x"}, None, {}]}, "a"))
    [('a[x]', 'x', {'name': 'x'}), ('a[2]', '', {})]
    >>> list(entries({"a": {"Worker": {}}}, "a"))
    [('a.Worker', 'Worker', {})]
    """
    found, where = part(raw, *path), ".".join(path)
    if isinstance(found, list):
        for index, value in enumerate(found):
            if isinstance(value, dict):
                name = named(value, named_by)
                yield f"{where}[{name or index}]", name, value
    elif isinstance(found, dict):
        for key, value in found.items():
            if isinstance(value, dict):
                yield f"{where}.{short(key)}", short(key), value


def named(raw: object, key: str = "name") -> str:
    """The name of a part; empty where it has no name, or the name would be unreadable in a path."""
    name = part(raw, key)
    return name if isinstance(name, str) and _PLAIN.fullmatch(name) else ""


def short(key: str) -> str:
    """A key for a path. Very long keys are cut."""
    return shortened(key, _LONGEST_KEY)


def counted(value: object, otherwise: int | None) -> int | None:
    """A count in a manifest; `otherwise` where the value is missing, and None where it is no count.

    >>> counted(4, 1), counted(None, 1), counted("{{n}}", 1), counted(-1, 1)
    (4, 1, None, None)
    """
    if value is None:
        return otherwise
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_PODS else None


def product(*counts: int | None) -> int | None:
    """The product of these counts; None where one of them is None.

    >>> product(2, 3), product(0, None)
    (6, None)
    """
    total = 1
    for count in counts:
        if count is None:
            return None
        total *= count
    return total


def with_the_rest(resources: Mapping[str, Any]) -> dict[str, Any]:
    """The resources of a container, with memory and CPU marked as filled in by another program where they are missing.

    >>> with_the_rest({"limits": {"nvidia.com/gpu": 1, "memory": "8Gi"}})["limits"]
    {'memory': '8Gi', 'nvidia.com/gpu': 1}
    """
    limits, requests = (resources.get(key) or {} for key in ("limits", "requests"))
    if not (isinstance(limits, dict) and isinstance(requests, dict)):
        return dict(resources)
    cpu = {} if "cpu" in limits else {"cpu": _FILLED_IN}
    return {**resources, "limits": {"memory": _FILLED_IN, **limits}, "requests": {**cpu, **requests}}


def pods_of_job(spec: object) -> int | None:
    """The number of pods that a Job with this spec runs at a time; None where its counts cannot be read."""
    parallelism, completions = counted(part(spec, "parallelism"), 1), counted(part(spec, "completions"), MOST_PODS)
    return None if parallelism is None or completions is None else min(parallelism, completions)


def from_template(
    template: object, where: str, *, group: str = "", pods: int | None = None, owner_kind: str = ""
) -> Iterator[Template]:
    """The template at `where` of an object; none where it has no spec."""
    if mapped(template, "spec"):
        yield Template(mapped(template), f"{where}.spec", group, pods, owner_kind=owner_kind)


def from_spec(
    spec: object, where: str, *, group: str = "", pods: int | None = None, annotated: Mapping[str, Any] | None = None
) -> Iterator[Template]:
    """The template of the bare pod spec at `where` of an object; none where it has no containers.

    `annotated` is the map beside or above the spec that has the pods' `annotations`.
    """
    if listed(spec, "containers"):
        yield Template({"metadata": annotated or {}, "spec": mapped(spec)}, where, group, pods)


_DIRECTORY = "/dev/shm"  # noqa: S108  # where the memory of a pod is shared


def with_shared_memory(template: Template, container: int | str, volume: str, size: object = None) -> Template:
    """The template with the memory volume that its operator mounts in one container.

    `container` is its place in the list, or its name. A container that mounts something at /dev/shm keeps it, and an
    existing volume of this name is used as it is. `size` is the operator's sizeLimit. No finding is about the
    operator's volume, because it cannot be changed in the object.
    """
    spec = mapped(template.pod, "spec")
    containers = list(listed(spec, "containers"))
    at = _place(containers, container)
    if not isinstance(spec.get("volumes"), list | None):
        return template
    if at is None or any(_is_there(mount) for mount in listed(containers[at], "volumeMounts")):
        return template
    mount = {"name": volume, "mountPath": _DIRECTORY}
    containers[at] = {**containers[at], "volumeMounts": [*listed(containers[at], "volumeMounts"), mount]}
    changed, unknown = {**spec, "containers": containers}, template.unknown
    if not any(part(one, "name") == volume for one in listed(spec, "volumes")):
        changed["volumes"] = [*listed(spec, "volumes"), _memory(volume, size)]
        unknown |= {f"spec.volumes[{volume}]"}
    return replace(template, pod={**template.pod, "spec": changed}, unknown=unknown)


def _place(containers: list[Any], wanted: int | str) -> int | None:
    """The place of a container in the list; None where it is missing or its volumeMounts are no list."""
    for at, container in enumerate(containers):
        if wanted in (at, part(container, "name")):
            mounts = part(container, "volumeMounts")
            return at if isinstance(container, dict) and (mounts is None or isinstance(mounts, list)) else None
    return None


def _is_there(mount: object) -> bool:
    path = part(mount, "mountPath")
    return isinstance(path, str) and Mount("", path).is_at(_DIRECTORY)


def _memory(name: str, size: object) -> Mapping[str, Any]:
    limit = {} if size is None else {"sizeLimit": size}
    return {"name": name, "emptyDir": {"medium": "Memory", **limit}}
