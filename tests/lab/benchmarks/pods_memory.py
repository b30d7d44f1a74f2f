"""Start and memory of a process that follows 100,000 pods, all of which ask for GPUs, and 5,000 nodes.

    python -m tests.lab.benchmarks.pods_memory

The API server is a pretended one in another process, which has all pages ready. Every pod and node has to be known at
the end, also after everything was listed again, and every quota to have its ledger.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import NODES, PODS, RUNTIME_CLASSES, FakeApiServer, Request, fake_api_server
from tests.facts.fake_objects import FakeObjects
from tests.lab.benchmarks.answers import ask
from tests.lab.benchmarks.cluster import PRODUCTS, nodes, write_policies
from tests.lab.benchmarks.runs import demand, head, row, sized
from tests.lab.benchmarks.served import product, serve
from webhook.facts.live import LiveFacts
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.pod_source import PAGE, LivePods

PODS_COUNT, NODES_COUNT, NAMESPACES = sized((100_000, 5_000, 500), (2_000, 50, 20))
EXPIRED = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}\n'

SETTLED_SECONDS = sized(30, 0)
TEAMS = "/api/v1/namespaces/team-"
LEDGERS = "/api/v1/namespaces/gpu-policy/configmaps"
SHARED_QUOTA = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUSharedQuotas
metadata: {name: _quotas}
spec: {quotas: [{name: research, namespaces: ["team-1*"], gpus: 100000}]}
"""

Selector = Callable[[int], dict[str, str]]


def main() -> None:
    """Print seconds and MiB of a process that only follows, with two kinds of pods, and of a whole replica."""
    print(f"{PODS_COUNT:,} pods of {len(page(0, 1, by_product)) / 1024:.1f} KiB, {NODES_COUNT:,} nodes\n", flush=True)
    head("", "known after, s", "MiB")
    row("pods that select one of four products", *followed(by_product))
    row("pods that differ in their placement", *followed(by_node))
    row(f"a whole worker with {NAMESPACES} quotas", *served())


def by_product(number: int) -> dict[str, str]:
    """Pods of a platform: each team knows a few products."""
    return {"nvidia.com/gpu.product": PRODUCTS[number % 4], "example.com/pool": "gpu"}


def by_node(number: int) -> dict[str, str]:
    """Pods that are pinned to a node, none of them quite like another."""
    return {"kubernetes.io/hostname": f"gpu-{number % NODES_COUNT}", "example.com/slot": str(number)}


@contextmanager
def cluster(selector: Selector) -> Iterator[FakeApiServer]:
    """The pretended API server of such a cluster."""
    runtime_class, *machines = nodes(NODES_COUNT)
    pages = {start: page(start, PAGE, selector) for start in range(0, PODS_COUNT, PAGE)}
    with fake_api_server() as server:
        server.objects[NODES], server.objects[RUNTIME_CLASSES] = machines, [runtime_class]
        server.under[LEDGERS] = FakeObjects(LEDGERS)

        def pods(request: Request, path: str, query: dict[str, str]) -> None:
            if "watch" in query:
                server.answer(request, path, query)
            else:
                request.send(200, pages[int(query.get("continue", "0"))])

        def pods_of_a_team(request: Request, path: str, _query: dict[str, str]) -> None:
            numbers = range(int(path.removeprefix(TEAMS).partition("/")[0]), PODS_COUNT, NAMESPACES)
            found = [_pod(number, selector(number)) for number in numbers]
            if "PartialObjectMetadataList" in request.headers["accept"]:
                found = [{"metadata": one["metadata"]} for one in found]
            request.send(200, _list(found))

        server.instead[PODS], server.under[TEAMS] = pods, pods_of_a_team
        yield server


def followed(selector: Selector) -> list[str]:
    """What a new process says that follows such a cluster."""
    seconds, mib = "", []
    with tempfile.TemporaryDirectory() as folder, cluster(selector) as server:
        command = [sys.executable, "-m", "tests.lab.benchmarks.pods_memory", str(server.kubeconfig(Path(folder)))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None  # it is a pipe
            for event in (EXPIRED, None):
                found = json.loads(process.stdout.readline() or "{}")
                known = {"pods": found.get("pods"), "nodes": found.get("nodes")}
                expected = {"pods": PODS_COUNT, "nodes": NODES_COUNT}
                demand(known == expected, f"known are {known}; expected are {expected}")
                seconds = seconds or found["seconds"]
                mib.append(found["mib"])
                if event is not None:
                    server.tell(PODS, event)
    return [seconds, "; listed again ".join(mib)]


def served() -> list[str]:
    """What a replica takes for such a cluster, with a quota for each namespace and one for many, once all are kept."""
    with tempfile.TemporaryDirectory() as folder, cluster(by_product) as server:
        directory = Path(folder)
        policies = directory / "policies"
        write_policies(policies, NAMESPACES)
        (policies / "_quotas.yaml").write_text(SHARED_QUOTA)
        options = (f"--kubeconfig={server.kubeconfig(directory)}", "--quota-ledgers=gpu-policy")
        begun = time.monotonic()
        with serve(directory, "replica", product(policies, *options)) as replica:
            while ask(replica, "GET", "/readyz").status != 200:
                time.sleep(0.05)
            ready = time.monotonic() - begun
            eventually(lambda: len(server.under[LEDGERS].objects) > NAMESPACES, seconds=600)
            time.sleep(SETTLED_SECONDS)
            ledgers = len(server.under[LEDGERS].objects)
            expected = NAMESPACES + 1
            demand(
                ledgers == expected, f"there are {ledgers} ledgers; {expected} are expected: quotas and a shared quota"
            )
            return [f"{ready:.1f}", f"{replica.rss_mib()[-1]:.0f}, at most {replica.peak_mib():.0f}"]


def follow(kubeconfig: str) -> None:
    """Follow the cluster until all of it is known, and then until all of it was listed again."""
    begun = time.monotonic()
    facts, pods = LiveFacts(kubeconfig), LivePods(ApiServer(kubeconfig))
    facts.start()
    pods.start()
    while not (pods.is_known() and facts.facts is not None):
        time.sleep(0.02)
    seconds = time.monotonic() - begun
    _say(facts, pods, f"{seconds:.1f}")
    while pods.is_known():
        time.sleep(0.005)
    while not pods.is_known():
        time.sleep(0.02)
    _say(facts, pods)
    pods.close()
    facts.close()


def resident(field: str) -> float:
    """Memory of this process in MiB, as /proc has it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def _say(facts: LiveFacts, pods: LivePods, seconds: str = "") -> None:
    """Print as JSON what is known since when, and MiB now and at most."""
    mib = f"{resident('VmRSS'):.0f}, at most {resident('VmHWM'):.0f}"
    known = {"pods": len(list(pods.seen())), "nodes": len(facts.facts.cluster.nodes) if facts.facts else 0}
    print(json.dumps({**known, "seconds": seconds, "mib": mib}), flush=True)


def page(start: int, limit: int, selector: Selector) -> bytes:
    """A page of a list of pods."""
    end = min(start + limit, PODS_COUNT)
    rest = {"continue": str(end)} if end < PODS_COUNT else {}
    return _list([_pod(number, selector(number)) for number in range(start, end)], **rest)


def _list(items: list[dict[str, Any]], **metadata: str) -> bytes:
    return orjson.dumps({"kind": "PodList", "metadata": {"resourceVersion": "100", **metadata}, "items": items})


def _pod(number: int, selector: dict[str, str]) -> dict[str, Any]:
    """A pod as a training operator and a kubelet leave it in the API server, managed fields included."""
    name = f"train-{number // 8}-worker-{number % 8}-{number * 7919 % 99991:05x}"
    at = f"2026-03-01T{number % 24:02d}:{number % 60:02d}:00Z"
    labels = {
        "app.kubernetes.io/name": "trainer",
        "app.kubernetes.io/instance": f"train-{number // 8}",
        "batch.kubernetes.io/job-name": f"train-{number // 8}",
        "training.kubeflow.org/replica-index": str(number % 8),
    }
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % NAMESPACES}",
            "uid": str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)),
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": at,
            "labels": labels,
            "annotations": {f"example.com/annotation-{n}": f"{number}-{'x' * 60}" for n in range(8)},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name[:-6], "uid": name}],
            "managedFields": [_managed(manager, at) for manager in ("kube-controller-manager", "kubelet")],
        },
        "spec": {
            "nodeName": f"gpu-{number % NODES_COUNT}",
            "nodeSelector": selector,
            "containers": [
                _container("trainer", number, {"nvidia.com/gpu": str(1 + number % 8)}),
                _container("proxy", number, {}),
            ],
            "initContainers": [_container("fetch", number, {})],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}, {"name": "token", "projected": {}}],
            "schedulerName": "default-scheduler",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": at, "lastProbeTime": None}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [{"name": n, "imageID": f"sha256:{number:064x}"} for n in ("trainer", "proxy")],
        },
    }


def _managed(manager: str, at: str) -> dict[str, Any]:
    fields = {f"f:field-{n}": {".": {}, f"k:{{'name':'{n}'}}": {"f:value": {}}} for n in range(12)}
    return {"manager": manager, "operation": "Update", "time": at, "fieldsV1": {"f:spec": fields}}


def _container(name: str, number: int, gpus: dict[str, str]) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "64Gi", **gpus}
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:2026.03.{number % 31}",
        "command": ["python", "-m", "train", "--config", f"/etc/train/{number}.yaml"],
        "env": [{"name": f"VARIABLE_{n}", "value": f"value-{n}-{number}"} for n in range(12)],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
    }


def arguments() -> Sequence[str]:
    """What the command was given."""
    return sys.argv[1:]


if __name__ == "__main__":
    follow(*arguments()) if arguments() else main()
