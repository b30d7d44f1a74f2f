"""The templates of every kind are pods that the rules can judge, and what they say names its place in the object."""

import copy
from typing import Any

import pytest

from tests.build import FACTS, NAMESPACE, policy
from tests.facts.samples import GPU_TAINT, node
from tests.golden import each
from tests.model.workloads.samples import CASES, title
from webhook import engine
from webhook.facts.facts import ClusterFacts

STRICT = policy(
    {
        "tolerations": {},
        "sharedMemory": {"size": "1Gi"},
        "gpuLimits": {},
        "visibleDevices": {},
        "cudaDriver": {"unknown": "deny"},
    }
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: title(case["object"]))
def test_the_pods_of_every_kind_can_be_foreseen(case: dict[str, Any]) -> None:
    """The rules complete and judge them; nothing of that is written into the object."""
    raw = case["object"]
    before = copy.deepcopy(raw)
    foreseen = engine.template_outcomes(raw, NAMESPACE, STRICT, FACTS)
    assert raw == before
    assert [one.gpus for one in foreseen] == [gpus for _, _, _, gpus, *_ in case["templates"]]


TOLERANT = {
    "containers": [{"name": "a", "image": "a"}],
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
}
TEMPLATE = {"spec": TOLERANT}
RUNTIME = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": TEMPLATE}}}]}}}


@each(
    "api, object_, is_told",
    {
        "a Deployment": ("apps/v1 Deployment", {"spec": {"template": TEMPLATE}}, True),
        "a PodTemplate": ("v1 PodTemplate", {"template": TEMPLATE}, False),
        "a runtime": ("trainer.kubeflow.org/v1alpha1 TrainingRuntime", {"spec": RUNTIME}, False),
        "a serving runtime": ("serving.kserve.io/v1alpha1 ServingRuntime", {"spec": TOLERANT}, False),
    },
)
def test_of_tolerations_nothing_is_said_where_another_object_adds_the_gpus(
    api: str, object_: dict[str, Any], is_told: bool
) -> None:
    version, kind = api.split()
    raw = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **object_}
    facts = ClusterFacts.of([node("gpu", taints=[GPU_TAINT], capacity={"nvidia.com/gpu": "8"})])
    (one,) = engine.template_outcomes(raw, NAMESPACE, policy({"gpuNodesForGpuPods": {}}), facts)
    assert bool(one.findings) == is_told
