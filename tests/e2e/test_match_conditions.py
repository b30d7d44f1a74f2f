"""matchConditions, judged by a real API server: what reaches the webhook, what is kept away, and that nothing errs.

The webhooks registered here answer to nobody, and an answer is required: a request that matches fails with "failed
calling webhook", one that is kept away succeeds, and an error in a condition is answered with 403. Every name and path
that the conditions know is tried in tests/conditions; here are requests of each kind.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.build import WORKLOADS
from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kinds import KINDS, defined_kinds

Raw = dict[str, Any]

CALLED = "failed calling webhook"
NAMESPACES = {phase: f"conditions-{phase}" for phase in ("mutate", "validate", "workloads")}
OF_PODS = ("mutate", "validate")
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
OWNED = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": UID}
DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": UID}
GPU, VISIBLE = "nvidia.com/gpu", "NVIDIA_VISIBLE_DEVICES"
RUNTIME, NVIDIA_RUNTIME = "conditions-runtime", "conditions-nvidia"
PRIVILEGED = {"privileged": True}
EMPTY = [{"name": "v", "emptyDir": {}}]


def container(name: str = "main", **fields: Any) -> Raw:
    return {"name": name, "image": "registry.example/app:1", **fields}


def asking(resource: str, amount: str = "1", name: str = "main", **fields: Any) -> Raw:
    return container(name, resources={"limits": {resource: amount}}, **fields)


def spec(*containers: Raw, **fields: Any) -> Raw:
    return {"containers": list(containers) or [container()], "restartPolicy": "Never", **fields}


def host_path(path: str) -> Raw:
    return spec(volumes=[{"name": "v", "hostPath": {"path": path}}])


def setting(name: str, **fields: Any) -> Raw:
    """A pod that sets a variable."""
    return spec(container(env=[{"name": name, "value": "1"}]), **fields)


def mounted(*paths: str, name: str = "main") -> Raw:
    return container(name, volumeMounts=[{"name": "v", "mountPath": path} for path in paths])


def taking(prefix: str) -> Raw:
    """A container that takes variables from a ConfigMap."""
    return container(envFrom=[{"configMapRef": {"name": "any"}, "prefix": prefix}])


def exists(key: str, **fields: Any) -> Raw:
    return {"key": key, "operator": "Exists", **fields}


def tolerating(*tolerations: Raw) -> Raw:
    return spec(tolerations=[*tolerations])


def pod(pod_spec: Raw, name: str = "pod", **metadata: Any) -> Raw:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": pod_spec}


def workload(kind: str, pod_spec: Raw, name: str = "new", **template: Any) -> Raw:
    """A valid object of a workload kind around a pod spec; `template` is metadata of its template."""
    version, path = WORKLOADS[kind]
    restarts = "Never" if kind in {"Job", "CronJob"} else "Always"
    body: Raw = {"metadata": {"labels": {"app": "a"}, **template}, "spec": {**pod_spec, "restartPolicy": restarts}}
    for key in reversed(path):
        body = {key: body}
    if kind in {"Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"}:
        body["spec"]["selector"] = {"matchLabels": {"app": "a"}}
    elif kind == "ReplicationController":
        body["spec"]["selector"] = {"app": "a"}
    elif kind == "CronJob":
        body["spec"]["schedule"] = "0 0 1 1 *"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}


def training(name: str = "new", top: Raw | None = None, **metadata: Any) -> Raw:
    """An object of a kind that nobody knows, and of whose insides CEL knows nothing, with these keys at the top."""
    body = {"spec": {"replicas": 1, "template": {"spec": spec()}}} if top is None else top
    return {"apiVersion": "ml.example.com/v1", "kind": "Training", "metadata": {"name": name, **metadata}, **body}


def each(table: Mapping[str, Any]) -> list[Any]:
    return [pytest.param(value, id=name) for name, value in table.items()]


LEGS = [container(f"c{number}", env=[{"name": f"E{n}", "value": "x" * 40} for n in range(50)]) for number in range(99)]
HUNGRY = [
    container(f"c{number}", resources={"limits": {f"example.com/device-number-{n}": "1" for n in range(10)}})
    for number in range(100)
]
MOUNTS = [mounted(*(f"/data/{number}" for number in range(100)), name=f"c{n}") for n in range(50)]
CLAIM = [{"name": "gpu", "resourceClaimName": "one"}]

SENT = {
    "GPU in limits": spec(asking(GPU)),
    "GPU in an init container only": spec(initContainers=[asking(GPU, name="init")]),
    "none of a GPU": spec(asking(GPU, "0")),
    "device class": spec(asking("deviceclass.resource.kubernetes.io/any")),
    "claim of the pod": spec(resourceClaims=CLAIM),
    "variable": setting(VISIBLE),
    "variable without a value": spec(initContainers=[container("init", env=[{"name": "A"}, {"name": VISIBLE}])]),
    "device file by a detour": host_path("//dev/./dri/card0"),
    "root of a driver": host_path("/run/nvidia/driver"),
    "privileged under a runtime class": spec(container(securityContext=PRIVILEGED), runtimeClassName=RUNTIME),
    "runtime class of NVIDIA, and nothing else": spec(runtimeClassName=NVIDIA_RUNTIME),
    "old CUDA under a runtime class": setting("CUDA_VERSION", runtimeClassName=RUNTIME),
    "variables from elsewhere": spec(taking("NVIDIA_"), runtimeClassName=RUNTIME),
    "device list by a detour": spec(mounted("//run/x/../nvidia-container-devices/0"), volumes=EMPTY),
    "device list after 5,000 mounts": spec(
        *MOUNTS, mounted("/run/nvidia-container-devicesall", name="last"), volumes=EMPTY
    ),
    "GPU in the last of 100 containers with 50 variables each": spec(*LEGS, asking(GPU, name="last")),
}
KEPT_AWAY = {
    "nothing asked for": spec(),
    "a GPU's name inside another": spec(asking("example.com/amd.com-gpu")),
    "another variable": setting("CUDA_VISIBLE_DEVICES"),
    "CUDA without a runtime class": setting("CUDA_VERSION"),
    "variables with another prefix": spec(taking("APP_"), runtimeClassName=RUNTIME),
    "another host path": host_path("/dev"),
    "privileged without a runtime class": spec(container(securityContext=PRIVILEGED)),
    "5,000 other mounts": spec(*MOUNTS, volumes=EMPTY),
    "99 containers with 50 variables each": spec(*LEGS),
    "100 containers with 10 other extended resources each": spec(*HUNGRY),
    "limits are null": spec(container(resources={"limits": None, "requests": {}})),
    "lists are null": spec(volumes=None, initContainers=None, ephemeralContainers=None),
}
AFTER_GPU_NODES = {
    "taint of NVIDIA": tolerating(exists(GPU)),
    "no operator, in capitals": tolerating({"key": "dedicated", "value": "A100-GPU"}),
    "the last of 401": tolerating(*[exists(f"nvidia.com/other-{number}") for number in range(400)], exists(GPU)),
}
"""Pods that ask for no GPUs and tolerate a taint that names one: judged, never changed."""
ELSEWHERE = {
    "a taint of Kubernetes": tolerating(exists("node.kubernetes.io/not-ready")),
    "everything, and GPU nodes by name": tolerating({"operator": "Exists"}, exists(GPU)),
    "400 others": tolerating(*[exists(f"nvidia.com/other-{number}") for number in range(400)]),
    "null": spec(tolerations=None),
}
"""Pods that ask for no GPUs and that nobody is asked about, whatever they tolerate."""
INVALID = {
    "no spec": {},
    "containers are null": {"containers": None},
    "a container is null": {"containers": [None]},
    "fields are null": {"containers": [{"name": "a", "resources": None, "env": None}]},
    "a variable without a name": spec(container(env=[{}])),
    "a mount without a path": spec(container(volumeMounts=[{}])),
    "variables from nowhere": spec(container(envFrom=[{"prefix": "A"}]), runtimeClassName=RUNTIME),
    "a host path without a path": spec(volumes=[{"name": "v", "hostPath": {}}]),
    "a toleration of null": spec(tolerations=[{"key": "sku", "value": None, "operator": "?"}]),
}
CUSTOM = {
    name: training(name, top)
    for name, top in (("usual", None), ("null-spec", {"spec": None}), ("other-keys", {"things": ["a"], "other": 7}))
}
"""Objects as their authors may have thought of them, by name."""


def registrations() -> list[Raw]:
    """The shipped entries for pods and workloads, each in a configuration and a namespace of its own, unanswered."""
    found = []
    for configuration in shipped().configurations:
        for entry in configuration["webhooks"]:
            phase = entry["name"].partition(".")[0]
            if phase not in NAMESPACES:  # that of the ConfigMaps of policies
                continue
            entry["clientConfig"] = {"url": "https://127.0.0.1:9/"}
            entry |= {"timeoutSeconds": 1, "failurePolicy": "Fail"}
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
    """The API server with objects to update in each namespace, and then the webhooks."""
    for name in (RUNTIME, NVIDIA_RUNTIME):
        runtime = {"metadata": {"name": name}, "handler": "any"}
        assert control_plane.raw("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)[0] == 201
    with defined_kinds(control_plane):
        yield from registered(control_plane)


def registered(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    for namespace in NAMESPACES.values():
        control_plane.namespace(namespace)
    pods = {
        "gpu": spec(container(resources={"limits": {GPU: "1", "cpu": "1"}})),
        "plain": spec(asking("cpu")),
        "after-nodes": tolerating(exists(GPU)),
    }
    stored = [(pod(one, name), phase) for phase in OF_PODS for name, one in pods.items()]
    stored += [(workload(kind, spec(asking(GPU)), "there"), "workloads") for kind in WORKLOADS]
    stored += [(body, "workloads") for body in (*CUSTOM.values(), training("held", finalizers=["example.com/hold"]))]
    for body, phase in stored:
        status, answer = control_plane.raw("POST", path_to(body, phase), body)
        assert status == 201, answer["message"]
    held = path_to(training(), "workloads", "held")
    assert control_plane.raw("DELETE", held)[0] == 200
    root = "/apis/admissionregistration.k8s.io/v1/"
    for configuration in registrations():
        status, answer = control_plane.raw("POST", root + configuration["kind"].lower() + "s", configuration)
        assert status == 201, answer["message"]
    try:
        eventually(lambda: all(CALLED in create(control_plane, pod(SENT["GPU in limits"]), phase) for phase in OF_PODS))
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


def check(answer: str, *, sent: bool) -> None:
    assert CALLED in answer if sent else answer == ""


# Pods, and templates of pods


@pytest.mark.parametrize("pod_spec", each(SENT))
def test_what_may_concern_a_rule_is_sent(server: ControlPlane, pod_spec: Raw) -> None:
    for phase in OF_PODS:
        check(create(server, pod(pod_spec), phase), sent=True)
    check(create(server, workload("Job", pod_spec), "workloads"), sent=True)


@pytest.mark.parametrize("pod_spec", each(KEPT_AWAY | ELSEWHERE))
def test_what_concerns_no_rule_is_kept_away(server: ControlPlane, pod_spec: Raw) -> None:
    for phase in OF_PODS:
        check(create(server, pod(pod_spec), phase), sent=False)
    check(create(server, workload("Job", pod_spec), "workloads"), sent=False)


@pytest.mark.parametrize("pod_spec", each(AFTER_GPU_NODES))
def test_what_is_after_gpu_nodes_is_judged_and_not_changed(server: ControlPlane, pod_spec: Raw) -> None:
    check(create(server, pod(pod_spec), "mutate"), sent=False)
    check(create(server, pod(pod_spec), "validate"), sent=True)
    check(create(server, workload("Job", pod_spec), "workloads"), sent=True)


@pytest.mark.parametrize(("key", "sent"), [("nvidia.cdi.k8s.io/container.main", True), ("cdi.k8s.iox/gpus", False)])
def test_annotations_for_container_runtimes_are_sent_on_pods_and_in_templates(
    server: ControlPlane, key: str, sent: bool
) -> None:
    """Also when they are added to a pod that waits behind a scheduling gate."""
    annotations = {"team": "a", key: "all"}
    for phase in OF_PODS:
        check(create(server, pod(spec(), annotations=annotations), phase), sent=sent)
    for kind in WORKLOADS:
        check(create(server, workload(kind, spec(), annotations=annotations), "workloads"), sent=sent)
    check(patch(server, path_to(pod({}), "validate", "plain"), {"metadata": {"annotations": annotations}}), sent=sent)


def test_2000_annotations_cost_no_pod_its_answer(server: ControlPlane) -> None:
    many = {f"example.com/annotation-number-{number}": "x" * 80 for number in range(2000)}
    for phase in OF_PODS:
        check(create(server, pod(spec(), annotations=many), phase), sent=False)


@pytest.mark.parametrize(
    ("owners", "sent"),
    [
        pytest.param([OWNED, {**DAEMON, "controller": True}], False, id="DaemonSet and another owner"),
        pytest.param([DAEMON], True, id="a DaemonSet that is no controller"),
        pytest.param([{**DAEMON, "controller": True, "kind": "ReplicaSet"}], True, id="ReplicaSet"),
    ],
)
def test_pods_of_daemon_sets_are_sent_only_for_their_gpus(server: ControlPlane, owners: list[Raw], sent: bool) -> None:
    """Agents on GPU nodes are there to stay, and must not depend on an answer."""
    check(create(server, pod(tolerating(exists(GPU)), ownerReferences=owners), "validate"), sent=sent)
    check(create(server, pod(spec(asking(GPU)), ownerReferences=owners), "validate"), sent=True)


def test_a_gpu_in_requests_only_is_sent_before_validation_refuses_it(server: ControlPlane) -> None:
    wrong = spec(container(resources={"requests": {GPU: "1"}}))
    check(create(server, pod(wrong), "mutate"), sent=True)
    for body, phase in ((workload("Deployment", wrong), "workloads"), (pod(wrong), "validate")):
        assert "Limit must be set for non overcommitable resources" in create(server, body, phase)


LABEL = {"metadata": {"labels": {"new": "label"}}}
IMAGE = {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}}
LARGER = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}}


def debugging(**parts: Any) -> Raw:
    return {"spec": {"ephemeralContainers": [container("debug", **parts)]}}


@pytest.mark.parametrize(
    ("name", "change", "sent"),
    [
        pytest.param("gpu", LABEL, False, id="label of a GPU pod"),
        pytest.param("gpu", {"metadata": {"finalizers": ["example.com/hold"]}}, False, id="finalizer of a GPU pod"),
        pytest.param("gpu", IMAGE, True, id="image of a GPU pod"),
        pytest.param("plain", IMAGE, False, id="image of another pod"),
        pytest.param("plain", {"spec": {"tolerations": [exists(GPU)]}}, True, id="another pod is after GPU nodes now"),
        pytest.param("after-nodes", {"spec": {"tolerations": [exists(GPU), exists("sku")]}}, True, id="more"),
        pytest.param("after-nodes", IMAGE, False, id="image of a pod that is after GPU nodes"),
        pytest.param("gpu/ephemeralcontainers", debugging(), True, id="debugging a GPU pod"),
        pytest.param("plain/ephemeralcontainers", debugging(), False, id="debugging another pod"),
        pytest.param(
            "plain/ephemeralcontainers",
            debugging(env=[{"name": VISIBLE, "value": "all"}]),
            True,
            id="with the variable",
        ),
        pytest.param("gpu/resize", LARGER, True, id="resizing a GPU pod"),
        pytest.param("plain/resize", LARGER, False, id="resizing another pod"),
    ],
)
def test_an_update_of_a_pod_is_sent_when_it_concerns_a_rule(
    server: ControlPlane, name: str, change: Raw, sent: bool
) -> None:
    check(patch(server, path_to(pod({}), "validate", name), change, "strategic-merge"), sent=sent)


# Workloads


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_is_sent_for_its_template_and_again_only_when_its_spec_changes(
    server: ControlPlane, kind: str
) -> None:
    body = workload(kind, spec(asking(GPU)))
    check(create(server, body, "workloads"), sent=True)
    assert create(server, body, "mutate") == create(server, body, "validate") == ""
    check(create(server, workload(kind, spec()), "workloads"), sent=False)
    check(create(server, workload(kind, tolerating(exists(GPU))), "workloads"), sent=kind != "DaemonSet")
    target = path_to(body, "workloads", "there")
    check(patch(server, target, LABEL), sent=False)
    place = f"/{'/'.join(WORKLOADS[kind][1])}/spec/containers/0/image"
    answer = patch(server, target, [{"op": "replace", "path": place, "value": "registry.example/app:2"}], "json")
    assert ("field is immutable" if kind == "Job" else CALLED) in answer  # which its own validation says first


def test_scaling_and_status_of_a_gpu_deployment_need_no_answer(server: ControlPlane) -> None:
    target = path_to(workload("Deployment", spec()), "workloads", "there")
    check(patch(server, f"{target}/scale", {"spec": {"replicas": 5}}), sent=False)
    check(patch(server, f"{target}/status", {"status": {"observedGeneration": 5}}), sent=False)
    check(patch(server, target, {"spec": {"replicas": 5}}), sent=True)  # which a total may follow from


def test_what_a_controller_makes_is_kept_away(server: ControlPlane) -> None:
    for body in (workload("Job", spec(asking(GPU))), workload("ReplicaSet", spec(asking(GPU))), *CUSTOM.values()):
        for owners, sent in (([{**OWNED, "controller": True}], False), ([OWNED], True)):
            made = {**body, "metadata": {"name": "new", "ownerReferences": owners}}
            check(create(server, made, "workloads"), sent=sent)


def test_every_custom_resource_is_sent_when_it_is_created(server: ControlPlane) -> None:
    for body in CUSTOM.values():
        check(create(server, {**body, "metadata": {"name": "new"}}, "workloads"), sent=True)
    for kind in KINDS:
        if kind.is_namespaced:
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "new"}, "spec": {}}
            check(create(server, body, "workloads"), sent=True)


@pytest.mark.parametrize("name", CUSTOM)
def test_an_update_of_a_custom_resource_is_sent_when_more_than_metadata_changes(
    server: ControlPlane, name: str
) -> None:
    target = path_to(training(), "workloads", name)
    for change in (LABEL, {"metadata": {"finalizers": ["example.com/hold"]}}):
        check(patch(server, target, change), sent=False)
    for change in ({"spec": {"template": {"spec": {"nodeName": "other"}}}}, {"template": {"spec": {}}}, {"new": 7}):
        check(patch(server, target, change), sent=True)
    check(patch(server, f"{target}/status", {"status": {"phase": "Running"}}), sent=False)
    if name == "usual":
        check(patch(server, f"{target}/scale", {"spec": {"replicas": 5}}), sent=False)


def test_a_custom_resource_that_is_being_deleted_can_be_changed_and_can_go(server: ControlPlane) -> None:
    target = path_to(training(), "workloads", "held")
    check(patch(server, target, {"spec": {"replicas": 2}, "metadata": {"finalizers": None}}), sent=False)


# What is not even valid. An error in a condition is answered with 403; this is for decoding and validation to say.


@pytest.mark.parametrize("pod_spec", each(INVALID))
def test_no_condition_errs_over_a_pod_that_is_not_even_valid(server: ControlPlane, pod_spec: Any) -> None:
    for phase in OF_PODS:
        status, answer = server.raw("POST", path_to(pod({}), phase) + "?dryRun=All", pod(pod_spec))
        assert status in {400, 422}, answer


@pytest.mark.parametrize("rest", each({"nothing": {}, "no template": {"spec": {"selector": {"app": "a"}}}}))
def test_no_condition_errs_over_a_workload_without_a_template(server: ControlPlane, rest: Raw) -> None:
    for kind, (version, _) in WORKLOADS.items():
        if version == "v1" or not rest:
            body = {"apiVersion": version, "kind": kind, "metadata": {"name": "empty"}, **rest}
            status, answer = server.raw("POST", path_to(body, "workloads") + "?dryRun=All", body)
            assert status in {400, 422}, answer
