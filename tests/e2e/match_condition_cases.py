"""Pods and workloads that matchConditions have to tell apart."""

from typing import Any

import pytest

Raw = dict[str, Any]

GPU = "nvidia.com/gpu"
RUNTIME = "conditions-runtime"
NVIDIA_RUNTIME = "conditions-nvidia"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
PRIVILEGED = {"privileged": True}


def container(name: str = "main", **fields: Any) -> Raw:
    return {"name": name, "image": "registry.example/app:1", **fields}


def asking(resource: str, amount: str = "1", name: str = "main", **fields: Any) -> Raw:
    return container(name, resources={"limits": {resource: amount}}, **fields)


def spec(*containers: Raw, **fields: Any) -> Raw:
    return {"containers": list(containers) or [container()], "restartPolicy": "Never", **fields}


def host_path(path: str) -> Raw:
    return spec(volumes=[{"name": "v", "hostPath": {"path": path}}])


def claiming(*, in_container: bool) -> Raw:
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    resources = {"claims": [{"name": "gpu"}]} if in_container else {}
    return spec(container(resources=resources), resourceClaims=claims)


LEGS = [container(f"c{number}", env=[{"name": f"E{n}", "value": "x" * 40} for n in range(50)]) for number in range(99)]
MANY = {f"example.com/device-number-{number}": "1" for number in range(10)}
HUNGRY = [container(f"c{number}", resources={"limits": MANY}) for number in range(100)]


def taking(*prefixes: str) -> Raw:
    """A container that takes variables from ConfigMaps."""
    return container(
        envFrom=[{"configMapRef": {"name": "any"}, **({"prefix": one} if one else {})} for one in prefixes or ("",)]
    )


def mounted(path: str, name: str = "main") -> Raw:
    return container(name, volumeMounts=[{"name": "v", "mountPath": path}])


def mounting(path: str) -> Raw:
    return spec(mounted(path), volumes=EMPTY)


EMPTY = [{"name": "v", "emptyDir": {}}]
MOUNTS = [
    container(f"c{n}", volumeMounts=[{"name": "v", "mountPath": f"/data/{number}"} for number in range(100)])
    for n in range(50)
]
REQUESTS_ONLY = container(resources={"requests": {GPU: "1"}})

MATCHED = [
    pytest.param(spec(asking(GPU)), id="GPU in limits"),
    pytest.param(spec(container(), asking(GPU, name="second")), id="GPU in the second container"),
    pytest.param(spec(initContainers=[asking(GPU, name="init")]), id="GPU in an init container only"),
    pytest.param(spec(initContainers=[asking(GPU, name="s", restartPolicy="Always")]), id="GPU in a sidecar only"),
    pytest.param(spec(asking("nvidia.com/gpu.shared")), id="shared"),
    pytest.param(spec(asking("nvidia.com/mig-1g.5gb")), id="MIG slice"),
    pytest.param(spec(asking("nvidia.com/mig-1c.3g.20gb.me")), id="MIG compute instance"),
    pytest.param(spec(asking("nvidia.com/pgpu")), id="passthrough"),
    pytest.param(spec(asking("nvidia.com/GRID_T4-16Q")), id="vGPU"),
    pytest.param(spec(asking("amd.com/gpu")), id="AMD"),
    pytest.param(spec(asking("amd.com/cpx_nps4")), id="AMD partition"),
    pytest.param(spec(asking("gpu.intel.com/i915")), id="Intel i915"),
    pytest.param(spec(asking("gpu.intel.com/xe")), id="Intel xe"),
    pytest.param(spec(asking("gpu.intel.com/i915_monitoring")), id="all Intel GPUs of a node"),
    pytest.param(spec(asking("gpu.intel.com/xe_monitoring")), id="all Intel GPUs of a node by xe"),
    pytest.param(spec(asking("intel.com/gpu")), id="Intel by DRA"),
    pytest.param(spec(asking("deviceclass.resource.kubernetes.io/gpu.nvidia.com")), id="device class of GPUs"),
    pytest.param(spec(asking("deviceclass.resource.kubernetes.io/any")), id="device class that nobody knows"),
    pytest.param(
        spec(container(resources={"requests": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "64"}})),
        id="device class in requests alone",
    ),
    pytest.param(spec(asking(GPU, "0")), id="none of a GPU"),
    pytest.param(claiming(in_container=False), id="claim of the pod"),
    pytest.param(claiming(in_container=True), id="claim of a container"),
    pytest.param(spec(container(env=[{"name": VISIBLE, "value": "all"}])), id="variable"),
    pytest.param(
        spec(container(env=[{"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])),
        id="variable from a field",
    ),
    pytest.param(
        spec(initContainers=[container("init", env=[{"name": "A"}, {"name": VISIBLE}])]), id="variable without a value"
    ),
    pytest.param(host_path("/dev/nvidia0"), id="device file"),
    pytest.param(host_path("/dev/dri"), id="folder of device files"),
    pytest.param(host_path("/dev/kfd"), id="device file of AMD"),
    pytest.param(host_path("//dev//nvidiactl"), id="device file with doubled slashes"),
    pytest.param(host_path("/dev/./dri/card0"), id="device file by a detour"),
    pytest.param(
        spec(container(securityContext=PRIVILEGED), runtimeClassName=RUNTIME), id="privileged under a runtime class"
    ),
    pytest.param(
        spec(initContainers=[container("i", securityContext=PRIVILEGED)], runtimeClassName=RUNTIME),
        id="privileged init container under a runtime class",
    ),
    pytest.param(host_path("/dev/char/195:0"), id="device file by its number"),
    pytest.param(host_path("//dev/./char//226:128"), id="device file by its number and a detour"),
    pytest.param(host_path("/run/nvidia/driver"), id="root of a driver"),
    pytest.param(host_path("/var/run/nvidia"), id="folder of the root of a driver"),
    pytest.param(spec(runtimeClassName=NVIDIA_RUNTIME), id="runtime class of NVIDIA, and nothing else"),
    pytest.param(
        spec(container(env=[{"name": "CUDA_VERSION", "value": "1"}]), runtimeClassName=RUNTIME), id="old CUDA"
    ),
    pytest.param(spec(taking(), runtimeClassName=RUNTIME), id="variables from elsewhere under a runtime class"),
    pytest.param(spec(taking("NVIDIA_"), runtimeClassName=RUNTIME), id="the same with the prefix of the variable"),
    pytest.param(spec(taking("APP_", "C"), runtimeClassName=RUNTIME), id="the same with the prefix of old CUDA"),
    pytest.param(mounting("/var/run/nvidia-container-devices/all"), id="device list of the toolkit"),
    pytest.param(mounting("//run/x/../nvidia-container-devices/0"), id="device list of the toolkit by a detour"),
    pytest.param(
        spec(*MOUNTS, mounted("/run/nvidia-container-devicesall"), volumes=EMPTY), id="device list after 5,000 mounts"
    ),
    pytest.param(spec(*LEGS, asking(GPU, name="last")), id="GPU in the last of 100 containers with 50 variables each"),
]

KEPT_AWAY = [
    pytest.param(spec(), id="nothing asked for"),
    pytest.param(spec(asking("cpu")), id="cpu"),
    pytest.param(spec(asking("nvidia.com/gpumem", "1000")), id="memory of a share"),
    pytest.param(spec(asking("nvidia.com/gpucores", "30")), id="cores of a share"),
    pytest.param(spec(asking("nvidia.com/rdma-vf")), id="network card"),
    pytest.param(spec(asking("nvidia.com/gpu-10gb")), id="memory slice"),
    pytest.param(spec(asking("xnvidia.com/gpu")), id="longer name in front"),
    pytest.param(spec(asking("nvidiaxcom/gpu")), id="dot is a dot"),
    pytest.param(spec(asking("example.com/amd.com-gpu")), id="GPU name inside another"),
    pytest.param(spec(container(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "all"}])), id="another variable"),
    pytest.param(spec(container(envFrom=[{"configMapRef": {"name": "any"}}])), id="variables from elsewhere"),
    pytest.param(spec(container(env=[{"name": "CUDA_VERSION", "value": "1"}])), id="CUDA without a runtime class"),
    pytest.param(spec(taking("APP_"), runtimeClassName=RUNTIME), id="variables with a prefix under a runtime class"),
    pytest.param(mounting("/var/run/nvidia"), id="another mount"),
    pytest.param(spec(*MOUNTS, volumes=EMPTY), id="5,000 other mounts"),
    pytest.param(host_path("/var/log"), id="another host path"),
    pytest.param(host_path("/dev/char"), id="the folder of all links to devices"),
    pytest.param(host_path("/dev"), id="the folder of all devices"),
    pytest.param(spec(volumes=[{"name": "v", "emptyDir": {}}]), id="another volume"),
    pytest.param(spec(container(securityContext=PRIVILEGED)), id="privileged without a runtime class"),
    pytest.param(
        spec(container(securityContext={"runAsNonRoot": True}), runtimeClassName=RUNTIME),
        id="runtime class without privileges",
    ),
    pytest.param(spec(*LEGS), id="99 containers with 50 variables each"),
    pytest.param(spec(container(resources={"limits": None, "requests": {}})), id="limits are null"),
    pytest.param(spec(volumes=None, initContainers=None, ephemeralContainers=None), id="lists are null"),
    pytest.param(spec(*HUNGRY), id="100 containers with 10 other extended resources each"),
]

INVALID = [
    pytest.param({}, id="no spec"),
    pytest.param({"containers": None}, id="containers are null"),
    pytest.param({"containers": []}, id="no containers"),
    pytest.param({"containers": [None]}, id="a container is null"),
    pytest.param({"containers": [{"name": "a", "resources": None, "env": None}]}, id="fields are null"),
    pytest.param(spec(container(env=[{}])), id="a variable without a name"),
    pytest.param(spec(container(volumeMounts=[{}])), id="a mount without a path"),
    pytest.param(spec(container(envFrom=[{"prefix": "A"}]), runtimeClassName=RUNTIME), id="variables from nowhere"),
    pytest.param(spec(volumes=[{"name": "v", "hostPath": {}}]), id="a host path without a path"),
    pytest.param(spec(tolerations=[{}]), id="an empty toleration"),
    pytest.param(spec(tolerations=[None]), id="a toleration is null"),
    pytest.param(spec(tolerations=[{"key": "sku", "value": None, "operator": "?"}]), id="a toleration of null"),
]


DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "705ab4f5-6393-11e8-b7cc-42010a800002"}
"""The owner reference of a pod of a DaemonSet, without what makes it one of the controller."""


def exists(key: str, **fields: Any) -> Raw:
    return {"key": key, "operator": "Exists", **fields}


def equal(key: str, value: str) -> Raw:
    return {"key": key, "operator": "Equal", "value": value}


def tolerating(*tolerations: Raw) -> Raw:
    """A pod without GPUs."""
    return spec(tolerations=[*tolerations])


AFTER_GPU_NODES = [
    pytest.param(tolerating(exists(GPU)), id="taint of NVIDIA"),
    pytest.param(tolerating(equal(GPU, "present")), id="its value too"),
    pytest.param(tolerating(exists("amd.com/gpu", effect="NoSchedule")), id="taint of AMD"),
    pytest.param(tolerating(exists("gpu.intel.com/i915")), id="taint of Intel"),
    pytest.param(tolerating(exists("nvidia.com/mig-1g.10gb")), id="taint named like a slice"),
    pytest.param(tolerating(exists("amd.com/cpx_nps4")), id="taint named like a partition"),
    pytest.param(tolerating(equal("sku", "gpu")), id="taint of AKS"),
    pytest.param(tolerating(exists("sku")), id="taint of AKS, whatever its value"),
    pytest.param(tolerating(equal("dedicated", "gpu")), id="taint that says for whom it is"),
    pytest.param(tolerating({"key": "dedicated", "value": "A100-GPU"}), id="no operator, in capitals"),
    pytest.param(tolerating(exists("example.com/gpu-pool")), id="taint of somebody's own"),
    pytest.param(tolerating(exists("node.kubernetes.io/not-ready"), exists(GPU)), id="the second of two"),
    pytest.param(
        tolerating(*[exists(f"nvidia.com/not-one-of-them-{number}") for number in range(400)], exists(GPU)),
        id="the last of 401",
    ),
]
"""Pods that ask for no GPUs and tolerate a taint that names one: judged, never changed."""

ELSEWHERE = [
    pytest.param(tolerating(exists("node.kubernetes.io/not-ready")), id="a taint of Kubernetes"),
    pytest.param(tolerating(equal("sku", "highmem")), id="another value of AKS"),
    pytest.param(tolerating(exists("dedicated")), id="a taint for whomever"),
    pytest.param(tolerating(exists("nvidia.com/rdma-vf")), id="another device of NVIDIA"),
    pytest.param(tolerating({"operator": "Exists"}), id="everything"),
    pytest.param(tolerating({"operator": "Exists"}, exists(GPU)), id="everything, and GPU nodes by name"),
    pytest.param(tolerating(exists(GPU), {"operator": "Exists", "effect": "NoExecute"}), id="everything of an effect"),
    pytest.param(tolerating(*[exists(f"nvidia.com/other-{number}") for number in range(400)]), id="400 others"),
    pytest.param(tolerating(), id="an empty list"),
    pytest.param(spec(tolerations=None), id="null"),
]
"""Pods that ask for no GPUs and that nobody is asked about, whatever they tolerate."""


def pod(pod_spec: Raw, name: str = "pod") -> Raw:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec}


def workload(group: str, kind: str, pod_spec: Raw) -> Raw:
    """A valid object of a workload kind around a pod spec."""
    restarts = "Never" if kind in {"Job", "CronJob"} else "Always"
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {**pod_spec, "restartPolicy": restarts}}
    selector = {"selector": {"matchLabels": labels}}
    bodies: dict[str, Raw] = {
        "Deployment": {"spec": {**selector, "template": template}},
        "ReplicaSet": {"spec": {**selector, "template": template}},
        "DaemonSet": {"spec": {**selector, "template": template}},
        "StatefulSet": {"spec": {**selector, "serviceName": "a", "template": template}},
        "Job": {"spec": {"template": template}},
        "CronJob": {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}},
        "ReplicationController": {"spec": {"selector": labels, "template": template}},
        "PodTemplate": {"template": template},
    }
    version = f"{group}/v1" if group else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": f"some-{kind.lower()}"}, **bodies[kind]}


def named(body: Raw, name: str) -> Raw:
    return {**body, "metadata": {"name": name}}


ANNOTATED = [
    pytest.param("cdi.k8s.io/gpus", True, id="CDI"),
    pytest.param("nvidia.cdi.k8s.io", True, id="CDI by the NRI plugin of NVIDIA"),
    pytest.param("nvidia.cdi.k8s.io/container.main", True, id="the same of one container"),
    pytest.param("cdi-devices.noderesource.dev/pod", True, id="CDI by another NRI plugin"),
    pytest.param("devices.nri.io", True, id="devices by number"),
    pytest.param("mounts.nri.io/pod", True, id="mounts"),
    pytest.param("io.kubernetes.cri-o.Devices", True, id="devices of CRI-O"),
    pytest.param("devices.crio.io/main", True, id="devices of CRI-O, of one container"),
    pytest.param("devices.gke.io/container.main", True, id="devices of GKE's injector, of one container"),
    pytest.param("network-devices.nri.io/pod", False, id="network devices"),
    pytest.param("example.com/cdi.k8s.io", False, id="another key"),
    pytest.param("cdi.k8s.iox/gpus", False, id="a longer key"),
]
"""Keys of annotations, and whether pods with them are sent."""


def annotated(body: Raw, **annotations: str) -> Raw:
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}
