"""The /dev/shm that an operator mounts on its own, so that no other one is foretold."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from webhook.model.container import Mount
from webhook.model.workloads.parts import listed, mapped, part
from webhook.model.workloads.template import Template

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
