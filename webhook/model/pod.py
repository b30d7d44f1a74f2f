"""A pod as the rules see it. All arithmetic on the GPUs of a pod is here and nowhere else."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import ceil
from typing import Any

from webhook.model.accelerators import Accelerator, Share, Vendor, accelerator
from webhook.model.container import APP, EPHEMERAL, INIT, Container, container_from_raw
from webhook.model.quantity import QuantityError, parse_quantity
from webhook.model.selectors import Expression, Term
from webhook.model.shape import ShapeError, each, mapping, text
from webhook.model.tolerations import Toleration, toleration_from_raw


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of the pod. `host_path` is the path on the node, or empty."""

    name: str
    host_path: str = ""
    is_memory: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """What a pod asks for and where it wants to run.

    `required` holds the terms of the required node affinity, None where the pod has none.
    """

    containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str]
    required: tuple[Term, ...] | None
    preferred: tuple[Term, ...]
    node_name: str
    runtime_class: str | None
    host_ipc: bool
    memory_limit: int | None
    annotations: Mapping[str, Any]
    gpus: Mapping[str, int]
    """GPUs that the scheduler reserves for the pod, by resource name; names that come to 0 are left out."""
    accelerators: tuple[Accelerator, ...]
    """The GPU resources that the pod asks for."""

    @property
    def gpu_count(self) -> int:
        """GPUs of all names together that the scheduler reserves; a slice and a shared GPU count as one."""
        return sum(self.gpus.values())

    def asks_for(self, vendor: Vendor) -> bool:
        """Whether the pod asks for a GPU of this vendor that its containers use themselves (no passthrough)."""
        return any(gpu.vendor is vendor and gpu.share is not Share.PASSTHROUGH for gpu in self.accelerators)

    @property
    def has_passthrough(self) -> bool:
        """Whether a GPU of the pod goes to a virtual machine, whose runtime class must not be touched."""
        return any(gpu.share is Share.PASSTHROUGH for gpu in self.accelerators)

    def lasting_containers(self) -> Sequence[Container]:
        """Init and app containers: all but the ephemeral ones, which nobody can change or give resources."""
        return [container for container in self.containers if container.list_name != EPHEMERAL]


def effective_gpus(containers: Iterable[Container]) -> dict[str, int]:
    """GPUs that the scheduler reserves for these containers, by resource name; names that come to 0 are left out.

    The scheduler's formula: max(sum of containers and sidecars, max over init containers of (itself plus the
    sidecars started before it)). Worked: init 2, sidecar 1, app 1 -> 2; sidecar 1, then init 2, app 1 -> 3.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in containers:
        for request in container.gpu_requests:
            name, count = request.accelerator.resource, request.count
            if container.list_name == INIT and not container.is_sidecar:
                peak[name] = max(peak.get(name, 0), running.get(name, 0) + count)
            elif container.list_name != EPHEMERAL:
                running[name] = running.get(name, 0) + count
    return {name: n for name in (*running, *peak) if (n := max(running.get(name, 0), peak.get(name, 0))) > 0}


def pod_from_raw(raw: object) -> Pod:
    """Read a pod.

    Raises ShapeError, which names the place, where a part has a type that the API server would refuse.
    """
    pod = mapping(raw, "object")
    metadata = mapping(pod.get("metadata"), "metadata")
    annotations = mapping(metadata.get("annotations"), "metadata", "annotations")
    try:
        return _read(mapping(pod.get("spec")), annotations)
    except ShapeError as error:
        raise error.inside("spec") from None


def _read(spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> Pod:
    runtime_class = spec.get("runtimeClassName")
    containers: list[Container] = []
    for list_name in (INIT, APP, EPHEMERAL):
        position = count()
        containers += each(
            spec,
            list_name,
            lambda raw, name=list_name, at=position: container_from_raw(raw, name, next(at)),  # type: ignore[misc]  # defaults bind early
            by_name=True,
        )
    gpus = effective_gpus(containers)
    return Pod(
        containers=tuple(containers),
        volumes=each(spec, "volumes", _volume),
        node_selector=_node_selector(spec),
        **_placement(spec),
        node_name=text(spec.get("nodeName"), "nodeName"),
        runtime_class=None if runtime_class is None else text(runtime_class, "runtimeClassName"),
        host_ipc=spec.get("hostIPC") is True,
        memory_limit=_pod_memory_limit(spec),
        annotations=annotations,
        gpus=gpus,
        accelerators=tuple([gpu for name in gpus if (gpu := accelerator(name)) is not None]),
    )


def placed(pod: Pod, raw: Mapping[str, Any]) -> Pod:
    """`pod` after its tolerations and node affinity were completed to those of `raw`; nothing else is read anew."""
    return replace(pod, **_placement(raw["spec"]))


def with_runtime_class(pod: Pod, raw: Mapping[str, Any]) -> Pod:
    """`pod` with the RuntimeClass that `raw` got meanwhile."""
    name = raw["spec"].get("runtimeClassName")
    return pod if name == pod.runtime_class else replace(pod, runtime_class=name)


def _placement(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a pod that decide where it may run and that edits can change."""
    affinity = mapping(spec.get("affinity"), "affinity")
    node_affinity = mapping(affinity.get("nodeAffinity"), "affinity", "nodeAffinity")
    try:
        required = _required(node_affinity)
        preferred = each(node_affinity, _PREFERRED, _preference)
    except ShapeError as error:
        raise error.inside("affinity", "nodeAffinity") from None
    return {"tolerations": each(spec, "tolerations", _toleration), "required": required, "preferred": preferred}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _node_selector(spec: Mapping[str, Any]) -> dict[str, str]:
    selector = mapping(spec.get("nodeSelector"), "nodeSelector")
    return {key: text(value, f"nodeSelector[{key}]") for key, value in selector.items()} if selector else {}


def _toleration(raw: object) -> Toleration:
    toleration = mapping(raw)
    for part in ("key", "operator", "value", "effect"):
        value = toleration.get(part)
        if value is not None and value.__class__ is not str:
            text(value, part)
    seconds = toleration.get("tolerationSeconds")
    if seconds is not None and seconds.__class__ is not int:
        raise ShapeError(seconds, "a whole number", "tolerationSeconds")
    return toleration_from_raw(toleration)


def _volume(raw: object) -> Volume:
    volume = mapping(raw)
    return Volume(
        text(volume.get("name"), "name"),
        text(mapping(volume.get("hostPath"), "hostPath").get("path"), "hostPath", "path"),
        mapping(volume.get("emptyDir"), "emptyDir").get("medium") == "Memory",
    )


def _required(node_affinity: Mapping[str, Any]) -> tuple[Term, ...] | None:
    selector = node_affinity.get(_REQUIRED)
    if selector is None:
        return None
    try:
        return each(mapping(selector), "nodeSelectorTerms", _term)
    except ShapeError as error:
        raise error.inside(_REQUIRED) from None


def _preference(raw: object) -> Term:
    try:
        return _term(mapping(raw).get("preference"))
    except ShapeError as error:
        raise error.inside("preference") from None


def _term(raw: object) -> Term:
    term = mapping(raw)
    return Term(each(term, "matchExpressions", _expression), each(term, "matchFields", _expression))


def _expression(raw: object) -> Expression:
    expression = mapping(raw)
    return Expression(
        text(expression.get("key"), "key"),
        text(expression.get("operator"), "operator"),
        each(expression, "values", text),
    )


def _pod_memory_limit(spec: Mapping[str, Any]) -> int | None:
    """The pod-level memory limit in bytes (spec.resources, Kubernetes 1.34), None where there is none."""
    resources = mapping(spec.get("resources"), "resources")
    if not resources:
        return None
    try:
        amount = parse_quantity(mapping(resources.get("limits"), "resources", "limits").get("memory"))
    except QuantityError:
        return None
    return ceil(amount) if amount > 0 else None
