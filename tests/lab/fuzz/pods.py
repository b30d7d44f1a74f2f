"""Pods that an API server takes, drawn from a seed: what people write, what attackers write, small and big."""

import random
from collections.abc import Callable, Sequence
from typing import Any

Raw = dict[str, Any]

WHOLE = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
SHARED = ("nvidia.com/gpu.shared",)
SLICES = ("nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb.shared", "amd.com/cpx_nps4")
PASSTHROUGH = ("nvidia.com/pgpu", "nvidia.com/GA102GL_A10")
GPUS = frozenset((*WHOLE, *SHARED, *SLICES, *PASSTHROUGH))
"""The names of GPUs that are GPUs for certain."""
Draw = random.Random

IMAGES = {
    "registry.example.com/train:1": True,
    "registry.example.com/train:latest": False,
    "registry.example.com/new/model:2": True,
    "registry.example.com/new/model": False,
    "registry.example.com/train:latest@sha256:" + "0" * 64: True,
    "localhost:5000/train": False,
    "python": False,
    "python:3.12": True,
}
"""Images, and whether their reference says which version is meant."""
OTHER_IMAGES = (
    "nvidia/cuda:13.0.0-base-ubuntu24.04",
    "nvcr.io/nvidia/pytorch:24.09-py3",
    "Not An Image",
    "a:" + "b" * 200,
)
LOOK_ALIKES = (
    "nvidia.com/rdma-vf",
    "nvidia.com/gpumem",
    "nvidia.com/gpu-10gb",
    "nvidia.com/gpu.sharedx",
    "example.com/fpga",
    "gpu.intel.com/i915_monitoring",
    "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    "example.com/vgpu",
)
AMOUNTS: Sequence[Any] = (1, 1, 1, "1", 2, "2", 4, "8", 9, 16, "2000m", "1e0", 0, "0")
FAULTY: Sequence[Any] = ("1.5", "500m", -1, "-2", "one", "", "1e99", 10**19)
VARIABLES = (
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NCCL_DEBUG",
    "NCCL_IB_HCA",
    "NCCL_IB_DISABLE",
    "PET_NNODES",
    "CUDA_VERSION",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_IMEX_CHANNELS",
    "CUDA_VISIBLE_DEVICES",
    "HOME",
)
HOST_PATHS = (
    "/dev/nvidia0",
    "/dev/nvidiactl",
    "//dev//nvidia7",
    "/proc/1/root/dev/nvidia0",
    "/dev/dri/card0",
    "/dev/kfd",
    "/dev",
    "/dev/shm",
    "/dev/char/195:0",
    "/run/nvidia/driver",
    "/var/run/nvidia-container-devices/all",
    "/var/lib/kubelet/device-plugins",
    "/data",
)
MOUNT_PATHS = ("/dev/shm", "/dev/shm/", "//dev/shm", "/data", "/dev", "/var/run/nvidia-container-devices/all")
CLAIMED = ("one", "network", "denied", "either", "monitor")
"""Templates of claims that pods name; the first one does not exist."""
SHOWING: Sequence[Sequence[str]] = (
    ("nvidia-smi",),
    ("/usr/bin/nvidia-smi", "-L"),
    ("sh", "-c", "while true; do nvidia-smi; sleep 9; done"),
)
"""Commands that show GPUs and compute nothing."""
COMMANDS: Sequence[Sequence[str]] = (
    *SHOWING,
    ("sleep", "infinity"),
    ("python", "train.py"),
    ("bash", "-c", "pip install torch && python train.py"),
    ("sh", "-c", "cd /work && exec torchrun --nproc_per_node=2 train.py"),
)
ANNOTATIONS = (
    "cdi.k8s.io/gpu",
    "k8s.v1.cni.cncf.io/networks",
    "example.com/note",
    "gpupolicy.dev/policy",
    "gpupolicy.dev/injected",
    "gpu-fraction",
    "gpu-memory",
    "gpu-fraction-num-devices",
)
LABEL_KEYS, LABEL_VALUES = ("pool", "zone", "gen", "example.com/x"), ("gpu", "cpu", "a", "b", "old", "new", "5")


def pod(draw: Draw) -> Raw:
    """A pod of some containers; half of them are about GPUs and little else."""
    spec: Raw = {"containers": [container(draw, f"c{number}") for number in range(draw.choice((1, 1, 1, 2, 3)))]}
    if draw.random() < 0.2:
        spec["initContainers"] = [init_container(draw, f"i{number}") for number in range(draw.randint(1, 2))]
    metadata: Raw = {"name": "p", "namespace": "any"}
    for _ in range(draw.choice((0, 0, 1, 2, 4))):
        draw.choice(_EXTRAS)(draw, spec, metadata)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(draw: Draw, name: str) -> Raw:
    """A container, with GPUs more often than not."""
    found: Raw = {"name": name, "image": draw.choice((*IMAGES, *OTHER_IMAGES))}
    limits: Raw = {}
    requests: Raw = {}
    for _ in range(draw.choice((0, 1, 1, 1, 2))):
        _gpu(draw, limits, requests)
    if draw.random() < 0.05:
        limits[draw.choice(LOOK_ALIKES)] = draw.choice((1, "2"))
    if draw.random() < 0.1:
        limits[draw.choice(("rdma/roce", "vpc.amazonaws.com/efa"))] = draw.choice((1, "0", "8"))
    if draw.random() < 0.6:
        limits |= {"memory": draw.choice(("16Gi", "1e9", 1000, "0", "128Mi")), "cpu": draw.choice((4, "500m", "0"))}
    if draw.random() < 0.2:
        requests |= {"memory": draw.choice(("16Gi", "1Gi", "0")), "cpu": draw.choice((1, "100m", "0"))}
    if limits or requests:
        found["resources"] = {"limits": limits, "requests": requests} if requests else {"limits": limits}
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        _into_container(draw, found)
    return found


def _gpu(draw: Draw, limits: Raw, requests: Raw) -> None:
    name = draw.choice(
        (*WHOLE[:1] * 8, *WHOLE, *SHARED, *SHARED, *SLICES, *(PASSTHROUGH if draw.random() < 0.3 else ()))
    )
    amount = draw.choice(FAULTY if draw.random() < 0.03 else AMOUNTS)
    where = draw.random()
    if where < 0.94:
        limits[name] = amount
    if where > 0.7:
        requests[name] = amount if draw.random() < 0.97 else draw.choice(AMOUNTS)


def _into_container(draw: Draw, found: Raw) -> None:
    match draw.randrange(6):
        case 0:
            value = draw.choice(("all", "0", "void", "none", "", "WARN", "compute,utility"))
            found.setdefault("env", []).append({"name": draw.choice(VARIABLES), "value": value})
        case 1:
            source = {"fieldRef": {"fieldPath": "metadata.name"}}
            found.setdefault("env", []).append({"name": draw.choice(VARIABLES), "valueFrom": source})
        case 2:
            found["envFrom"] = [{"configMapRef": {"name": "settings"}, **draw.choice(({}, {"prefix": "NCCL_"}))}]
        case 3:
            locking = {"capabilities": {"add": draw.choice((["IPC_LOCK"], [], ["ALL", "NET_RAW"]))}}
            found["securityContext"] = draw.choice(({"privileged": True}, {"runAsNonRoot": True}, locking, {}))
        case 4:
            if not {"command", "args"} & found.keys():
                found[draw.choice(("command", "args"))] = list(draw.choice(COMMANDS))
        case 5:
            found["restartPolicy"] = "Always" if "init" in found["name"] else found.get("restartPolicy")


def init_container(draw: Draw, name: str) -> Raw:
    """A container that runs before the others, or beside them as a sidecar."""
    found = container(draw, name)
    return {**found, "restartPolicy": "Always"} if draw.random() < 0.4 else found


Extra = Callable[[Draw, Raw, Raw], None]


def _volume(draw: Draw, spec: Raw, _metadata: Raw) -> None:
    name = f"v{len(spec.setdefault('volumes', []))}"
    source = {"hostPath": {"path": draw.choice(HOST_PATHS)}} if draw.random() < 0.7 else _memory(draw)
    spec["volumes"].append({"name": name, **source})
    mount = {"name": name, "mountPath": draw.choice(MOUNT_PATHS)}
    draw.choice(spec["containers"]).setdefault("volumeMounts", []).append(mount)


def _memory(draw: Draw) -> Raw:
    sized = ({"medium": "Memory", "sizeLimit": size} for size in ("1Gi", "16Gi", "20Gi", "0"))
    return {"emptyDir": draw.choice(({"medium": "Memory"}, *sized, {}))}


def _toleration(draw: Draw, spec: Raw, _metadata: Raw) -> None:
    key = draw.choice(("nvidia.com/gpu", "nvidia.com/gpu", "sku", "team", "dedicated", "a/b"))
    effect = draw.choice(({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}))
    rest = draw.choice(({"operator": "Exists"}, {"operator": "Equal", "value": "gpu"}, {"value": "ml"}))
    spec.setdefault("tolerations", []).append({"key": key, **rest, **effect})


def _everything(_draw: Draw, spec: Raw, _metadata: Raw) -> None:
    spec.setdefault("tolerations", []).append({"operator": "Exists"})


def _selector(draw: Draw, spec: Raw, _metadata: Raw) -> None:
    spec.setdefault("nodeSelector", {})[draw.choice(LABEL_KEYS)] = draw.choice(LABEL_VALUES)


def expression(draw: Draw) -> Raw:
    """A node selector requirement."""
    operator = draw.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    found: Raw = {"key": draw.choice(LABEL_KEYS), "operator": operator}
    if operator in ("In", "NotIn"):
        found["values"] = draw.sample(LABEL_VALUES, draw.randint(1, 3))
    elif operator in ("Gt", "Lt"):
        found["values"] = [draw.choice(("5", "7", "-1"))]
    return found


def _affinity(draw: Draw, spec: Raw, _metadata: Raw) -> None:
    terms: list[Raw] = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        term: Raw = {"matchExpressions": [expression(draw) for _ in range(draw.choice((0, 1, 1, 2)))]}
        if draw.random() < 0.1:
            values = [draw.choice(("big-old", "desk", "nowhere"))]
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": values}]
        terms.append(term)
    nodes: Raw = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    if draw.random() < 0.3:
        preference = {"weight": draw.randint(1, 100), "preference": {"matchExpressions": [expression(draw)]}}
        nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [preference]
    beside = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
    spec["affinity"] = {"nodeAffinity": nodes, **draw.choice(({}, {"podAntiAffinity": {}}, {"podAffinity": beside}))}


def _spread(draw: Draw, spec: Raw, _metadata: Raw) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spec["topologySpreadConstraints"] = draw.choice(([], [constraint]))


def _priority(draw: Draw, spec: Raw, _metadata: Raw) -> None:
    spec |= draw.choice(
        (
            {"priorityClassName": "ordinary", "priority": 10, "preemptionPolicy": "PreemptLowerPriority"},
            {"priorityClassName": "training", "priority": 1000, "preemptionPolicy": "Never"},
            {"priorityClassName": "urgent", "priority": 5000, "preemptionPolicy": "PreemptLowerPriority"},
            {"priorityClassName": "system-node-critical", "priority": 2_000_001_000},
            {"priorityClassName": ""},
        )
    )


def _owned(draw: Draw, _spec: Raw, metadata: Raw) -> None:
    kind = draw.choice(("ReplicaSet", "ReplicaSet", "DaemonSet", "StatefulSet", "Job"))
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "1", "controller": draw.random() < 0.9}
    metadata["ownerReferences"] = [owner]
    metadata.setdefault("labels", {}).update({"app": "chat", "pod-template-hash": "5d"})


def _labels(draw: Draw, _spec: Raw, metadata: Raw) -> None:
    metadata.setdefault("labels", {}).update(
        draw.choice(({"component": "singleuser-server"}, {"notebook-name": "ada"}, {"app": "x"}, {}))
    )


def _annotations(draw: Draw, _spec: Raw, metadata: Raw) -> None:
    metadata.setdefault("annotations", {})[draw.choice(ANNOTATIONS)] = draw.choice(
        ("nvidia.com/gpu=all", "strict@0", "", "0.5", "2", "8192")
    )


def _scalar(draw: Draw, spec: Raw, _metadata: Raw) -> None:
    key, *values = draw.choice(
        (
            ("runtimeClassName", "nvidia", "nvidia", "kata", "nvidia-legacy"),
            ("nodeName", "desk", "plain", ""),
            ("hostIPC", True, False),
            ("hostNetwork", True, False),
            ("os", {"name": "windows"}, {"name": "linux"}),
            ("hostPID", True),
            ("activeDeadlineSeconds", 60, 7200, 604_800),
            ("activeDeadlineSeconds", 60, 7200, 604_800),
            ("resources", {"limits": {"memory": "64Gi", "cpu": 8}}, {"requests": {"cpu": 1}}),
            ("schedulingGates", [{"name": "example.com/wait"}]),
        )
    )
    spec[key] = draw.choice(values)


def _claim(draw: Draw, spec: Raw, _metadata: Raw) -> None:
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": draw.choice(CLAIMED)}]


_EXTRAS: tuple[Extra, ...] = (
    _volume,
    _toleration,
    _toleration,
    _everything,
    _selector,
    _affinity,
    _affinity,
    _spread,
    _priority,
    _owned,
    _owned,
    _labels,
    _labels,
    _annotations,
    _scalar,
    _scalar,
    _claim,
)


def after_gpu_nodes(draw: Draw) -> Raw:
    """A pod without GPUs that tolerates the taint of GPU nodes, and says little else."""
    found = pod(draw)
    for one in (*found["spec"]["containers"], *found["spec"].get("initContainers", ())):
        for part in one.get("resources", {}).values():
            for name in GPUS & part.keys():
                del part[name]
    found["spec"].setdefault("tolerations", []).append({"key": "nvidia.com/gpu", "operator": "Exists"})
    return found
