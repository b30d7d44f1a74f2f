"""Manifests as people write them, and the policies of the namespaces they go to (by the prefix of their names)."""

from typing import Any

JUDGED = """\
    tolerations: {mode: disabled}
    nodeAffinity: {mode: disabled}
    runtimeClass: {mode: disabled}
    sharedMemory: {mode: disabled}
    ncclEnv: {mode: disabled}
"""
"""Rules of a policy that injects nothing."""

POLICIES = {
    "judged": f"""\
spec:
  namespaces: ["judged-*"]
  rules:
    visibleDevices: {{mode: enforce}}
{JUDGED}""",
    "enforced": """\
spec:
  namespaces: ["enforced-*"]
  rules:
    nodeAffinity:
      required: [{key: example.com/pool, operator: In, values: [gpu]}]
    sharedMemory: {size: 1Gi}
    ncclEnv: {env: {NCCL_SOCKET_IFNAME: eth0}}
    visibleDevices: {mode: enforce}
""",
    "claimed": f"""\
spec:
  namespaces: ["claimed-*"]
  workloads: {{mode: enforce}}
  rules:
    resourceClaims: {{mode: enforce, deviceClasses: {{denied: ["*.example.com"]}}}}
    schedulable: {{mode: warn}}
{JUDGED}""",
    "warned": """\
spec:
  namespaces: ["warned-*"]
  rules:
    tolerations: {mode: warn}
    nodeAffinity: {mode: warn}
    runtimeClass: {mode: warn}
    sharedMemory: {mode: warn}
    ncclEnv: {mode: warn}
    gpuLimits: {mode: warn, maxPerPod: 1}
    visibleDevices: {mode: warn}
""",
    "audited": """\
spec:
  namespaces: ["audited-*"]
  rules:
    tolerations: {mode: audit}
    nodeAffinity: {mode: audit}
    runtimeClass: {mode: audit}
    sharedMemory: {mode: audit}
    ncclEnv: {mode: audit}
    gpuLimits: {mode: audit, maxPerPod: 1}
    visibleDevices: {mode: audit}
""",
    "judgedcuda": f"""\
spec:
  namespaces: ["judgedcuda-*"]
  rules:
    cudaDriver: {{steer: false}}
{JUDGED}""",
    "knowing": f"""\
spec:
  namespaces: ["knowing-*"]
  rules:
    cudaDriver: {{steer: false, unknown: deny}}
{JUDGED}""",
    "held": f"""\
spec:
  namespaces: ["held-*"]
  workloads: {{mode: enforce}}
  rules:
    cudaDriver: {{steer: false}}
    gpuQuota: {{gpus: 12}}
{JUDGED}""",
    "told": f"""\
spec:
  namespaces: ["told-*"]
  rules:
    cudaDriver: {{steer: false}}
    gpuQuota: {{gpus: 12}}
{JUDGED}""",
    "advised": f"""\
spec:
  namespaces: ["advised-*"]
  rules:
    cudaDriver: {{steer: false}}
    replicaSpread: {{mode: warn}}
{JUDGED}""",
    "strict": f"""\
spec:
  namespaces: ["strict-*"]
  workloads: {{mode: enforce}}
  rules:
    cudaDriver: {{steer: false}}
    gpuNodesForGpuPods: {{mode: enforce}}
    imagePinning: {{mode: enforce}}
    memoryAndCpu: {{mode: enforce}}
    replicaSpread: {{mode: enforce}}
    schedulable: {{mode: enforce}}
    sharedGpus: {{mode: enforce, failRequestsGreaterThanOne: true}}
    timeLimit: {{mode: enforce, max: 8h, missing: refuse}}
{JUDGED}""",
    "classed": f"""\
spec:
  namespaces: ["classed-*"]
  rules:
    cudaDriver: {{steer: false}}
    priorityClass: {{mode: enforce, allowed: ["practice-*"]}}
{JUDGED}""",
    "placed": f"""\
spec:
  namespaces: ["placed-*"]
  rules:
    gpuLimits: {{mode: disabled}}
    cudaDriver: {{mode: disabled}}
{JUDGED}""",
    "explained": """\
spec:
  namespaces: ["explained-*"]
  rules:
    gpuLimits: {mode: enforce, maxPerPod: 4}
""",
    "counted": """\
spec:
  namespaces: ["counted-*"]
  rules:
    gpuQuota: {mode: enforce, gpus: 2}
""",
    "placing": """\
spec:
  namespaces: ["placing-*"]
  rules:
    nodeAffinity: {mode: enforce, required: [{key: example.com/nowhere, operator: Exists}]}
""",
    "steered": """\
spec:
  namespaces: ["steered-*"]
  rules:
    tolerations: {mode: enforce}
""",
}


def gpu_pod(name: str, gpus: int = 2, **spec: Any) -> dict[str, Any]:
    """A pod with one container that asks for GPUs in limits, and for the cpu and memory that go with them."""
    return pod(name, {"requests": {"cpu": "100m"}, "limits": {"memory": "4Gi", "nvidia.com/gpu": str(gpus)}}, **spec)


def pod(name: str, resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with one container that has these resources."""
    container = {"name": "main", "image": "registry.example/trainer:1", "resources": resources}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def deployment(name: str, template: dict[str, Any]) -> dict[str, Any]:
    """A Deployment of one replica whose template is that of the pod."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def job(name: str, template: dict[str, Any]) -> dict[str, Any]:
    """A Job whose template is that of the pod."""
    spec = {**template["spec"], "restartPolicy": "Never"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": spec}}}
