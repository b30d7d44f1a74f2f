"""Parts of objects of unknown shape: what is missing or of another type reads as None or empty; nothing raises.

The second half makes templates of such parts, also with the /dev/shm that an operator mounts on its own, so that no
second one is foretold.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.container import Mount
from webhook.model.workloads.template import Template

MOST_PODS = 2**31 - 1
"""Counts in Kubernetes are whole numbers of 32 bits."""

_FILLED_IN = "filled in"
"""Stands for an amount that somebody else writes. It is no quantity, so that nothing is compared with it."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LONGEST_KEY = 63


def part(raw: object, *path: str) -> Any:
    """What stands at these keys; None where a part is missing or no map."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


def mapped(raw: object, *path: str) -> dict[str, Any]:
    """The map at these keys; empty where there is none."""
    found = part(raw, *path)
    return found if isinstance(found, dict) else {}


def listed(raw: object, *path: str) -> list[Any]:
    """The list at these keys; empty where there is none."""
    found = part(raw, *path)
    return found if isinstance(found, list) else []


def entries(raw: object, *path: str, named_by: str = "name") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The maps in the list or map at these keys: where each stands, its name or key, and itself.

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
    """The name of a part; empty where it has none that people would recognise in a path."""
    name = part(raw, key)
    return name if isinstance(name, str) and _PLAIN.fullmatch(name) else ""


def short(key: str) -> str:
    """A key as it stands in a path; a very long one is cut."""
    return key if len(key) <= _LONGEST_KEY else f"{key[: _LONGEST_KEY - 3]}..."


def counted(value: object, otherwise: int | None) -> int | None:
    """A count as it stands in a manifest, `otherwise` where nothing is said; None for what is no count.

    >>> counted(4, 1), counted(None, 1), counted("{{n}}", 1), counted(-1, 1)
    (4, 1, None, None)
    """
    if value is None:
        return otherwise
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_PODS else None


def product(*counts: int | None) -> int | None:
    """These counts multiplied; None where one of them is not known.

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
    """The resources of a container of which somebody else says how much memory and CPU it gets, if they do not.

    >>> with_the_rest({"limits": {"nvidia.com/gpu": 1, "memory": "8Gi"}})["limits"]
    {'memory': '8Gi', 'nvidia.com/gpu': 1}
    """
    limits, requests = (resources.get(key) or {} for key in ("limits", "requests"))
    if not (isinstance(limits, dict) and isinstance(requests, dict)):
        return dict(resources)
    cpu = {} if "cpu" in limits else {"cpu": _FILLED_IN}
    return {**resources, "limits": {"memory": _FILLED_IN, **limits}, "requests": {**cpu, **requests}}


def pods_of_job(spec: object) -> int | None:
    """How many pods a Job with this spec runs at a time; None where it does not say."""
    parallelism, completions = counted(part(spec, "parallelism"), 1), counted(part(spec, "completions"), MOST_PODS)
    return None if parallelism is None or completions is None else min(parallelism, completions)


def from_template(
    template: object, where: str, *, group: str = "", pods: int | None = None, owner_kind: str = ""
) -> Iterator[Template]:
    """The pods of the template that stands at `where`; none where it has no spec."""
    if mapped(template, "spec"):
        yield Template(mapped(template), f"{where}.spec", group, pods, owner_kind=owner_kind)


def from_spec(
    spec: object, where: str, *, group: str = "", pods: int | None = None, annotated: Mapping[str, Any] | None = None
) -> Iterator[Template]:
    """The pods of the bare spec that stands at `where`; none where it has no containers.

    `annotated` is the map beside or above it that holds their `annotations`.
    """
    if listed(spec, "containers"):
        yield Template({"metadata": annotated or {}, "spec": mapped(spec)}, where, group, pods)


_DIRECTORY = "/dev/shm"  # noqa: S108  # where the memory of a pod is shared


def with_shared_memory(template: Template, container: int | str, volume: str, size: object = None) -> Template:
    """The pods with the memory volume that their operator mounts in one container, told by its place or its name.

    A container that mounts something there keeps it, and a volume of this name is used as it is. `size` is the
    operator's sizeLimit. Nobody is told of the operator's volume, because nobody can change it here.
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
    """Where in the list a container stands; None where it is not there, or cannot take a mount as it is written."""
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
