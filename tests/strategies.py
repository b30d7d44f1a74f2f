"""Generated pods, as people write them and as they should not, for property tests of everything that reads a pod."""

import json
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.rules.samples import Cluster
from webhook.model.image import ImageConfig, ImageInfo
from webhook.model.node import NodeClass, PriorityClass, RuntimeClass, Taint
from webhook.model.selectors import Expression

TIMES = float(os.environ.get("PROPERTY_TIMES", "1"))
"""How many times the usual number of examples: CI takes as many, `make test` a quarter, `make properties` ten times."""


def examples(usual: int) -> int:
    """How many examples of a property are tried, of which there are `usual` ones in CI."""
    return max(1, round(usual * TIMES))


checked = settings(
    max_examples=examples(200),
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
"""Decorator for property tests: the same examples on every machine."""

checked_on_pods = settings(checked, max_examples=examples(30))
"""The same for tests that generate whole pods, which takes milliseconds each."""

GPU_NAMES = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-1g.10gb.shared",
    "nvidia.com/pgpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
)
LOOK_ALIKES = ("nvidia.com/rdma-vf", "nvidia.com/gpumem", "nvidia.com/gpu-10gb", "habana.ai/gaudi", "cpu", "memory")
LABEL_KEYS = ("zone", "nvidia.com/gpu.present", "example.com/pool", "gpu.memory")
LABEL_VALUES = ("a", "b", "true", "5", "7")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
COMMANDS = (
    ["nvidia-smi"],
    ["sleep", "infinity"],
    ["python", "train.py"],
    ["bash", "-c", "pip install torch && python train.py"],
    ["sh", "-c", "export LD_LIBRARY_PATH=/usr/local/cuda/compat:$LD_LIBRARY_PATH; exec train"],
    ["vllm", "serve", "m", "--tensor-parallel-size=8"],
    [""],
)
"""What containers run: programs that need nothing, that wait, that compute, and that install others first."""
PATHS = ("/data", "/dev/shm", "/dev/shm/", "//dev/shm", "dev/shm", "/dev/shm/sub", "/dev")
VARIABLES = ("NCCL_DEBUG", "NCCL_IB_HCA", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "HOME")
NODE_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERENCES = "preferredDuringSchedulingIgnoredDuringExecution"

_some = st.sampled_from


_FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def json_values(max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Any JSON value."""
    keys = _some(("spec", "containers", "name", "limits", "a/b~c")) | st.text(max_size=4)
    leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | _FLOATS | st.text(max_size=6)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=max_leaves,
    )


def _maybe(strategy: st.SearchStrategy[Any], *absent: Any) -> st.SearchStrategy[Any]:
    """The value, or one of the ways to say nothing."""
    return st.one_of(strategy, _some(absent or (None,)))


def _map(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A map in which every key may be missing."""
    return st.fixed_dictionaries({}, optional=parts)


def amounts() -> st.SearchStrategy[Any]:
    """GPU quantities that the API server accepts."""
    return _some((0, 1, 2, 8, "1", "2", "4", "1e0", "2000m", "0", None))


@st.composite
def resources(draw: st.DrawFn, *, with_gpus: bool = True) -> dict[str, Any]:
    """Resources that the API server accepts: GPUs equal in both parts or in limits only."""
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    for name in draw(st.lists(_some(GPU_NAMES), max_size=2, unique=True)) if with_gpus else ():
        limits[name] = draw(amounts())
        if draw(st.booleans()):
            requests[name] = limits[name]
    if draw(st.booleans()):
        limits["memory"] = draw(_some(("8Gi", "100Mi", "1e9", 1000, "0.5", "128Gi")))
        if draw(st.booleans()):
            requests["memory"] = draw(_some((limits["memory"], "0", None)))
    if draw(st.booleans()):
        requests["cpu"] = draw(_some(("1", "500m", 0)))
    parts = {"limits": limits or draw(_some(({}, None))), "requests": requests or draw(_some(({}, None)))}
    return {key: value for key, value in parts.items() if value or draw(st.booleans())}


@st.composite
def containers(draw: st.DrawFn, name: str, *, with_gpus: bool = True, volumes: tuple[str, ...] = ()) -> dict[str, Any]:
    """A container that the API server accepts; its mounts name declared volumes only."""
    container: dict[str, Any] = {"name": name, "image": draw(_some(IMAGES))}
    if draw(st.booleans()) or with_gpus:
        container["resources"] = draw(resources(with_gpus=with_gpus))
    value = _map(value=_some(("all", "void", "none", "", "WARN")))
    source = st.just({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    names = draw(st.lists(_some(VARIABLES), max_size=3))
    env = [{"name": variable, **draw(value | source)} for variable in names]
    if env or draw(st.booleans()):
        container["env"] = env or draw(_some((None, [])))
    paths = draw(st.lists(_some(PATHS), max_size=2, unique=True)) if volumes else []
    mounts = [{"name": draw(_some(volumes)), "mountPath": path} for path in paths]
    if mounts or draw(st.booleans()):
        container["volumeMounts"] = mounts or draw(_some((None, [])))
    if draw(st.booleans()):
        container["envFrom"] = draw(_some((None, [], [{"configMapRef": {"name": "settings"}}])))
    if draw(st.booleans()):
        container["securityContext"] = draw(
            _some((None, {}, {"privileged": True}, {"capabilities": {"add": ["IPC_LOCK"]}}))
        )
    if draw(st.booleans()):
        container[draw(_some(("command", "args")))] = draw(_some((None, [], *COMMANDS)))
    return container


def expressions() -> st.SearchStrategy[dict[str, Any]]:
    """Node selector requirements that the API server accepts."""
    return st.one_of(
        st.fixed_dictionaries(
            {
                "key": _some(LABEL_KEYS),
                "operator": _some(("In", "NotIn")),
                "values": st.lists(_some(LABEL_VALUES), min_size=1, max_size=2),
            }
        ),
        st.fixed_dictionaries({"key": _some(LABEL_KEYS), "operator": _some(("Exists", "DoesNotExist"))}),
        st.fixed_dictionaries(
            {"key": _some(LABEL_KEYS), "operator": _some(("Gt", "Lt")), "values": _some((["5"], ["7"], ["100"]))}
        ),
    )


def terms() -> st.SearchStrategy[dict[str, Any] | None]:
    """Node selector terms, the ones that match nothing included."""
    fields = _some(([{"key": "metadata.name", "operator": "In", "values": ["n1"]}], None))
    return _maybe(_map(matchExpressions=_maybe(st.lists(expressions(), max_size=2)), matchFields=fields))


def affinities() -> st.SearchStrategy[Any]:
    """Affinities that the API server accepts."""
    preference = st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": terms()})
    selector = st.fixed_dictionaries({"nodeSelectorTerms": st.lists(terms(), min_size=1, max_size=3)})
    node_affinity = st.fixed_dictionaries(
        {}, optional={NODE_AFFINITY: _maybe(selector), PREFERENCES: _maybe(st.lists(preference, max_size=2))}
    )
    beside = st.builds(lambda key: {NODE_AFFINITY: [{"topologyKey": key}]}, _some(("kubernetes.io/hostname", "zone")))
    return _maybe(_map(nodeAffinity=_maybe(node_affinity), podAffinity=_maybe(beside), podAntiAffinity=st.just({})))


def tolerations() -> st.SearchStrategy[dict[str, Any]]:
    """Tolerations that the API server accepts."""
    keys = _some(("nvidia.com/gpu", "sku", "a/b"))
    effects = _some(("", "NoSchedule", "PreferNoSchedule", "NoExecute"))
    return st.one_of(
        st.fixed_dictionaries({"operator": st.just("Exists")}, optional={"key": keys, "effect": effects}),
        st.fixed_dictionaries({"key": keys}, optional={"value": _some(("", "gpu")), "effect": effects}),
        st.fixed_dictionaries(
            {
                "key": keys,
                "operator": st.just("Exists"),
                "effect": st.just("NoExecute"),
                "tolerationSeconds": _some((0, 300)),
            }
        ),
    )


def _owned_by(kind: str, **controls: bool) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": kind, "name": "owner", "uid": "1", **controls}]


OF_SERVICES = (
    {"labels": {"app": "chat", "pod-template-hash": "5d"}, "ownerReferences": _owned_by("ReplicaSet", controller=True)},
    {"name": "jupyter-ada", "labels": {"component": "singleuser-server", "app": "jupyterhub"}},
    {"labels": {"notebook-name": "ada"}, "ownerReferences": _owned_by("StatefulSet", controller=True)},
    {"labels": {"component": "singleuser-server"}, "ownerReferences": _owned_by("ReplicaSet", controller=True)},
)
"""Metadata of pods as controllers and JupyterHub make them."""
FRACTIONS = (
    {"annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}},
    {"annotations": {"gpu-memory": "8192"}},
)
"""Metadata of pods with parts of GPUs."""
METADATA = (
    None,
    {},
    {"name": "p", "annotations": {"a/b_c": "d"}, "labels": None, "ownerReferences": None},
    {"name": "p", "labels": {"app": "chat"}, "ownerReferences": _owned_by("ReplicaSet")},
    {"labels": {}, "annotations": {}, "ownerReferences": _owned_by("DaemonSet", controller=True)},
    *OF_SERVICES,
)
PRIORITIES = (
    {"priorityClassName": None, "priority": None},
    {"priorityClassName": "", "priority": 0, "preemptionPolicy": "PreemptLowerPriority"},
    {"priorityClassName": "ordinary"},
    {"priorityClassName": "ordinary", "priority": 10, "preemptionPolicy": "PreemptLowerPriority"},
    {"priorityClassName": "training", "priority": 1000, "preemptionPolicy": "Never"},
)
"""What pods say of their priority, and what Kubernetes has filled in when a webhook sees them."""


def _whole() -> st.SearchStrategy[Any]:
    """What a pod has as a whole."""
    limits = _maybe(_map(memory=_some(("64Gi", "0")), cpu=_some((4, "0"))))
    return _maybe(_map(limits=limits, requests=_maybe(_map(memory=_some(("64Gi", "1Gi")), cpu=st.just("2")))))


def _volume(name: str) -> st.SearchStrategy[dict[str, Any]]:
    sources = (
        {"emptyDir": {"medium": "Memory"}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"emptyDir": {}},
        {"hostPath": {"path": "/dev/nvidia0"}},
        {"hostPath": {"path": "/dev/shm"}},
        {"persistentVolumeClaim": {"claimName": "data"}},
    )
    return _some(sources).map(lambda source: {"name": name, **source})


@st.composite
def pods(draw: st.DrawFn, *, with_gpus: bool = True) -> dict[str, Any]:
    """Pods that the API server accepts, in many spellings; without GPUs where `with_gpus` is False."""
    names = tuple(draw(st.lists(_some(("data", "dshm", "gpu-policy-shm")), max_size=3, unique=True)))
    counter = iter(range(20))

    def some_containers(least: int) -> list[dict[str, Any]]:
        count = draw(st.integers(least, 2))
        return [draw(containers(f"c{next(counter)}", with_gpus=with_gpus, volumes=names)) for _ in range(count)]

    spec: dict[str, Any] = {"containers": some_containers(1)}
    if init := some_containers(0):
        spec["initContainers"] = [{**container, **draw(_some(({}, {"restartPolicy": "Always"})))} for container in init]
    if names or draw(st.booleans()):
        spec["volumes"] = [draw(_volume(name)) for name in names] or None
    optional = _map(
        tolerations=_maybe(st.lists(tolerations(), max_size=2)),
        affinity=affinities(),
        nodeSelector=_maybe(st.dictionaries(_some(LABEL_KEYS), _some(LABEL_VALUES), max_size=2)),
        runtimeClassName=_some((None, "nvidia", "kata")),
        hostIPC=st.booleans(),
        hostNetwork=st.booleans(),
        os=_some((None, {"name": "linux"})),
        nodeName=_some(("", "n1")),
        activeDeadlineSeconds=_some((None, 60, 7200, 604_800)),
        topologySpreadConstraints=_some((None, [], [SPREAD])),
        resources=_whole(),
    )
    spec |= {**draw(optional), **draw(_some(PRIORITIES))}
    # A copy, so that no two parts of the pod are one object.
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": draw(_some((*METADATA, *(FRACTIONS if with_gpus else ())))),
        "spec": spec,
    }
    result: dict[str, Any] = json.loads(json.dumps(pod))
    return result


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@st.composite
def service_pods(draw: st.DrawFn) -> dict[str, Any]:
    """Replicas and notebooks with GPUs, most of which say little about themselves."""
    pod = draw(pods())
    pod["metadata"] = dict(draw(_some(OF_SERVICES)))
    spec = pod["spec"]
    for key in draw(_some((("affinity", "nodeName", "topologySpreadConstraints"), ()))):
        spec.pop(key, None)
    spec["activeDeadlineSeconds"] = draw(_some((None, 604_800, 60)))
    spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": draw(st.integers(1, 2))}}
    return pod


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a JSON value, itself included."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in children for place in _places(child, (*path, key)))]


@st.composite
def broken_pods(draw: st.DrawFn) -> Any:
    """Pods of which one to three parts were replaced by any JSON."""
    box: dict[str, Any] = {"pod": draw(pods())}
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(_some(_places(box)[1:]))
        parent: Any = box
        for key in above:
            parent = parent[key]
        parent[last] = draw(json_values(4))
    return box["pod"]


@st.composite
def requests_only(draw: st.DrawFn) -> dict[str, Any]:
    """Pods whose GPUs stand in requests instead of limits, in some containers or all."""
    pod = draw(pods())
    for container in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
        resources = container.get("resources")
        if not resources or not resources.get("limits") or draw(st.booleans()):
            continue
        moved = {name: amount for name, amount in resources["limits"].items() if name in GPU_NAMES}
        resources["limits"] = {name: amount for name, amount in resources["limits"].items() if name not in moved}
        resources["requests"] = {**(resources.get("requests") or {}), **moved}
    return pod


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Clusters with and without the classes that pods name, and nodes of which more or less is known."""
    scheduling = _some(((), (Expression("zone", "In", ("a",)),)))
    classes = st.builds(RuntimeClass, st.just("nvidia"), st.just("nvidia"), scheduling)
    nodes = st.builds(
        NodeClass,
        gpu_labels(),
        _some(((), (Taint("nvidia.com/gpu", "present", "NoSchedule"),), (Taint("sku", "gpu", "NoExecute"),))),
        st.frozensets(_some(GPU_NAMES), max_size=2),
        runtime_handlers=_some((None, frozenset({"", "nvidia"}), frozenset({""}))),
        count=st.integers(1, 3),
    )
    amounts = _map(**{name: _maybe(st.integers(0, 8)) for name in GPU_NAMES}, cpu=_some((None, 8000)))
    priorities = (PriorityClass("ordinary", 10, is_default=draw(st.booleans())), PriorityClass("training", 1000))
    found = draw(st.lists(nodes, max_size=3))
    return Cluster(
        draw(classes.map(lambda found: {"nvidia": found}) | st.just({})),
        found,
        images=draw(st.dictionaries(_some(IMAGES), image_sights(), max_size=2)),
        amounts=draw(st.lists(amounts, max_size=len(found))),
        labels=draw(st.dictionaries(_some(LABEL_KEYS), st.lists(_some(LABEL_VALUES), max_size=2), max_size=2)),
        priorities=draw(_some((priorities, priorities, ()))),
    )


IMAGES = (
    "registry.example.com/train:1",
    "nvidia/cuda:13.0.0-base-ubuntu24.04",
    "registry.example.com/mirror/nvidia/cuda:12.4.1-devel-ubuntu22.04",
    "nvcr.io/nvidia/pytorch:24.09-py3",
    "rocm/vllm:latest",
    "python:3.12",
    "python",
    "registry.example.com/train:latest@sha256:" + "0" * 64,
    "Not An Image",
)


def gpu_labels() -> st.SearchStrategy[dict[str, str]]:
    """What GPU Feature Discovery says about a node, or some of it, or nonsense."""
    return st.fixed_dictionaries(
        {},
        optional={
            "nvidia.com/cuda.driver-version.major": _some(("470", "535", "580", "x")),
            "nvidia.com/cuda.driver-version.full": _some(("470.82.01", "535.183.01", "580.95.05", "no version")),
            "nvidia.com/gpu.product": _some(("Tesla-V100-SXM2-32GB", "NVIDIA-H100-80GB-HBM3-SHARED", "?")),
            "nvidia.com/gpu.compute.major": _some(("7", "9", "-1")),
            "kubernetes.io/arch": _some(("amd64", "arm64")),
        },
    )


def image_sights() -> st.SearchStrategy[ImageInfo]:
    """What a registry says about an image, and what it does not."""
    names = _some(("CUDA_VERSION", "NVIDIA_REQUIRE_CUDA", "NVIDIA_DRIVER_CAPABILITIES"))
    env = st.dictionaries(names, _some(("12.4.1", "cuda>=13.0", "?")))
    config = st.builds(ImageConfig, st.just("sha256:" + "0" * 64), env, _some(((), ("amd64",), ("arm64",))))
    return st.builds(ImageInfo, config | st.none(), st.booleans(), _some(("", "registry.example.com: 404")))


def gpu_pods() -> st.SearchStrategy[dict[str, Any]]:
    """Pods with GPUs in limits or in requests only, alone or among replicas."""
    return pods() | service_pods() | requests_only()
