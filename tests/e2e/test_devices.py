"""What a tenant may do about GPUs under policies/examples/tenants.yaml, tried as a tenant on a real API server."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import add_node, remove_node
from tests.e2e.installation import ROOT, Installation

pytestmark = pytest.mark.e2e

Raw = dict[str, Any]
NAMESPACE = "tenant-of-devices"
NODE = "devices-gpu"
RESOURCES = "/apis/node.k8s.io/v1/runtimeclasses", "/apis/scheduling.k8s.io/v1/priorityclasses"
RIGHTS = [
    {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["*"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]},
]
NVIDIA = {"nvidia.com/gpu": "1"}
VARIABLE = "NVIDIA_VISIBLE_DEVICES"
VOID = {"env": [{"name": VARIABLE, "value": "void"}]}
PRIVILEGED = {"securityContext": {"privileged": True}}
EMPTY = [{"name": "v", "emptyDir": {}}]


def policy() -> str:
    """tenants.yaml as it is, but for the quota: this replica keeps no ledgers."""
    document = yaml.safe_load((ROOT / "policies" / "examples" / "tenants.yaml").read_text())
    document["spec"]["rules"]["gpuQuota"] = {"mode": "disabled"}
    return yaml.safe_dump(document)


@pytest.fixture(scope="module")
def stage(installation: Installation) -> Iterator[ControlPlane]:
    """A namespace of a tenant who may do what tenants may, a GPU node for tenants, and the classes that there are."""
    plane = installation.plane
    plane.namespace(NAMESPACE)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    api = "rbac.authorization.k8s.io"
    assert plane.raw("POST", f"{rbac}/roles", {"metadata": {"name": "t"}, "rules": RIGHTS})[0] == 201
    subjects = [{"kind": "User", "name": "tenant", "apiGroup": api}]
    binding = {
        "metadata": {"name": "t"},
        "roleRef": {"kind": "Role", "name": "t", "apiGroup": api},
        "subjects": subjects,
    }
    assert plane.raw("POST", f"{rbac}/rolebindings", binding)[0] == 201
    classes = ({"metadata": {"name": "nvidia"}, "handler": "nvidia"}, {"metadata": {"name": "tenant"}, "value": 5})
    made = [plane.raw("POST", resources, one)[0] == 201 for resources, one in zip(RESOURCES, classes, strict=True)]
    labels = {"gpupolicy.dev/pool": "tenants", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    add_node(plane, NODE, labels)
    file = installation.policies / "tenants.yaml"
    file.write_text(policy())
    yield plane
    file.unlink()
    remove_node(plane, NODE)
    for resources, one, is_ours in zip(RESOURCES, classes, made, strict=True):
        if is_ours:
            plane.raw("DELETE", f"{resources}/{one['metadata']['name']}")


@pytest.fixture
def tenant(stage: ControlPlane, webhook: Installation) -> Callable[..., tuple[int, str]]:
    """Creates or changes as the tenant, without a trace unless told otherwise; answers status and what was said."""

    def send(method: str, path: str, body: Any, *, stored: bool = False, media: str | None = None) -> tuple[int, str]:
        query = "" if stored else "?dryRun=All"
        where = f"/api/v1/namespaces/{NAMESPACE}/{path}{query}"
        status, answer = stage.raw(method, where, body, TENANT_TOKEN, content_type=media)
        return status, str(answer.get("message", ""))

    eventually(lambda: "visibleDevices" in send("POST", "pods", pod(PRIVILEGED, gpu=True))[1])
    eventually(lambda: send("POST", "pods", pod({}, gpu=True))[0] == 201)
    return send


def pod(parts: Raw, *, gpu: bool, name: str = "p", annotations: Raw | None = None, **spec: Any) -> Raw:
    """A pod that keeps every other rule, with one GPU or none; `parts` go into its container."""
    memory = {"memory": "1Gi"}
    container = {
        "name": "main",
        "image": "registry.example.com/app:1",
        "resources": {"requests": {"cpu": "1", **memory}, "limits": {**memory, **(NVIDIA if gpu else {})}},
        **deepcopy(parts),
    }
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }


def on_node(path: str) -> Raw:
    return {"volumes": [{"name": "v", "hostPath": {"path": path}}]}


def listed(path: str) -> Raw:
    return {"volumeMounts": [{"name": "v", "mountPath": path}]}


ALL = {"configMapRef": {"name": "all-gpus"}}
MADE_UP = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi", "nvidia.com/X": "1"}}}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        pytest.param(pod(PRIVILEGED, gpu=True), "privileged: is privileged in a pod that requests", id="privileged"),
        pytest.param(pod({}, gpu=True, **on_node("/dev/nvidia7")), "mounts /dev/nvidia7", id="device file"),
        pytest.param(pod({"envFrom": [ALL]}, gpu=True), f"envFrom: may set {VARIABLE}", id="variable of a ConfigMap"),
        pytest.param(
            pod({"env": [{"name": VARIABLE, "value": "all"}]}, gpu=True), 'is "all" in a container', id="variable"
        ),
        pytest.param(
            pod(listed("/var/run/nvidia-container-devices/all"), gpu=True, volumes=EMPTY),
            "mounts a volume at /var/run/nvidia-container-devices/all",
            id="device list",
        ),
        pytest.param(pod({}, gpu=True, annotations={"cdi.k8s.io/g": "nvidia.com/gpu=all"}), "cdi.k8s.io/g", id="CDI"),
    ],
)
def test_one_gpu_is_no_key_to_the_others(tenant: Any, manifest: Raw, said: str) -> None:
    status, answer = tenant("POST", "pods", manifest)
    assert (status, "visibleDevices: " in answer, said in answer) == (403, True, True), answer


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        pytest.param(
            pod({"env": [{"name": "CUDA_VERSION", "value": "11.8"}]}, gpu=False, runtimeClassName="nvidia"),
            "env[CUDA_VERSION]: is set under runtimeClassName nvidia",
            id="an old image of CUDA",
        ),
        pytest.param(pod({}, gpu=False, runtimeClassName="nvidia"), f"env: has no {VARIABLE}", id="any image of CUDA"),
        pytest.param(
            pod({"envFrom": [ALL]}, gpu=False, runtimeClassName="nvidia"), "envFrom: may set", id="a ConfigMap"
        ),
        pytest.param(
            pod(PRIVILEGED, gpu=False, runtimeClassName="nvidia"), "and requests no GPU", id="privileged under NVIDIA's"
        ),
        pytest.param(
            pod(listed("/var/run/x/../nvidia-container-devices/0"), gpu=False, volumes=EMPTY),
            "mounts a volume at /var/run/x/../nvidia-container-devices/0",
            id="device list",
        ),
        pytest.param(pod({}, gpu=False, **on_node("/dev/char/195:0")), "mounts /dev/char/195:0", id="device by number"),
        pytest.param(pod({}, gpu=False, **on_node("/run/nvidia/driver")), "mounts /run/nvidia/driver", id="driver"),
        pytest.param(
            pod({}, gpu=False, annotations={"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=all"}),
            "metadata.annotations[nvidia.cdi.k8s.io/pod]",
            id="CDI by NVIDIA's plugin",
        ),
        pytest.param(
            pod({}, gpu=False, annotations={"io.kubernetes.cri-o.Devices": "/dev/nvidia0"}),
            "metadata.annotations[io.kubernetes.cri-o.Devices]",
            id="devices of CRI-O",
        ),
        pytest.param(
            pod(MADE_UP, gpu=False, nodeName=NODE), f"names {NODE}, which has no nvidia.com/X", id="a made-up resource"
        ),
    ],
)
def test_no_gpu_is_had_without_asking(tenant: Any, manifest: Raw, said: str) -> None:
    status, answer = tenant("POST", "pods", manifest)
    assert (status, "visibleDevices: " in answer, said in answer) == (403, True, True), answer


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod({}, gpu=True), id="a GPU"),
        pytest.param(pod({}, gpu=True, nodeName=NODE), id="a GPU of a node by name"),
        pytest.param(pod({"envFrom": [{**ALL, "prefix": "APP_"}]}, gpu=True), id="variables with a prefix"),
        pytest.param(pod({}, gpu=False, **on_node("/var/log")), id="another volume"),
        pytest.param(pod({"envFrom": [ALL]}, gpu=False), id="a ConfigMap without a GPU"),
        pytest.param(pod(VOID, gpu=False, runtimeClassName="nvidia"), id="void under the runtime of NVIDIA"),
        pytest.param(pod(PRIVILEGED, gpu=False), id="privileged, which is what Pod Security is for"),
    ],
)
def test_what_tenants_need_is_admitted(tenant: Any, manifest: Raw) -> None:
    assert tenant("POST", "pods", manifest) == (201, "")
