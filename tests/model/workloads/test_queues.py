"""What a queue decides is not foretold: it is judged when the object is started, and when its pods are made."""

from typing import Any

import pytest
import yaml

from tests.build import NAMESPACE, policy
from tests.golden import each
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.workloads import templates_of

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def node(name: str, driver: str, *taints: Any) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/cuda.driver-version.full": driver}
    status, spec = {"capacity": {"nvidia.com/gpu": "8"}}, {"taints": list(taints)}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


OLD = ClusterFacts.of([node("old", "535.183.01"), node("older", "525.60.13", TAINT)])
NODES = ClusterFacts.of([node("old", "535.183.01"), node("new", "580.82.07", TAINT)])
TAINTED = ClusterFacts.of([node("new", "580.82.07", TAINT)])
SCHEDULABLE = policy({"schedulable": {}}, workloads="enforce")
CUDA = policy({"cudaDriver": {}}, workloads="enforce")
IMAGE = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
SPEC = f"{{containers: [{{name: a, image: '{IMAGE}', resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}"
POD = f"template: {{spec: {SPEC}}}"
FOR_VOLCANO, FOR_YUNIKORN = (
    f"template: {{spec: {{schedulerName: {name}, {SPEC[1:]}}}" for name in ("volcano", "yunikorn")
)
KUEUE = "labels: {kueue.x-k8s.io/queue-name: q}"
KAI = "labels: {kai.scheduler/queue: q}"


def made(api: str, metadata: str, spec: str) -> dict[str, Any]:
    version, kind = api.rsplit(" ", 1)
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "a", **(yaml.safe_load(f"{{{metadata}}}") or {})},
        "spec": yaml.safe_load(f"{{{spec}}}"),
    }


def are_queued(raw: dict[str, Any]) -> bool:
    (queued,) = {one.is_queued for one in templates_of(raw)}
    return queued


QUEUED = [
    pytest.param("batch/v1 Job", "", f"suspend: true, {POD}", id="a suspended Job"),
    pytest.param("batch/v1 Job", KUEUE, POD, id="a Job of Kueue"),
    pytest.param("batch/v1 Job", KUEUE, f"suspend: true, {POD}", id="a suspended Job of Kueue"),
    pytest.param("batch/v1 Job", KAI, f"suspend: false, {POD}", id="a Job of KAI, as the API server completes it"),
    pytest.param("batch/v1 Job", "annotations: {scheduling.volcano.sh/queue-name: q}", POD, id="a Job for Volcano"),
    pytest.param("batch/v1 CronJob", "", f"jobTemplate: {{metadata: {{{KUEUE}}}, spec: {{{POD}}}}}", id="its CronJob"),
    pytest.param("batch/v1 CronJob", KAI, f"jobTemplate: {{spec: {{{POD}}}}}", id="a CronJob of KAI"),
    pytest.param("apps/v1 Deployment", KUEUE, POD, id="a Deployment of Kueue"),
    pytest.param("apps/v1 Deployment", "", f"template: {{metadata: {{{KAI}}}, spec: {SPEC}}}", id="pods of KAI"),
    pytest.param("batch.volcano.sh/v1alpha1 Job", "", f"queue: q, tasks: [{{name: b, {POD}}}]", id="Volcano's Job"),
    pytest.param("batch.volcano.sh/v1alpha1 Job", "", f"tasks: [{{name: b, {POD}}}]", id="Volcano's default queue"),
    pytest.param("batch/v1 Job", "", FOR_VOLCANO, id="pods in Volcano's default queue"),
    pytest.param("apps/v1 Deployment", "", FOR_YUNIKORN, id="pods for YuniKorn"),
    pytest.param("batch/v1 Job", "annotations: {yunikorn.apache.org/queue: root.a}", POD, id="a queue of YuniKorn"),
    pytest.param(
        "batch.volcano.sh/v1alpha1 CronJob",
        "",
        f"jobTemplate: {{spec: {{queue: q, tasks: [{{name: b, {POD}}}]}}}}",
        id="Volcano's CronJob",
    ),
    pytest.param(
        "kubeflow.org/v1 PyTorchJob",
        "",
        f"runPolicy: {{suspend: true}}, pytorchReplicaSpecs: {{Worker: {{{POD}}}}}",
        id="a suspended PyTorchJob",
    ),
    pytest.param(
        "kubeflow.org/v1 PyTorchJob",
        "",
        f"runPolicy: {{schedulingPolicy: {{queue: q}}}}, pytorchReplicaSpecs: {{Worker: {{{POD}}}}}",
        id="a PyTorchJob for Volcano",
    ),
    pytest.param(
        "jobset.x-k8s.io/v1alpha2 JobSet",
        KUEUE,
        f"replicatedJobs: [{{name: b, template: {{spec: {{{POD}}}}}}}]",
        id="a JobSet of Kueue",
    ),
    pytest.param(
        "ray.io/v1 RayCronJob",
        "",
        f"jobTemplate: {{suspend: true, rayClusterSpec: {{headGroupSpec: {{{POD}}}}}}}",
        id="suspended RayJobs",
    ),
    pytest.param("example.com/v1 Thing", KUEUE, POD, id="a kind that is not known"),
]

STARTED = [
    pytest.param("batch/v1 Job", "", POD, id="a Job"),
    pytest.param("batch/v1 Job", KUEUE, f"suspend: false, {POD}", id="a Job that Kueue has started"),
    pytest.param("batch/v1 Job", "labels: {kueue.x-k8s.io/queue-name: ''}", POD, id="no name of a queue"),
    pytest.param(
        "batch/v1 CronJob", "", f"suspend: true, jobTemplate: {{spec: {{{POD}}}}}", id="a schedule that is stopped"
    ),
    pytest.param(
        "kubeflow.org/v1 PyTorchJob",
        KUEUE,
        f"runPolicy: {{suspend: false}}, pytorchReplicaSpecs: {{Worker: {{{POD}}}}}",
        id="a PyTorchJob that Kueue has started",
    ),
    pytest.param("apps/v1 Deployment", "", f"queue: q, {POD}", id="a field that names no queue"),
    pytest.param(
        "batch.volcano.sh/v1alpha1 Job",
        "",
        f"schedulerName: default-scheduler, tasks: [{{name: b, {POD}}}]",
        id="Volcano's Job for another scheduler",
    ),
    pytest.param("apps/v1 Deployment", "labels: {queue: q}", POD, id="a label that only YuniKorn reads"),
]


@pytest.mark.parametrize(("api", "metadata", "spec"), QUEUED)
def test_of_a_queued_object_nothing_is_said_that_follows_from_the_nodes(api: str, metadata: str, spec: str) -> None:
    raw = made(api, metadata, spec)
    assert are_queued(raw)
    for one in (
        *engine.template_outcomes(raw, NAMESPACE, SCHEDULABLE, TAINTED),
        *engine.template_outcomes(raw, NAMESPACE, CUDA, NODES),
    ):
        assert (one.gpus, one.findings, one.injections) == (1, (), ())


@pytest.mark.parametrize(("api", "metadata", "spec"), STARTED)
def test_what_is_in_no_queue_is_told_of_taints(api: str, metadata: str, spec: str) -> None:
    raw = made(api, metadata, spec)
    assert not are_queued(raw)
    (one,) = engine.template_outcomes(raw, NAMESPACE, SCHEDULABLE, TAINTED)
    assert [finding.message for finding in one.findings] == [
        "does not tolerate team=a:NoSchedule; every node that fits has this taint"
    ]
    (one,) = engine.template_outcomes(raw, NAMESPACE, CUDA, NODES)
    assert one.is_refused


def test_it_is_judged_when_it_is_unsuspended() -> None:
    """With what the ResourceFlavor brought, or did not bring."""
    waiting = made("batch/v1 Job", KUEUE, f"suspend: true, {POD}")
    started = made("batch/v1 Job", KUEUE, f"suspend: false, {POD}")
    told = engine.validate_workload(started, NAMESPACE, SCHEDULABLE, TAINTED, old=waiting).findings
    assert [finding.field for finding in told] == ["spec.template.spec.tolerations"]
    tolerant = made("batch/v1 Job", KUEUE, f"suspend: false, {POD}")
    tolerant["spec"]["template"]["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
    assert engine.validate_workload(tolerant, NAMESPACE, SCHEDULABLE, TAINTED, old=waiting).findings == ()


def test_what_does_not_follow_from_nodes_is_told_of_queued_objects_too() -> None:
    limited = policy({"gpuLimits": {"maxPerPod": 0}})
    (one,) = engine.template_outcomes(made("batch/v1 Job", KUEUE, f"suspend: true, {POD}"), NAMESPACE, limited, TAINTED)
    assert one.is_refused


GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}


def pod(labels: dict[str, str] | None = None, owner: str = "", **spec: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "controller": True}] if owner else []
    metadata = {"name": "a", "labels": labels or {}, "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**yaml.safe_load(SPEC), **spec}}


OF_KUEUE = {"kueue.x-k8s.io/queue-name": "q"}


@each(
    "raw, is_told",
    {
        "a pod": (pod(), True),
        "a pod that waits for a gate": (pod(**GATED), False),
        "no gates": (pod(schedulingGates=[]), True),
        "a pod that Kueue will gate": (pod(OF_KUEUE), False),
        "a pod of a Job that Kueue has started": (pod(OF_KUEUE, owner="Job"), True),
        "a pod of KAI, which is not changed later": (pod({"kai.scheduler/queue": "q"}), True),
    },
)
def test_findings_about_taints_are_only_about_pods_that_no_queue_holds(raw: dict[str, Any], is_told: bool) -> None:
    assert bool(engine.validate(raw, SCHEDULABLE, TAINTED).findings) == is_told


def test_a_pod_that_is_held_back_is_refused_only_for_what_holds_of_all_nodes() -> None:
    """A gate is no way around the rule: what no node runs, no queue can place."""
    assert engine.validate(pod(), CUDA, NODES).refusals
    assert not engine.validate(pod(**GATED), CUDA, NODES).findings, "it may come to tolerate the taint of the new node"
    assert engine.validate(pod(**GATED), CUDA, OLD).refusals, "no node has another driver"
