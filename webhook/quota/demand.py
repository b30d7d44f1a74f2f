"""What pods and resource claims count against quotas: which GPUs, how many, and under which names.

Tenants can make up names of resources, and names in ledgers take room. So a resource keeps its name only if it may
count differently from others: if a limit or weight of the policy names it, or if it is known not to weigh a whole GPU.
All other resources of a vendor have one name.

A claim that Kubernetes makes for a pod from a template exists once the pod is stored, so the pod brings room for it, as
the template is at that moment. A claim that the pod names by its own name counts by itself.

A request of a claim counts as the alternative that counts most against each limit. `allocationMode: All` counts as the
most devices that one claim can get. A request for a part of the memory of a device (`capacity.requests.memory`) counts
as that part where ResourceSlices say how much the device has, else as the whole device. A request with `adminAccess`
reserves no device, so it does not count. The models of devices follow from their DeviceClass, where the policy says it,
or from the selectors of the request. The nodes that a pod selects say nothing: other pods may use the claim, too.
"""

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_memory import memory_of
from webhook.gpus.gpu_shares import share_of
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import BUILT_IN, DEVICE_CLASSES, GPU, Accelerators, Vendor, accelerator
from webhook.model.claims import MOST_ALLOCATED, TEMPLATE, TOO_LARGE, Devices, Requests, claims_of
from webhook.model.gpu_fractions import with_fractions
from webhook.model.pod import GpuFraction, Pod
from webhook.quota.amounts import WHOLE, WHOLE_UNITS, UnitParts, is_unknown_slice, unit_parts, with_part
from webhook.quota.quotas import ANY_NODES, ClaimedDevices, ClaimedRequest, Counting, Demand, Nodes

MOST_UNITS = 10**15
"""Most units of one resource that a pod counts: more than any limit allows, and exact in every reader of JSON."""

# A pod


@dataclass(frozen=True, slots=True)
class PodDemand:
    """What a pod counts: by its own requests, by each claim from a template (by its name in the pod), and in all."""

    own: Demand | None
    reserved: tuple[tuple[str, Demand], ...] = ()

    @property
    def all(self) -> Demand | None:
        """Everything together; None where nothing counts."""
        found = [one for one in (self.own, *(demand for _, demand in self.reserved)) if one is not None]
        if len(found) < 2:
            return found[0] if found else None
        return replace(found[0], requests=_sorted(request for one in found for request in one.requests))


def pod_demand(pod: Pod, namespace: str, counting: Counting, facts: ClusterFacts) -> PodDemand:
    """What a pod of a namespace counts together with the claims that Kubernetes makes for it."""
    own, pod = None, with_fractions(pod) if pod.fractions else pod
    if pod.gpus:
        nodes = Nodes([one.labels for one in facts.selected_nodes(pod)])
        own = demand_of(pod, namespace, counting, unit_parts(pod, facts, counting.catalogue.table), nodes)
    if not pod.resource_claims:
        return PodDemand(own)
    reserved: dict[str, Demand | None] = {}
    for named in claims_of(pod.resource_claims):
        if named.kind == TEMPLATE and named.name not in reserved:  # the API server refuses a second claim of this name
            requests = facts.claim(named, pod.namespace or namespace)
            demand = claim_demand(looked_up(requests, facts), namespace, counting) if requests else None
            reserved[named.name] = demand
    return PodDemand(own, tuple((name, demand) for name, demand in reserved.items() if demand is not None))


def demand_of(
    pod: Pod, namespace: str, counting: Counting, parts: UnitParts = WHOLE_UNITS, nodes: Nodes = ANY_NODES
) -> Demand | None:
    """The GPUs that the scheduler reserves for a pod, and the models it may land on; None for a pod without GPUs.

    `parts` says what units of its resources are, where they are no whole GPUs. Weights of the policy come before it.
    Parts of GPUs that the pod asks for itself come before `parts`. Attributes of a GPU, such as its share of memory
    (nvidia.com/gpumem), are no GPUs by themselves.
    """
    if not pod.gpus:
        return None
    gpus: dict[str, int] = {}
    table = counting.catalogue.table
    own = pod.fractions if GPU not in counting.weights else ()
    for one in own:
        name = with_part(GPU, part) if (part := _part(one, nodes, counting)) < 1 else GPU
        gpus[name] = min(gpus.get(name, 0) + one.devices, MOST_UNITS)
    for resource, requested in pod.gpus.items():
        count = requested - sum(one.devices for one in own) if resource == GPU and own else requested
        if count <= 0:
            continue
        name = entered_name(resource, counting.named, counting.accelerators, table)
        if resource in parts and resource not in counting.weights:
            name = with_part(resource, parts[resource])
        gpus[name] = min(gpus.get(name, 0) + count, MOST_UNITS)
    kinds = [share_of(labels, table) for labels in nodes.labels] if parts else ()
    are_shares = bool(own) or all(
        gpu.is_shared or (kinds and all(one.is_shared(gpu.resource) for one in kinds)) for gpu in pod.accelerators
    )
    return Demand(namespace, tuple(sorted(gpus.items())), counting.models_of(pod, nodes), are_shares=are_shares)


_FINEST = 1000
"""Memory counts in so many parts of a GPU, rounded up."""


def _part(fraction: GpuFraction, nodes: Nodes, counting: Counting) -> Fraction:
    """The part of each GPU; memory counts as its part of the smallest GPU that the pod could get, else as all of it."""
    if not fraction.mib:
        return fraction.part
    size, table, smallest = fraction.mib * 2**20, counting.catalogue.table, 0
    for labels in nodes.labels:
        models = counting.catalogue.models_at(labels)
        memory = memory_of(GPU, labels, share_of(labels, table), models, table)
        if memory.least is None:
            return WHOLE
        if memory.least >= size:  # it does not fit on smaller ones
            smallest = min(smallest or memory.least, memory.least)
    return max(fraction.part, Fraction(ceil(Fraction(size * _FINEST, smallest)), _FINEST)) if smallest else WHOLE


# Names


PLAIN = frozenset(
    {
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/pgpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
    }
)
"""Resources that keep their names under every policy."""
_OTHERS = ("OTHER", "other")
"""Stand behind a vendor's domain and a slash in the name of all its unknown resources. The first of them counts that
makes a name of this vendor."""

_INSTANCE = re.compile(r"(nvidia\.com/mig-)([0-9]+)c\.([0-9]+)(g\..*)", re.ASCII)
_PARTITION = re.compile(r"(amd\.com/[a-z]px_nps)[0-9]+", re.ASCII)


def entered_name(resource: str, named: Set[str], accelerators: Accelerators = BUILT_IN, table: GpuTable = GPUS) -> str:
    """The name of a resource in ledgers; `named` are the resources that a policy names.

    A resource that a policy declares has the name or glob of its declaration, which tells the vendor as well.

    >>> entered_name("nvidia.com/MADE_UP", frozenset()), entered_name("nvidia.com/MADE_UP", {"nvidia.com/MADE_UP"})
    ('nvidia.com/OTHER', 'nvidia.com/MADE_UP')
    >>> entered_name("nvidia.com/mig-1g.10gb", frozenset()), entered_name("nvidia.com/mig-9g.9gb", frozenset())
    ('nvidia.com/mig-1g.10gb', 'nvidia.com/OTHER')
    """
    if resource in PLAIN or resource in named:
        return resource
    if known := _known(resource, table) or accelerators.declaration(resource):
        return known
    others = (f"{resource.partition('/')[0]}/{end}" for end in _OTHERS)
    return next((name for name in others if _vendor(name) is _vendor(resource)), resource)


def _known(resource: str, table: GpuTable) -> str:
    """The usual spelling of a MIG slice or a partition that weighs less than a GPU; empty for all other resources."""
    if (partition := _PARTITION.fullmatch(resource)) is not None:
        return f"{partition.group(1)}1"  # the memory mode does not change the number of partitions on a GPU
    if is_unknown_slice(resource, table) or not resource.startswith("nvidia.com/mig-"):
        return ""
    instance = _INSTANCE.fullmatch(resource)
    if instance is None:
        return resource
    start, part, whole, rest = instance.groups()
    return f"{start}{int(part)}c.{whole}{rest}" if 0 < int(part) <= int(whole) else ""


def _vendor(resource: str) -> Vendor | str | None:
    gpu = accelerator(resource)
    return "none" if gpu is None else gpu.vendor


# Claims

_ANY_GPU = "nvidia.com/gpu"
"""What a claim that is too large to be kept counts as."""


def looked_up(requests: Requests, facts: ClusterFacts) -> Requests:
    """The requests with the extended resource of each DeviceClass, and a number for all devices of a node."""
    if requests == TOO_LARGE:
        return requests
    return tuple(tuple(_looked_up(one, facts) for one in request) for request in requests)


def _looked_up(devices: Devices, facts: ClusterFacts) -> Devices:
    number = devices.number
    if number is None:
        most = facts.most_devices(devices.device_class)
        number = min(most, MOST_ALLOCATED) if most else MOST_ALLOCATED  # a node may come for this very claim
    part = facts.part_of_device(devices.device_class, devices.memory) if devices.memory else devices.part
    return devices._replace(extended=facts.extended_resource(devices.device_class), number=number, part=part)


def claim_demand(requests: Requests, namespace: str, counting: Counting) -> Demand | None:
    """What a claim counts, by requests that were looked up; None where it is not known to give GPUs."""
    if requests == TOO_LARGE:
        return Demand(namespace, (), None, ((ClaimedDevices(_ANY_GPU, MOST_ALLOCATED),),))
    added: dict[tuple[str, tuple[str, ...] | None], int] = {}
    choices: list[ClaimedRequest] = []
    for request in requests:
        found = tuple(sorted(set(_gpus(request, counting)), key=_order))
        if len(found) == 1:
            ((resource, number, models),) = found
            added[resource, models] = min(added.get((resource, models), 0) + number, MOST_UNITS)
        elif found:
            choices.append(found)
    single = [(ClaimedDevices(resource, number, models),) for (resource, models), number in added.items()]
    return Demand(namespace, (), None, _sorted([*single, *choices])) if single or choices else None


def most_devices(requests: Requests) -> int:
    """The most devices that a claim may get; its requests have been looked up."""
    return sum(max(((one.number or MOST_ALLOCATED) for one in request), default=MOST_ALLOCATED) for request in requests)


def is_uncounted(requests: Requests, counting: Counting) -> bool:
    """Whether a claim may give GPUs in a number that no quota can know."""
    if requests == TOO_LARGE:
        return True
    return any(not request or any(_may_be_more(one, counting) for one in request) for request in requests)


def _may_be_more(devices: Devices, counting: Counting) -> bool:
    if devices.is_administrative or _resource(devices, counting):
        return False
    return counting.accelerators.may_be_gpus(DEVICE_CLASSES + devices.device_class)


def _gpus(request: Iterable[Devices], counting: Counting) -> Iterator[ClaimedDevices]:
    for one in request:
        resource = "" if one.is_administrative else _resource(one, counting)
        if resource:
            number = MOST_ALLOCATED if one.number is None else min(one.number, MOST_UNITS)
            name = with_part(resource, one.part) if one.part < 1 and resource not in counting.weights else resource
            of_product = counting.catalogue.models_of_product(one.product) if one.product else None
            models = counting.class_models.get(one.device_class)
            yield ClaimedDevices(name, number, of_product if models is None else models)


def _resource(devices: Devices, counting: Counting) -> str:
    """The name in ledgers of the GPUs that a DeviceClass gives; empty where it is not known to give GPUs."""
    name = DEVICE_CLASSES + devices.device_class
    if devices.device_class in counting.class_models:
        return name
    if counting.accelerators.of(name) is None:
        name = devices.extended if counting.accelerators.may_be_gpus(name) else ""
        if not name or counting.accelerators.of(name) is None:
            return ""
    return entered_name(name, counting.named, counting.accelerators, counting.catalogue.table)


def _sorted(requests: Iterable[ClaimedRequest]) -> tuple[ClaimedRequest, ...]:
    return tuple(sorted(requests, key=lambda request: [_order(one) for one in request]))


def _order(one: ClaimedDevices) -> tuple[str, int, tuple[str, ...]]:
    return one.resource, one.number, one.models or ()
