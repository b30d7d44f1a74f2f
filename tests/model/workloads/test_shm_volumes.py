"""Where an operator mounts /dev/shm itself, no other one is foretold; everywhere else it is."""

from typing import Any

import yaml

from tests.build import FACTS, NAMESPACE, policy
from tests.golden import each
from webhook import engine
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import Template, templates_of

POLICY = policy({"sharedMemory": {"minGpus": 1}})
RESOURCES = "resources: {requests: {memory: 8Gi}, limits: {nvidia.com/gpu: 2}}"
RDMA = "rdma.ome.io/auto-inject"
CONTAINERS = f"containers: [{{name: main, image: a, {RESOURCES}}}]"
TEMPLATE = f"template: {{spec: {{{CONTAINERS}}}}}"


def kind(name: str, spec: str) -> dict[str, Any]:
    groups = {
        "RayCluster": "ray.io/v1",
        "NIMService": "apps.nvidia.com/v1alpha1",
        "DynamoGraphDeployment": "nvidia.com/v1alpha1",
        "LLMInferenceService": "serving.kserve.io/v1alpha2",
        "LLMInferenceServiceConfig": "serving.kserve.io/v1alpha2",
        "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
        "InferenceService": "ome.io/v1beta1",
    }
    return {"apiVersion": groups[name], "kind": name, "metadata": {"name": "a"}, "spec": yaml.safe_load(f"{{{spec}}}")}


def given(raw: dict[str, Any]) -> list[bool]:
    """Whether the pods of each template are foretold a /dev/shm."""
    return [bool(one.injections) for one in engine.template_outcomes(raw, NAMESPACE, POLICY, FACTS)]


def volume(template: Template) -> Any:
    """The one memory volume of a pod, and which of its containers mount it at /dev/shm."""
    (found,) = template.pod["spec"]["volumes"]
    using = [one.name for one in pod_from_raw(template.pod).containers if one.mounts_at("/dev/shm") is not None]
    return found["name"], found["emptyDir"], using


@each(
    "name, spec, expected",
    {
        "KubeRay's head": ("RayCluster", f"headGroupSpec: {{{TEMPLATE}}}", ("shared-mem", "8Gi")),
        "KubeRay's workers": (
            "RayCluster",
            f"workerGroupSpecs: [{{groupName: b, rayStartParams: {{num-gpus: '2'}}, {TEMPLATE}}}]",
            ("shared-mem", "8Gi"),
        ),
        "NIM": ("NIMService", RESOURCES, ("dshm", None)),
        "NIM with a size": ("NIMService", f"storage: {{sharedMemorySizeLimit: 4Gi}}, {RESOURCES}", ("dshm", "4Gi")),
        "Dynamo v1alpha1": (
            "DynamoGraphDeployment",
            "services: {b: {resources: {limits: {gpu: '2'}}}}",
            ("shared-memory", "8Gi"),
        ),
        "Dynamo v1alpha1 with a size": (
            "DynamoGraphDeployment",
            "services: {b: {sharedMemory: {size: 20Gi}, resources: {limits: {gpu: '2'}}}}",
            ("shared-memory", "20Gi"),
        ),
        "Dynamo v1beta1 with a size": (
            "DynamoGraphDeployment",
            f"components: [{{name: b, sharedMemorySize: 16Gi, podTemplate: {{spec: {{{CONTAINERS}}}}}}}]",
            ("shared-memory", "16Gi"),
        ),
        "KServe, one pod": ("LLMInferenceService", f"template: {{{CONTAINERS}}}", ("dshm", "1Gi")),
        "KServe, a group that shares data": (
            "LLMInferenceService",
            f"parallelism: {{data: 4, dataLocal: 2}}, worker: {{{CONTAINERS}}}",
            ("dshm", "8Gi"),
        ),
        "prefill": ("LLMInferenceService", f"prefill: {{template: {{{CONTAINERS}}}}}", ("dshm", "1Gi")),
        "OME with RDMA": (
            "InferenceService",
            f"engine: {{annotations: {{{RDMA}: 'true'}}, runner: {{name: ome-container, {RESOURCES}}}}}",
            ("dshm", None),
        ),
        "a configuration": ("LLMInferenceServiceConfig", f"template: {{{CONTAINERS}}}", ("dshm", "1Gi")),
    },
)
def test_the_volume_of_an_operator_is_the_one_that_pods_have(name: str, spec: str, expected: Any) -> None:
    """The volume has the operator's size and medium. No finding is about it, because it cannot be changed."""
    raw = kind(name, spec)
    (template,) = templates_of(raw)
    found, source, containers = volume(template)
    assert (found, source.get("sizeLimit")) == expected
    assert source["medium"] == "Memory"
    assert len(containers) == 1
    assert template.is_unknown(f"spec.volumes[{found}]")
    assert given(raw) == [False]


@each(
    "name, spec",
    {
        "Ray keeps its objects elsewhere": (
            "RayCluster",
            f"headGroupSpec: {{rayStartParams: {{plasma-directory: /tmp}}, {TEMPLATE}}}",
        ),
        "Dynamo's is disabled": (
            "DynamoGraphDeployment",
            "services: {b: {sharedMemory: {disabled: true}, resources: {limits: {gpu: '2'}}}}",
        ),
        "Dynamo's has no size": (
            "DynamoGraphDeployment",
            f"components: [{{name: b, sharedMemorySize: 0Mi, podTemplate: {{spec: {{{CONTAINERS}}}}}}}]",
        ),
        "no container of a preset": ("LLMInferenceService", f"template: {{{CONTAINERS.replace('main', 'engine')}}}"),
        "OME without RDMA": ("InferenceService", f"engine: {{runner: {{name: ome-container, {RESOURCES}}}}}"),
        "LWS": ("LeaderWorkerSet", f"leaderWorkerTemplate: {{workerT{TEMPLATE[1:]}}}"),
    },
)
def test_where_no_operator_mounts_one_it_is_foretold(name: str, spec: str) -> None:
    assert given(kind(name, spec)) == [True]


def test_a_mount_of_the_author_is_kept() -> None:
    """Also where the volume of the author has the operator's name."""
    containers = CONTAINERS.replace("image: a,", "image: a, volumeMounts: [{name: shared-mem, mountPath: /dev/shm/}],")
    mine = "volumes: [{name: shared-mem, emptyDir: {medium: Memory, sizeLimit: 64Gi}}]"
    raw = kind("RayCluster", f"headGroupSpec: {{template: {{spec: {{{containers}, {mine}}}}}}}")
    (template,) = templates_of(raw)
    assert template.pod is raw["spec"]["headGroupSpec"]["template"]
    assert not template.unknown
    unmounted = kind("RayCluster", f"headGroupSpec: {{template: {{spec: {{{CONTAINERS}, {mine}}}}}}}")
    (template,) = templates_of(unmounted)
    assert volume(template) == ("shared-mem", {"medium": "Memory", "sizeLimit": "64Gi"}, ["main"])
    assert not template.unknown


def test_other_containers_with_gpus_share_the_volume_of_the_operator() -> None:
    """As they do when the pod is created."""
    second = CONTAINERS.replace("]", f", {{name: second, image: b, {RESOURCES}}}]")
    raw = kind("RayCluster", f"headGroupSpec: {{template: {{spec: {{{second}}}}}}}")
    (one,) = engine.template_outcomes(raw, NAMESPACE, POLICY, FACTS)
    (injection,) = one.injections
    assert [str(edit) for edit in injection.edits] == ["mount /dev/shm in second"]
