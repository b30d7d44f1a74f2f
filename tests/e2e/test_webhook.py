"""What people see who run `kubectl apply` while the webhook is registered with a real API server."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.build import against
from tests.e2e.applying import apply, kubectl_apply
from tests.e2e.control_plane import NODE_TOKEN, TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import ANNOTATION, Installation
from tests.e2e.objects import JUDGED, deployment, gpu_pod, job, pod
from webhook.audit.documents import read_all
from webhook.audit.review_objects import review
from webhook.facts.facts import ClusterFacts
from webhook.policy.loader import load
from webhook.rules.rule_settings import Mode

REQUESTS_ONLY = {"requests": {"nvidia.com/gpu": 2}}
EXPLANATION = "nvidia.com/gpu is 2 in requests but missing in limits"

Namespaces = Callable[[str], str]


def get(plane: ControlPlane, namespace: str, name: str, kind: str = "pods") -> dict[str, Any]:
    """An object as it is stored."""
    status, stored = plane.raw("GET", f"/api/v1/namespaces/{namespace}/{kind}/{name}")
    assert status == 200, stored
    assert isinstance(stored, dict)
    return stored


def pods(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    """All pods of a namespace."""
    return list(plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"])


@pytest.fixture
def runtime_class(webhook: Installation) -> Any:
    """A RuntimeClass nvidia, known to the webhook."""
    plane = webhook.plane
    body = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    assert plane.raw("POST", "/apis/node.k8s.io/v1/runtimeclasses", body)[0] == 201
    probe = gpu_pod("probe")

    def is_injected() -> bool:
        answer = plane.raw("POST", "/api/v1/namespaces/default/pods?dryRun=All", probe)[1]
        return answer.get("spec", {}).get("runtimeClassName") == "nvidia"

    eventually(is_injected)
    yield
    plane.raw("DELETE", "/apis/node.k8s.io/v1/runtimeclasses/nvidia")
    eventually(lambda: not is_injected())


def test_a_bare_gpu_pod_gets_all_five_injections_and_a_second_apply_changes_nothing(
    webhook: Installation, make_namespace: Namespaces, runtime_class: None
) -> None:
    """Toleration, node affinity, runtime class, /dev/shm and NCCL are added once."""
    namespace = make_namespace("enforced")
    status, said = apply(webhook.plane, namespace, gpu_pod("bare"))
    assert status == 0, said
    spec = get(webhook.plane, namespace, "bare")["spec"]
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "example.com/pool", "operator": "In", "values": ["gpu"]}
    assert required == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    assert spec["runtimeClassName"] == "nvidia"
    shm = {"name": "gpu-policy-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    assert shm in spec["volumes"]
    container = spec["containers"][0]
    assert {"name": "gpu-policy-shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert {"name": "NCCL_SOCKET_IFNAME", "value": "eth0"} in container["env"]
    assert {"name": "NCCL_DEBUG", "value": "WARN"} in container["env"]

    assert apply(webhook.plane, namespace, gpu_pod("bare")) == (0, "")
    assert get(webhook.plane, namespace, "bare")["spec"] == spec


def test_gpus_in_requests_only_are_explained(webhook: Installation, make_namespace: Namespaces) -> None:
    """Our explanation comes before the API server's, and names the place and the remedy."""
    status, said = apply(webhook.plane, make_namespace("judged"), pod("a", REQUESTS_ONLY))
    assert status == 1
    assert f"spec.containers[main].resources: {EXPLANATION}" in said
    assert "Move the 2 to resources.limits" in said


@pytest.mark.parametrize("make", [pytest.param(deployment, id="Deployment"), pytest.param(job, id="Job")])
def test_pods_of_workloads_are_completed_when_controllers_create_them(
    webhook: Installation, cluster: ControlPlane, make_namespace: Namespaces, make: Callable[..., dict[str, Any]]
) -> None:
    """A ReplicaSet's and a Job's pods come without a name and are completed all the same; the template is not."""
    namespace = make_namespace("enforced")
    status, said = apply(cluster, namespace, make("workers", gpu_pod("workers")))
    assert status == 0, said
    made = eventually(lambda: pods(cluster, namespace))
    assert made[0]["metadata"]["annotations"][ANNOTATION].startswith("tolerations,nodeAffinity")
    assert made[0]["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == "/dev/shm"


def test_mode_warn_changes_nothing_and_says_everything(webhook: Installation, make_namespace: Namespaces) -> None:
    """Each finding is a warning that kubectl prints; the pod is stored as it was written."""
    namespace = make_namespace("warned")
    status, said = apply(webhook.plane, namespace, gpu_pod("lax"))
    assert status == 0, said
    assert "Warning: tolerations: spec: would add toleration nvidia.com/gpu Exists:NoSchedule." in said
    assert "Warning: sharedMemory: spec: would add memory volume" in said
    assert "Warning: gpuLimits: spec: requests 2 GPUs; the policy allows at most 1 per pod. Request 1 or fewer." in said
    stored = get(webhook.plane, namespace, "lax")
    assert ANNOTATION not in stored["metadata"]["annotations"]
    assert "volumes" not in stored["spec"]


@pytest.mark.parametrize(
    ("prefix", "gpus"), [pytest.param("warned", 2, id="warnings"), pytest.param("enforced", 9, id="a refusal")]
)
def test_kubectl_prints_what_is_answered(
    webhook: Installation, make_namespace: Namespaces, prefix: str, gpus: int
) -> None:
    """Which is why other tests ask the API server themselves."""
    plane, manifest = webhook.plane, gpu_pod("printed", gpus=gpus)
    status, said = apply(plane, make_namespace(prefix), manifest)
    by_kubectl, printed = kubectl_apply(plane, make_namespace(prefix), manifest)
    before_a_refusal = 'Error from server (Forbidden): error when creating "STDIN": '
    assert (by_kubectl, printed.removeprefix(before_a_refusal)) == (status, said)
    assert said


def test_mode_audit_is_silent_and_recorded(webhook: Installation, make_namespace: Namespaces) -> None:
    """The user sees nothing; the API server's audit log and our metrics have it."""
    namespace = make_namespace("audited")
    assert apply(webhook.plane, namespace, gpu_pod("quiet")) == (0, "")
    assert "volumes" not in get(webhook.plane, namespace, "quiet")["spec"]

    def audited() -> dict[str, str] | None:
        for event in webhook.plane.audit_events():
            if event["objectRef"].get("namespace") == namespace and event["verb"] == "create":
                annotations: dict[str, str] = event.get("annotations", {})
                return annotations
        return None

    annotations = eventually(audited)
    assert annotations["validate.gpupolicy.dev/policy"] == "audited"
    assert "requests 2 GPUs" in annotations["validate.gpupolicy.dev/audited"]
    assert "would add toleration" in annotations["mutate.gpupolicy.dev/audited"]
    assert 'gpu_policy_findings_total{kind="violation",mode="audit",rule="gpuLimits"}' in webhook.get("/metrics")[1]


def test_without_the_mutating_configuration_the_safety_net_refuses_or_warns(
    webhook: Installation, make_namespace: Namespaces
) -> None:
    """A pod that missed its required node affinity is refused; other missing injections are warnings."""
    webhook.unregister("MutatingWebhookConfiguration")
    namespace = make_namespace("enforced")
    status, said = eventually(lambda: _refused(webhook.plane, namespace, gpu_pod("missed")))
    assert "denied the request: nodeAffinity: spec: required node affinity example.com/pool In [gpu]" in said
    assert "should have been injected but is missing" in said

    status, said = apply(webhook.plane, make_namespace("default"), gpu_pod("missed"))
    assert status == 0, said
    assert "Warning: tolerations: spec: toleration nvidia.com/gpu Exists:NoSchedule should have been injected" in said


def _refused(plane: ControlPlane, namespace: str, manifest: dict[str, Any]) -> tuple[int, str] | None:
    status, said = apply(plane, namespace, manifest, dry_run=True)
    return (status, said) if status else None


def test_an_edited_policy_holds_within_seconds_and_a_broken_one_never(
    webhook: Installation, make_namespace: Namespaces
) -> None:
    """The set is swapped whole; a file with a mistake keeps the last good set and shows in /readyz."""
    namespace = make_namespace("judged")
    assert apply(webhook.plane, namespace, gpu_pod("two"), dry_run=True)[0] == 0
    webhook.write_policy(namespace, f"spec:\n  rules:\n    gpuLimits: {{maxPerPod: 1}}\n{JUDGED}")
    _, said = eventually(lambda: _refused(webhook.plane, namespace, gpu_pod("two")))
    assert "at most 1 per pod" in said

    webhook.write_policy(namespace, "spec: {rules: {gpuLimits: {maxPerPot: 8}}}\n")
    status, page = eventually(lambda: (r := webhook.get("/readyz"))[1].find("REFUSED") > 0 and r)
    assert status == 200
    assert "maxPerPot" in page
    assert _refused(webhook.plane, namespace, gpu_pod("two"))
    (webhook.policies / f"{namespace}.yaml").unlink()
    eventually(lambda: not _refused(webhook.plane, namespace, gpu_pod("two")))


def test_a_terminating_pod_loses_its_finalizer_although_the_policy_now_forbids_it(
    webhook: Installation, make_namespace: Namespaces
) -> None:
    """Updates that bring no new violation pass, or pods would hang in Terminating."""
    plane = webhook.plane
    namespace = make_namespace("judged")
    manifest = gpu_pod("held")
    manifest["metadata"]["finalizers"] = ["example.com/held"]
    assert apply(plane, namespace, manifest)[0] == 0
    webhook.write_policy(namespace, f"spec:\n  rules:\n    gpuLimits: {{maxPerPod: 0}}\n{JUDGED}")
    eventually(lambda: _refused(plane, namespace, gpu_pod("other")))
    path = f"/api/v1/namespaces/{namespace}/pods/held"
    assert plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")[0] == 200
    assert get(plane, namespace, "held")["metadata"]["deletionTimestamp"]
    status, answer = plane.raw("PATCH", path, {"metadata": {"labels": {"a": "b"}}})
    assert status == 200, answer
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.example/trainer:2"}]
    status, answer = plane.raw("PATCH", path, image, content_type="application/json-patch+json")
    assert status == 200, answer
    status, answer = plane.raw("PATCH", path, {"metadata": {"finalizers": None}})
    assert status == 200, answer
    eventually(lambda: plane.raw("GET", path)[0] == 404)
    (webhook.policies / f"{namespace}.yaml").unlink()


def test_an_ephemeral_container_cannot_reach_for_gpus(webhook: Installation, make_namespace: Namespaces) -> None:
    """`kubectl debug` is matched: a debug container that asks to see every GPU is refused, a harmless one is not."""
    plane = webhook.plane
    namespace = make_namespace("judged")
    assert apply(plane, namespace, gpu_pod("busy"))[0] == 0
    path = f"/api/v1/namespaces/{namespace}/pods/busy/ephemeralcontainers"
    container: dict[str, Any] = {"name": "debug", "image": "registry.example/debug:1"}
    container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    strategic = "application/strategic-merge-patch+json"
    status, answer = plane.raw("PATCH", path, {"spec": {"ephemeralContainers": [container]}}, content_type=strategic)
    assert status == 403
    assert "spec.ephemeralContainers[debug].env[NVIDIA_VISIBLE_DEVICES]" in answer["message"]
    del container["env"]
    status, answer = plane.raw("PATCH", path, {"spec": {"ephemeralContainers": [container]}}, content_type=strategic)
    assert status == 200, answer


def test_only_nodes_have_mirror_pods(webhook: Installation, make_namespace: Namespaces) -> None:
    """The annotation of a mirror pod exempts nobody but the kubelets."""
    plane = webhook.plane
    namespace = make_namespace("judged")
    plane.kubectl("create", "role", "creator", "--verb=create", "--resource=pods", namespace=namespace)
    users = ["--user=tenant", "--user=system:node:n1"]
    plane.kubectl("create", "rolebinding", "creators", "--role=creator", *users, namespace=namespace)
    manifest = gpu_pod("static", gpus=9, nodeName="n1")
    manifest["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "abc"}
    path = f"/api/v1/namespaces/{namespace}/pods"
    status, answer = eventually(lambda: _authorized(plane.raw("POST", path, manifest, TENANT_TOKEN)))
    assert status == 403
    assert "requests 9 GPUs" in answer["message"]
    status, answer = eventually(lambda: _authorized(plane.raw("POST", path, manifest, NODE_TOKEN)))
    assert status == 201, answer


def _authorized(answered: tuple[int, Any]) -> tuple[int, Any] | None:
    """The answer once the role binding is known to the authorizer."""
    return None if answered[0] == 403 and "cannot create resource" in answered[1]["message"] else answered


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "examples").glob("[0-9]*.yaml")), ids=lambda file: file.stem
)
def test_review_agrees_with_the_api_server_on_the_examples(
    webhook: Installation, make_namespace: Namespaces, runtime_class: None, file: Path
) -> None:
    """Pods that `gpu-policy review` calls refused are refused by the API server, and nothing else is; workloads are
    told in the same words.
    """
    manifest = yaml.safe_load(file.read_text())
    namespace = manifest["metadata"]["namespace"]
    if webhook.plane.raw("GET", f"/api/v1/namespaces/{namespace}")[0] == 404:
        webhook.plane.namespace(namespace)
    (item,) = review(
        list(read_all([str(file)], sys.stdin)), "default", against(load(webhook.policies), ClusterFacts())
    ).items
    status, said = apply(webhook.plane, namespace, manifest, dry_run=True)
    assert (status == 0) == (item.is_allowed or manifest["kind"] != "Pod"), said
    for violation in item.violations:
        assert (violation.message in said) is (violation.mode is not Mode.AUDIT)
