"""How much memory one unit of a GPU resource has: a whole GPU, a MIG slice, or a share of either.

A slice counts with the size in the name of its profile: `nvidia.com/mig-1g.10gb` has 10Gi. A whole GPU counts with what
GPU Feature Discovery says, `nvidia.com/gpu.memory` in MiB, or else with what the name of its model says for certain,
such as A100-40GB. Of other models the table of GPUs says how much they have at most: an L4 has 24 GB, or less where a
machine type gives a part of one. A share has its part of that, by time-slicing as by MPS.

What GPUs report is less than their name says: error correction takes a sixteenth of some, and the driver some more. A
T4 of 16 GB reports 15360 MiB, or 15109 with older drivers, an A100 of 40 GB 39538 MiB, a B200 of 192 GB 183359. So two
sizes that differ by less than 8 percent are one size here.

AMD's node labeller says `amd.com/gpu.vram`, rounded to GiB, where all units have one size. It is the memory of a unit
where the label `amd.com/compute-memory-partition` says that GPUs are whole (`spx`), and otherwise the most that a unit,
such as the partition `amd.com/cpx_nps4`, may have.

Sources: cmd/k8s-node-labeller of ROCm/k8s-device-plugin, docs/gpu-feature-discovery/README.md and
internal/lm/resource.go of NVIDIA/k8s-device-plugin, and labels of nodes as operators publish them.
"""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from webhook.gpus.gpu_shares import SHAREABLE, GpuShare
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import SHARED_SUFFIX
from webhook.model.selectors import as_integer

GPU_MEMORY = "nvidia.com/gpu.memory"
"""The label of GPU Feature Discovery for the memory of a GPU in MiB, or of a slice in the MIG strategy `single`."""

AMD_MEMORY = "amd.com/gpu.vram"
"""The label of AMD's node labeller for the memory of a GPU in whole GiB, such as `192G`."""
AMD_PARTITION = "amd.com/compute-memory-partition"
"""The label of AMD's node labeller that begins with `spx` where no GPU is divided, such as `spx_nps1`."""

_MIB, _GIB = 2**20, 2**30
_NEAR = 8
"""Sizes that differ by less than so many percent count as equal."""
_SIZE = re.compile(r"(?:([0-9]+)c\.)?[0-9]+g\.([0-9]{1,4})gb(?:[.+].*)?", re.ASCII)
_MIG_RESOURCE = "nvidia.com/mig-"
_NAMED = re.compile(r".*-([0-9]{1,4})GB", re.ASCII)
_VRAM = re.compile(r"([0-9]{1,5})G", re.ASCII)
_LEAST_ROUNDED = 7
"""GiB from which a size counts as equal to the same size rounded to GiB."""


class UnitMemory(NamedTuple):
    """The memory of one unit in bytes: it has `least` at least and `most` at most; None stands for unknown."""

    least: int | None = None
    most: int | None = None

    def is_below(self, size: int) -> bool:
        return self.most is not None and self.most * 100 < size * (100 - _NEAR)

    def is_above(self, size: int) -> bool:
        return self.least is not None and self.least * 100 > size * (100 + _NEAR)


UNKNOWN = UnitMemory()


def profile_of(resource: str) -> str:
    """The MIG profile in the name of a resource, as NVIDIA spells it; empty for every other resource.

    >>> profile_of("nvidia.com/mig-1g.10gb.me.shared"), profile_of("nvidia.com/gpu")
    ('1g.10gb+me', '')
    """
    if not resource.startswith(_MIG_RESOURCE):
        return ""
    profile = resource.removeprefix(_MIG_RESOURCE).removesuffix(SHARED_SUFFIX)
    size, _, attributes = profile.partition("gb.")
    return f"{size}gb+{attributes}" if attributes else profile


def memory_of(
    resource: str,
    labels: Mapping[str, str],
    share: GpuShare,
    models: Collection[str] | None = None,
    table: GpuTable = GPUS,
) -> UnitMemory:
    """The memory of a unit of a resource on nodes with these labels; `models` are the models that its GPU may have.

    >>> memory_of("nvidia.com/gpu", {}, GpuShare(), ("L4",)).most // 2**30
    24
    >>> memory_of("nvidia.com/gpu", {GPU_MEMORY: "15360"}, GpuShare(replicas=4)).most // 2**20
    15360
    """
    if profile := profile_of(resource):
        size = _size_of(profile)
        is_divided = resource.endswith(SHARED_SUFFIX) or "c." in profile
        return UnitMemory(None if is_divided else size, size)
    if resource.startswith("amd.com/"):
        return _of_amd(labels)
    if resource not in SHAREABLE or share.fault:
        return UNKNOWN
    found = _of_gpu(labels, share, models or (), table)
    parts = share.replicas if share.is_shared(resource) else 1
    return UnitMemory(*(None if size is None else size // parts for size in found))


def _of_gpu(labels: Mapping[str, str], share: GpuShare, models: Collection[str], table: GpuTable) -> UnitMemory:
    if share.profile:
        size = _size_of(share.profile)
        return UnitMemory(size, size)
    labelled = as_integer(labels.get(GPU_MEMORY)) or 0
    if labelled > 0:  # nodes in a bad MIG mode have the label 0
        return UnitMemory(labelled * _MIB, labelled * _MIB)
    known = [int(found[1]) * _GIB for model in models if (found := _NAMED.fullmatch(model))]
    if known and len(known) == len(models):
        return UnitMemory(min(known), max(known))
    listed = [table.memory[model] * _GIB for model in models if model in table.memory]
    return UnitMemory(None, max(listed)) if listed and len(listed) == len(models) else UNKNOWN


def _of_amd(labels: Mapping[str, str]) -> UnitMemory:
    found = _VRAM.fullmatch(labels.get(AMD_MEMORY, ""))
    if found is None or int(found.group(1)) < _LEAST_ROUNDED:
        return UNKNOWN
    size = int(found.group(1)) * _GIB
    return UnitMemory(size if labels.get(AMD_PARTITION, "").startswith("spx") else None, size)


def _size_of(profile: str) -> int | None:
    found = _SIZE.fullmatch(profile)
    return int(found.group(2)) * _GIB if found is not None and int(found.group(2)) else None
