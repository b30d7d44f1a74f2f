"""The objects that say which driver GPU Operator installs on which nodes: ClusterPolicy and NVIDIADriver.

A ClusterPolicy installs one driver everywhere, or leaves it to NVIDIADrivers. Among these, the default one has the
nodes that no other selects. While two select one node, none is rolled out. Nodes that bring their own driver are left
alone. A GPUCluster installs no driver.

Sources: api/nvidia/, internal/nvidiadriver and internal/validator of NVIDIA/gpu-operator v26.7.0; its release notes 1.9
on the label nvidia.com/gpu.deploy.driver.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import permutations
from operator import or_
from typing import Any

from webhook.facts.node_index import Mask, NodeTable, changing
from webhook.model.json_parts import mapped, part, text
from webhook.model.node import DRIVER_PARTS, ChangingNodes, NextDriver, RuntimeClass, driver_labels
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.resource_slices import SliceDriver
from webhook.model.shape import ShapeError

NVIDIA_GROUP = "nvidia.com"
CLUSTER_POLICY, NVIDIA_DRIVER = "ClusterPolicy", "NVIDIADriver"
OF_SNAPSHOT = {CLUSTER_POLICY: "cluster_policies", NVIDIA_DRIVER: "nvidia_drivers"}
"""Kind -> the part of a snapshot that has its objects."""

_VERSION = re.compile(r"([0-9]{3}(?:\.[0-9]{1,9}){0,2})(?![0-9.])")
_MANAGED: Mapping[str, tuple[str | None, ...]] = {
    "nvidia.com/gpu.present": (None, "true"),
    "nvidia.com/gpu.deploy.operands": (None, "", "true"),
    "nvidia.com/gpu.deploy.driver": (None, "", "true"),
    "nvidia.com/gpu.workload.config": (None, "", "container"),
}
"""Label -> its values, None for no label, on nodes that may get a driver for containers; pre-installed is no such."""


def has_driver(version: str, labels: Mapping[str, str], slices: SliceDriver | None = None) -> bool:
    """Whether nodes say that they have this driver; of a version that is only a branch, any driver of the branch."""
    numbers = [next((labels[key] for key in keys if labels.get(key)), "") for keys in DRIVER_PARTS]
    said = (
        labels.get("nvidia.com/cuda.driver-version.full")
        or ".".join(filter(None, numbers))
        or ("" if slices is None else slices.driver)
    )
    own, wanted = ([one.lstrip("0") for one in written.split(".")] for written in (said, version))
    return own[: len(wanted)] == wanted


@dataclass(frozen=True)
class DriverObject:
    """A ClusterPolicy or NVIDIADriver. `written` is its version as it stands there, and `choice` what selects nodes.

    `is_on`: it installs a driver for containers. `leaves_it`: a ClusterPolicy leaves drivers to NVIDIADrivers.
    """

    kind: str
    name: str
    written: str
    choice: str
    is_on: bool
    is_default: bool = False
    leaves_it: bool = False
    pod: Pod | None = field(default=None, compare=False)
    """A pod of the DaemonSet that installs the driver, with its choice of nodes."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def where(self) -> str:
        of_policy = "spec.driver.useNvidiaDriverCRD" if self.leaves_it else "spec.driver.version"
        return of_policy if self.kind == CLUSTER_POLICY else "spec.version"

    @cached_property
    def version(self) -> str:
        """What a tag tells of the driver, such as 580 or 580.95.05, whatever follows; empty for a digest or a word."""
        found = _VERSION.match(self.written)
        return "" if found is None else found[1]

    @property
    def selector(self) -> Mapping[str, str]:
        return {} if self.pod is None else self.pod.node_selector

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether nodes with these labels may get its driver, as far as node affinity allows."""
        return self.selector.items() <= labels.items() and all(labels.get(key) in of for key, of in _MANAGED.items())

    def selected(self, table: NodeTable) -> Mask:
        mask = table.everything if self.pod is None else table.selected_nodes(self.pod, None)
        for key, values in _MANAGED.items():
            mask &= table.labelled(key, values)
        return mask


def is_driver_object(raw: object) -> bool:
    """Whether it is one of GPU Operator's; Kyverno has a kind ClusterPolicy, too."""
    return text(raw, "apiVersion").partition("/")[0] == NVIDIA_GROUP and text(raw, "kind") in OF_SNAPSHOT


def driver_object_from(raw: Any) -> DriverObject:
    """Read an object for which `is_driver_object` holds. Raises ShapeError where its choice of nodes is malformed."""
    kind, spec = text(raw, "kind"), mapped(raw, "spec")
    name = text(raw, "metadata", "name") or text(raw, "metadata", "generateName")
    if kind == CLUSTER_POLICY:
        driver = mapped(spec, "driver")
        leaves_it = driver.get("useNvidiaDriverCRD") is True
        is_on = driver.get("enabled") is not False and not leaves_it
        return DriverObject(kind, name, str(driver.get("version") or ""), "", is_on, leaves_it=leaves_it)
    choice = {"nodeSelector": spec.get("nodeSelector") or {}}
    if spec.get("nodeAffinity"):
        choice["affinity"] = {"nodeAffinity": spec["nodeAffinity"]}
    pod = pod_from_raw({"spec": {**choice, "containers": []}})
    is_on = part(spec, "driverType") != "vgpu-host-manager"
    is_default = spec.get("default") is True
    return DriverObject(kind, name, str(spec.get("version") or ""), repr(choice), is_on, is_default, pod=pod)


def named_driver_object(raw: object) -> tuple[str, DriverObject] | None:
    """The name and the object; None for one that cannot be read."""
    with suppress(ShapeError):
        one = driver_object_from(raw) if is_driver_object(raw) else None
        return (one.name, one) if one is not None and one.name else None
    return None


def driven_nodes(
    objects: Collection[DriverObject], table: NodeTable
) -> tuple[dict[DriverObject, Mask], dict[DriverObject, tuple[DriverObject, Mask]]]:
    """The nodes of each object that installs a driver; and for an object another one that selects some of its nodes.

    NVIDIADrivers install none while a ClusterPolicy does.
    """
    policies = [one for one in objects if one.kind == CLUSTER_POLICY]
    if policies and not any(one.leaves_it for one in policies):
        return {one: one.selected(table) for one in policies if one.is_on}, {}
    nodes = {one: one.selected(table) for one in objects if one.kind != CLUSTER_POLICY}
    chosen = reduce(or_, (mask for one, mask in nodes.items() if not one.is_default), 0)
    nodes = {one: mask & ~chosen if one.is_default else mask for one, mask in nodes.items()}
    rivals = {one: (other, both) for one, other in permutations(nodes, 2) if (both := nodes[one] & nodes[other])}
    return {one: mask for one, mask in nodes.items() if one.is_on}, rivals


def coming_nodes(
    objects: tuple[DriverObject, ...], table: NodeTable, pod: Pod, runtime_class: RuntimeClass | None
) -> Iterator[ChangingNodes]:
    """The nodes that match a pod now and will get another driver by one of these objects, object by object."""
    nodes, rivals = table.kept(objects, lambda: driven_nodes(objects, table))
    matching = table.matching_nodes(pod, runtime_class)
    for one, mask in nodes.items() if not rivals else ():
        version, own = one.version, table.classes(matching & mask) if one.version else ()
        if now := tuple(kind for kind in own if not has_driver(version, kind.labels, kind.by_slices)):
            change = NextDriver(version, 0.0, "", tuple(driver_labels(version).items()))
            yield changing(one.title, change, now)
