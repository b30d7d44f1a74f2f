"""Attacks and faults of operation that need a real API server, and its controllers where they are part of it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import ANNOTATION, Installation
from tests.e2e.objects import deployment, gpu_pod
from tests.server.serving import paused_worker

Namespaces = Callable[[str], str]


def replica_sets(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    return list(plane.raw("GET", f"/apis/apps/v1/namespaces/{namespace}/replicasets")[1]["items"])


def pods(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    return list(plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"])


def apply(plane: ControlPlane, namespace: str, manifest: dict[str, Any]) -> None:
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(manifest), namespace=namespace)


def test_what_scaling_brings_is_checked_although_the_template_was_never_judged(
    webhook: Installation, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    """A Deployment of no replicas with too many GPUs comes in; scaled up, none of its pods does."""
    namespace = make_namespace("judged")
    manifest = deployment("grows", gpu_pod("grows", gpus=100))
    manifest["spec"]["replicas"] = 0
    apply(cluster, namespace, manifest)
    eventually(lambda: replica_sets(cluster, namespace))
    cluster.kubectl("scale", "deployment", "grows", "--replicas=2", namespace=namespace)

    def refusal() -> str:
        conditions = [c for found in replica_sets(cluster, namespace) for c in found["status"].get("conditions", [])]
        return next((str(c["message"]) for c in conditions if c["type"] == "ReplicaFailure"), "")

    assert "requests 100 GPUs" in eventually(refusal)
    assert pods(cluster, namespace) == []


def test_pods_and_namespaces_can_be_deleted_while_the_webhook_is_away(
    webhook: Installation, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("judged")
    path = f"/api/v1/namespaces/{namespace}"
    assert cluster.raw("POST", f"{path}/pods", gpu_pod("doomed"))[0] == 201
    assert cluster.raw("POST", f"{path}/pods", gpu_pod("doomed-too"))[0] == 201
    webhook.stop()
    try:
        assert cluster.raw("DELETE", f"{path}/pods/doomed?gracePeriodSeconds=0")[0] == 200
        assert cluster.raw("DELETE", path)[0] == 200
        eventually(lambda: cluster.raw("GET", path)[0] == 404)
    finally:
        webhook.start()


def overloaded(webhook: Installation) -> float:
    """How many requests the webhook has sent back because they waited too long."""
    families = text_string_to_metric_families(webhook.get("/metrics")[1])
    samples = [sample for family in families for sample in family.samples if sample.name == "gpu_policy_errors_total"]
    return sum(sample.value for sample in samples if sample.labels == {"reason": "overloaded"})


def test_pods_that_met_a_replica_without_cpu_are_created_a_second_later(
    webhook: Installation, make_namespace: Namespaces
) -> None:
    """What waited for more than half of the 5 s is answered 503 with Retry-After, and the API server asks again."""
    namespace = make_namespace("judged")
    plane = webhook.plane
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert webhook.is_asked()  # so that connections are open, whose handshakes are not what waits
    before = overloaded(webhook)
    with ThreadPoolExecutor(8) as pool:
        with paused_worker(webhook.pid):
            created = [pool.submit(plane.raw, "POST", path, gpu_pod(f"waits-{number}")) for number in range(8)]
            time.sleep(3)
        answers = [future.result() for future in created]
    assert [answer for answer in answers if answer[0] != 201] == []
    assert before < overloaded(webhook)


def test_no_label_of_a_namespace_keeps_the_webhook_away(webhook: Installation, make_namespace: Namespaces) -> None:
    labels = {"gpupolicy.dev/exempt": "true", "gpupolicy.dev/mode": "disabled", "name": "kube-system"}
    labels |= {"admission.gatekeeper.sh/ignore": "true", "control-plane": "controller-manager"}
    namespace = make_namespace("judged")
    path = f"/api/v1/namespaces/{namespace}"
    assert webhook.plane.raw("PATCH", path, {"metadata": {"labels": labels}})[0] == 200
    status, answer = webhook.plane.raw("POST", f"{path}/pods", gpu_pod("labelled", gpus=100))
    assert (status, "requests 100 GPUs" in answer["message"]) == (403, True)


def test_a_namespace_cannot_take_the_name_of_one_that_is_left_out(
    webhook: Installation, make_namespace: Namespaces
) -> None:
    """The one label that the selectors look at is set by the API server, whatever is written into it."""
    plane = webhook.plane
    namespace = make_namespace("judged")
    path = f"/api/v1/namespaces/{namespace}"
    plane.raw("PATCH", path, {"metadata": {"labels": {"kubernetes.io/metadata.name": "kube-system"}}})
    plane.raw("PATCH", path, {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}})
    assert plane.raw("GET", path)[1]["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace
    status, answer = plane.raw("POST", f"{path}/pods", gpu_pod("disguised", gpus=100))
    assert (status, "requests 100 GPUs" in answer["message"]) == (403, True)


def test_what_a_gitops_controller_applies_stays_as_it_is_and_its_pods_are_completed(
    webhook: Installation, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    """A second apply finds no difference, and no second ReplicaSet is made."""
    namespace = make_namespace("enforced")
    manifest = deployment("trainer", gpu_pod("trainer"))
    apply(cluster, namespace, manifest)
    (created,) = eventually(lambda: pods(cluster, namespace))
    assert created["metadata"]["annotations"][ANNOTATION]
    difference = cluster.kubectl("diff", "-f", "-", input=yaml.safe_dump(manifest), namespace=namespace, check=False)
    assert (difference.returncode, difference.stdout) == (0, "")
    apply(cluster, namespace, manifest)
    stored = cluster.raw("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/trainer")[1]
    assert stored["metadata"]["generation"] == 1
    assert len(replica_sets(cluster, namespace)) == 1
    (container,) = stored["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == manifest["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert "tolerations" not in stored["spec"]["template"]["spec"]
