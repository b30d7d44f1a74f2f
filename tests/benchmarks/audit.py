"""An audit of 10,000 pods and 2,000 workloads on a real API server: how long it takes, and what it costs whom.

    python -m tests.benchmarks.audit

Needs a control plane (KUBEBUILDER_ASSETS). The objects are created without controllers, so that they stay as they are.
Rows: the command itself, the same twice at once, and nothing but reading. Medians of several rounds; the least and the
most in brackets.
"""

import json
import multiprocessing
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.audited_cluster import NAMESPACES, PODS, WORKLOADS, fill
from tests.benchmarks.cluster import write_policies
from tests.e2e.control_plane import ControlPlane
from webhook.audit.cluster_objects import ClusterObjects, Scope
from webhook.cluster.api_server import ApiServer

ROUNDS = 3
SETTLED_SECONDS = 2


@dataclass(frozen=True)
class Run:
    """One process, and what the API server had to do for it meanwhile. Memory is in MiB, time in seconds."""

    seconds: float
    cpu: float
    peak: float
    calls: float
    server_cpu: float


def main() -> None:
    """Print the table."""
    if reason := ControlPlane.missing():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        plane = ControlPlane(directory)
        try:
            plane.start()
            policies = directory / "policies"
            write_policies(policies, NAMESPACES)
            begun = time.monotonic()
            size = _filled(plane)
            print(
                f"Kubernetes {plane.version[0]}.{plane.version[1]}: {PODS} pods of {size / 1024:.1f} KiB, "
                f"{WORKLOADS} workloads, {NAMESPACES} namespaces; created in {time.monotonic() - begun:.0f} s",
                flush=True,
            )
            _table(plane, policies, directory / "report")
        finally:
            plane.stop()


def _filled(plane: ControlPlane) -> int:
    """Fill the cluster from a process of its own: what this one has had in memory would count as its children's."""
    process = multiprocessing.get_context("fork")
    receiver, sender = process.Pipe(duplex=False)
    filling = process.Process(target=lambda: sender.send(fill(plane)))
    filling.start()
    size: int = receiver.recv()
    filling.join()
    return size


def _table(plane: ControlPlane, policies: Path, report: Path) -> None:
    def audit(number: int = 0) -> list[str]:
        options = [f"--kubeconfig={plane.kubeconfig}", f"--policies={policies}", f"--output={report}-{number}.json"]
        return [sys.executable, "-m", "webhook", "audit", "--cluster", "--format=json", "--fail-on=never", *options]

    reading = [sys.executable, "-m", "tests.benchmarks.audit", str(plane.kubeconfig)]
    rows: dict[str, Callable[[], list[list[str]]]] = {
        "audit": lambda: [audit()],
        "two audits at once": lambda: [audit(1), audit(2)],
        "reading alone": lambda: [reading],
    }
    taken: dict[str, list[Run]] = {name: [] for name in rows}
    for _ in range(ROUNDS):
        for name, commands in rows.items():
            time.sleep(SETTLED_SECONDS)
            taken[name] += _run(plane, commands())
    titles = ("seconds", "CPU", "peak MiB", "API calls", "API server CPU")
    print("".join(f"{title:>24}" for title in ("", *titles)))
    for name, runs in taken.items():
        columns = zip(*((r.seconds, r.cpu, r.peak, r.calls, r.server_cpu) for r in runs), strict=True)
        print(f"{name:>24}" + "".join(f"{_spread(column):>24}" for column in columns), flush=True)
    print("API server, resident now:", f"{_metric(plane, 'process_resident_memory_bytes') / 2**20:.0f} MiB")
    counts = json.loads(Path(f"{report}-0.json").read_text()).get("counts")
    print("the report counts", counts, f"in {Path(f'{report}-0.json').stat().st_size / 2**20:.1f} MiB")


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def _run(plane: ControlPlane, commands: list[list[str]]) -> list[Run]:
    """Run them at the same time. What the API server did is shared out evenly."""
    calls, server_cpu = _calls(plane), _metric(plane, "process_cpu_seconds_total")
    begun = time.monotonic()
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    ended = []
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, process.args
        ended.append((time.monotonic() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    calls = (_calls(plane) - calls) / len(commands)
    server_cpu = (_metric(plane, "process_cpu_seconds_total") - server_cpu) / len(commands)
    return [Run(seconds, cpu, peak, calls, server_cpu) for seconds, cpu, peak in ended]


def _calls(plane: ControlPlane) -> float:
    """Lists so far, except of what the API server reads for itself."""
    own = re.compile(
        r'resource="(pods|podtemplates|replicationcontrollers|[a-z]+sets|deployments|jobs|cronjobs|nodes)"'
    )
    return _metric(
        plane, "apiserver_request_total", lambda labels: 'verb="LIST"' in labels and bool(own.search(labels))
    )


def _metric(plane: ControlPlane, name: str, is_wanted: Callable[[str], bool] = lambda _labels: True) -> float:
    status, text = plane.raw("GET", "/metrics")
    assert status == 200, text
    found = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", str(text), re.MULTILINE)
    return sum(float(value) for labels, value in found if is_wanted(labels))


def read(kubeconfig: str) -> None:
    """Read all objects and keep none."""
    objects = ClusterObjects(ApiServer(kubeconfig), Scope(), lambda _progress: None)
    count = sum(1 for _ in objects)
    print(count, objects.calls, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    if sys.argv[1:]:
        read(sys.argv[1])
    else:
        main()
