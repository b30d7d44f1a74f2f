"""The templates of every kind are pods that the rules can judge, and what they say names its place in the object."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.build import FACTS, NAMESPACE, policy
from tests.facts.samples import GPU_TAINT, node
from tests.model.workloads.samples import CASES, OBJECTS, title
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


def asked_in_requests(raw: Any) -> Iterator[dict[str, Any]]:
    """The resources of an object that ask for GPUs in limits only, moved to requests."""
    if isinstance(raw, dict):
        limits = raw.get("limits")
        if isinstance(limits, dict) and "nvidia.com/gpu" in limits:
            raw["requests"] = {"nvidia.com/gpu": limits.pop("nvidia.com/gpu")}
            yield raw
        for value in raw.values():
            yield from asked_in_requests(value)
    elif isinstance(raw, list):
        for value in raw:
            yield from asked_in_requests(value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: title(case["object"]))
def test_the_pods_of_every_kind_can_be_foreseen(case: dict[str, Any]) -> None:
    """The rules complete and judge them; nothing of that is written into the object."""
    raw = case["object"]
    before = copy.deepcopy(raw)
    foreseen = engine.template_outcomes(raw, NAMESPACE, STRICT, FACTS)
    assert raw == before
    assert [one.gpus for one in foreseen] == [gpus for _, _, _, gpus, *_ in case["templates"]]


ASKING = [raw for raw in OBJECTS if any(asked_in_requests(copy.deepcopy(raw)))]


@pytest.mark.parametrize("raw", ASKING, ids=title)
def test_requests_without_limits_are_found_wherever_a_kind_keeps_them(raw: dict[str, Any]) -> None:
    """The API server checks them in its own kinds only."""
    changed = copy.deepcopy(raw)
    assert list(asked_in_requests(changed))
    for one in engine.template_outcomes(changed, NAMESPACE, policy({"gpuLimits": {}}), FACTS):
        found = [finding for finding in one.findings if "missing in limits" in finding.message]
        assert one.is_refused == bool(found) == bool(one.gpus)
        for finding in found:
            place = finding.field.removesuffix(".resources").removesuffix(".resourcesPerNode")
            assert place != finding.field
            assert finding.about.startswith("pod template")


def test_nothing_is_refused_for_an_image_that_is_filled_in_later() -> None:
    """Where what is not known is refused, an image that is written down and unknown is the counterpart."""

    def refused(image: str) -> list[str]:
        container = {"image": image, "resources": {"limits": {"nvidia.com/gpu": 1}}}
        spec = {"templates": [{"name": "a", "container": container}]}
        raw = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": spec}
        (one,) = engine.template_outcomes(raw, NAMESPACE, STRICT, FACTS)
        return [finding.field for finding in one.findings if finding.refuses]

    assert refused("my/trainer:1") == ["spec.templates[a].container.image"]
    assert refused("my/trainer:{{inputs.parameters.tag}}") == []


TOLERANT = {
    "containers": [{"name": "a", "image": "a"}],
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
}
TEMPLATE = {"spec": TOLERANT}
RUNTIME = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": TEMPLATE}}}]}}}


@pytest.mark.parametrize(
    ("api", "object_", "is_told"),
    [
        pytest.param("apps/v1 Deployment", {"spec": {"template": TEMPLATE}}, True, id="a Deployment"),
        pytest.param("v1 PodTemplate", {"template": TEMPLATE}, False, id="a PodTemplate"),
        pytest.param("trainer.kubeflow.org/v1alpha1 TrainingRuntime", {"spec": RUNTIME}, False, id="a runtime"),
        pytest.param("serving.kserve.io/v1alpha1 ServingRuntime", {"spec": TOLERANT}, False, id="a serving runtime"),
    ],
)
def test_of_tolerations_nothing_is_said_where_another_object_adds_the_gpus(
    api: str, object_: dict[str, Any], is_told: bool
) -> None:
    version, kind = api.split()
    raw = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **object_}
    facts = ClusterFacts.of([node("gpu", taints=[GPU_TAINT], capacity={"nvidia.com/gpu": "8"})])
    (one,) = engine.template_outcomes(raw, NAMESPACE, policy({"gpuNodesForGpuPods": {}}), facts)
    assert bool(one.findings) == is_told
