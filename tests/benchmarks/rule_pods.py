"""For every rule, pods made of the benchmark's own: one that the rule completes, one that it objects to, one that it
passes.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.model.edits import apply
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.rule import Advice, Facts, Rule
from webhook.rules.rule_settings import RuleSettings

Raw = Mapping[str, Any]

PRIORITY_CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "training"},
    "value": 1000,
}


@dataclass(frozen=True, slots=True)
class RulePods:
    """Pods for one rule. `lacks` is completed under `settings` and `adding`. `breaks` is objected to under `settings`:
    with advice by a rule that only advises, with violations by every other.

    `keeps` is neither; None where it is `lacks` as the rule completes it.
    """

    lacks: Raw | None = None
    breaks: Raw | None = None
    keeps: Raw | None = None
    settings: Raw = field(default_factory=dict)
    adding: Raw = field(default_factory=dict)

    def judging(self, rule: Rule) -> RuleSettings:
        """The settings under which pods are judged."""
        return rule.settings.model_validate({"mode": "enforce", **self.settings})

    def completing(self, rule: Rule) -> RuleSettings:
        """The settings under which pods are completed."""
        return rule.settings.model_validate({"mode": "enforce", **self.settings, **self.adding})

    def kept(self, rule: Rule, facts: Facts) -> Raw:
        """The pod that the rule has nothing to do with."""
        if self.keeps is not None:
            return self.keeps
        assert rule.mutate is not None
        assert self.lacks is not None
        values = rule.mutate(pod_from_raw(self.lacks), self.completing(rule), facts)
        return apply(self.lacks, (value for value in values if not isinstance(value, Advice))).object


def rule_pods(raw: Raw) -> Mapping[str, RulePods]:
    """The pods of every rule by its key. `raw` asks for two whole GPUs in one container, and tolerates no GPU node."""
    tolerating = _with(raw, "tolerations", [{"key": "nvidia.com/gpu", "operator": "Exists"}])
    in_requests = _of_container(raw, "resources", {"requests": {"nvidia.com/gpu": "2"}})
    nccl = {"NCCL_DEBUG": "WARN", "NCCL_IB_DISABLE": "1"}
    return {
        "tolerations": RulePods(raw),
        "nodeAffinity": RulePods(
            raw,
            _with(raw, "nodeSelector", {"example.com/pool": "other"}),
            settings={"required": [{"key": "example.com/pool", "operator": "In", "values": ["gpu"]}]},
        ),
        "replicaSpread": RulePods(_replica(raw), _replica(raw), adding={"inject": "preferred"}),
        "gpuNodesForGpuPods": _without_gpus(tolerating),
        "priorityClass": RulePods(
            raw, _with(raw, "priorityClassName", "production"), settings={"name": "training", "allowed": ["training"]}
        ),
        "timeLimit": RulePods(_notebook(raw), _with(_notebook(raw), "activeDeadlineSeconds", 10**6)),
        "runtimeClass": RulePods(tolerating),
        "sharedMemory": RulePods(raw, _with_a_large_volume(raw)),
        "ncclEnv": RulePods(raw, settings={"env": nccl}),
        "driverCapabilities": RulePods(raw),
        "gpuLimits": RulePods(in_requests, in_requests, settings={"maxPerPod": 8}, adding={"requestsOnly": "repair"}),
        "sharedGpus": RulePods(breaks=_sharing(raw, "2"), keeps=_sharing(raw, "1")),
        "memoryAndCpu": RulePods(breaks=_of_container(raw, "resources", _gpus("nvidia.com/gpu", "2")), keeps=raw),
        "visibleDevices": RulePods(
            _with_a_sidecar(raw), _of_container(raw, "env", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
        ),
        "imagePinning": RulePods(breaks=_of_container(raw, "image", "nvcr.io/nvidia/pytorch"), keeps=raw),
        "schedulable": RulePods(
            breaks=_of_container(tolerating, "resources", _gpus("nvidia.com/gpu", "16")), keeps=tolerating
        ),
        "cudaDriver": RulePods(
            tolerating, _with(tolerating, "nodeSelector", {"nvidia.com/cuda.driver-version.full": "560.54.15"})
        ),
        "gpuQuota": RulePods(
            breaks=_of_container(raw, "resources", _gpus("nvidia.com/gpu", "2000")),
            keeps=raw,
            settings={"gpus": 1000, "byModel": {"H100": 500, "T4": 500}},
        ),
    }


def _with(raw: Raw, key: str, value: Any) -> dict[str, Any]:
    """A copy of the pod in whose spec this stands; a list is appended to what stands there."""
    pod = copy.deepcopy(dict(raw))
    there = pod["spec"].get(key)
    pod["spec"][key] = [*there, *value] if isinstance(there, list) and isinstance(value, list) else value
    return pod


def _of_container(raw: Raw, key: str, value: Any) -> dict[str, Any]:
    """A copy of the pod in whose only container this stands."""
    pod = copy.deepcopy(dict(raw))
    pod["spec"]["containers"][0][key] = value
    return pod


def _gpus(resource: str, count: str) -> dict[str, Any]:
    return {"limits": {resource: count}, "requests": {resource: count}}


def _sharing(raw: Raw, count: str) -> dict[str, Any]:
    return _of_container(raw, "resources", _gpus("nvidia.com/gpu.shared", count))


def _with_a_sidecar(raw: Raw) -> dict[str, Any]:
    return _with(raw, "containers", [{"name": "upload", "image": "registry.example.com/upload:1"}])


def _with_a_large_volume(raw: Raw) -> dict[str, Any]:
    """It mounts at /dev/shm what may hold more than any container of the benchmark's pods may use."""
    pod = _of_container(raw, "volumeMounts", [{"name": "dshm", "mountPath": "/dev/shm"}])
    return _with(pod, "volumes", [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Ti"}}])


def _without_gpus(tolerating: Raw) -> RulePods:
    """Both tolerate the taint of GPU nodes; the one that passes can land on none of them."""
    pod = _of_container(tolerating, "resources", {"requests": {"cpu": "1", "memory": "1Gi"}})
    return RulePods(breaks=pod, keeps=_with(pod, "nodeSelector", {"kubernetes.io/arch": "arm64"}))


def _replica(raw: Raw) -> dict[str, Any]:
    pod = copy.deepcopy(dict(raw))
    pod["metadata"]["ownerReferences"][0] |= {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    pod["metadata"]["labels"]["pod-template-hash"] = "6f6f9d1a"
    return pod


def _notebook(raw: Raw) -> dict[str, Any]:
    pod = copy.deepcopy(dict(raw))
    pod["metadata"]["labels"]["component"] = "singleuser-server"
    return pod
