"""A pod as the rules see it. All arithmetic on the GPUs of a pod is here and nowhere else."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Any

from webhook.model.accelerators import Accelerator, Share, Vendor, accelerator
from webhook.model.container import APP, EPHEMERAL, INIT, Container, container_from_raw
from webhook.model.quantity import QuantityError, parse_quantity
from webhook.model.selectors import Expression, Term
from webhook.model.shape import ShapeError, listed, mapping, text
from webhook.model.tolerations import Toleration, toleration_from_raw


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of the pod. `host_path` is the path on the node, or empty."""

    name: str
    host_path: str = ""
    is_memory: bool = False


@dataclass(frozen=True)
class Pod:
    """What a pod, or the template of one, asks for and where it wants to run.

    `spec_path` is where the spec stands in the object, such as `spec` or `spec.template.spec`; every message starts
    with it. `required` holds the terms of the required node affinity, None where the pod has none.
    """

    spec_path: str
    containers: tuple[Container, ...]
    volumes: tuple[Volume, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required: tuple[Term, ...] | None = None
    preferred: tuple[Term, ...] = ()
    node_name: str = ""
    runtime_class: str | None = None
    host_ipc: bool = False
    memory_limit: int | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def gpus(self) -> Mapping[str, int]:
        """GPUs that the scheduler reserves for the pod, by resource name; names that come to 0 are left out.

        The scheduler's formula: max(sum of containers and sidecars, max over init containers of (itself plus the
        sidecars started before it)). Worked: init 2, sidecar 1, app 1 -> 2; sidecar 1, then init 2, app 1 -> 3.
        """
        running: dict[str, int] = {}
        peak: dict[str, int] = {}
        for container in self.containers:
            for request in container.gpu_requests:
                name, count = request.resource, request.count
                if container.list_name == INIT and not container.is_sidecar:
                    peak[name] = max(peak.get(name, 0), running.get(name, 0) + count)
                elif container.list_name != EPHEMERAL:
                    running[name] = running.get(name, 0) + count
        return {name: n for name in (*running, *peak) if (n := max(running.get(name, 0), peak.get(name, 0))) > 0}

    @cached_property
    def gpu_count(self) -> int:
        """GPUs of all names together that the scheduler reserves; a slice and a shared GPU count as one."""
        return sum(self.gpus.values())

    @cached_property
    def accelerators(self) -> tuple[Accelerator, ...]:
        """The GPU resources that the pod asks for."""
        return tuple(gpu for name in self.gpus if (gpu := accelerator(name)) is not None)

    def asks_for(self, vendor: Vendor) -> bool:
        """Whether the pod asks for a GPU of this vendor that its containers use themselves (no passthrough)."""
        return any(gpu.vendor is vendor and gpu.share is not Share.PASSTHROUGH for gpu in self.accelerators)

    @cached_property
    def has_passthrough(self) -> bool:
        """Whether a GPU of the pod goes to a virtual machine, whose runtime class must not be touched."""
        return any(gpu.share is Share.PASSTHROUGH for gpu in self.accelerators)

    def lasting_containers(self) -> Iterator[Container]:
        """Init and app containers: all but the ephemeral ones, which nobody can change or give resources."""
        return (container for container in self.containers if container.list_name != EPHEMERAL)


def pod_from_raw(raw: object, spec_path: str = "spec") -> Pod:
    """Read a pod, or the pod template whose spec stands at `spec_path` of its object.

    Raises ShapeError, which names the place, where a part has a type that the API server would refuse.
    """
    above = spec_path.removesuffix("spec")
    pod = mapping(raw, above.removesuffix(".") or "object")
    spec = mapping(pod.get("spec"), spec_path)
    metadata = mapping(pod.get("metadata"), f"{above}metadata")
    runtime_class = spec.get("runtimeClassName")
    return Pod(
        spec_path=spec_path,
        containers=tuple(
            container_from_raw(container, list_name, index, spec_path)
            for list_name in (INIT, APP, EPHEMERAL)
            for index, container in enumerate(listed(spec.get(list_name), f"{spec_path}.{list_name}"))
        ),
        volumes=_volumes(spec.get("volumes"), f"{spec_path}.volumes"),
        node_selector={
            key: text(value, f"{spec_path}.nodeSelector[{key}]")
            for key, value in mapping(spec.get("nodeSelector"), f"{spec_path}.nodeSelector").items()
        },
        **_placement(spec, spec_path),
        node_name=text(spec.get("nodeName"), f"{spec_path}.nodeName"),
        runtime_class=None if runtime_class is None else text(runtime_class, f"{spec_path}.runtimeClassName"),
        host_ipc=spec.get("hostIPC") is True,
        memory_limit=_pod_memory_limit(spec, spec_path),
        annotations=mapping(metadata.get("annotations"), f"{above}metadata.annotations"),
    )


def placed(pod: Pod, raw: Mapping[str, Any]) -> Pod:
    """`pod` after its tolerations and node affinity were completed to those of `raw`; nothing else is read anew."""
    copy = object.__new__(Pod)
    copy.__dict__.update(pod.__dict__, **_placement(raw["spec"], pod.spec_path))  # with what was already worked out
    return copy


def _placement(spec: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The parts of a pod that decide where it may run and that edits can change."""
    affinity = mapping(spec.get("affinity"), f"{path}.affinity")
    node_affinity = mapping(affinity.get("nodeAffinity"), f"{path}.affinity.nodeAffinity")
    return {
        "tolerations": tuple(
            _toleration(toleration, f"{path}.tolerations[{index}]")
            for index, toleration in enumerate(listed(spec.get("tolerations"), f"{path}.tolerations"))
        ),
        "required": _required(node_affinity, f"{path}.affinity.nodeAffinity"),
        "preferred": _preferred(node_affinity, f"{path}.affinity.nodeAffinity"),
    }


def _toleration(raw: object, path: str) -> Toleration:
    toleration = mapping(raw, path)
    for part in ("key", "operator", "value", "effect"):
        value = toleration.get(part)
        if value is not None and value.__class__ is not str:
            text(value, f"{path}.{part}")
    seconds = toleration.get("tolerationSeconds")
    if seconds is not None and seconds.__class__ is not int:
        raise ShapeError(f"{path}.tolerationSeconds", seconds, "a whole number")
    return toleration_from_raw(toleration)


def _volumes(raw: object, path: str) -> tuple[Volume, ...]:
    volumes: list[Volume] = []
    for index, entry in enumerate(listed(raw, path)):
        volume = mapping(entry, f"{path}[{index}]")
        host_path = mapping(volume.get("hostPath"), f"{path}[{index}].hostPath")
        empty_dir = mapping(volume.get("emptyDir"), f"{path}[{index}].emptyDir")
        volumes.append(
            Volume(
                text(volume.get("name"), f"{path}[{index}].name"),
                text(host_path.get("path"), f"{path}[{index}].hostPath.path"),
                empty_dir.get("medium") == "Memory",
            )
        )
    return tuple(volumes)


def _required(node_affinity: Mapping[str, Any], path: str) -> tuple[Term, ...] | None:
    path = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    selector = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if selector is None:
        return None
    terms = listed(mapping(selector, path).get("nodeSelectorTerms"), f"{path}.nodeSelectorTerms")
    return tuple(_term(term, f"{path}.nodeSelectorTerms[{index}]") for index, term in enumerate(terms))


def _preferred(node_affinity: Mapping[str, Any], path: str) -> tuple[Term, ...]:
    path = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    entries = listed(node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution"), path)
    return tuple(
        _term(mapping(entry, f"{path}[{index}]").get("preference"), f"{path}[{index}].preference")
        for index, entry in enumerate(entries)
    )


def _term(raw: object, path: str) -> Term:
    term = mapping(raw, path)
    return Term(
        _expressions(term.get("matchExpressions"), f"{path}.matchExpressions"),
        _expressions(term.get("matchFields"), f"{path}.matchFields"),
    )


def _expressions(raw: object, path: str) -> tuple[Expression, ...]:
    expressions: list[Expression] = []
    for index, entry in enumerate(listed(raw, path)):
        expression = mapping(entry, f"{path}[{index}]")
        values = listed(expression.get("values"), f"{path}[{index}].values")
        expressions.append(
            Expression(
                text(expression.get("key"), f"{path}[{index}].key"),
                text(expression.get("operator"), f"{path}[{index}].operator"),
                tuple(text(value, f"{path}[{index}].values") for value in values),
            )
        )
    return tuple(expressions)


def _pod_memory_limit(spec: Mapping[str, Any], path: str) -> int | None:
    """The pod-level memory limit in bytes (spec.resources, Kubernetes 1.34), None where there is none."""
    resources = mapping(spec.get("resources"), f"{path}.resources")
    try:
        amount = parse_quantity(mapping(resources.get("limits"), f"{path}.resources.limits").get("memory"))
    except QuantityError:
        return None
    return ceil(amount) if amount > 0 else None
