"""What a pod counts against quotas: the GPUs that it requests, and under which names.

A tenant can make names of resources up, and names in ledgers take room. So a resource keeps its name only if it may
count differently from others: if a limit or weight of the policy names it, or if it is known not to weigh a whole GPU.
All other resources of a vendor have one name.

Some pods may get GPUs that no quota can count. `opens_more` says so without asking a ledger.
"""

import re
from collections.abc import Iterator, Set

from webhook.gpus.gpu_shares import share_of
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import BUILT_IN, Accelerators, Share, Vendor, accelerator
from webhook.model.pod import Container, Pod
from webhook.model.wording import cut, few
from webhook.quota.amounts import is_unknown_slice
from webhook.quota.quota_wording import Objection, called
from webhook.quota.quotas import ANY_NODES, ClaimsMode, Counting, Demand, Nodes, Quota
from webhook.quota.unit_parts import WHOLE_UNITS, UnitParts, with_part

MOST_UNITS = 10**15
"""Most units of one resource that a pod counts: more than any limit allows, and exact in every reader of JSON."""


def demand_of(
    pod: Pod, namespace: str, counting: Counting, parts: UnitParts = WHOLE_UNITS, nodes: Nodes = ANY_NODES
) -> Demand | None:
    """The GPUs that the scheduler reserves for a pod, and the models it may land on; None for a pod without GPUs.

    `parts` says what units of its resources are, where they are no whole GPUs. Weights of the policy come before it.
    Attributes of a GPU, such as its share of memory (nvidia.com/gpumem), are no GPUs and never count.
    """
    if not pod.gpus:
        return None
    gpus: dict[str, int] = {}
    table = counting.catalogue.table
    for resource, count in pod.gpus.items():
        plain = resource in PLAIN
        name = resource if plain else entered_name(resource, counting.named, counting.accelerators, table)
        if resource in parts and resource not in counting.weights:
            name = with_part(resource, parts[resource])
        gpus[name] = min(gpus.get(name, 0) + count, MOST_UNITS)
    kinds = [share_of(labels, table) for labels in nodes.labels] if parts else ()
    are_shares = all(
        gpu.is_shared or (kinds and all(one.is_shared(gpu.resource) for one in kinds)) for gpu in pod.accelerators
    )
    models = counting.models_of(pod, nodes)
    return Demand(namespace, tuple(sorted(gpus.items())), models, are_shares=are_shares)


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
"""After a vendor's domain and a slash: the name of all unknown resources of the vendor. The first that is the vendor's
is taken."""

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
    return _known(resource, table) or accelerators.declaration(resource) or _other(resource)


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


def _other(resource: str) -> str:
    domain, _, _ = resource.partition("/")
    vendor = _vendor(resource)
    return next((name for end in _OTHERS if _vendor(name := f"{domain}/{end}") is vendor), resource)


def _vendor(resource: str) -> Vendor | str | None:
    gpu = accelerator(resource)
    return "none" if gpu is None else gpu.vendor


CLAIMS = "spec.resourceClaims"
"""The field of a pod with its resource claims."""
BY_CLAIM = "requests devices by resource claims, which may be GPUs"
"""What is found about a pod with resource claims by a caller that does not know the claims."""

REQUEST_COUNTED = "Request a GPU resource that is counted, in resources.limits"
_DECLARE = f"{REQUEST_COUNTED}, or ask the platform team to declare the class in accelerators.extra"
_WEIGH = f"{REQUEST_COUNTED}, or ask the platform team to set what it counts as in weights"


def allowed_by(quota: Quota) -> str:
    """What a quota allows of GPUs that it cannot count."""
    if quota.counting.claims is ClaimsMode.DENY:
        return f"{called(quota)} allows only what it can count"
    return f"{called(quota)} does not count them"


def opens_more(pod: Pod, quota: Quota) -> Iterator[Objection]:
    """What in the resources of a pod may be GPUs in a number that the quota cannot know."""
    for container in pod.containers:
        where = f"{container.path}.resources"
        if container.has_claims and not (pod.resource_claims or container.unknown_classes):
            found = "uses a resource claim, which may be GPUs"
            yield Objection(f"{where}.claims", found, allowed_by(quota), REQUEST_COUNTED)
        if container.unknown_classes:
            names = few([cut(one) for one, _ in container.unknown_classes])
            found = f"requests {names}, which may be GPUs or not"
            yield Objection(where, found, allowed_by(quota), _DECLARE)
        opening = _opening(container, quota)
        if opening:
            found = f"requests {few(opening)}, which gives access to all GPUs of a node"
            is_denied = quota.counting.claims is ClaimsMode.DENY
            counted = allowed_by(quota) if is_denied else f"{called(quota)} counts it as 1"
            yield Objection(where, found, counted, _WEIGH)


def _opening(container: Container, quota: Quota) -> list[str]:
    """The resources of a container that give access to all GPUs of a node, and have no weight in the policy."""
    return [
        cut(request.resource)
        for request in container.gpu_requests
        if request.count and request.accelerator.share is Share.NODE and request.resource not in quota.counting.weights
    ]
