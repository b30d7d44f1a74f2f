"""Priority, time and spread of GPU pods where Kubernetes and other webhooks have a say in them too."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.neighbour import LABEL, changing
from tests.e2e.objects import JUDGED, deployment, gpu_pod, job

Raw = dict[str, Any]
Namespaces = Callable[[str], str]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
TRAINING, DEFAULT, GONE, OTHER = "timed-training", "timed-default", "timed-gone", "timed-other"
OWN = {TRAINING: (1000, "Never"), OTHER: (7, "PreemptLowerPriority")}
POLICIES = {
    "timed": f"""\
spec:
  namespaces: ["timed-*"]
  rules:
    priorityClass: {{mode: enforce, name: {TRAINING}, ifMissing: refuse}}
    timeLimit: {{mode: enforce, max: 8h, missing: refuse, selectors: [{{app: lab}}, {{job-name: lab}}]}}
    replicaSpread: {{mode: enforce, inject: preferred}}
{JUDGED}""",
    "gone": f"""\
spec:
  namespaces: ["gone-*"]
  rules:
    priorityClass: {{mode: enforce, name: {GONE}, whenMissing: warn}}
{JUDGED}""",
}
EIGHT_HOURS = 28800


def create_class(plane: ControlPlane, name: str, value: int, policy: str, **more: Any) -> None:
    body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy, **more}
    status, answer = plane.raw("POST", CLASSES, body)
    assert status == 201, answer


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def create(plane: ControlPlane, namespace: str, manifest: Raw) -> Raw:
    """The pod as it was stored."""
    status, stored = plane.raw("POST", pods_path(namespace), manifest)
    assert status == 201, stored
    return dict(stored)


def tried(plane: ControlPlane, namespace: str) -> Raw:
    """The spec that a pod without a word on its priority would get; the answer where it would be refused."""
    answer = plane.raw("POST", f"{pods_path(namespace)}?dryRun=All", gpu_pod("probe"))[1]
    return dict(answer.get("spec", answer))


def priority(pod: Raw) -> tuple[Any, ...]:
    return tuple(pod["spec"].get(key) for key in ("priorityClassName", "priority", "preemptionPolicy"))


@pytest.fixture(scope="module")
def policies(installation: Installation) -> Iterator[None]:
    """The policies of this file, and the classes of its namespaces.

    What a policy of a minute ago did not find is not held against a pod; the webhook starts anew to know of none.
    """
    for name, text in POLICIES.items():
        installation.write_policy(name, text)
        installation.plane.namespace(f"{name}-probe")
    installation.stop()
    installation.start()
    for name, (value, policy) in OWN.items():
        create_class(installation.plane, name, value, policy)
    yield
    for name in POLICIES:
        (installation.policies / f"{name}.yaml").unlink()
    for name in OWN:
        installation.plane.raw("DELETE", f"{CLASSES}/{name}")


@pytest.fixture
def timing(policies: None, webhook: Installation) -> Installation:
    """The webhook, which knows the policies and the classes by now."""
    eventually(lambda: tried(webhook.plane, "timed-probe").get("priorityClassName") == TRAINING)
    return webhook


@pytest.fixture
def default_class(timing: Installation) -> Iterator[None]:
    """A class that Kubernetes gives to every pod which names none."""
    plane = timing.plane
    create_class(plane, DEFAULT, 77, "PreemptLowerPriority", globalDefault=True)
    try:
        eventually(lambda: tried(plane, "default").get("priorityClassName") == DEFAULT)
        eventually(lambda: tried(plane, "timed-probe").get("priorityClassName") == TRAINING)
        yield
    finally:
        plane.raw("DELETE", f"{CLASSES}/{DEFAULT}")
        eventually(lambda: "priorityClassName" not in tried(plane, "default"))


def labelled(manifest: Raw, **labels: str) -> Raw:
    return manifest | {"metadata": {**manifest["metadata"], "labels": labels}}


# PriorityClasses


def made_by(plane: ControlPlane, namespace: str, count: int) -> list[Raw]:
    """The pods that controllers have made."""

    def found() -> list[Raw]:
        items = plane.raw("GET", pods_path(namespace))[1]["items"]
        return items if len(items) == count else []

    return eventually(found)


def test_pods_of_controllers_get_the_class_although_kubernetes_gave_them_its_default(
    timing: Installation, cluster: ControlPlane, default_class: None, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("timed")
    owned = job("own", gpu_pod("a", priorityClassName=OTHER))
    for path, manifest in {"apps/v1": deployment("none", gpu_pod("a")), "batch/v1": owned}.items():
        kind = f"{manifest['kind'].lower()}s"
        assert cluster.raw("POST", f"/apis/{path}/namespaces/{namespace}/{kind}", manifest)[0] == 201
    found = {pod["metadata"]["ownerReferences"][0]["kind"]: priority(pod) for pod in made_by(cluster, namespace, 2)}
    assert found == {"ReplicaSet": (TRAINING, 1000, "Never"), "Job": (OTHER, 7, "PreemptLowerPriority")}


def undo(raw: Raw) -> list[Raw]:
    """What takes the class from a pod again, and what follows from it."""
    is_ours = raw["spec"].get("priorityClassName") == TRAINING
    keys = ("priorityClassName", "priority", "preemptionPolicy") if is_ours else ()
    return [{"op": "remove", "path": f"/spec/{key}"} for key in keys]


def test_a_pod_that_another_webhook_changed_gets_class_and_priority_once_more(
    timing: Installation, make_namespace: Namespaces
) -> None:
    """Ours is then the last to change it: Kubernetes computes nothing any more."""
    with changing(timing, undo):
        stored = create(timing.plane, make_namespace("timed"), labelled(gpu_pod("a"), **{LABEL: "yes"}))
    assert priority(stored) == (TRAINING, 1000, "Never")


def test_a_pod_that_lost_its_class_for_good_is_refused_where_the_policy_says_so(
    timing: Installation, make_namespace: Namespaces
) -> None:
    path, manifest = pods_path(make_namespace("timed")), labelled(gpu_pod("a"), **{LABEL: "yes"})
    with changing(timing, undo, reinvoked=True):
        status, told = timing.plane.raw("POST", path, manifest)
    assert status == 403
    assert (
        f"priorityClass: spec: priorityClassName {TRAINING} should have been injected but is missing" in told["message"]
    )


def test_a_class_that_does_not_exist_is_told_and_set_as_soon_as_it_does(
    timing: Installation, make_namespace: Namespaces
) -> None:
    plane, namespace = timing.plane, make_namespace("gone")
    done = plane.kubectl("run", "a", "--image=registry.example/a:1", "--overrides", OVERRIDES, namespace=namespace)
    assert (
        f"Warning: priorityClass: spec.priorityClassName: not set, because the cluster has no PriorityClass {GONE}. "
        "Tell the platform team." in done.stderr
    )
    create_class(plane, GONE, 5, "PreemptLowerPriority")
    try:
        eventually(lambda: tried(plane, namespace).get("priority") == 5)
    finally:
        plane.raw("DELETE", f"{CLASSES}/{GONE}")
    eventually(lambda: tried(plane, namespace).get("priority") == 0)


OVERRIDES = '{"spec": {"containers": [{"name": "a", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}'


# Limits of time


def stateful_set(template: Raw) -> Raw:
    raw = deployment("lab", template)
    return raw | {"kind": "StatefulSet", "spec": {**raw["spec"], "serviceName": "lab"}}


def test_the_pod_of_a_stateful_set_gets_the_limit_that_its_template_cannot_have(
    timing: Installation, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    """Although the policy refuses pods without one; a Job can say so itself, and has to."""
    namespace = make_namespace("timed")
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
    assert cluster.raw("POST", path, stateful_set(gpu_pod("a")))[0] == 201
    (pod,) = made_by(cluster, namespace, 1)
    assert pod["spec"]["activeDeadlineSeconds"] == EIGHT_HOURS
    status, told = timing.plane.raw("POST", pods_path(namespace), labelled(gpu_pod("a"), app="lab"))
    assert (status, "is not set; interactive GPU pods may run for 28800 (8h) at most" in told["message"]) == (403, True)


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        pytest.param(EIGHT_HOURS, 60, 200, id="lowered"),
        pytest.param(None, EIGHT_HOURS, 200, id="set"),
        pytest.param(None, EIGHT_HOURS + 1, 403, id="set to more than is allowed"),
        pytest.param(EIGHT_HOURS + 9, EIGHT_HOURS + 1, 403, id="lowered to more than is allowed"),
    ],
)
def test_who_changes_the_limit_of_a_running_pod_changes_it_to_what_is_allowed(
    timing: Installation, make_namespace: Namespaces, before: int | None, after: int, status: int
) -> None:
    """The pod is older than the registration of the webhook; Kubernetes itself lets it only be lowered."""
    namespace = make_namespace("timed")
    plane = timing.plane
    timing.unregister()
    manifest = labelled(gpu_pod("a", **({"activeDeadlineSeconds": before} if before else {})), app="lab")
    eventually(lambda: plane.raw("POST", pods_path(namespace), manifest)[0] == 201)
    timing.register()
    eventually(timing.is_asked)
    path = f"{pods_path(namespace)}/a"
    assert plane.raw("PATCH", path, {"metadata": {"labels": {"some": "label"}}})[0] == 200
    found, told = plane.raw("PATCH", path, {"spec": {"activeDeadlineSeconds": after}})
    assert (found, told) == (status, told)


# The spread of replicas


def test_replicas_are_spread_among_those_of_their_own_revision(
    timing: Installation, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    """The API server itself writes the revision of matchLabelKeys into the selector, and takes ours."""
    namespace = make_namespace("timed")
    manifest = deployment("chat", gpu_pod("a"))
    manifest["spec"]["replicas"] = 2
    assert cluster.raw("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", manifest)[0] == 201
    for pod in made_by(cluster, namespace, 2):
        (constraint,) = pod["spec"]["topologySpreadConstraints"]
        revision = pod["metadata"]["labels"]["pod-template-hash"]
        merged = [{"key": "pod-template-hash", "operator": "In", "values": [revision]}]
        assert constraint == {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "matchLabelKeys": ["pod-template-hash"],
            "labelSelector": {"matchLabels": {"app": "chat"}, "matchExpressions": merged},
        }
