"""Pods, nodes and surroundings, as `gpu-policy why` has read them."""

from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from webhook.audit.owners import reference_of
from webhook.commands.why import print_answer
from webhook.engine.running_rules import facts_under
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.loader import load
from webhook.policy.policy_set import Policy
from webhook.why.explanation import Answer, Explanation
from webhook.why.observed import NodeUsage, ObservedPod, ObservedWorkload, SeenEvent, Surroundings, node_state
from webhook.why.pod_reasons import why_pod

Raw = dict[str, Any]
POLICIES = load(Path(__file__).parents[2] / "policies")
POLICY: Policy = POLICIES.for_namespace("team")
TOLERATED = [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def pod(gpus: int = 1, name: str = "train-0", status: Raw | None = None, **spec: Any) -> Raw:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    containers = [{"name": "main", "image": "registry.example/trainer:1", "resources": resources}]
    metadata = {"name": name, "namespace": "team", "uid": f"0b8ef7a2-9a35-4d3e-8d0d-{abs(hash(name)) % 10**12:012}"}
    spec = {"containers": containers, "tolerations": TOLERATED, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending", **(status or {})},
    }


def node(name: str, gpus: int = 8, ready: str = "True", allocatable: int | None = None, **spec: Any) -> Raw:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "kubernetes.io/hostname": name}
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    usable = {**amounts, "nvidia.com/gpu": str(gpus if allocatable is None else allocatable)}
    conditions = [{"type": "Ready", "status": ready, "message": "the kubelet says so"}]
    status = {"capacity": amounts, "allocatable": usable, "conditions": conditions}
    return {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec, "status": status}


def around(
    *nodes: Raw, pods: tuple[Raw, ...] = (), policy: Policy | None = POLICY, counts: bool = True
) -> Surroundings:
    """What is known around a pod: these nodes, and what these pods request."""
    usage = NodeUsage()
    for raw in pods:
        usage.add(raw)
    facts = ClusterFacts.of(nodes)
    facts = facts if policy is None else facts_under(policy, facts)
    states = {one.name: one for one in map(node_state, nodes)}
    return Surroundings(policy, facts, states, usage if counts else None)


def seen(raw: Raw, *events: SeenEvent) -> ObservedPod:
    return ObservedPod(raw, pod_from_raw(raw), events=events)


NOTHING_AROUND = Surroundings()


def why(observed: ObservedPod, known: Surroundings = NOTHING_AROUND) -> Explanation:
    return why_pod(replace(observed, around=known))


def event(reason: str, message: str = "", last: str = "2026-11-01T10:00:00Z", *, warns: bool = True) -> SeenEvent:
    return SeenEvent(reference_of(pod()), reason, message, last, is_warning=warns)


def workload(kind: str = "Job", **parts: Any) -> Raw:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    template = {"spec": pod()["spec"]}
    spec = {"template": template, **parts.pop("spec", {})}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "train", "namespace": "team", "uid": "u"},
        "spec": spec,
        **parts,
    }


def observed(raw: Raw, *events: SeenEvent, pods: int = 0, desired: int | None = 1, **more: Any) -> ObservedWorkload:
    return ObservedWorkload(raw, reference_of(raw), events=events, pods=pods, desired=desired, **more)


def printed(answer: Answer) -> str:
    with redirect_stdout(StringIO()) as shown:
        print_answer(answer)
    return shown.getvalue()
