"""Pods without GPUs stay off GPU nodes, where they would take cpu and memory that GPU pods need.

A pod without GPUs breaks this rule if it tolerates the taint of GPU nodes by its key and would fit on a GPU node with
that taint. Exempt are pods of DaemonSets, pods that tolerate every taint (`tolerateAll: deny` ends this), pods that a
required pod affinity puts beside others, pods that request a device which only GPU nodes have, such as a network card,
and pods to which KAI or Run:ai gives a part of a GPU (`gpu-fraction`, `gpu-memory`).
"""

from collections.abc import Iterator
from functools import cache, cached_property
from typing import Annotated, Literal

from pydantic import Field

from webhook.model.gpu_fractions import ASKING
from webhook.model.node import Taint, Toleration, distinct
from webhook.model.pod import Pod
from webhook.model.requirements import demand_of, is_extended
from webhook.model.wording import counted, cut, few
from webhook.rules.names import LabelValue, TaintKey
from webhook.rules.pending.wants import Amount, only
from webhook.rules.rule import Example, Facts, Rule, Violation
from webhook.rules.rule_settings import Mode, RuleSettings
from webhook.yaml_files.camel_model import CamelModel, not_empty

_VENDORS = ("nvidia.com/", "amd.com/", "gpu.intel.com/")
"""Prefixes of resource names of GPU vendors. Their other devices, such as network cards, are on GPU nodes, too."""


class NodeTaint(CamelModel):
    """A taint that marks GPU nodes."""

    key: TaintKey = Field(min_length=1)
    """Key of the taint, such as `nvidia.com/gpu`."""
    value: LabelValue = ""
    """Value of the taint; empty stands for any value."""

    def marks(self, taint: Taint) -> bool:
        return taint.key == self.key and self.value in ("", taint.value)


class Settings(RuleSettings):
    """Settings of `gpuNodesForGpuPods`."""

    taints: Annotated[tuple[NodeTaint, ...], *not_empty("names no taint; write at least one, or disable the rule")] = (
        NodeTaint(key="nvidia.com/gpu"),
        NodeTaint(key="amd.com/gpu"),
        NodeTaint(key="gpu.intel.com/i915"),
        NodeTaint(key="gpu.intel.com/xe"),
        NodeTaint(key="sku", value="gpu"),
        NodeTaint(key="dedicated", value="gpu"),
    )
    """Taints that mark GPU nodes. Pods that tolerate those of other names than
    [these](operations.md#which-pods-are-sent) are found by audits only."""

    tolerate_all: Literal["allow", "deny"] = "allow"
    """Whether pods may be on GPU nodes because they tolerate every taint (`operator: Exists` without a key). With
    `deny` set webhook.sendTolerateAll of the chart; without it only audits find such pods."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of the taints, and the empty key of tolerations for every taint if these are denied."""
        return frozenset([*(taint.key for taint in self.taints), *([""] if self.tolerate_all == "deny" else [])])


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse a pod without GPUs whose tolerations let it onto GPU nodes."""
    if settings.keys.isdisjoint([toleration.key for toleration in pod.tolerations]) or _belongs_there(pod, settings):
        return
    named = distinct(toleration for toleration in pod.tolerations if toleration.key in settings.keys)

    @cache
    def opening(taint: Taint) -> list[Toleration]:
        """The tolerations without which a taint that marks GPU nodes would keep the pod away."""
        is_mark = any(mark.marks(taint) for mark in settings.taints)
        return [toleration for toleration in named if is_mark and toleration.tolerates(taint)]

    feasible = facts.feasible_nodes(pod)
    nodes = [node for node in feasible if node.gpu_resources and any(map(opening, node.taints))]
    if nodes and not _is_for_devices(pod, facts):
        used = sorted({_name(one) for node in nodes for taint in node.taints for one in opening(taint)})
        number = sum(node.count for node in nodes)
        onto = counted(number, "GPU node") if number else "nodes of a GPU pool"
        chooses = pod.node_selector or pod.required or pod.runtime_class
        elsewhere = ", and choose other nodes" if chooses and all(node.gpu_resources for node in feasible) else ""
        yield Violation(
            "spec.tolerations",
            f"lets a pod without GPUs onto {onto} by tolerating {few(used)}",
            "their cpu and memory are for GPU pods",
            f"Remove the {'toleration' if len(used) == 1 else 'tolerations'}{_and_zeros(pod)}{elsewhere}",
        )


def _is_for_devices(pod: Pod, facts: Facts) -> bool:
    """Whether the pod requests a device that only GPU nodes have, such as a network card."""
    devices = [Amount(name, amount, "") for name, amount in demand_of(pod).items() if is_extended(name)]
    return bool(devices) and all(node.gpu_resources for node in facts.feasible_nodes(only(pod, devices)))


def _belongs_there(pod: Pod, settings: Settings) -> bool:
    """Whether the pod is exempt: it may use GPUs in another way, belongs on a host, or may tolerate every taint."""
    if pod.gpus or pod.resource_claims or pod.owner_kind == "DaemonSet" or pod.stands_beside_pods:
        return True
    if settings.tolerate_all == "allow" and any(not toleration.key for toleration in pod.tolerations):
        return True
    if any(annotation in pod.annotations for annotation in ASKING):
        return True
    if any(container.has_claims or container.asks_gpu_attributes for container in pod.containers):
        return True
    return any(name.startswith(_VENDORS) for name in demand_of(pod))


def _name(toleration: Toleration) -> str:
    if not toleration.key:
        return "every taint"
    return cut(f"{toleration.key}={toleration.value}" if toleration.value else toleration.key)


def _and_zeros(pod: Pod) -> str:
    """The end of a remedy for containers that request 0 GPUs: Kubernetes may add a toleration for them."""
    zeros = [container for container in pod.lasting_containers() if container.gpu_requests]
    if not zeros:
        return ""
    names = [cut(container.name) for container in zeros]
    whose = f"container{'' if len(names) == 1 else 's'} {few(names)}"
    return f", and the request for 0 GPUs in {whose}, for which GKE adds the toleration"


_ON_GPU_NODES = """
apiVersion: v1
kind: Pod
metadata: {name: dashboard}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  containers:
    - name: web
      image: registry.example.com/dashboard:1
      resources: {requests: {cpu: 500m, memory: 1Gi}}
"""

RULE = Rule(
    key="gpuNodesForGpuPods",
    promise="GPU nodes are for GPU pods.",
    problem="Pods without GPUs fill a GPU node, and its GPUs stay free because no GPU pod fits.",
    example=Example(mode=Mode.WARN, manifest=_ON_GPU_NODES),
    settings=Settings,
    validate=validate,
)
