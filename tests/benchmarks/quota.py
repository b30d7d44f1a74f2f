"""What a quota adds to the creation of a pod through a real API server, beside what the in-tree ResourceQuota adds.

    python -m tests.benchmarks.quota

Needs wrk, haproxy and a control plane (KUBEBUILDER_ASSETS). Every case has the same API server and the same replicas
behind the same load balancer; only the namespace is another one. Rounds are interleaved; medians are printed, and their
ratios. Every create has to be answered 201; afterwards the ledger of gpuQuota has an entry for every pod that is there,
the ResourceQuota counts their GPUs, and other namespaces have no ledger.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.cluster import default_policy
from tests.benchmarks.planes import PATCHES, control_plane, named
from tests.benchmarks.runs import demand, head, need, row, sized
from tests.benchmarks.wrk import Load, Middle, Request, load, missing
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import NAMESPACE, SERVICE, Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.quota_site import QuotaSite
from webhook.model.quantity import parse_quantity

TEMPLATE = Path(__file__).with_name("pod.json")
ROUNDS, SECONDS = sized((5, 3), (1, 1))
WORKERS = sized((1, 8, 32), (8,))
REPLICAS = sized((1, 3), (3,))
PLENTY = 1_000_000
GPUS = 2
"""Of the pod."""
CASES = {"free": "no quota", "limited": "gpuQuota", "intree": "ResourceQuota"}
"""Namespaces, and what limits their pods."""
RESOURCE = "requests.nvidia.com/gpu"
QUOTA = "/api/v1/namespaces/intree/resourcequotas"


def main() -> None:
    """Print a table of all numbers of replicas."""
    need(missing())
    need(None if HAPROXY else "no haproxy here; Debian's package is haproxy")
    ratio = "gpuQuota / ResourceQuota, p50"
    is_headed = False
    for replicas in REPLICAS:
        with control_plane(PATCHES) as plane, tempfile.TemporaryDirectory() as folder:
            if not is_headed:
                print(f"{named(plane)}; p50 / p99, ms\n")
                head("Replicas", "Creators", *CASES.values(), ratio, "p99")
                is_headed = True
            with _site(plane, Path(folder), replicas) as site:
                _rows(site, replicas)


@contextmanager
def _site(plane: ControlPlane, directory: Path, replicas: int) -> Iterator[QuotaSite]:
    """Replicas that enforce every rule, and the namespaces of the cases."""
    for name in (NAMESPACE, "judged-probe", *CASES):
        plane.namespace(name)
    (directory / "installation").mkdir()
    installation = Installation(plane, directory / "installation")
    plane.webhook_service(NAMESPACE, SERVICE, installation.port)
    hard = {RESOURCE: str(PLENTY)}
    plane.raw("POST", QUOTA, {"metadata": {"name": "in-tree"}, "spec": {"hard": hard}})
    _begin_at_zero(plane)
    policies = {"_default.yaml": default_policy("gpuQuota")}
    for name in CASES:
        quota = f"{{mode: enforce, gpus: {PLENTY}}}" if name == "limited" else "{mode: disabled}"
        head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\n"
        policies[f"{name}.yaml"] = f"{head}spec: {{rules: {{gpuQuota: {quota}}}}}\n"
    with QuotaSite(installation, directory, policies, in_flight_seconds=90, size=replicas, proxied=0) as site:
        yield site


def _begin_at_zero(plane: ControlPlane) -> None:
    """What a controller does for a ResourceQuota, and there is none here."""
    status = {"hard": {RESOURCE: str(PLENTY)}, "used": {RESOURCE: "0"}}
    answer = plane.raw("PATCH", f"{QUOTA}/in-tree/status", {"status": status})
    demand(answer[0] == 200, f"the ResourceQuota is not counted from zero: {answer}")


def _rows(site: QuotaSite, replicas: int) -> None:
    for name in CASES:
        _load(site, name, WORKERS[-1])  # connections and caches as in a cluster that has been at it for a while
    for workers in WORKERS:
        samples: dict[str, list[Load]] = {name: [] for name in CASES}
        for _ in range(ROUNDS):
            for name in CASES:
                samples[name].append(_load(site, name, workers))
        middle = {name: Middle.of(taken) for name, taken in samples.items()}
        mine, theirs = middle["limited"], middle["intree"]
        times = (f"{one.p50:.1f} / {one.p99:.0f}" for one in middle.values())
        row(replicas, workers, *times, f"{mine.p50 / theirs.p50:.2f}", f"{mine.p99 / theirs.p99:.2f}")


def _load(site: QuotaSite, namespace: str, workers: int) -> Load:
    """Create pods for SECONDS, then have the namespace empty and its ledger too.

    wrk ends in the middle of its last requests, so the ledger keeps as many entries of pods that never came, for their
    time; those of earlier calls are among them.
    """
    key = f"namespace.{namespace}"
    before = len(site.entered(key))
    plane = site.plane
    path = f"/api/v1/namespaces/{namespace}/pods"
    file = site.installation.directory / f"{namespace}.json"
    file.write_text(TEMPLATE.read_text().replace('"NS"', f'"{namespace}"'))
    headers = {"Authorization": f"Bearer {plane.token}", "Accept": "application/json"}
    taken = load(Request(f"{plane.url}{path}", file, f"p-{time.monotonic_ns()}", headers), workers, SECONDS)
    _demand_counted(site, namespace, taken.answers, workers)
    plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")
    eventually(lambda: len(site.entered(key)) <= before + workers)
    _begin_at_zero(plane)
    time.sleep(1)
    return taken


def _demand_counted(site: QuotaSite, namespace: str, answers: int, workers: int) -> None:
    """Every pod that is there is counted by what limits it, and by nothing else."""
    pods = {pod["metadata"]["uid"] for pod in site.plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"]}
    entered = site.entered(f"namespace.{namespace}")
    demand(
        answers <= len(pods) <= answers + workers, f"{namespace}: {len(pods)} pods are there; {answers} were created"
    )
    uncounted = len(pods - entered) if namespace == "limited" else len(entered)
    demand(uncounted == 0, f"{namespace}: of {len(pods)} pods {len(entered)} are in a ledger, {uncounted} wrongly")
    if namespace == "intree":
        used = int(parse_quantity(site.plane.raw("GET", f"{QUOTA}/in-tree")[1]["status"]["used"][RESOURCE])) // GPUS
        demand(used >= len(pods), f"{namespace}: the ResourceQuota counts {used} pods; {len(pods)} are there")


if __name__ == "__main__":
    main()
