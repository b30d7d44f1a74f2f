"""One container of a pod: the GPUs it asks for, its environment and its mounts."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from webhook.model.accelerators import Accelerator, accelerator, is_gpu_attribute
from webhook.model.quantity import Number, QuantityError, parse_quantity
from webhook.model.shape import each, mapping, text

INIT, APP, EPHEMERAL = "initContainers", "containers", "ephemeralContainers"
"""The lists of a pod's spec that hold containers."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What one container says about one GPU resource, zero included.

    `request` and `limit` are exact amounts, None where the key is missing; `fault` is the error where either cannot be
    parsed, and then both may be None. `written` holds both as the user wrote them, for messages.
    """

    accelerator: Accelerator
    request: Number | None
    limit: Number | None
    written: tuple[object, object]
    fault: str = ""

    @property
    def resource(self) -> str:
        """The resource name, such as nvidia.com/gpu."""
        return self.accelerator.resource

    @property
    def count(self) -> int:
        """GPUs (or slices) this asks for: the limit, else the request; nonsense and negative amounts are 0."""
        amount = self.limit if self.limit is not None else self.request
        if amount.__class__ is int:
            return max(amount, 0)
        return max(ceil(amount), 0) if amount is not None else 0


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume mounted in a container."""

    volume: str
    path: str
    sub_path: str = ""

    def is_at(self, directory: str) -> bool:
        """Whether the mount point is `directory`, however it is spelled; the kubelet reads a relative path from /."""
        return self.path == directory or (
            directory.rpartition("/")[2] in self.path and posixpath.normpath("/" + self.path.lstrip("/")) == directory
        )


@dataclass(frozen=True, slots=True)
class Container:
    """One container. `env` keeps every entry in order: name and literal value, None where it comes from elsewhere."""

    name: str
    list_name: str
    index: int
    path: str
    gpu_requests: tuple[GpuRequest, ...]
    env: tuple[tuple[str, str | None], ...]
    mounts: tuple[Mount, ...]
    memory_limit: int | None
    has_env_from: bool = False
    is_sidecar: bool = False
    is_privileged: bool = False
    has_claims: bool = False
    asks_gpu_attributes: bool = False
    image: str = ""
    gpu_count: int = 0
    """GPUs of all names together; a slice and a shared GPU count as one."""

    def sets_env(self, name: str) -> bool:
        """Whether the container sets this variable itself, in whatever form."""
        return any(entry == name for entry, _ in self.env)

    def mounts_at(self, directory: str) -> Mount | None:
        """The mount at exactly this directory, if any."""
        return next((mount for mount in self.mounts if mount.is_at(directory)), None)


def container_from_raw(raw: Mapping[str, Any], list_name: str, index: int) -> Container:
    """Read one container; raises ShapeError where a part has a type that the API server refuses."""
    raw = mapping(raw)
    name = text(raw.get("name"), "name")
    resources = mapping(raw.get("resources"), "resources")
    requests = mapping(resources.get("requests"), "resources", "requests")
    limits = mapping(resources.get("limits"), "resources", "limits")
    security = mapping(raw.get("securityContext"), "securityContext")
    resource_names = {**limits, **requests} if requests else limits
    asked = tuple(
        _gpu_request(gpu, requests, limits) for resource in resource_names if (gpu := accelerator(resource)) is not None
    )
    return Container(
        name=name,
        list_name=list_name,
        index=index,
        path=f"spec.{list_name}[{name or index}]",
        gpu_requests=asked,
        env=each(raw, "env", _env),
        mounts=each(raw, "volumeMounts", _mount),
        memory_limit=_positive(limits.get("memory")),
        has_env_from=bool(raw.get("envFrom")),
        is_sidecar=list_name == INIT and raw.get("restartPolicy") == "Always",
        is_privileged=security.get("privileged") is True,
        has_claims=bool(resources.get("claims")),
        asks_gpu_attributes=any(
            is_gpu_attribute(resource) and _positive(resource_names[resource]) for resource in resource_names
        ),
        image=text(raw.get("image"), "image"),
        gpu_count=sum([request.count for request in asked]),
    )


def _gpu_request(gpu: Accelerator, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> GpuRequest:
    amounts: list[Number | None] = []
    fault = ""
    for part, amounts_in in (("requests", requests), ("limits", limits)):
        try:
            amounts.append(parse_quantity(amounts_in[gpu.resource]) if gpu.resource in amounts_in else None)
        except QuantityError as error:
            fault = fault or f"in {part}: {error}"
            amounts.append(None)
    written = (requests.get(gpu.resource), limits.get(gpu.resource))
    return GpuRequest(gpu, amounts[0], amounts[1], written, fault)


def _env(raw: object) -> tuple[str, str | None]:
    entry = mapping(raw)
    value = None if entry.get("valueFrom") else text(entry.get("value"), "value")
    return text(entry.get("name"), "name"), value


def _mount(raw: object) -> Mount:
    mount = mapping(raw)
    return Mount(
        text(mount.get("name"), "name"),
        text(mount.get("mountPath"), "mountPath"),
        text(mount.get("subPath") or mount.get("subPathExpr"), "subPath"),
    )


def _positive(value: object) -> int | None:
    """An amount such as a memory limit; None where there is none, for 0 and for what the API server will refuse."""
    try:
        amount = parse_quantity(value)
    except QuantityError:
        return None
    return ceil(amount) if amount > 0 else None
