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
RIGHTS = [{"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["*"]}]
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
    """Creates as the tenant, without a trace; answers status and what was said."""

    def send(body: Any) -> tuple[int, str]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
        status, answer = stage.raw("POST", path, body, TENANT_TOKEN)
        return status, str(answer.get("message", ""))

    eventually(lambda: "visibleDevices" in send(pod(PRIVILEGED, gpu=True))[1])
    eventually(lambda: send(pod({}, gpu=True))[0] == 201)
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


LIST = "/var/run/nvidia-container-devices"
ALL = {"configMapRef": {"name": "all-gpus"}}
MADE_UP = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi", "nvidia.com/X": "1"}}}


BESIDE = {
    "privileged": (pod(PRIVILEGED, gpu=True), "privileged: is privileged in a pod that requests"),
    "device file": (pod({}, gpu=True, **on_node("/dev/nvidia7")), "mounts /dev/nvidia7"),
    "variable of a ConfigMap": (pod({"envFrom": [ALL]}, gpu=True), f"envFrom: may set {VARIABLE}"),
    "device list": (pod(listed(f"{LIST}/all"), gpu=True, volumes=EMPTY), f"mounts a volume at {LIST}/all"),
    "CDI": (pod({}, gpu=True, annotations={"cdi.k8s.io/g": "nvidia.com/gpu=all"}), "cdi.k8s.io/g"),
}
"""Ways to the other GPUs of a node for whoever has one, and what is said of them."""
WITHOUT = {
    "any image of CUDA": (pod({}, gpu=False, runtimeClassName="nvidia"), f"env: has no {VARIABLE}"),
    "privileged": (pod(PRIVILEGED, gpu=False, runtimeClassName="nvidia"), "and requests no GPU"),
    "device by number": (pod({}, gpu=False, **on_node("/dev/char/195:0")), "mounts /dev/char/195:0"),
    "driver": (pod({}, gpu=False, **on_node("/run/nvidia/driver")), "mounts /run/nvidia/driver"),
    "devices of CRI-O": (
        pod({}, gpu=False, annotations={"io.kubernetes.cri-o.Devices": "/dev/nvidia0"}),
        "metadata.annotations[io.kubernetes.cri-o.Devices]",
    ),
    "a made-up resource": (pod(MADE_UP, gpu=False, nodeName=NODE), f"names {NODE}, which has no nvidia.com/X"),
}
"""Ways to GPUs for whoever has asked for none."""
NEEDED = {
    "a GPU": pod({}, gpu=True),
    "a GPU of a node by name": pod({}, gpu=True, nodeName=NODE),
    "variables with a prefix": pod({"envFrom": [{**ALL, "prefix": "APP_"}]}, gpu=True),
    "another volume": pod({}, gpu=False, **on_node("/var/log")),
    "void under the runtime of NVIDIA": pod(VOID, gpu=False, runtimeClassName="nvidia"),
    "privileged, which is what Pod Security is for": pod(PRIVILEGED, gpu=False),
}


@pytest.mark.parametrize(("manifest", "said"), BESIDE.values(), ids=BESIDE)
def test_one_gpu_is_no_key_to_the_others(tenant: Any, manifest: Raw, said: str) -> None:
    status, answer = tenant(manifest)
    assert (status, "visibleDevices: " in answer, said in answer) == (403, True, True), answer


@pytest.mark.parametrize(("manifest", "said"), WITHOUT.values(), ids=WITHOUT)
def test_no_gpu_is_had_without_asking(tenant: Any, manifest: Raw, said: str) -> None:
    status, answer = tenant(manifest)
    assert (status, "visibleDevices: " in answer, said in answer) == (403, True, True), answer


@pytest.mark.parametrize("manifest", NEEDED.values(), ids=NEEDED)
def test_what_tenants_need_is_admitted(tenant: Any, manifest: Raw) -> None:
    assert tenant(manifest) == (201, "")
