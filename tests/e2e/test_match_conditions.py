"""matchConditions, judged by a real API server: what reaches the webhook, what is kept away, and that nothing errs.

The webhooks registered here answer to nobody, and an answer is required: a request that matches fails with "failed
calling webhook", one that is kept away succeeds, and an error in a condition is answered with 403.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.build import WORKLOADS
from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kinds import KINDS, defined_kinds
from tests.e2e.match_condition_cases import (
    AFTER_GPU_NODES,
    ANNOTATED,
    DAEMON,
    ELSEWHERE,
    GPU,
    INVALID,
    KEPT_AWAY,
    MATCHED,
    NVIDIA_RUNTIME,
    REQUESTS_ONLY,
    RUNTIME,
    VISIBLE,
    Raw,
    annotated,
    asking,
    container,
    exists,
    named,
    pod,
    spec,
    tolerating,
    workload,
)

CALLED = "failed calling webhook"
NAMESPACES = {phase: f"conditions-{phase}" for phase in ("mutate", "validate", "workloads")}
OF_PODS = ("mutate", "validate")
BUILT_IN = [pytest.param(version.rpartition("/")[0], kind, id=kind) for kind, (version, _) in WORKLOADS.items()]
OWNED = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "705ab4f5-6393-11e8-b7cc-42010a800002"}


def registrations() -> list[Raw]:
    """The shipped entries for pods and workloads, each in a configuration and a namespace of its own, unanswered."""
    found = []
    for configuration in shipped().configurations:
        for entry in configuration["webhooks"]:
            phase = entry["name"].partition(".")[0]
            if phase not in NAMESPACES:  # that of the ConfigMaps of policies
                continue
            entry["clientConfig"] = {"url": "https://127.0.0.1:9/"}
            entry["timeoutSeconds"] = 1
            entry["failurePolicy"] = "Fail"
            entry["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACES[phase]}}
            if phase == "workloads":
                rule = {"apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "scope": "*"}
                entry["rules"].append({**rule, "apiGroups": ["ml.example.com"], "resources": ["trainings"]})
            metadata = {**configuration["metadata"], "name": NAMESPACES[phase]}
            found.append({**configuration, "metadata": metadata, "webhooks": [entry]})
    return found


def path_to(body: Raw, phase: str, name: str = "") -> str:
    root = "/api/v1" if "/" not in body["apiVersion"] else f"/apis/{body['apiVersion']}"
    return f"{root}/namespaces/{NAMESPACES[phase]}/{body['kind'].lower()}s{name and '/'}{name}"


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The API server with objects to update in both namespaces, and then both webhooks."""
    for name in (RUNTIME, NVIDIA_RUNTIME):
        runtime = {"metadata": {"name": name}, "handler": "any"}
        assert control_plane.raw("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)[0] == 201
    with defined_kinds(control_plane):
        yield from registered(control_plane)


def registered(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    for namespace in NAMESPACES.values():
        control_plane.namespace(namespace)
    for phase in OF_PODS:
        gpu = container(resources={"limits": {GPU: "1", "cpu": "1"}})
        found = (("gpu", spec(gpu)), ("plain", spec(asking("cpu"))), ("after-nodes", tolerating(exists(GPU))))
        for name, one in found:
            body = pod(one, name)
            assert control_plane.raw("POST", path_to(body, phase), body)[0] == 201
    built_in = [workload(*kind.values, spec(asking(GPU))) for kind in BUILT_IN]
    for body in (*built_in, *CUSTOM.values(), training("held", finalizers=["example.com/hold"])):
        status, answer = control_plane.raw("POST", path_to(body, "workloads"), body)
        assert status == 201, answer["message"]
    held = path_to(training(), "workloads", "held")
    assert control_plane.raw("DELETE", held)[0] == 200
    root = "/apis/admissionregistration.k8s.io/v1/"
    for configuration in registrations():
        resources = root + configuration["kind"].lower() + "s"
        status, answer = control_plane.raw("POST", resources, configuration)
        assert status == 201, answer["message"]
    try:
        gpu_pod = pod(spec(asking(GPU)))
        eventually(lambda: all(CALLED in create(control_plane, gpu_pod, phase) for phase in OF_PODS))
        eventually(lambda: CALLED in create(control_plane, training("probe"), "workloads"))
        yield control_plane
    finally:
        for name in (RUNTIME, NVIDIA_RUNTIME):
            control_plane.raw("DELETE", f"/apis/node.k8s.io/v1/runtimeclasses/{name}")
        for configuration in registrations():
            name = configuration["metadata"]["name"]
            control_plane.raw("DELETE", f"{root}{configuration['kind'].lower()}s/{name}")
        let_go: Raw = {"metadata": {"finalizers": []}}
        eventually(lambda: control_plane.raw("PATCH", held, let_go)[0] in (200, 404))


def create(server: ControlPlane, body: Raw, phase: str) -> str:
    """Create without a trace; answers the error, an empty text when there is none."""
    status, answer = server.raw("POST", path_to(body, phase) + "?dryRun=All", body)
    return "" if status == 201 else str(answer["message"])


def patch(server: ControlPlane, target: str, change: Any, kind: str = "merge") -> str:
    """The same for an update."""
    media_type = f"application/{kind}-patch+json"
    status, answer = server.raw("PATCH", f"{target}?dryRun=All", change, content_type=media_type)
    return "" if status == 200 else str(answer["message"])


@pytest.mark.parametrize("phase", OF_PODS)
@pytest.mark.parametrize("pod_spec", MATCHED)
def test_a_pod_that_may_concern_a_rule_is_sent(server: ControlPlane, pod_spec: Raw, phase: str) -> None:
    assert CALLED in create(server, pod(pod_spec), phase)


@pytest.mark.parametrize(("key", "sent"), ANNOTATED)
def test_annotations_for_container_runtimes_are_sent_on_pods_and_in_templates(
    server: ControlPlane, key: str, sent: bool
) -> None:
    found = [create(server, annotated(pod(spec()), **{key: "all"}), phase) for phase in OF_PODS]
    for kind in BUILT_IN:
        body = named(workload(*kind.values, spec()), "new")
        if kind.id == "PodTemplate":
            template = body["template"]
        elif kind.id == "CronJob":
            template = body["spec"]["jobTemplate"]["spec"]["template"]
        else:
            template = body["spec"]["template"]
        template["metadata"]["annotations"] = {"team": "a", key: "all"}
        found.append(create(server, body, "workloads"))
        assert (
            create(server, annotated(named(workload(*kind.values, spec()), "new"), **{key: "all"}), "workloads") == ""
        )
    assert [CALLED in answer for answer in found] == [sent] * len(found)
    assert sent or not any(found)


@pytest.mark.parametrize("phase", ["validate"])
@pytest.mark.parametrize(("key", "sent"), ANNOTATED)
def test_a_pod_is_not_annotated_afterwards_without_an_answer(
    server: ControlPlane, key: str, sent: bool, phase: str
) -> None:
    """A pod that waits behind a scheduling gate could be annotated before it is started."""
    target = path_to(pod(spec()), phase, "plain")
    answer = patch(server, target, {"metadata": {"annotations": {key: "all"}}})
    assert CALLED in answer if sent else answer == ""
    assert patch(server, target, {"metadata": {"annotations": {"other": "all"}, "labels": {"a": "b"}}}) == ""


@pytest.mark.parametrize("phase", OF_PODS)
def test_2000_annotations_cost_no_pod_its_answer(server: ControlPlane, phase: str) -> None:
    many = {f"example.com/annotation-number-{number}": "x" * 80 for number in range(2000)}
    assert create(server, annotated(pod(spec()), **many), phase) == ""


@pytest.mark.parametrize("phase", OF_PODS)
@pytest.mark.parametrize("pod_spec", [*KEPT_AWAY, *ELSEWHERE])
def test_a_pod_that_concerns_no_rule_is_kept_away(server: ControlPlane, pod_spec: Raw, phase: str) -> None:
    assert create(server, pod(pod_spec), phase) == ""


@pytest.mark.parametrize("pod_spec", AFTER_GPU_NODES)
def test_a_pod_without_gpus_that_is_after_gpu_nodes_is_judged_and_not_changed(
    server: ControlPlane, pod_spec: Raw
) -> None:
    assert create(server, pod(pod_spec), "mutate") == ""
    assert CALLED in create(server, pod(pod_spec), "validate")


@pytest.mark.parametrize(
    ("owners", "sent"),
    [
        pytest.param([{**DAEMON, "controller": True}], False, id="DaemonSet"),
        pytest.param([{**DAEMON, "controller": True, "apiVersion": "apps.kruise.io/v1"}], False, id="another's"),
        pytest.param([OWNED, {**DAEMON, "controller": True}], False, id="DaemonSet and another owner"),
        pytest.param([DAEMON], True, id="a DaemonSet that is no controller"),
        pytest.param([{**DAEMON, "controller": False}], True, id="a DaemonSet that says it is no controller"),
        pytest.param([{**DAEMON, "controller": True, "kind": "ReplicaSet"}], True, id="ReplicaSet"),
        pytest.param([], True, id="nobody"),
    ],
)
def test_pods_of_daemon_sets_are_sent_only_for_their_gpus(server: ControlPlane, owners: list[Raw], sent: bool) -> None:
    """Agents on GPU nodes are there to stay, and must not depend on an answer."""
    for pod_spec, matters in ((tolerating(exists(GPU)), sent), (spec(asking(GPU)), True)):
        body = pod(pod_spec)
        body["metadata"]["ownerReferences"] = owners
        answer = create(server, body, "validate")
        assert CALLED in answer if matters else answer == ""


@pytest.mark.parametrize(("group", "kind"), BUILT_IN)
def test_a_workload_whose_pods_are_after_gpu_nodes_is_sent_but_for_daemon_sets(
    server: ControlPlane, group: str, kind: str
) -> None:
    answer = create(server, named(workload(group, kind, tolerating(exists(GPU))), "new"), "workloads")
    assert answer == "" if kind == "DaemonSet" else CALLED in answer


@pytest.mark.parametrize(
    ("pod_spec", "sent"),
    [pytest.param(*one.values, True, id=str(one.id)) for one in AFTER_GPU_NODES]
    + [pytest.param(*one.values, False, id=str(one.id)) for one in ELSEWHERE],
)
def test_a_template_is_sent_for_the_tolerations_that_a_pod_is_sent_for(
    server: ControlPlane, pod_spec: Raw, sent: bool
) -> None:
    answer = create(server, named(workload("batch", "Job", pod_spec), "new"), "workloads")
    assert CALLED in answer if sent else answer == ""


def test_a_gpu_in_requests_only_is_sent_before_validation_refuses_it(server: ControlPlane) -> None:
    assert CALLED in create(server, pod(spec(REQUESTS_ONLY)), "mutate")
    assert "Limit must be set for non overcommitable resources" in create(
        server, named(workload("apps", "Deployment", spec(REQUESTS_ONLY)), "new"), "workloads"
    )
    assert "Limit must be set for non overcommitable resources" in create(server, pod(spec(REQUESTS_ONLY)), "validate")


@pytest.mark.parametrize(("group", "kind"), BUILT_IN)
def test_a_workload_whose_template_asks_for_gpus_is_sent(server: ControlPlane, group: str, kind: str) -> None:
    body = named(workload(group, kind, spec(asking(GPU))), "new")
    assert CALLED in create(server, body, "workloads")
    assert create(server, body, "mutate") == create(server, body, "validate") == ""


@pytest.mark.parametrize(("group", "kind"), BUILT_IN)
def test_a_workload_whose_template_asks_for_none_is_kept_away(server: ControlPlane, group: str, kind: str) -> None:
    assert create(server, named(workload(group, kind, spec()), "new"), "workloads") == ""


@pytest.mark.parametrize("pod_spec", [one for one in MATCHED if "restartPolicy" not in str(one.id)])
def test_a_template_is_sent_for_whatever_a_pod_is_sent_for(server: ControlPlane, pod_spec: Raw) -> None:
    assert CALLED in create(server, named(workload("batch", "Job", pod_spec), "new"), "workloads")


@pytest.mark.parametrize(("group", "kind"), BUILT_IN)
def test_an_update_of_a_workload_is_sent_only_when_its_spec_changes(
    server: ControlPlane, group: str, kind: str
) -> None:
    body = workload(group, kind, spec(asking(GPU)))
    target = path_to(body, "workloads", body["metadata"]["name"])
    assert patch(server, target, {"metadata": {"labels": {"new": "label"}}}) == ""
    keys = "/".join(WORKLOADS[kind][1])
    image = [{"op": "replace", "path": f"/{keys}/spec/containers/0/image", "value": "registry.example/app:2"}]
    answer = patch(server, target, image, "json")
    assert CALLED in answer or "field is immutable" in answer  # of a Job, which its own validation says first
    assert (CALLED in answer) == (kind != "Job")


def test_scaling_and_status_of_a_gpu_deployment_need_no_answer(server: ControlPlane) -> None:
    body = workload("apps", "Deployment", spec())
    target = path_to(body, "workloads", body["metadata"]["name"])
    assert patch(server, f"{target}/scale", {"spec": {"replicas": 5}}) == ""
    assert patch(server, f"{target}/status", {"status": {"observedGeneration": 5}}) == ""
    assert CALLED in patch(server, target, {"spec": {"replicas": 5}})  # which a total may follow from


def test_what_a_controller_makes_is_kept_away(server: ControlPlane) -> None:
    for kind in ("Job", "ReplicaSet"):
        body = workload("batch" if kind == "Job" else "apps", kind, spec(asking(GPU)))
        for owners, sent in (([{**OWNED, "controller": True}], False), ([OWNED], True), ([], True)):
            body["metadata"] = {"name": "new", "ownerReferences": owners}
            answer = create(server, body, "workloads")
            assert CALLED in answer if sent else answer == ""


# Custom resources, of whose insides CEL knows nothing.


def training(name: str = "new", top: Raw | None = None, **metadata: Any) -> Raw:
    """An object of a kind that nobody knows, with these keys at the top."""
    body = {"spec": {"replicas": 1, "template": {"spec": spec()}}} if top is None else top
    return {"apiVersion": "ml.example.com/v1", "kind": "Training", "metadata": {"name": name, **metadata}, **body}


CUSTOM = {
    name: training(name, top)
    for name, top in (
        ("usual", None),
        ("without-spec", {"template": {"spec": spec()}}),
        ("null-spec", {"spec": None}),
        ("empty", {}),
        ("other-keys", {"things": ["a"], "other": 7}),
    )
}
"""Objects as their authors may have thought of them, by name."""


@pytest.mark.parametrize("body", [pytest.param(named(body, "new"), id=name) for name, body in CUSTOM.items()])
def test_every_custom_resource_is_sent_when_it_is_created(server: ControlPlane, body: Raw) -> None:
    assert CALLED in create(server, body, "workloads")


@pytest.mark.parametrize("name", CUSTOM)
@pytest.mark.parametrize(
    ("change", "sent"),
    [
        pytest.param({"metadata": {"labels": {"new": "label"}}}, False, id="a label"),
        pytest.param({"metadata": {"finalizers": ["example.com/hold"]}}, False, id="a finalizer"),
        pytest.param({"spec": {"template": {"spec": {"nodeName": "other"}}}}, True, id="the spec"),
        pytest.param({"template": {"spec": {"nodeName": "other"}}}, True, id="a template at the top"),
        pytest.param({"something": 7}, True, id="whatever else"),
    ],
)
def test_an_update_of_a_custom_resource_is_sent_when_more_than_metadata_changes(
    server: ControlPlane, name: str, change: Raw, sent: bool
) -> None:
    answer = patch(server, path_to(training(), "workloads", name), change)
    assert CALLED in answer if sent else answer == ""


@pytest.mark.parametrize("name", CUSTOM)
def test_status_and_scale_of_a_custom_resource_need_no_answer(server: ControlPlane, name: str) -> None:
    target = path_to(training(), "workloads", name)
    assert patch(server, f"{target}/status", {"status": {"phase": "Running"}}) == ""
    if name == "usual":
        assert patch(server, f"{target}/scale", {"spec": {"replicas": 5}}) == ""


@pytest.mark.parametrize("name", CUSTOM)
def test_a_custom_resource_that_a_controller_made_is_kept_away(server: ControlPlane, name: str) -> None:
    body = {**CUSTOM[name], "metadata": {"name": "new", "ownerReferences": [{**OWNED, "controller": True}]}}
    assert create(server, body, "workloads") == ""


def test_a_custom_resource_that_is_being_deleted_can_be_changed_and_can_go(server: ControlPlane) -> None:
    target = path_to(training(), "workloads", "held")
    assert patch(server, target, {"spec": {"replicas": 2}, "metadata": {"finalizers": None}}) == ""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.is_namespaced], ids=lambda kind: kind.kind)
def test_every_known_custom_resource_is_sent(server: ControlPlane, kind: Any) -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "new"}, "spec": {}}
    assert CALLED in create(server, body, "workloads")


LABEL = {"metadata": {"labels": {"new": "label"}}}
IMAGE = {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}}


@pytest.mark.parametrize(
    ("name", "change", "sent"),
    [
        pytest.param("gpu", LABEL, False, id="label of a GPU pod"),
        pytest.param("gpu", IMAGE, True, id="image of a GPU pod"),
        pytest.param("plain", IMAGE, False, id="image of another pod"),
        pytest.param("plain", {"spec": {"activeDeadlineSeconds": 60}}, False, id="deadline of another pod"),
        pytest.param("plain", {"spec": {"tolerations": [exists(GPU)]}}, True, id="another pod is after GPU nodes now"),
        pytest.param("plain", {"spec": {"tolerations": [exists("a")]}}, False, id="another pod tolerates something"),
        pytest.param("after-nodes", {"spec": {"tolerations": [exists(GPU), exists("sku")]}}, True, id="more"),
        pytest.param("after-nodes", IMAGE, False, id="image of a pod that is after GPU nodes"),
        pytest.param("after-nodes", LABEL, False, id="label of a pod that is after GPU nodes"),
    ],
)
def test_an_update_is_sent_only_when_the_spec_of_a_gpu_pod_changes_or_what_others_tolerate(
    server: ControlPlane, name: str, change: Raw, sent: bool
) -> None:
    answer = patch(server, path_to(pod({}), "validate", name), change, "strategic-merge")
    assert CALLED in answer if sent else answer == ""


@pytest.mark.parametrize(
    ("name", "debugger", "sent"),
    [
        pytest.param("gpu", container("debug"), True, id="into a GPU pod"),
        pytest.param("plain", container("debug"), False, id="into another pod"),
        pytest.param("after-nodes", container("debug"), False, id="into a pod that is after GPU nodes"),
        pytest.param(
            "plain", container("debug", env=[{"name": VISIBLE, "value": "all"}]), True, id="with the variable"
        ),
    ],
)
def test_an_ephemeral_container_is_sent_when_it_or_its_pod_concerns_a_rule(
    server: ControlPlane, name: str, debugger: Raw, sent: bool
) -> None:
    target = path_to(pod({}), "validate", name) + "/ephemeralcontainers"
    answer = patch(server, target, {"spec": {"ephemeralContainers": [debugger]}}, "strategic-merge")
    assert CALLED in answer if sent else answer == ""


@pytest.mark.parametrize(("name", "sent"), [pytest.param("gpu", True), pytest.param("plain", False)])
def test_a_resize_is_sent_for_gpu_pods(server: ControlPlane, name: str, sent: bool) -> None:
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    change = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    answer = patch(server, path_to(pod({}), "validate", name) + "/resize", change, "strategic-merge")
    assert CALLED in answer if sent else answer == ""


def test_a_gpu_pod_can_be_deleted_and_lose_its_finalizer_without_an_answer(server: ControlPlane) -> None:
    target = path_to(pod({}), "validate", "gpu")
    assert patch(server, target, {"metadata": {"finalizers": ["example.com/hold"]}}) == ""
    assert server.raw("DELETE", f"{target}?dryRun=All")[0] == 200


@pytest.mark.parametrize("phase", OF_PODS)
@pytest.mark.parametrize("pod_spec", INVALID)
def test_no_condition_errs_over_a_pod_that_is_not_even_valid(server: ControlPlane, pod_spec: Any, phase: str) -> None:
    """An error in a condition is answered with 403; these pods are the business of decoding and validation."""
    status, answer = server.raw("POST", path_to(pod({}), phase) + "?dryRun=All", pod(pod_spec))
    assert status in {400, 422}, answer


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param(("ReplicationController", {"spec": {"selector": {"app": "a"}}}), id="controller"),
        pytest.param(("ReplicationController", {}), id="controller without a spec"),
        pytest.param(("PodTemplate", {}), id="PodTemplate"),
        pytest.param(("PodTemplate", {"template": None}), id="PodTemplate with null"),
    ],
)
def test_no_condition_errs_over_a_workload_without_a_template(server: ControlPlane, missing: tuple[str, Raw]) -> None:
    kind, rest = missing
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "empty"}, **rest}
    status, answer = server.raw("POST", path_to(body, "workloads") + "?dryRun=All", body)
    assert status == 422, answer


@pytest.mark.parametrize(("group", "kind"), [one for one in BUILT_IN if one.values[0]])
def test_no_condition_errs_over_a_workload_without_a_spec(server: ControlPlane, group: str, kind: str) -> None:
    body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "empty"}}
    status, answer = server.raw("POST", path_to(body, "workloads") + "?dryRun=All", body)
    assert status == 422, answer
