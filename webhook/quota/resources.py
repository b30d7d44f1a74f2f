"""The names under which GPUs are entered in ledgers. A tenant can make names up; those that no limit names count alike.

What counts differently keeps its name: what limits and weights of the policy name, and what is known to weigh other
than a whole GPU. All the rest of a vendor goes by one name.
"""

import re
from collections.abc import Set

from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import BUILT_IN, Accelerators, Vendor, accelerator
from webhook.quota.amounts import is_unknown_slice

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
"""Names that keep themselves, whatever a policy says."""
_OTHERS = ("OTHER", "other")
"""What may stand behind the domain of a vendor for all names that nobody knows."""

_INSTANCE = re.compile(r"(nvidia\.com/mig-)([0-9]+)c\.([0-9]+)(g\..*)", re.ASCII)
_PARTITION = re.compile(r"(amd\.com/[a-z]px_nps)[0-9]+", re.ASCII)


def entered_name(resource: str, named: Set[str], accelerators: Accelerators = BUILT_IN, table: GpuTable = GPUS) -> str:
    """The name under which a resource is entered; `named` are those that a policy names.

    What a policy declares goes by the name or glob of its declaration, which tells the vendor as well.

    >>> entered_name("nvidia.com/MADE_UP", frozenset()), entered_name("nvidia.com/MADE_UP", {"nvidia.com/MADE_UP"})
    ('nvidia.com/OTHER', 'nvidia.com/MADE_UP')
    >>> entered_name("nvidia.com/mig-1g.10gb", frozenset()), entered_name("nvidia.com/mig-9g.9gb", frozenset())
    ('nvidia.com/mig-1g.10gb', 'nvidia.com/OTHER')
    """
    if resource in PLAIN or resource in named:
        return resource
    return _known(resource, table) or accelerators.declaration(resource) or _other(resource)


def _known(resource: str, table: GpuTable) -> str:
    """The usual spelling of a MIG slice or a partition that weighs less than a GPU; empty for everything else."""
    if (partition := _PARTITION.fullmatch(resource)) is not None:
        return f"{partition.group(1)}1"  # the memory mode says nothing of how many partitions a GPU has
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
