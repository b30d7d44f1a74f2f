"""A live cluster as an audit sees it: what controllers made counts once, and rights in a namespace are enough."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.command_line import gpu_policy
from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.objects import deployment, gpu_pod, job
from webhook.audit.cluster_objects import ClusterObjects, NamespaceScope
from webhook.audit.documents import Document, DocumentError
from webhook.kubernetes.api_server import ApiServer

ONE_GPU = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec: {rules: {gpuLimits: {mode: enforce, maxPerPod: 1}}}
"""

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


def create(plane: ControlPlane, namespace: str, raw: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server keeps it."""
    group, _, version = raw["apiVersion"].rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    status, answer = plane.raw("POST", f"{root}/namespaces/{namespace}/{raw['kind'].lower()}s", raw)
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
