"""A live cluster as an audit sees it: what controllers made counts once, and rights in a namespace are enough."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import gpu_policy
from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.custom_kinds import CustomKind, defined
from tests.e2e.eventually import eventually
from tests.e2e.installation import COMMAND
from tests.e2e.objects import deployment, gpu_pod, job
from webhook.audit.cluster_objects import ClusterObjects, NamespaceScope
from webhook.audit.documents import Document, DocumentError
from webhook.kubernetes.api_server import ApiServer

JOB_SET = CustomKind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
PYTORCH_JOB = CustomKind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
RAY_JOB = CustomKind("ray.io", "v1", "RayJob", "rayjobs")
RAY_CLUSTER = CustomKind("ray.io", "v1", "RayCluster", "rayclusters")
REVISION = CustomKind("serving.knative.dev", "v1", "Revision", "revisions")
KNATIVE_SERVICE = CustomKind("serving.knative.dev", "v1", "Service", "services")
RUNTIME = CustomKind("trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime", "clustertrainingruntimes", "Cluster")
CUSTOM = (JOB_SET, PYTORCH_JOB, RAY_JOB, RAY_CLUSTER, REVISION, KNATIVE_SERVICE, RUNTIME)

DOWN = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.kubeflow.org"},
    "spec": {
        "group": "kubeflow.org",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "default", "name": "nobody-there"},
    },
}
ONE_GPU = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec: {rules: {gpuLimits: {mode: enforce, maxPerPod: 1}}}
"""
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"

Make = Callable[[str], str]


class Read:
    """What an audit reads of a cluster with one kubeconfig."""

    def __init__(self, plane: ControlPlane, *namespaces: str, token: str | None = None) -> None:
        kubeconfig = plane.kubeconfig if token is None else plane.kubeconfig_for(token)
        self.objects = ClusterObjects(ApiServer(kubeconfig), NamespaceScope(namespaces), lambda _progress: None)
        found = list(self.objects)
        self.documents = [one for one in found if isinstance(one, Document)]
        self.errors = [one.message for one in found if isinstance(one, DocumentError)]

    def names(self, namespace: str) -> list[str]:
        """Kind and name of everything in a namespace, or in none, without what is random in the names of pods."""
        metadata = [(one.kind, one.object["metadata"]) for one in self.documents]
        found = ((kind, raw) for kind, raw in metadata if raw.get("namespace", "") == namespace)
        return sorted(f"{kind} {raw.get('generateName') or raw['name']}" for kind, raw in found)

    def roots(self, namespace: str) -> list[str]:
        """Who is behind each pod of a namespace."""
        pods = (one for one in self.documents if one.kind == "Pod")
        roots = [self.objects.owners.root_of(one.object) for one in pods]
        return sorted(f"{root.kind} {root.name}" for root in roots if root.namespace == namespace)


@pytest.fixture
def kinds(control_plane: ControlPlane) -> Iterator[None]:
    with defined(control_plane, CUSTOM):
        yield


def create(plane: ControlPlane, namespace: str, raw: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server keeps it."""
    group, _, version = raw["apiVersion"].rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    resource = {kind.kind: kind.resource for kind in CUSTOM}.get(raw["kind"], f"{raw['kind'].lower()}s")
    status, answer = plane.raw("POST", f"{root}/namespaces/{namespace}/{resource}", raw)
    assert status == 201, answer
    return {**raw, "metadata": answer["metadata"]}


def owned(raw: dict[str, Any], owner: dict[str, Any]) -> dict[str, Any]:
    """The object as a controller would make it for `owner`."""
    metadata = owner["metadata"]
    head = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [{**head, "controller": True}]}}


def has_pods(plane: ControlPlane, namespace: str, count: int) -> bool:
    return len(plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"]) == count


def test_workloads_come_once_with_their_pods_whatever_controllers_made_between(
    cluster: ControlPlane, make_namespace: Make
) -> None:
    namespace = make_namespace("judged")
    create(cluster, namespace, deployment("web", gpu_pod("web")))
    create(cluster, namespace, job("once", gpu_pod("once")))
    template = {"spec": job("nightly", gpu_pod("nightly"))["spec"]}
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": template}
    head = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    nightly = create(cluster, namespace, {**head, "spec": spec})
    create(cluster, namespace, owned(job("nightly-1", gpu_pod("nightly")), nightly))
    create(cluster, namespace, gpu_pod("alone"))
    eventually(lambda: has_pods(cluster, namespace, 4))
    read = Read(cluster, namespace)
    workloads = ["CronJob nightly", "Deployment web", "Job once"]
    assert [name for name in read.names(namespace) if not name.startswith("Pod")] == workloads
    assert read.roots(namespace) == ["CronJob nightly", "Deployment web", "Job once", "Pod alone"]
    assert read.errors == []
    assert Read(cluster).names(namespace) == read.names(namespace)


def test_custom_resources_come_once_with_what_their_operators_made(
    control_plane: ControlPlane, kinds: None, make_namespace: Make
) -> None:
    namespace, plane = make_namespace("judged"), control_plane
    ray_job = create(plane, namespace, RAY_JOB.made("tune", {}))
    ray = create(plane, namespace, owned(RAY_CLUSTER.made("tune-x", {}), ray_job))
    create(plane, namespace, owned(gpu_pod("tune-x-head"), ray))
    job_set = create(plane, namespace, JOB_SET.made("train", {}))
    made = create(plane, namespace, owned(job("train-workers", gpu_pod("w")), job_set))
    worker = owned(gpu_pod("train-workers-0"), made)
    uid = made["metadata"]["uid"]  # the controller of old versions lets go of a pod that its selector does not find
    worker["metadata"]["labels"] = {"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid}
    create(plane, namespace, worker)
    service = create(plane, namespace, KNATIVE_SERVICE.made("chat", {}))
    revision = create(plane, namespace, owned(REVISION.made("chat-1", {}), service))
    serving = create(plane, namespace, owned(deployment("chat-1-deployment", gpu_pod("c")), revision))
    create(plane, namespace, owned(gpu_pod("chat-1-a"), serving))
    create(plane, namespace, PYTORCH_JOB.made("bert", {}))
    read = Read(plane, namespace)
    workloads = ["JobSet train", "PyTorchJob bert", "RayJob tune", "Service chat"]
    assert [name for name in read.names(namespace) if not name.startswith("Pod")] == workloads
    assert set(read.roots(namespace)) == {"JobSet train", "RayJob tune", "Service chat"}
    assert read.errors == []


def test_what_is_in_no_namespace_comes_with_the_whole_cluster_only(
    control_plane: ControlPlane, kinds: None, make_namespace: Make
) -> None:
    namespace = make_namespace("judged")
    status, answer = control_plane.raw("POST", RUNTIME.path(), RUNTIME.made("torch", {}))
    assert status == 201, answer
    assert "ClusterTrainingRuntime torch" in Read(control_plane).names("")
    assert "ClusterTrainingRuntime" not in {one.kind for one in Read(control_plane, namespace).documents}


def test_rights_in_one_namespace_are_enough_to_audit_it(control_plane: ControlPlane, make_namespace: Make) -> None:
    namespace, other = make_namespace("judged"), make_namespace("judged")
    rules = [
        {"apiGroups": [""], "resources": ["pods", "podtemplates", "replicationcontrollers"], "verbs": ["list"]},
        {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["list"]},
    ]
    grant(control_plane, namespace, rules)
    idle = deployment("web", gpu_pod("web"))
    idle["spec"]["replicas"] = 0
    for place in (namespace, other):
        create(control_plane, place, idle)
        create(control_plane, place, gpu_pod("alone"))
    read = Read(control_plane, namespace, token=TENANT_TOKEN)
    assert read.errors == []
    assert read.names(namespace) == ["Deployment web", "Pod alone"]
    both = Read(control_plane, namespace, other, token=TENANT_TOKEN)
    assert both.names(namespace) == read.names(namespace)
    assert both.names(other) == []
    pods = next(error for error in both.errors if error.startswith("Pod: "))
    assert pods.startswith(f"Pod: pods cannot be listed in namespace {other}: the API server answered 403: pods is ")
    assert pods.endswith('; grant the verb list on pods of apiGroup "" in a Role there')


def test_without_rights_every_kind_is_an_error_that_names_what_is_missing(
    control_plane: ControlPlane, make_namespace: Make
) -> None:
    create(control_plane, make_namespace("judged"), gpu_pod("alone"))
    read = Read(control_plane, token=TENANT_TOKEN)
    assert read.documents == []
    refused = {error.partition(":")[0] for error in read.errors}
    assert {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController", "Pod"} <= refused
    assert all("; grant the verb list on " in error for error in read.errors)


def grant(plane: ControlPlane, namespace: str, rules: list[dict[str, Any]]) -> None:
    """Rights of the tenant in one namespace."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    assert plane.raw("POST", f"{path}/roles", {"metadata": {"name": "auditor"}, "rules": rules})[0] == 201
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "auditor"}
    binding = {"metadata": {"name": "auditor"}, "roleRef": role, "subjects": [{"kind": "User", "name": "tenant"}]}
    assert plane.raw("POST", f"{path}/rolebindings", binding)[0] == 201
    review = {"spec": {"resourceAttributes": {"namespace": namespace, "verb": "list", "resource": "pods"}}}
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    eventually(lambda: plane.raw("POST", reviews, review, TENANT_TOKEN)[1]["status"]["allowed"])


def test_a_group_whose_own_api_server_is_down_is_one_error(control_plane: ControlPlane, make_namespace: Make) -> None:
    namespace = make_namespace("judged")
    create(control_plane, namespace, gpu_pod("alone"))
    assert control_plane.raw("POST", SERVICES, DOWN)[0] == 201
    try:
        eventually(lambda: control_plane.raw("GET", "/apis/kubeflow.org/v1")[0] == 503)
        (error,) = eventually(lambda: Read(control_plane, namespace).errors)
        read = Read(control_plane, namespace)
    finally:
        control_plane.raw("DELETE", f"{SERVICES}/v1.kubeflow.org")
        eventually(lambda: control_plane.raw("GET", "/apis/kubeflow.org/v1")[0] == 404)
    assert error.startswith("what the API group kubeflow.org serves as v1 is not known: ")
    assert read.names(namespace) == ["Pod alone"]


def test_a_long_list_is_read_in_pages_and_an_audit_takes_few_calls(
    control_plane: ControlPlane, make_namespace: Make
) -> None:
    """250 pods take one call, as do all objects of another kind; the others ask which kinds there are."""
    namespace = make_namespace("judged")
    empty = Read(control_plane, namespace).objects.calls
    for number in range(270):
        create(control_plane, namespace, gpu_pod(f"p{number}"))
    read = Read(control_plane, namespace)
    assert len(set(read.names(namespace))) == 270
    assert read.objects.calls == empty + 1
    assert empty < 20


class Audited:
    """What the command says of a cluster, with a policy of one GPU in each pod."""

    def __init__(self, directory: Path, kubeconfig: Path, *options: str) -> None:
        policies = directory / "policies"
        policies.mkdir(exist_ok=True)
        (policies / "_default.yaml").write_text(ONE_GPU)
        arguments = ["--cluster", f"--kubeconfig={kubeconfig}", f"--policies={policies}", "--format=json"]
        done = gpu_policy("audit", *arguments, *options)
        self.status = done.exit_code
        assert done.stdout, done.stderr
        self.report = json.loads(done.stdout)

    @property
    def refused(self) -> list[str]:
        """Who has to change something, once for each finding, and in how many pods it was found."""
        findings = [one for one in self.report["findings"] if one["level"] == "refuse"]
        owners = [(one["owner"], one["running"]) for one in findings]
        return sorted(f"{owner['kind']} {owner['name']}: {(pods or {}).get('count')}" for owner, pods in owners)


def test_the_command_tells_of_a_deployment_once_whatever_pods_it_has(
    cluster: ControlPlane, make_namespace: Make, tmp_path: Path
) -> None:
    namespace = make_namespace("judged")
    greedy = deployment("greedy", gpu_pod("g", gpus=4))
    greedy["spec"]["replicas"] = 3
    create(cluster, namespace, greedy)
    create(cluster, namespace, deployment("modest", gpu_pod("m", gpus=1)))
    create(cluster, namespace, gpu_pod("alone", gpus=2))
    eventually(lambda: has_pods(cluster, namespace, 5))
    audited = Audited(tmp_path, cluster.kubeconfig, f"--namespace={namespace}")
    assert audited.refused == ["Deployment greedy: 3", "Pod alone: 1"]
    assert audited.status == 1
    counts = audited.report["counts"]
    assert (counts["pods"], counts["workloads"]) == (5, 2)
    assert Audited(tmp_path, cluster.kubeconfig, f"--namespace={namespace}", "--fail-on=never").status == 0


def test_the_command_audits_what_it_may_see_and_ends_with_status_2(
    control_plane: ControlPlane, make_namespace: Make, tmp_path: Path
) -> None:
    namespace = make_namespace("judged")
    grant(control_plane, namespace, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    create(control_plane, namespace, gpu_pod("alone", gpus=2))
    audited = Audited(tmp_path, control_plane.kubeconfig_for(TENANT_TOKEN), f"--namespace={namespace}")
    assert audited.refused == ["Pod alone: 1"]
    assert audited.status == 2
    assert any('grant the verb list on deployments of apiGroup "apps"' in str(one) for one in audited.report["errors"])


def test_a_bar_shows_how_far_reading_is_at_a_terminal_and_nowhere_else(
    control_plane: ControlPlane, make_namespace: Make
) -> None:
    namespace = make_namespace("judged")
    create(control_plane, namespace, gpu_pod("alone"))
    command = [*COMMAND, "audit", "--cluster", f"--kubeconfig={control_plane.kubeconfig}", f"--namespace={namespace}"]
    terminal, theirs = os.openpty()
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as done:
            os.close(theirs)
            shown = read_to_the_end(terminal).decode(errors="replace")
            printed, _ = done.communicate(timeout=120)
    finally:
        os.close(terminal)
    assert "ResourceClaim" in shown, "what is read last is drawn, however fast the rest was"
    assert "\x1b[" not in printed
    piped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (piped.returncode, piped.stderr) == (done.returncode, "")


def read_to_the_end(terminal: int) -> bytes:
    """All that was written to a terminal; one read answers no more than a page of it."""
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while read := os.read(terminal, 65536):
            shown += read
    return shown
