"""A pod as rules see it. All arithmetic on the GPUs of a pod is here."""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.model.accelerators import BUILT_IN, DEVICE_CLASSES, Accelerator, Accelerators, Share, Vendor
from webhook.model.node import Toleration
from webhook.model.quantity import Number
from webhook.model.selectors import Term

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
    capabilities: tuple[str, ...] = ()
    """The capabilities that it adds."""
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
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words of `command` and then of `args`; without `command` the image says what runs with them."""
        return (*self.command, *self.args)

    def requests_gpus_of(self, vendor: Vendor) -> bool:
        """Whether the container gets a GPU of this vendor from a device plugin; DRA and passthrough do not count."""
        return any(
            one.count
            and one.accelerator.vendor is vendor
            and one.accelerator.share is not Share.PASSTHROUGH
            and not one.accelerator.by_dra
            for one in self.gpu_requests
        )

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


KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label on objects that Kueue admits."""
POD_TEMPLATE_HASH = "pod-template-hash"
"""The label with which a Deployment distinguishes its revisions; the names of its ReplicaSets end with its value."""


class Volume(NamedTuple):
    """A volume of the pod. `host_path` is the path on the node, or empty.

    `size_limit` is the size limit of a volume in memory as it is written, such as "8Gi". `is_huge`: in huge pages.
    """

    name: str
    host_path: str = ""
    is_memory: bool = False
    size_limit: object = None
    is_huge: bool = False


@dataclass(frozen=True, slots=True)
class GpuFraction:
    """GPUs of which a container gets a part: `part` of each, or `mib` of its memory in MiB, whichever is more.

    `by_annotation`: annotations ask for the GPUs (KAI, Run:ai), and only `webhook.model.gpu_fractions` makes GPUs of
    them. Otherwise they are units of nvidia.com/gpu that the container requests (HAMi).
    """

    devices: int
    part: Fraction
    mib: int = 0
    container: int = 0
    """Its place among the containers of the pod."""
    by_annotation: bool = False


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Pod:
    """The requests of a pod, and where it may run.

    `required` holds the terms of the required node affinity; None where the pod has no required node affinity.
    `memory_limit` is the limit of the pod as a whole, in bytes.
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
    """Resource name -> GPUs that the scheduler reserves for the pod; names with 0 GPUs are left out."""
    accelerators: tuple[Accelerator, ...]
    """The GPU resources that the pod requests."""
    known: Accelerators = BUILT_IN
    """The resource names by which the pod's GPUs were recognised."""
    labels: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    owner_kind: str = ""
    """Kind of the controller that made the pod, such as ReplicaSet; empty where no controller made it."""
    priority_class: str = ""
    """Name of the PriorityClass. Where the author names none, Kubernetes fills in the cluster's default, if any."""
    active_deadline: int | None = None
    """Seconds after which the kubelet ends the pod; None where it may run for ever."""
    resource_claims: Any = None
    """The resource claims (DRA) as they are written; `webhook.model.claims` reads them. They may be for GPUs, and the
    pod does not say for how many."""
    says_how_it_spreads: bool = False
    """Whether the pod has pod anti-affinity or topology spread constraints of any kind."""
    stands_beside_pods: bool = False
    """Whether the pod has to be on the same host as other pods, by a required pod affinity."""
    stands_within: tuple[str, ...] = ()
    """The topology keys of its required pod affinity: labels that its node has to have."""
    resources: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _NOTHING)
    """Requests and limits of the pod as a whole (spec.resources, Kubernetes 1.34), as they are written."""
    has_started: bool = False
    """Whether a kubelet has started the pod. The API server empties the status of a pod that is created."""
    overhead: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Resource name -> amount that the scheduler adds for the RuntimeClass, as it is written."""
    is_gated: bool = False
    """Whether a scheduling gate keeps the pod from being scheduled."""
    host_network: bool = False
    os: str = ""
    """The name in spec.os, such as windows."""
    namespace: str = ""
    """Empty where neither the pod nor the request names a namespace."""
    fractions: tuple[GpuFraction, ...] = ()
    """GPUs of which the pod gets a part, by annotations or by attributes of a GPU."""

    @property
    def gpu_count(self) -> int:
        """GPUs of all resource names together that the scheduler reserves; a slice and a shared GPU count as one."""
        return sum(self.gpus.values())

    def requests_gpus_of(self, vendor: Vendor) -> bool:
        """Whether the pod gets a GPU of this vendor from a device plugin; DRA and passthrough do not count."""
        for gpu in self.accelerators:  # asked by many rules of every pod
            if gpu.vendor is vendor and gpu.share is not Share.PASSTHROUGH and not gpu.by_dra:
                return True
        return False

    @property
    def has_passthrough(self) -> bool:
        """Whether a GPU of the pod goes to a virtual machine. The runtime class of such a pod must not be changed."""
        return any(gpu.share is Share.PASSTHROUGH for gpu in self.accelerators)

    @property
    def is_held(self) -> bool:
        """Whether a queue may still change which nodes the pod selects and which taints it tolerates.

        True for gated pods. Kueue gates pods that have its label and no controller; it may not have done so yet.
        """
        return self.is_gated or (not self.owner_kind and not self.node_name and KUEUE_QUEUE in self.labels)

    @property
    def may_be_more(self) -> bool:
        """Whether the pod may get more GPUs than it requests by number: by claims, or by opening a whole node."""
        if self.resource_claims:
            return True
        for gpu in self.accelerators:  # twice as fast as any()
            if gpu.share is Share.NODE:
                return True
        for container in self.containers:  # noqa: SIM110  # as above
            if container.has_claims:
                return True
        return False

    @property
    def requests_classes(self) -> bool:
        """Whether a container requests a device class, which may be GPUs, as a resource."""
        for container in self.containers:
            if container.unknown_classes:
                return True
        for gpu in self.accelerators:  # noqa: SIM110  # twice as fast as any()
            if gpu.resource.startswith(DEVICE_CLASSES):
                return True
        return False

    def lasting_containers(self) -> Sequence[Container]:
        """Init and app containers; not the ephemeral ones, which cannot be changed and have no resources."""
        if not self.containers or self.containers[-1].list_name != EPHEMERAL:  # they come last, and hardly ever
            return self.containers
        return [container for container in self.containers if container.list_name != EPHEMERAL]


def reserved(
    containers: Iterable[Container], amounts_of: Callable[[Container], Iterable[tuple[str, int]]]
) -> dict[str, int]:
    """Resource name -> amount that the scheduler reserves for these containers, in the unit of `amounts_of`.

    The scheduler's formula: max(sum of containers and sidecars, max over init containers of (itself plus the sidecars
    started before it)). Worked: init 2, sidecar 1, app 1 -> 2; sidecar 1, then init 2, app 1 -> 3.
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


_FIELDS = tuple(field.name for field in fields(Pod))
_all_of = attrgetter(*_FIELDS)


def changed(pod: Pod, **values: Any) -> Pod:
    """`pod` with other values for these fields. It is faster than `dataclasses.replace`; most pods change twice."""
    return Pod(**(dict(zip(_FIELDS, _all_of(pod), strict=True)) | values))
