"""What one unit of `nvidia.com/gpu` is on nodes of a kind, by their labels: a GPU, a MIG slice, or a share of either.

In the MIG strategy `single`, every unit of `nvidia.com/gpu` is a slice. Where GPUs are shared by time-slicing or MPS,
several units are one GPU: they keep the name `nvidia.com/gpu`, and the product ends in `-SHARED`, or they are renamed
to `nvidia.com/gpu.shared`, and the product has no such end. Labels that are missing, unreadable or contradict each
other leave a unit a whole GPU, because more may never be taken for less.

Sources: internal/lm/resource.go and internal/lm/mig-strategy.go of NVIDIA/k8s-device-plugin, for GPU Feature Discovery;
the guides to time-sharing, MPS and MIG on Google Kubernetes Engine, whose nodes have labels of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from webhook.gpus.gpu_names import GKE_ACCELERATOR, NVIDIA_PRODUCT, base_name
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.node import GKE_CLIENTS, GKE_PARTITION, GKE_SHARING, GPU_REPLICAS, GPU_SHARING, MIG_STRATEGY
from webhook.model.shape import spelled

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
SHAREABLE = frozenset({GPU, SHARED_GPU})
"""The resources whose units labels describe."""

LACKING_UNITS = "(lacking units)"
"""A key beside the labels of a class of nodes, which no label can have: why labels about shares cannot be true."""

_SHARED = "-SHARED"
_MIG = "-MIG-"
_INVALID = "INVALID"
"""In the place of a profile, where the GPUs of a node do not fit the strategy `single`."""


class Sharing(StrEnum):
    """How pods share a GPU, or a slice, at the same time."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class GpuShare:
    """What one unit of a GPU resource is on nodes of a kind.

    `profile` is the MIG profile of every unit, as the table of GPUs spells it, empty for whole GPUs; `slices` is the
    most slices of this profile on one GPU. `replicas` is the number of units that share a GPU or slice, by `sharing`.
    `is_renamed`: shared units are `nvidia.com/gpu.shared`. `fault` says how labels contradict each other; units then
    count as whole GPUs. `is_known`: some label says what a unit is.
    """

    profile: str = ""
    slices: int = 1
    replicas: int = 1
    sharing: Sharing = Sharing.NONE
    is_renamed: bool = False
    fault: str = ""
    is_known: bool = False

    def part(self, resource: str) -> Fraction:
        """How much of a GPU one unit of a resource is: 1 for whatever labels do not describe.

        >>> GpuShare(replicas=4, sharing=Sharing.TIME_SLICING).part("nvidia.com/gpu")
        Fraction(1, 4)
        """
        if resource == (SHARED_GPU if self.is_renamed else GPU):
            return Fraction(1, self.slices * self.replicas)
        return Fraction(1, self.slices) if resource == GPU else Fraction(1)

    def is_shared(self, resource: str) -> bool:
        """Whether other pods use the GPU, or slice, of a unit at the same time, by time-slicing or MPS."""
        shared = SHARED_GPU if self.is_renamed else GPU
        return resource == shared and self.sharing is not Sharing.NONE

    def unit(self, resource: str) -> str:
        """What one unit of a resource is, for people; empty for a whole GPU."""
        return str(self) if self.is_shared(resource) else self.profile if resource == GPU else ""

    def __str__(self) -> str:
        shared = f"shared by {self.replicas} ({self.sharing})" if self.sharing is not Sharing.NONE else ""
        return ", ".join(filter(None, (self.profile, shared)))


WHOLE_GPU = GpuShare()
"""Labels say nothing about shares."""


def share_of(labels: Mapping[str, str], table: GpuTable = GPUS) -> GpuShare:
    """What one unit of a GPU resource is on nodes with these labels."""
    return _share(tuple([labels.get(key) for key in _READ]), table)


_READ = (
    NVIDIA_PRODUCT,
    GPU_REPLICAS,
    GPU_SHARING,
    MIG_STRATEGY,
    GKE_PARTITION,
    GKE_CLIENTS,
    GKE_SHARING,
    GKE_ACCELERATOR,
    LACKING_UNITS,
)
"""The labels that are read, in order of the values of `_share`."""


@lru_cache(maxsize=1024)
def _share(values: tuple[str | None, ...], table: GpuTable) -> GpuShare:
    product, replicas, strategy, mig, partition, clients, gke_sharing, accelerator, lacking = values
    if not any(values):
        return WHOLE_GPU
    if lacking:
        return GpuShare(fault=lacking, is_known=True)
    try:
        if partition or clients or gke_sharing:
            return _of_gke(partition or "", clients, gke_sharing or "", accelerator or "", table)
        return _of_discovery(product or "", replicas, strategy, mig, table)
    except _ContradictionError as error:
        return GpuShare(fault=str(error), is_known=True)


def lacking_units(labels: Mapping[str, str], capacity: Mapping[str, int], table: GpuTable = GPUS) -> str:
    """How a node offers too few units for the shares and slices that its labels mean; empty where it does not.

    GPU Feature Discovery and the device plugin read one configuration at different times, or different ones. In the MIG
    strategy mixed, GPUs with MIG are counted and not offered as nvidia.com/gpu.
    """
    share = share_of(labels, table)
    count, replicas = number_in(labels.get(_COUNT)), labels.get(GPU_REPLICAS)
    is_divided = share.replicas > 1 or share.profile
    if share.fault or not is_divided or labels.get(MIG_STRATEGY) == "mixed" or not count:
        return ""
    own = SHARED_GPU if share.is_renamed else GPU
    found, most = capacity.get(own, 0), count if share.replicas > 1 else count - 1
    if not 0 < found <= most:
        return ""
    meant = f"{_COUNT} is {count}"
    if share.replicas > 1:
        meant += f" and {GPU_REPLICAS} {replicas}, together {count * share.replicas}"
    return f"{own} is {found} in capacity, and {meant}"


_COUNT = "nvidia.com/gpu.count"


def number_in(label: str | None) -> int | None:
    """The number of GPUs, or of replicas of a GPU, in a label; None where there is none below a thousand million."""
    return int(label) if label and label.isascii() and label.isdigit() and len(label) < 10 else None


class _ContradictionError(Exception):
    """Labels say what cannot be at the same time."""


def _of_discovery(
    product: str, replicas: str | None, strategy: str | None, mig: str | None, table: GpuTable
) -> GpuShare:
    is_suffixed = product.endswith(_SHARED)
    if mig not in {None, "", "single"} and _MIG in product:
        raise _ContradictionError(
            f"{NVIDIA_PRODUCT} {spelled(product)} names MIG slices, and {MIG_STRATEGY} is {spelled(mig)}, not single"
        )
    profile, slices = _slice(product, table)
    number = _number(replicas, GPU_REPLICAS)
    if strategy not in {None, "", *Sharing}:
        raise _ContradictionError(f"{GPU_SHARING} is {spelled(strategy)}; expected none, time-slicing or mps")
    sharing = Sharing(strategy) if strategy else Sharing.TIME_SLICING if number > 1 else Sharing.NONE
    if sharing is Sharing.NONE and (number > 1 or is_suffixed):
        why = f"{GPU_REPLICAS} is {number}" if number > 1 else f"{NVIDIA_PRODUCT} ends in {_SHARED}"
        raise _ContradictionError(f"{why}, and {GPU_SHARING} is {_shown(strategy)}")
    if sharing is not Sharing.NONE and number < 2:
        raise _ContradictionError(f"{GPU_SHARING} is {sharing}, and {GPU_REPLICAS} is {_shown(replicas)}")
    return GpuShare(profile, slices, max(number, 1), sharing, sharing is not Sharing.NONE and not is_suffixed, "", True)


def _of_gke(partition: str, clients: str | None, strategy: str, accelerator: str, table: GpuTable) -> GpuShare:
    profile, slices = (
        _profile(partition, table.models_at(GKE_ACCELERATOR, accelerator), table) if partition else ("", 1)
    )
    number = _number(clients, GKE_CLIENTS)
    sharing = {"": Sharing.NONE, "time-sharing": Sharing.TIME_SLICING, "mps": Sharing.MPS}.get(strategy)
    if sharing is None:
        raise _ContradictionError(f"{GKE_SHARING} is {spelled(strategy)}; expected time-sharing or mps")
    if (sharing is Sharing.NONE) is not (number < 2):
        raise _ContradictionError(f"{GKE_SHARING} is {_shown(strategy)}, and {GKE_CLIENTS} is {_shown(clients)}")
    return GpuShare(profile, slices, max(number, 1), sharing, is_known=True)


def _shown(value: str | None) -> str:
    return spelled(value) if value else "missing"


def _number(text: str | None, key: str) -> int:
    number = number_in(text or "0")
    if number is None:
        raise _ContradictionError(f"{key} is {spelled(text)}; expected a number")
    return number


def _slice(product: str, table: GpuTable) -> tuple[str, int]:
    """The MIG profile in the name of a product, and how many of it fit on a GPU; no profile for a whole GPU."""
    name = base_name(product)
    profile = product.removesuffix(_SHARED)[len(name) :].removeprefix(_MIG)
    if not profile:
        return "", 1
    if profile == _INVALID:
        raise _ContradictionError(
            f"{NVIDIA_PRODUCT} ends in {_MIG}{_INVALID}: {MIG_STRATEGY} is single, and GPU Feature Discovery found "
            "slices of several profiles, GPUs with and without MIG, or a GPU without slices"
        )
    return _profile(profile, table.models_at(NVIDIA_PRODUCT, name), table)


def _profile(text: str, models: frozenset[str], table: GpuTable) -> tuple[str, int]:
    """A MIG profile as the table spells it, and how many of it fit on a GPU of one of these models."""
    plain = _plain(text)
    known = {profile for profile in table.profiles if _plain(profile) == plain}
    slices = [
        table.profiles[profile][model] for profile in known for model in models if model in table.profiles[profile]
    ]
    if not slices:
        raise _ContradictionError(f"{spelled(text)} is no MIG profile that is known of this GPU")
    return min(known), min(slices)


def _plain(profile: str) -> str:
    """A profile without what labels spell in several ways: 1g.10gb+me is 1g.10gbme or 1g.10gb.me there."""
    return profile.replace("+", "").replace(".", "")
