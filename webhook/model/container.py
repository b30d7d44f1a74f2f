"""One container of a pod: the GPUs that it requests, its environment and its mounts."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.model.accelerators import BUILT_IN, DEVICE_CLASSES, GPU_ATTRIBUTES, Accelerator, Accelerators
from webhook.model.quantity import Number, parse_quantity
from webhook.model.shape import FormatError, each, entries, mapping, text

INIT, APP, EPHEMERAL = "initContainers", "containers", "ephemeralContainers"
"""The lists of a pod's spec that hold containers."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """The amounts of one GPU resource in one container, also if they are 0.

    `request` and `limit` are exact amounts, None where the key is missing or cannot be parsed; `fault` then says why.
    `written` holds request and limit as the user wrote them, for messages. `count` is the number of GPUs or slices;
    it is 0 for amounts that are negative or cannot be parsed.
    """

    accelerator: Accelerator
    request: Number | None
    limit: Number | None
    written: tuple[object, object]
    count: int
    fault: str = ""

    @property
    def resource(self) -> str:
        return self.accelerator.resource


class ContainerClaim(NamedTuple):
    """A resource claim that a container uses: its name in the pod, and one request of it, or empty for all of them."""

    name: str
    request: str = ""


class Mount(NamedTuple):
    """A volume mounted in a container."""

    volume: str
    path: str
    sub_path: str = ""

    def is_at(self, directory: str) -> bool:
        """Whether the mount point is `directory`, however it is spelled. The kubelet reads a relative path from /."""
        return self.path == directory or (
            directory.rpartition("/")[2] in self.path and posixpath.normpath("/" + self.path.lstrip("/")) == directory
        )


@dataclass(frozen=True, slots=True)
class Container:
    """One container of any of the three lists of a pod.

    `path` is its place in the pod, such as `spec.containers[trainer]`. `env` has every variable in order: its name and
    its literal value, or None where the value comes from elsewhere. `memory_limit` is in bytes.
    """

    name: str
    list_name: str
    index: int
    path: str
    gpu_requests: tuple[GpuRequest, ...]
    env: tuple[tuple[str, str | None], ...]
    mounts: tuple[Mount, ...]
    memory_limit: int | None
    env_from: tuple[str, ...] = ()
    """The prefix of each ConfigMap or Secret in envFrom; empty where its variables keep their names."""
    is_sidecar: bool = False
    is_privileged: bool = False
    has_claims: bool = False
    """Whether it uses a resource claim, or a device class that may be GPUs."""
    claims: tuple[ContainerClaim, ...] = ()
    unknown_classes: tuple[tuple[str, int], ...] = ()
    """The resource names of device classes that may be GPUs, each with the number of devices."""
    asks_gpu_attributes: bool = False
    image: str = ""
    gpu_count: int = 0
    """GPUs of all names together; a slice and a shared GPU count as one."""
    requests: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Resource name -> amount as it is written. For Kubernetes a limit without a request is also the request."""
    limits: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    env_names: frozenset[str] = frozenset()
    """The names in `env`."""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words of `command` and then of `args`; without `command` the image says what runs with them."""
        return (*self.command, *self.args)

    def sets_env(self, name: str) -> bool:
        return name in self.env_names

    def may_take_env(self, name: str) -> bool:
        """Whether this variable may come from `envFrom`: the content of ConfigMaps and Secrets is unknown."""
        return any(name.startswith(prefix) for prefix in self.env_from)

    def mounts_at(self, directory: str) -> Mount | None:
        for mount in self.mounts:  # twice as fast as next()
            if mount.is_at(directory):
                return mount
        return None


def container_from_raw(
    raw: Mapping[str, Any], list_name: str, index: int, accelerators: Accelerators = BUILT_IN
) -> Container:
    """Read a container from JSON, such as `{"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": 1}}}`.

    Raises ShapeError where a part has a type that the API server refuses.
    """
    raw = mapping(raw)
    name = text(raw.get("name"), "name")
    resources = mapping(raw.get("resources"), "resources")
    requests = entries(resources.get("requests"), "resources", "requests")
    limits = entries(resources.get("limits"), "resources", "limits")
    security = mapping(raw.get("securityContext"), "securityContext")
    resource_names = {**limits, **requests} if requests else limits
    gpu_of = accelerators.of
    unknown: tuple[tuple[str, int], ...] = ()
    asked = tuple(
        [
            _gpu_request(gpu, requests, limits)
            for resource in resource_names
            if "/" in resource and (gpu := gpu_of(resource)) is not None  # no name of a GPU is without a slash
        ]
    )
    if DEVICE_CLASSES in "\n".join(resource_names):  # of hardly any container
        unknown = tuple(
            [
                (name, amount)
                for name in resource_names
                if accelerators.may_be_gpus(name) and (amount := positive(resource_names[name])) is not None
            ]
        )
    env, claims = each(raw, "env", _env), resources.get("claims")
    return Container(
        name=name,
        list_name=list_name,
        index=index,
        path=f"spec.{list_name}[{name or index}]",
        gpu_requests=asked,
        env=env,
        mounts=each(raw, "volumeMounts", _mount),
        memory_limit=positive(limits.get("memory")),
        env_from=each(raw, "envFrom", _prefix) if "envFrom" in raw else (),
        is_sidecar=list_name == INIT and raw.get("restartPolicy") == "Always",
        is_privileged=security.get("privileged") is True,
        has_claims=bool(unknown or claims),
        claims=tuple(map(_claim, claims)) if claims and isinstance(claims, list) else (),
        unknown_classes=unknown,
        asks_gpu_attributes=not GPU_ATTRIBUTES.isdisjoint(resource_names)
        and any(positive(resource_names[name]) for name in GPU_ATTRIBUTES if name in resource_names),
        image=text(raw.get("image"), "image"),
        gpu_count=sum([request.count for request in asked]),
        requests=requests,
        limits=limits,
        env_names=frozenset(dict(env)),
        command=_texts(raw["command"]) if "command" in raw else (),
        args=_texts(raw["args"]) if "args" in raw else (),
    )


def _gpu_request(gpu: Accelerator, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> GpuRequest:
    name = gpu.resource
    written = (requests.get(name), limits.get(name))
    request, fault = _amount(name, requests)
    limit, fault_in_limits = _amount(name, limits)
    if fault or fault_in_limits:
        fault = f"in requests: {fault}" if fault else f"in limits: {fault_in_limits}"
    return GpuRequest(gpu, request, limit, written, _count(gpu, request, limit), fault)


def _count(gpu: Accelerator, request: Number | None, limit: Number | None) -> int:
    """The limit where there is one, else the request.

    For a device class the request comes first: its limit may be larger, and the scheduler reads requests.
    """
    amount = limit if limit is not None else request
    if amount != request is not None and gpu.is_of_a_class:
        amount = request
    return max(ceil(amount), 0) if amount is not None else 0


def _amount(resource: str, amounts: Mapping[str, Any]) -> tuple[Number | None, str]:
    """The amount of a resource and an empty text; or None and the reason, which is empty where the key is missing."""
    if resource not in amounts:
        return None, ""
    try:
        return parse_quantity(amounts[resource]), ""
    except FormatError as error:
        return None, str(error)


def _env(raw: object) -> tuple[str, str | None]:
    entry = raw if raw.__class__ is dict else mapping(raw)  # pods have many, and a call takes longer
    name, value = entry.get("name"), entry.get("value")
    if name.__class__ is str and value.__class__ is str and "valueFrom" not in entry:
        return name, value
    return text(name, "name"), None if entry.get("valueFrom") else text(value, "value")


def _claim(raw: object) -> ContainerClaim:
    entry = raw if isinstance(raw, dict) else {}
    name, request = entry.get("name"), entry.get("request")
    return ContainerClaim(name if isinstance(name, str) else "", request if isinstance(request, str) else "")


def _texts(raw: object) -> tuple[str, ...]:
    return tuple([part for part in raw if isinstance(part, str)]) if isinstance(raw, list) else ()


def _prefix(raw: object) -> str:
    return text(mapping(raw).get("prefix"), "prefix")


def _mount(raw: object) -> Mount:
    mount = raw if raw.__class__ is dict else mapping(raw)
    name, path, sub_path = mount.get("name"), mount.get("mountPath"), mount.get("subPath") or mount.get("subPathExpr")
    if type(name) is str and type(path) is str and sub_path is None:
        return Mount(name, path)
    return Mount(text(name, "name"), text(path, "mountPath"), text(sub_path, "subPath"))


def positive(value: object) -> int | None:
    """An amount such as a memory limit, rounded up; None where it is missing, not positive, or cannot be parsed."""
    try:
        amount = parse_quantity(value)
    except FormatError:
        return None
    return ceil(amount) if amount > 0 else None
