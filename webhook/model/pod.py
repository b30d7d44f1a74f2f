"""A pod as the rules see it. All arithmetic on the GPUs of a pod is here and nowhere else."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from itertools import count
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.model import bounds
from webhook.model.accelerators import BUILT_IN, Accelerator, Accelerators, Share, Vendor
from webhook.model.affinity import has_anti_affinity, node_terms
from webhook.model.container import APP, EPHEMERAL, INIT, Container, container_from_raw, positive
from webhook.model.fixed import fixed
from webhook.model.selectors import Term
from webhook.model.shape import CountError, ShapeError, each, entries, mapping, text, too_many
from webhook.model.taints import Toleration, toleration_from_raw

_NOTHING: Mapping[str, Any] = MappingProxyType({})
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label by which Kueue knows what it admits."""


class Volume(NamedTuple):
    """A volume of the pod. `host_path` is the path on the node, or empty. `size_limit` is that of a volume in memory,
    as it is written.
    """

    name: str
    host_path: str = ""
    is_memory: bool = False
    size_limit: object = None


@fixed(frozen=True, slots=True, weakref_slot=True)
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
    known: Accelerators = BUILT_IN
    """By which names the pod's GPUs were told."""
    labels: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    owner_kind: str = ""
    """Kind of the controller that made the pod, such as ReplicaSet; empty where nothing did."""
    priority_class: str = ""
    """Where the author names none, Kubernetes has filled in the default of the cluster, if it has one."""
    active_deadline: int | None = None
    """Seconds after which the kubelet ends the pod, None where it may run for ever."""
    resource_claims: Any = None
    """The resource claims (DRA) as they are written, which may be GPUs in numbers that the pod does not say.
    `webhook.model.claims` reads them."""
    says_how_it_spreads: bool = False
    """Whether the pod has pod anti-affinity or topology spread constraints of any kind."""
    resources: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _NOTHING)
    """Requests and limits of the pod as a whole (spec.resources, Kubernetes 1.34), as they are written."""
    has_started: bool = False
    """Whether a kubelet has taken the pod. The API server empties the status of a pod that is created."""
    overhead: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """What the scheduler adds for the RuntimeClass, as the RuntimeClass says it."""
    is_gated: bool = False
    """Whether a scheduling gate holds the pod back, until somebody has decided where it may run."""
    namespace: str = ""
    """Empty where neither the pod says it nor whoever applies it."""

    @property
    def gpu_count(self) -> int:
        """GPUs of all names together that the scheduler reserves; a slice and a shared GPU count as one."""
        return sum(self.gpus.values())

    def asks_for(self, vendor: Vendor) -> bool:
        """Whether a device plugin gives the pod's containers a GPU of this vendor; DRA and passthrough do not count."""
        for gpu in self.accelerators:  # asked by many rules of every pod, and twice as fast as any()
            if gpu.vendor is vendor and gpu.share is not Share.PASSTHROUGH and not gpu.by_dra:
                return True
        return False

    @property
    def has_passthrough(self) -> bool:
        """Whether a GPU of the pod goes to a virtual machine, whose runtime class must not be touched."""
        return any(gpu.share is Share.PASSTHROUGH for gpu in self.accelerators)

    @property
    def is_held(self) -> bool:
        """Whether somebody may still add to the nodes that the pod selects and to the taints that it tolerates.

        Kueue gates pods that carry its label and that nothing else made, which may not have happened yet.
        """
        return self.is_gated or (not self.owner_kind and not self.node_name and KUEUE_QUEUE in self.labels)

    @property
    def may_be_more(self) -> bool:
        """Whether the pod may get more GPUs than it asks for by number: by claims, or by what opens a whole node."""
        if self.resource_claims:
            return True
        for gpu in self.accelerators:  # twice as fast as any()
            if gpu.share is Share.NODE:
                return True
        for container in self.containers:  # noqa: SIM110  # as above
            if container.has_claims:
                return True
        return False

    def lasting_containers(self) -> Sequence[Container]:
        """Init and app containers: all but the ephemeral ones, which nobody can change or give resources."""
        if not self.containers or self.containers[-1].list_name != EPHEMERAL:  # they come last, and hardly ever
            return self.containers
        return [container for container in self.containers if container.list_name != EPHEMERAL]


def effective_gpus(containers: Iterable[Container]) -> dict[str, int]:
    """GPUs that the scheduler reserves for these containers, by resource name; names that come to 0 are left out."""
    return {name: count for name, count in reserved(containers, _gpus_of).items() if count > 0}


def _gpus_of(container: Container) -> list[tuple[str, int]]:
    return [(request.accelerator.resource, request.count) for request in container.gpu_requests]


def reserved(
    containers: Iterable[Container], amounts_of: Callable[[Container], Iterable[tuple[str, int]]]
) -> dict[str, int]:
    """What the scheduler reserves for these containers of every resource that one of them names.

    Its formula: max(sum of containers and sidecars, max over init containers of (itself plus the sidecars started
    before it)). Worked: init 2, sidecar 1, app 1 -> 2; sidecar 1, then init 2, app 1 -> 3.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in containers:
        for name, amount in amounts_of(container):
            if container.list_name == INIT and not container.is_sidecar:
                peak[name] = max(peak.get(name, 0), running.get(name, 0) + amount)
            elif container.list_name != EPHEMERAL:
                running[name] = running.get(name, 0) + amount
    for name, amount in peak.items():
        if amount > running.get(name, -1):
            running[name] = amount
    return running


def pod_from_raw(raw: object, accelerators: Accelerators = BUILT_IN, namespace: str = "") -> Pod:
    """Read a pod, whose GPUs are those that `accelerators` knows. `namespace` is where it is; empty: where it says.

    Raises ShapeError, which names the place, where a part has a type that the API server would refuse, or more entries
    than it stores.
    """
    pod = mapping(raw, "object")
    metadata = mapping(pod.get("metadata"), "metadata")
    annotations = entries(metadata.get("annotations"), "metadata", "annotations")
    labels = entries(metadata.get("labels"), "metadata", "labels")
    try:
        return _read(mapping(pod.get("spec")), accelerators, annotations, labels, metadata, namespace, has_started(pod))
    except ShapeError as error:
        raise error.inside("spec") from None


def _read(  # noqa: PLR0913, PLR0917  # all that a pod is made of
    spec: Mapping[str, Any],
    known: Accelerators,
    annotations: Mapping[str, Any],
    labels: Mapping[str, Any],
    metadata: Mapping[str, Any],
    namespace: str,
    has_started: bool,
) -> Pod:
    runtime_class = spec.get("runtimeClassName")
    affinity = mapping(spec.get("affinity"), "affinity")
    _check_counts(spec)
    containers = _containers(spec, known)
    gpus = effective_gpus(containers)
    volumes, node_selector = each(spec, "volumes", _volume), _node_selector(spec)
    tolerations = each(spec, "tolerations", _toleration)
    required, preferred = node_terms(affinity)
    return Pod(
        containers=tuple(containers),
        volumes=volumes,
        node_selector=node_selector,
        tolerations=tolerations,
        required=required,
        preferred=preferred,
        node_name=text(spec.get("nodeName"), "nodeName"),
        runtime_class=None if runtime_class is None else text(runtime_class, "runtimeClassName"),
        host_ipc=spec.get("hostIPC") is True,
        memory_limit=_pod_memory_limit(spec),
        annotations=annotations,
        gpus=gpus,
        accelerators=tuple([gpu for name in gpus if (gpu := known.of(name)) is not None]),
        known=known,
        labels=labels,
        owner_kind=owner_kind(metadata),
        namespace=namespace or namespace_of(metadata),
        priority_class=text(spec.get("priorityClassName"), "priorityClassName"),
        active_deadline=_seconds(spec.get("activeDeadlineSeconds")),
        resource_claims=spec.get("resourceClaims"),
        says_how_it_spreads=bool(spec.get("topologySpreadConstraints")) or has_anti_affinity(affinity),
        resources=_resources(spec),
        overhead=entries(spec.get("overhead"), "overhead"),
        is_gated=bool(spec.get("schedulingGates")),
        has_started=has_started,
    )


def _containers(spec: Mapping[str, Any], known: Accelerators) -> list[Container]:
    """Those of all three lists."""
    containers: list[Container] = []
    for list_name in (INIT, APP, EPHEMERAL):
        if spec.get(list_name) is None:
            continue
        position = count()
        containers += each(
            spec,
            list_name,
            lambda raw, name=list_name, at=position: container_from_raw(raw, name, next(at), known),  # type: ignore[misc]  # defaults bind early
            by_name=True,
        )
    return containers


def _check_counts(spec: Mapping[str, Any]) -> None:
    """Refuse lists that cannot be stored, or not all of them together, before anything is made of them."""
    least = bounds.least_stored(spec)
    if least <= bounds.STORABLE:
        return
    where, found, most = bounds.too_long(spec)
    if found > most:
        raise too_many(found, most, where)
    most_bytes = f"{bounds.STORABLE}, since no API server stores more"
    raise CountError(f"lists that take at least {least} bytes where pods are stored", most_bytes)


def has_started(pod: Mapping[str, Any]) -> bool:
    """Whether a kubelet has taken the pod."""
    status = pod.get("status")
    return isinstance(status, dict) and status.get("startTime") is not None


def namespace_of(metadata: Mapping[str, Any]) -> str:
    """The namespace as the pod says it, empty where it says none."""
    found = metadata.get("namespace")
    return found if isinstance(found, str) else ""


def owner_kind(metadata: Mapping[str, Any]) -> str:
    """Kind of the controller that made the pod, empty where nothing did.

    Anybody can write owner references, so that nothing which protects others may depend on them.
    """
    references = metadata.get("ownerReferences")
    for one in references if isinstance(references, list) else ():
        if isinstance(one, dict) and one.get("controller") is True:
            kind = one.get("kind")
            return kind if isinstance(kind, str) else ""
    return ""


def _seconds(value: object) -> int | None:
    if value is None or value.__class__ is int:
        return value
    raise ShapeError(value, "a whole number", "activeDeadlineSeconds")


_FIELDS = tuple(field.name for field in fields(Pod))
_AT = {name: number for number, name in enumerate(_FIELDS)}
_all_of = attrgetter(*_FIELDS)


def changed(pod: Pod, **values: Any) -> Pod:
    """`pod` with other values, in much less time than by `dataclasses.replace`: most pods change twice."""
    parts = list(_all_of(pod))
    for name, value in values.items():
        parts[_AT[name]] = value
    return Pod(*parts)


def _node_selector(spec: Mapping[str, Any]) -> dict[str, str]:
    selector = entries(spec.get("nodeSelector"), "nodeSelector")
    return {key: text(value, f"nodeSelector[{key}]") for key, value in selector.items()} if selector else {}


def _toleration(raw: object) -> Toleration:
    toleration = raw if raw.__class__ is dict else mapping(raw)
    for part, value in toleration.items():
        if value is not None and value.__class__ is not (int if part == "tolerationSeconds" else str):
            _check_part(part, value)
    return toleration_from_raw(toleration)


def _check_part(part: str, value: object) -> None:
    """Refuse a part of a toleration that has a type of its own where the API server refuses it."""
    if part in ("key", "operator", "value", "effect"):
        text(value, part)
    elif part == "tolerationSeconds" and value.__class__ is not int:
        raise ShapeError(value, "a whole number", part)


def _volume(raw: object) -> Volume:
    volume = raw if raw.__class__ is dict else mapping(raw)
    name = volume.get("name")
    if name.__class__ is str and "hostPath" not in volume and "emptyDir" not in volume:
        return Volume(name)
    name = text(name, "name")
    path = text(mapping(volume.get("hostPath"), "hostPath").get("path"), "hostPath", "path")
    empty = mapping(volume.get("emptyDir"), "emptyDir")
    if empty.get("medium") != "Memory":
        return Volume(name, path)
    return Volume(name, path, is_memory=True, size_limit=empty.get("sizeLimit"))


def _resources(spec: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    resources = mapping(spec.get("resources"), "resources")
    for part in ("limits", "requests") if resources else ():
        entries(resources.get(part), "resources", part)
    return resources


def _pod_memory_limit(spec: Mapping[str, Any]) -> int | None:
    """The pod-level memory limit in bytes (spec.resources, Kubernetes 1.34), None where there is none."""
    resources = mapping(spec.get("resources"), "resources")
    if not resources:
        return None
    return positive(mapping(resources.get("limits"), "resources", "limits").get("memory"))
