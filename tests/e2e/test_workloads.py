"""What people see who run `kubectl apply` of what makes pods: warnings or refusals, and silence otherwise."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import runbook
from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import add_node, labels, remove_node
from tests.e2e.installation import Installation
from tests.e2e.kinds import KINDS, defined_kinds
from tests.e2e.objects import JUDGED, deployment, gpu_pod, job, pod
from tests.e2e.registration import Registration

Raw = dict[str, Any]
Namespaces = Callable[[str], str]

TOO_MANY = "requests 9 GPUs; the policy allows at most 8 per pod. Request 8 or fewer."
REQUESTS_ONLY = {"requests": {"nvidia.com/gpu": 2}}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "a"}},
}


def template(gpus: int, **changes: Any) -> Raw:
    """A pod template with one container, of pods that are spread over nodes; `changes` are the container's keys."""
    made = copy.deepcopy(gpu_pod("a", gpus, topologySpreadConstraints=[SPREAD])["spec"])
    made["containers"][0] |= changes
    return {"metadata": {"labels": {"app": "a"}}, "spec": made}


def stateful_set(made: Raw) -> Raw:
    raw = deployment("a", pod("a", {}))
    return raw | {"kind": "StatefulSet", "spec": {**raw["spec"], "serviceName": "a", "replicas": 3, "template": made}}


def plain_deployment(made: Raw) -> Raw:
    raw = deployment("a", pod("a", {}))
    return raw | {"spec": {**raw["spec"], "replicas": 3, "template": made}}


def plain_job(made: Raw) -> Raw:
    raw = job("a", {"spec": made["spec"]})
    return raw | {"spec": {**raw["spec"], "parallelism": 3, "completions": 3}}


def cron_job(made: Raw) -> Raw:
    inner = plain_job(made)["spec"]
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": inner}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": spec}


def custom(api_version: str, kind: str, spec: Raw) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


BUILT_IN = {
    "Deployment": (plain_deployment, "pod template (3 pods, 27 GPUs): spec.template.spec"),
    "StatefulSet": (stateful_set, "pod template (3 pods, 27 GPUs): spec.template.spec"),
    "Job": (plain_job, "pod template (3 pods, 27 GPUs): spec.template.spec"),
    "CronJob": (cron_job, "pod template (3 pods, 27 GPUs): spec.jobTemplate.spec.template.spec"),
}
"""How an object of each kind is made of a template, and how its pods are called."""

CUSTOM: dict[str, tuple[Callable[[Raw], Raw], str]] = {
    "PyTorchJob": (
        lambda made: custom(
            "kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": made}}}
        ),
        "pod template of Worker (3 pods, 27 GPUs): spec.pytorchReplicaSpecs.Worker.template.spec",
    ),
    "MPIJob": (
        lambda made: custom(
            "kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": {"Worker": {"replicas": 3, "template": made}}}
        ),
        "pod template of Worker (3 pods, 27 GPUs): spec.mpiReplicaSpecs.Worker.template.spec",
    ),
    "RayCluster": (
        lambda made: custom(
            "ray.io/v1",
            "RayCluster",
            {"workerGroupSpecs": [{"groupName": "large", "replicas": 3, "template": made}]},
        ),
        "pod template of large (3 pods, 27 GPUs): spec.workerGroupSpecs",
    ),
    "JobSet": (
        lambda made: custom(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "train", "template": {"spec": {"parallelism": 3, "template": made}}}]},
        ),
        "pod template of train (",
    ),
    "LeaderWorkerSet": (
        lambda made: custom(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": made}},
        ),
        "spec.leaderWorkerTemplate.workerTemplate.spec",
    ),
    "Training": (
        lambda made: custom("ml.example.com/v1", "Training", {"replicas": 3, "workers": {"template": made}}),
        "spec.workers.template.spec",
    ),
}
"""The same for custom resources. Training is one that the product has never heard of."""

built_in = pytest.mark.parametrize(("make", "whose"), [pytest.param(*case, id=kind) for kind, case in BUILT_IN.items()])
in_custom = pytest.mark.parametrize(("make", "whose"), [pytest.param(*case, id=kind) for kind, case in CUSTOM.items()])


@pytest.fixture(scope="module")
def defined(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The API server with custom resources that make pods."""
    with defined_kinds(control_plane):
        yield control_plane


@pytest.fixture(scope="module")
def registration(installation: Installation, defined: ControlPlane) -> Iterator[Registration]:
    """The webhook is asked about the kind Training, too, as the chart's workloads.extraRules would register it."""
    kind = {"apiGroups": ["ml.example.com"], "apiVersions": ["*"], "resources": ["trainings"], "scope": "*"}
    with Registration(installation, kind | {"operations": ["CREATE", "UPDATE"]}) as registration:
        yield registration


def check(plane: ControlPlane, make_namespace: Namespaces, raw: Raw, said: str) -> None:
    """The object is taken with a warning where the policy warns, and refused with the same words where it enforces."""
    status, stderr = apply(plane, make_namespace("told"), raw)
    assert (status, stderr.startswith("Warning: ")) == (0, True), stderr
    assert said in stderr
    status, stderr = apply(plane, make_namespace("held"), raw)
    assert status == 1
    assert 'admission webhook "workloads.gpupolicy.dev" denied the request: ' in stderr
    assert said in stderr


@built_in
def test_a_wrong_template_is_told_where_it_is_applied(
    webhook: Installation, make_namespace: Namespaces, make: Callable[[Raw], Raw], whose: str
) -> None:
    check(webhook.plane, make_namespace, make(template(9)), f"gpuLimits: {whose}: {TOO_MANY}")


@in_custom
def test_a_wrong_template_of_a_custom_resource_is_told_where_it_is_applied(
    webhook: Installation, make_namespace: Namespaces, make: Callable[[Raw], Raw], whose: str
) -> None:
    namespace = make_namespace("told")
    status, stderr = apply(webhook.plane, namespace, make(template(9)))
    assert (status, whose in stderr, TOO_MANY in stderr) == (0, True, True), stderr
    status, stderr = apply(webhook.plane, make_namespace("held"), make(template(9)))
    assert (status, whose in stderr, TOO_MANY in stderr) == (1, True, True), stderr


@in_custom
def test_gpus_in_requests_only_are_found_in_custom_resources_which_the_api_server_does_not_check(
    webhook: Installation, make_namespace: Namespaces, make: Callable[[Raw], Raw], whose: str
) -> None:
    raw = make(template(0, resources=REQUESTS_ONLY))
    status, stderr = apply(webhook.plane, make_namespace("held"), raw)
    assert (status, "nvidia.com/gpu is 2 in requests but missing in limits" in stderr) == (1, True), stderr
    assert apply(webhook.plane, make_namespace("told"), raw)[0] == 0


@built_in
def test_gpus_in_requests_only_of_built_in_kinds_are_refused_by_the_api_server_itself(
    webhook: Installation, make_namespace: Namespaces, make: Callable[[Raw], Raw], whose: str
) -> None:
    raw = make(template(0, resources=REQUESTS_ONLY))
    for prefix in ("told", "repaired"):
        status, stderr = apply(webhook.plane, make_namespace(prefix), raw)
        assert (status, "Limit must be set for non overcommitable resources" in stderr) == (1, True), stderr


@pytest.mark.parametrize(("prefix", "status"), [("told", 0), ("held", 1)])
def test_an_image_that_no_node_can_run_is_told_where_it_is_applied(
    webhook: Installation, make_namespace: Namespaces, prefix: str, status: int
) -> None:
    plane, namespace = webhook.plane, make_namespace(prefix)
    made = template(1, image="pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime")
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "old"}
    made["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    add_node(plane, "old", labels("535.183.01", "Tesla-T4", "7.5"))
    try:
        eventually(lambda: apply(plane, namespace, plain_deployment(made), dry_run=True)[1])
        found, stderr = apply(plane, namespace, plain_deployment(made))
    finally:
        remove_node(plane, "old")
    assert found == status
    assert "cudaDriver: pod template (3 pods, 3 GPUs): " in stderr
    assert "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime needs CUDA 13.0" in stderr
    assert "Use pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime or another image of CUDA 12.9 or older" in stderr


def test_everything_that_refuses_pods_is_told_of_templates(webhook: Installation, make_namespace: Namespaces) -> None:
    """Variables that grant GPUs, and quotas that the pods pass one by one or together."""
    variable = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    status, stderr = apply(webhook.plane, make_namespace("judged"), plain_deployment(template(1, env=variable)))
    assert (status, 'env[NVIDIA_VISIBLE_DEVICES]: is "all" in a container that requests GPUs' in stderr) == (0, True)
    status, stderr = apply(webhook.plane, make_namespace("told"), plain_deployment(template(5)))
    assert status == 0
    assert "its 3 pods request 15 GPUs together" in stderr
    assert apply(webhook.plane, make_namespace("held"), plain_deployment(template(5)))[0] == 0


def test_what_is_right_is_not_spoken_of(webhook: Installation, make_namespace: Namespaces) -> None:
    for make, _ in BUILT_IN.values():
        for prefix in ("told", "held"):
            assert apply(webhook.plane, make_namespace(prefix), make(template(2))) == (0, "")


def test_scale_status_finalizers_and_deletion_stay_silent(webhook: Installation, make_namespace: Namespaces) -> None:
    """Although the template is wrong, and the policy refuses workloads by now."""
    plane, namespace = webhook.plane, make_namespace("told")
    wrong = plain_deployment(template(9))
    assert apply(plane, namespace, wrong)[0] == 0
    rules = f"    gpuLimits: {{mode: enforce}}\n{JUDGED}"
    webhook.write_policy(namespace, f"spec:\n  workloads: {{mode: enforce}}\n  rules:\n{rules}")
    eventually(lambda: apply(plane, namespace, _called(wrong, "other"), dry_run=True)[0] == 1)
    changes = {
        "scale": ("scale", "deployment/a", "--replicas=7"),
        "label": ("label", "deployment/a", "some=label"),
        "annotation": ("annotate", "deployment/a", "some=annotation"),
        "finalizer": ("patch", "deployment/a", "--type=merge", '--patch={"metadata":{"finalizers":["example.com/a"]}}'),
        "replicas by hand": ("patch", "deployment/a", "--type=merge", '--patch={"spec":{"replicas":5}}'),
        "deletion": ("delete", "deployment/a", "--wait=false"),
        "no finalizer": ("patch", "deployment/a", "--type=merge", '--patch={"metadata":{"finalizers":null}}'),
    }
    for change, arguments in changes.items():
        done = plane.kubectl(*arguments, namespace=namespace, check=False)
        assert (change, done.returncode, done.stderr) == (change, 0, "")
    (webhook.policies / f"{namespace}.yaml").unlink()


def _called(raw: Raw, name: str) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "name": name}}


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "Training", "PyTorchJob"])
def test_scale_status_and_finalizers_of_custom_resources_stay_silent(
    webhook: Installation, make_namespace: Namespaces, kind: str
) -> None:
    plane, namespace = webhook.plane, make_namespace("told")
    wrong = CUSTOM[kind][0](template(9))
    assert apply(plane, namespace, wrong)[0] == 0
    name = f"{kind.lower()}/a"
    changes: dict[str, tuple[str, ...]] = {
        "label": ("label", name, "some=label"),
        "finalizer": ("patch", name, "--type=merge", '--patch={"metadata":{"finalizers":["example.com/a"]}}'),
        "no finalizer": ("patch", name, "--type=merge", '--patch={"metadata":{"finalizers":null}}'),
        "status": ("patch", name, "--type=merge", "--subresource=status", '--patch={"status":{"phase":"Running"}}'),
        "something else": ("patch", name, "--type=merge", '--patch={"spec":{"suspend":true}}'),
    }
    if kind != "PyTorchJob":
        changes["scale"] = ("scale", name, "--replicas=2")
    for change, arguments in changes.items():
        done = plane.kubectl(*arguments, namespace=namespace, check=False)
        assert (change, done.returncode, done.stderr) == (change, 0, "")


def test_an_update_is_told_only_what_is_new(webhook: Installation, make_namespace: Namespaces) -> None:
    plane, namespace = webhook.plane, make_namespace("told")
    assert "Warning" in apply(plane, namespace, plain_deployment(template(9)))[1]
    assert apply(plane, namespace, plain_deployment(template(9, image="registry.example/other:1"))) == (0, "")
    assert "requests 10 GPUs" in apply(plane, namespace, plain_deployment(template(10)))[1]


def test_what_a_controller_makes_is_left_to_its_owner_and_its_pods(
    webhook: Installation, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    """A wrong ReplicaSet is made although workloads are refused: the Deployment was there before."""
    namespace = make_namespace("judged")
    assert apply(cluster, namespace, plain_deployment(template(9)))[0] == 0

    def is_made() -> bool:
        path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
        return bool(cluster.raw("GET", path)[1]["items"])

    eventually(is_made)
    controlled = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "0", "controller": True}]
    wrong = stateful_set(template(9))
    wrong["metadata"]["ownerReferences"] = controlled
    assert apply(cluster, make_namespace("held"), wrong, dry_run=True) == (0, "")


def test_a_kind_that_is_not_there_never_matters(webhook: Installation, make_namespace: Namespaces) -> None:
    """Most kinds of the registration are not installed here, and what is there is judged all the same."""
    installed = {kind.kind for kind in KINDS}
    assert "Notebook" not in installed
    assert TOO_MANY in apply(webhook.plane, make_namespace("told"), plain_deployment(template(9)))[1]


def test_what_is_in_no_namespace_has_the_default_policy(webhook: Installation) -> None:
    replicated = [{"name": "node", "template": {"spec": {"template": template(9)}}}]
    raw = custom(
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        {"template": {"spec": {"replicatedJobs": replicated}}},
    )
    status, stderr = apply(webhook.plane, "default", raw, dry_run=True)
    assert (status, "Warning: gpuLimits: pod template of node" in stderr, "requests 9 GPUs" in stderr) == (
        0,
        True,
        True,
    )


def test_without_replicas_workloads_are_taken_as_they_are(webhook: Installation, make_namespace: Namespaces) -> None:
    plane, namespace = webhook.plane, make_namespace("held")
    webhook.stop()
    try:
        assert apply(plane, namespace, plain_deployment(template(9)))[0] == 0
    finally:
        webhook.start()


def test_the_runbooks_command_ends_what_is_said_of_workloads_and_pods_are_judged_as_before(
    webhook: Installation, make_namespace: Namespaces, tmp_path: Path
) -> None:
    plane, namespace = webhook.plane, make_namespace("held")
    assert apply(plane, namespace, plain_deployment(template(9)))[0] == 1
    command, *_ = runbook.blocks("Taking workloads as they are")
    done = runbook.run(plane, tmp_path, command)
    assert (done.returncode, done.stderr) == (0, "")
    eventually(lambda: apply(plane, namespace, plain_deployment(template(9))) == (0, ""))
    status, stderr = apply(plane, namespace, gpu_pod("a", 9))
    assert (status, TOO_MANY in stderr) == (1, True), stderr
