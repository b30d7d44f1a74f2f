"""The kind of the SageMaker HyperPod inference operator that says what its pods ask for.

Fields and defaults are those of the CustomResourceDefinition in helm_chart/HyperPodHelmChart/charts/inference-operator
of aws/sagemaker-hyperpod-cli. The operator's source is not public: what it tolerates and which priority it gives nobody
knows here. Of JumpStartModels nothing is known, since SageMaker decides what they ask for.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.workloads.parts import counted, mapped, part
from webhook.model.workloads.template import Template

_MAIN = "worker"
_LEFT_TO_THE_OPERATOR = frozenset(
    {
        "spec.activeDeadlineSeconds",
        "spec.priorityClassName",
        "spec.tolerations",
        "spec.volumes",
    }
)


def inference_endpoint_config(raw: Mapping[str, Any]) -> Iterator[Template]:
    """InferenceEndpointConfig."""
    spec, worker = mapped(raw, "spec"), mapped(raw, "spec", "worker")
    if not mapped(worker, "resources"):
        return
    container = {
        "name": _MAIN,
        "image": worker.get("image"),
        "env": worker.get("environmentVariables"),
        "resources": worker["resources"],
    }
    affinity = {"nodeAffinity": spec["nodeAffinity"]} if mapped(spec, "nodeAffinity") else None
    elsewhere = {
        f"spec.containers[{_MAIN}]": "spec.worker",
        f"spec.containers[{_MAIN}].env": "spec.worker.environmentVariables",
        "spec.affinity.nodeAffinity": "spec.nodeAffinity",
    }
    pods = counted(spec.get("replicas"), 1)
    least = part(spec, "autoScalingSpec", "minReplicaCount")
    if mapped(spec, "autoScalingSpec"):
        pods = counted(least, None) or None
    yield Template(
        {"spec": {"affinity": affinity, "containers": [container]}},
        "spec",
        pods=pods,
        elsewhere=elsewhere,
        unknown=_LEFT_TO_THE_OPERATOR,
    )
