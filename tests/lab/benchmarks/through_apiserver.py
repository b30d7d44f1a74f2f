"""Pods created per second through a real API server: with the product, without a webhook, and beside CEL policies.

    python -m tests.lab.benchmarks.through_apiserver

Needs wrk and a control plane (KUBEBUILDER_ASSETS). Rounds are interleaved; medians are printed. After them the bursts:
500 creates at once, twice, then 32.

The product has the policies that it is shipped with, and no quota, since they have no number; to these come a hundred
namespaces with a file of their own, nodes of which some cannot run the pod, and their RuntimeClass. Every create has to
be answered 201, and every pod that is stored has to be what its case makes of it; the product has to count as many
decisions and no finding. A pod that a case should refuse is refused before it is measured.
"""

import json
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.lab.benchmarks.answers import counted, demand_counted
from tests.lab.benchmarks.apiserver_cases import Case, Raw, cases_of, demand_all
from tests.lab.benchmarks.cluster import SHIPPED, nodes, write_policies
from tests.lab.benchmarks.planes import control_plane, named
from tests.lab.benchmarks.runs import demand, head, need, row, sized
from tests.lab.benchmarks.served import Served, minimal, product, serve
from tests.lab.benchmarks.wrk import Load, Middle, Request, load, missing

TEMPLATE = Path(__file__).with_name("pod.json")
PODS = "/api/v1/namespaces/bench/pods"
ROUNDS, SECONDS = sized((3, 5), (1, 1))
WORKERS = sized((1, 8, 32), (8,))
BURSTS = sized((500, 500, 32), (20,))
NODES = 100
DECISIONS = {"mutate": "patched", "validate": "allowed"}


def main() -> None:
    """Print the table and the bursts."""
    need(missing())
    with control_plane() as plane, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        print(f"{named(plane)}\n")
        for name in ("bench", "gpu-policy"):
            plane.namespace(name)
        plane.webhook_service("gpu-policy", "gpu-policy", 443)
        _create_nodes(plane)
        policies = Path(folder) / "policies"
        write_policies(policies, 100, SHIPPED.read_text())
        started = {"product": product(policies, f"--kubeconfig={plane.kubeconfig}"), "minimal Flask": minimal}
        servers = {name: stack.enter_context(serve(Path(folder), name, one)) for name, one in started.items()}
        bench = Bench(plane, Path(folder) / "pod.json", servers["product"])
        cases = cases_of(plane, servers, policies, bench.base)
        _table(bench, cases)
        _bursts(bench, cases)


class Bench:
    """The namespace in which pods are created. `base` is the pod as it is stored when nobody changes it."""

    def __init__(self, plane: ControlPlane, file: Path, product: Served) -> None:
        self.plane, self._file, self._product = plane, file, product
        file.write_text(TEMPLATE.read_text().replace('"NS"', '"bench"'))
        status, base = plane.raw("POST", f"{PODS}?dryRun=All", self.pod("base"))
        demand(status == 201, f"the pod of this benchmark is refused: {base}")
        self.base: Raw = base

    def pod(self, name: str) -> Any:
        """The pod under a name of its own."""
        return json.loads(self._file.read_text().replace('"NAME"', json.dumps(name)))

    def load(self, case: Case, workers: int) -> Load:
        """Create pods with so many connections. wrk leaves as many creates unfinished, which may be stored or not."""
        run = f"p-{time.monotonic_ns()}"
        request = Request(f"{self.plane.url}{PODS}", self._file, run, self._headers)
        spent = case.server.cpu_seconds if case.server else lambda: 0.0
        before = self._counted(case)
        taken = load(request, workers, SECONDS, spent)
        self._demand(case, run, range(taken.answers, taken.answers + workers + 1), before)
        return taken

    def burst(self, case: Case, count: int) -> float:
        """Create so many pods at once; the slowest in seconds."""
        run = f"b-{time.monotonic_ns()}"
        before = self._counted(case)

        def create(number: int) -> tuple[float, int, object]:
            body = self.pod(f"{run}-{number}")
            started = time.monotonic()
            status, answer = self.plane.raw("POST", PODS, body)
            return time.monotonic() - started, status, answer

        with ThreadPoolExecutor(count) as pool:
            results = list(pool.map(create, range(count)))
        refused = [answer for _, status, answer in results if status != 201]
        demand(not refused, f"{case.name}: {len(refused)} of {count} creates were not answered 201: {refused[:1]}")
        self._demand(case, run, range(count, count + 1), before)
        return max(seconds for seconds, _, _ in results)

    def _demand(self, case: Case, run: str, counts: range, before: Counter[str] | None) -> None:
        """What was stored is what the case makes of it; afterwards the namespace is empty."""
        if before is not None:
            demand_counted(before, counted(self._product), DECISIONS, counts[0])
        pods = self.plane.raw("GET", PODS)[1]["items"]
        demand_all([pod for pod in pods if pod["metadata"]["name"].startswith(run)], case.expected, counts, case.name)
        self.plane.raw("DELETE", f"{PODS}?gracePeriodSeconds=0")

    def _counted(self, case: Case) -> Counter[str] | None:
        return counted(self._product) if case.server is self._product else None

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.plane.token}", "Accept": "application/json"}


def _create_nodes(plane: ControlPlane) -> None:
    runtime_class, *machines = nodes(NODES)
    created = [plane.raw("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class)[0]]
    created += [plane.raw("POST", "/api/v1/nodes", node)[0] for node in machines]
    demand(set(created) == {201}, f"{created.count(201)} of {NODES} nodes and a RuntimeClass were created")


def _table(bench: Bench, cases: list[Case]) -> None:
    head("Creators", "", "pods/s", "p50 / p99, ms", "webhook CPU, ms per pod")
    for workers in WORKERS:
        samples: dict[str, list[Load]] = {case.name: [] for case in cases}
        for _ in range(ROUNDS):
            for case in cases:
                with case.in_force(bench.plane):
                    samples[case.name].append(bench.load(case, workers))
        for case in cases:
            found = Middle.of(samples[case.name])
            cpu = f"{found.cpu:.2f}" if case.server else ""
            row(workers, case.name, f"{found.rate:,.0f}", f"{found.p50:.1f} / {found.p99:.0f}", cpu)


def _bursts(bench: Bench, cases: list[Case]) -> None:
    print("\nBursts, the slowest create of each\n")
    head("", *map(str, BURSTS))
    for case in cases:
        with case.in_force(bench.plane):
            row(case.name, *(f"{bench.burst(case, count):.2f} s" for count in BURSTS))


if __name__ == "__main__":
    main()
