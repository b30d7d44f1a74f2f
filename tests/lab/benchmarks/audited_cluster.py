"""A cluster of the size that audits are measured with: workloads of all kinds, what controllers would have made of
them, and pods of both GPUs and CPUs, all created directly.
"""

import http.client
import json
import ssl
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.lab.benchmarks.cluster import PRIORITY_CLASS, PRODUCTS, nodes
from tests.lab.benchmarks.runs import sized

PODS, NAMESPACES, NODES = sized((10_000, 40, 100), (100, 4, 10))
_CREATORS = 8

Raw = dict[str, Any]

_SHARES = sized(
    {"Deployment": 600, "StatefulSet": 200, "DaemonSet": 100, "Job": 300, "CronJob": 100},
    {"Deployment": 6, "StatefulSet": 2, "DaemonSet": 1, "Job": 3, "CronJob": 1},
)
WORKLOADS = sum(_SHARES.values()) + _SHARES["Deployment"] + _SHARES["CronJob"]
"""Each Deployment has a ReplicaSet and each CronJob a Job, which makes 2,000, or 20."""
_MAKE_MAKERS = ("Deployment", "CronJob")
_RESOURCES = {"RuntimeClass": "runtimeclasses", "PriorityClass": "priorityclasses"}


def fill(plane: ControlPlane) -> int:
    """Create everything; the bytes of a pod as the API server answers it, on average."""
    client = _Client(plane)
    for number in range(NAMESPACES):
        plane.namespace(f"team-{number}")
    with ThreadPoolExecutor(_CREATORS) as pool:
        list(pool.map(client.create, [PRIORITY_CLASS, *nodes(NODES)]))
        tops = list(pool.map(client.create, _tops(plane)))
        made = list(pool.map(client.create, (_made(top) for top in tops if top["kind"] in _MAKE_MAKERS)))
        makers = [one for one in (*tops, *made) if one["kind"] not in _MAKE_MAKERS]
        assert len(tops) + len(made) == WORKLOADS
        pods = pool.map(client.create, (_pod(makers[n % len(makers)], n) for n in range(PODS)))
        return sum(len(json.dumps(pod, separators=(",", ":"))) for pod in pods) // PODS


def expected() -> Counter[str]:
    """What an audit counts under the policies of `write_policies`; those that others made count as these.

    `read` is how many objects there are to read.
    """
    kinds = [kind for kind, count in _SHARES.items() for _ in range(count)]
    tops = range(len(kinds))
    makers = sorted(tops, key=lambda number: kinds[number] in _MAKE_MAKERS)
    pods = [makers[number % len(makers)] for number in range(PODS)]
    verdicts = Counter(_verdict(top, is_daemon=kinds[top] == "DaemonSet") for top in tops)
    verdicts += Counter(_verdict(top, at % NODES) for at, top in enumerate(pods))
    return verdicts + Counter(pods=PODS, workloads=len(tops), read=PODS + len(tops))


def _verdict(number: int, node: int | None = None, *, is_daemon: bool = False) -> str:
    """What an audit says of a workload, or of a pod of it on a node: too many GPUs for their namespace, GPUs without
    asking, or GPUs of a model that is denied, which some nodes of a DaemonSet have.
    """
    gpus = _gpus(number)
    is_denied = node is not None and "H100" in PRODUCTS[node % len(PRODUCTS)]
    if gpus > number % NAMESPACES % 8 + 1 or _takes_what_it_finds(number) or (gpus and is_denied):
        return "refused"
    return "nothing" if not gpus else "warned" if is_daemon else "completed"


def _tops(plane: ControlPlane) -> Iterator[Raw]:
    number = 0
    for kind, count in _SHARES.items():
        for _ in range(count):
            yield _workload(kind, number, plane)
            number += 1


def _workload(kind: str, number: int, plane: ControlPlane) -> Raw:
    name, labels = f"{kind.lower()}-{number}", {"app": f"{kind.lower()}-{number}"}
    template: Raw = {"metadata": {"labels": labels}, "spec": _spec(number)}
    spec: Raw = {"selector": {"matchLabels": labels}, "template": template}
    api_version = "apps/v1"
    if kind == "StatefulSet":
        spec["serviceName"] = name
    if kind in ("Job", "CronJob"):
        template["spec"]["restartPolicy"] = "Never"
        spec, api_version = {"template": template}, "batch/v1"
    if kind == "CronJob":
        spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": spec}}
    metadata = {"name": name, "namespace": f"team-{number % NAMESPACES}", "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _made(top: Raw) -> Raw:
    """The ReplicaSet of a Deployment, the Job of a CronJob."""
    is_deployment = top["kind"] == "Deployment"
    spec = top["spec"] if is_deployment else top["spec"]["jobTemplate"]["spec"]
    kind, api_version = ("ReplicaSet", "apps/v1") if is_deployment else ("Job", "batch/v1")
    spec = {key: spec[key] for key in ("selector", "template") if is_deployment or key == "template"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": _owned(top, f"{top['metadata']['name']}-5d9c"),
        "spec": spec,
    }


def _pod(owner: Raw, number: int) -> Raw:
    metadata = _owned(owner, f"{owner['metadata']['name']}-{number:05}")
    metadata["annotations"] = {f"example.com/annotation-{n}": f"{number}-{'x' * 60}" for n in range(3)}
    spec = {**owner["spec"]["template"]["spec"], "nodeName": f"gpu-{number % NODES}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _owned(owner: Raw, name: str) -> Raw:
    metadata = owner["metadata"]
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {key: metadata[key] for key in ("name", "uid")}
    labels = metadata["labels"]
    return {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": {key: value for key, value in labels.items() if key == "app"},
        "ownerReferences": [{**reference, "controller": True}],
    }


def _spec(number: int) -> Raw:
    """Two of five are for GPUs, some for more than their namespace allows; one CPU pod in fifty takes what it finds."""
    gpus = _gpus(number)
    trainer = _container("trainer", number, {"nvidia.com/gpu": str(gpus)} if gpus else {})
    if _takes_what_it_finds(number):
        trainer["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
    return {
        "containers": [trainer, _container("proxy", number, {})],
        "initContainers": [_container("fetch", number, {})],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }


def _gpus(number: int) -> int:
    return 2 ** (number % 4) if number % 5 < 2 else 0


def _takes_what_it_finds(number: int) -> bool:
    return number % 50 == 4


def _container(name: str, number: int, gpus: dict[str, str]) -> Raw:
    amounts = {"cpu": "8", "memory": "64Gi", **gpus}
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:2026.03.{number % 31}",
        "command": ["python", "-m", "train", "--config", f"/etc/train/{number}.yaml"],
        "env": [{"name": f"VARIABLE_{n}", "value": f"value-{n}-{number}"} for n in range(5)],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }


class _Client:
    """Creates objects over one kept connection for each thread."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._tls = ssl.create_default_context(cafile=str(plane.ca_file))
        self._kept = local()

    def create(self, raw: Raw) -> Raw:
        """The object as the API server keeps it."""
        connection = getattr(self._kept, "connection", None)
        if connection is None:
            port = int(self._plane.url.rpartition(":")[2])
            connection = self._kept.connection = http.client.HTTPSConnection("127.0.0.1", port, context=self._tls)
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": "application/json"}
        connection.request("POST", _path(raw), json.dumps(raw), headers)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 201, body
        return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], **json.loads(body)}


def _path(raw: Raw) -> str:
    api_version, kind, namespace = raw["apiVersion"], raw["kind"], raw["metadata"].get("namespace")
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{place}/{_RESOURCES.get(kind, kind.lower() + 's')}"
