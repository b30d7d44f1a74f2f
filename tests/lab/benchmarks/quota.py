"""What a quota adds to creating a pod, or a resource claim, through an API server, beside what ResourceQuota adds.

    python -m tests.lab.benchmarks.quota

Needs wrk, haproxy and a control plane (KUBEBUILDER_ASSETS). Every case has the same API server and the same replicas
behind the same load balancer; only the namespace is another one. Rounds are interleaved; medians are printed, and their
ratios. Every create has to be answered 201; afterwards the ledger of gpuQuota has an entry for every object that is
there, the ResourceQuota counts their GPUs, and other namespaces have no ledger.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import NAMESPACE, SERVICE, Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.quota_site import QuotaSite
from tests.lab.benchmarks.cluster import PRIORITY_CLASS, default_policy
from tests.lab.benchmarks.planes import control_plane, named
from tests.lab.benchmarks.runs import demand, head, need, row, sized
from tests.lab.benchmarks.wrk import Load, Middle, Request, load, missing
from webhook.model.quantity import parse_quantity

ROUNDS, SECONDS = sized((5, 3), (1, 1))
WORKERS = sized((1, 8, 32), (8,))
REPLICAS = sized((1, 3), (3,))
PLENTY = 1_000_000
GPUS = 2
"""Of a pod and of a claim."""
CASES = {"free": "no quota", "limited": "gpuQuota", "intree": "ResourceQuota"}
"""What limits a namespace."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is created: the path of its API, its resource, an example, and its GPUs as a ResourceQuota names them."""

    api: str
    resource: str
    example: str
    limited: str

    def namespace(self, case: str) -> str:
        """The namespace of a case."""
        return f"{case}-{self.resource}"

    def path(self, namespace: str) -> str:
        """Where its objects are."""
        return f"{self.api}/namespaces/{namespace}/{self.resource}"

    @property
    def quota(self) -> str:
        """Where its ResourceQuota is."""
        return f"/api/v1/namespaces/{self.namespace('intree')}/resourcequotas"


PODS = Kind("/api/v1", "pods", "pod.json", "requests.nvidia.com/gpu")
CLAIMS = Kind(
    "/apis/resource.k8s.io/v1", "resourceclaims", "claim.json", "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
)
KINDS = (PODS, CLAIMS)


def main() -> None:
    """Print a table of all numbers of replicas."""
    need(missing())
    need(None if HAPROXY else "no haproxy here; Debian's package is haproxy")
    ratio = "gpuQuota / ResourceQuota, p50"
    is_headed = False
    for replicas in REPLICAS:
        with control_plane() as plane, tempfile.TemporaryDirectory() as folder:
            if not is_headed:
                print(f"{named(plane)}; p50 / p99, ms\n")
                head("Creates", "Replicas", "Creators", *CASES.values(), ratio, "p99")
                is_headed = True
            with _site(plane, Path(folder), replicas) as site:
                for kind in KINDS:
                    _rows(site, kind, replicas)


@contextmanager
def _site(plane: ControlPlane, directory: Path, replicas: int) -> Iterator[QuotaSite]:
    """Replicas that enforce every rule, and the namespaces of the cases."""
    for name in (NAMESPACE, "judged-probe", *(kind.namespace(case) for kind in KINDS for case in CASES)):
        plane.namespace(name)
    plane.raw("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", PRIORITY_CLASS)
    (directory / "installation").mkdir()
    installation = Installation(plane, directory / "installation")
    plane.webhook_service(NAMESPACE, SERVICE, installation.port)
    policies = {"_default.yaml": default_policy("gpuQuota")}
    for kind in KINDS:
        hard = {kind.limited: str(PLENTY)}
        plane.raw("POST", kind.quota, {"metadata": {"name": "in-tree"}, "spec": {"hard": hard}})
        _begin_at_zero(plane, kind)
        for case in CASES:
            name = kind.namespace(case)
            quota = f"{{mode: enforce, gpus: {PLENTY}}}" if case == "limited" else "{mode: disabled}"
            head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\n"
            policies[f"{name}.yaml"] = f"{head}spec: {{rules: {{gpuQuota: {quota}}}}}\n"
    with QuotaSite(installation, directory, policies, in_flight_seconds=90, size=replicas, proxied=0) as site:
        yield site


def _begin_at_zero(plane: ControlPlane, kind: Kind) -> None:
    """What a controller does for a ResourceQuota, and there is none here."""
    status = {"hard": {kind.limited: str(PLENTY)}, "used": {kind.limited: "0"}}
    answer = plane.raw("PATCH", f"{kind.quota}/in-tree/status", {"status": status})
    demand(answer[0] == 200, f"the ResourceQuota is not counted from zero: {answer}")


def _rows(site: QuotaSite, kind: Kind, replicas: int) -> None:
    for case in CASES:
        _load(site, kind, case, WORKERS[-1])  # connections and caches as in a cluster that has been at it for a while
    for workers in WORKERS:
        samples: dict[str, list[Load]] = {case: [] for case in CASES}
        for _ in range(ROUNDS):
            for case in CASES:
                samples[case].append(_load(site, kind, case, workers))
        middle = {case: Middle.of(taken) for case, taken in samples.items()}
        mine, theirs = middle["limited"], middle["intree"]
        times = (f"{one.p50:.1f} / {one.p99:.0f}" for one in middle.values())
        row(kind.resource, replicas, workers, *times, f"{mine.p50 / theirs.p50:.2f}", f"{mine.p99 / theirs.p99:.2f}")


def _load(site: QuotaSite, kind: Kind, case: str, workers: int) -> Load:
    """Create objects for SECONDS, then have the namespace empty and its ledger too.

    wrk ends in the middle of its last requests, so the ledger keeps as many entries of objects that never came, for
    their time; those of earlier calls are among them.
    """
    namespace = kind.namespace(case)
    key = f"namespace.{namespace}"
    before = len(site.entered(key))
    plane = site.plane
    path = kind.path(namespace)
    file = site.installation.directory / f"{namespace}.json"
    file.write_text(Path(__file__).with_name(kind.example).read_text().replace('"NS"', f'"{namespace}"'))
    headers = {"Authorization": f"Bearer {plane.token}", "Accept": "application/json"}
    taken = load(Request(f"{plane.url}{path}", file, f"p-{time.monotonic_ns()}", headers), workers, SECONDS)
    _demand_counted(site, kind, case, taken.answers, workers)
    plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")
    eventually(lambda: len(site.entered(key)) <= before + workers)
    _begin_at_zero(plane, kind)
    time.sleep(1)
    return taken


def _demand_counted(site: QuotaSite, kind: Kind, case: str, answers: int, workers: int) -> None:
    """Every object that is there is counted by what limits it, and by nothing else."""
    namespace, what = kind.namespace(case), kind.resource
    there = {one["metadata"]["uid"] for one in site.plane.raw("GET", kind.path(namespace))[1]["items"]}
    entered = site.entered(f"namespace.{namespace}")
    number = len(there)
    demand(answers <= number <= answers + workers, f"{namespace}: {number} {what} are there; {answers} were created")
    uncounted = len(there - entered) if case == "limited" else len(entered)
    demand(uncounted == 0, f"{namespace}: of {number} {what} {len(entered)} are in a ledger, {uncounted} wrongly")
    if case == "intree":
        status = site.plane.raw("GET", f"{kind.quota}/in-tree")[1]["status"]
        used = int(parse_quantity(status["used"][kind.limited])) // GPUS
        demand(used >= number, f"{namespace}: the ResourceQuota counts {used} {what}; {number} are there")


if __name__ == "__main__":
    main()
