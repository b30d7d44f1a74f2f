"""An audit of 10,000 pods and 2,000 workloads on a real API server: how long it takes, and what it costs whom.

    python -m tests.lab.benchmarks.audit

Needs a control plane (KUBEBUILDER_ASSETS). The objects are created without controllers, so that they stay as they are.
Rows: the command itself, the same twice at once, and nothing but reading. Medians of several rounds. Every audit has to
look at all objects and to find what is wrong with them, and reading has to read as many.
"""

import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.control_plane import ControlPlane
from tests.lab.benchmarks.audited_cluster import NAMESPACES, PODS, WORKLOADS, expected, fill
from tests.lab.benchmarks.cluster import write_policies
from tests.lab.benchmarks.planes import control_plane, named
from tests.lab.benchmarks.runs import demand, head, row, sized
from webhook.audit.cluster_objects import ClusterObjects, NamespaceScope
from webhook.kubernetes.api_server import ApiServer

ROUNDS, SETTLED_SECONDS = sized((3, 2), (1, 0))


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
    with control_plane() as plane:
        policies = plane.directory / "policies"
        write_policies(policies, NAMESPACES)
        begun = time.monotonic()
        size = filled(plane)
        print(
            f"{named(plane)}: {PODS:,} pods of {size / 1024:.1f} KiB, {WORKLOADS:,} workloads, "
            f"{NAMESPACES} namespaces; created in {time.monotonic() - begun:.0f} s\n",
            flush=True,
        )
        _table(plane, policies, plane.directory / "report")


def filled(plane: ControlPlane) -> int:
    """Fill the cluster from a process of its own: what this one has had in memory would count as its children's."""
    process = multiprocessing.get_context("fork")
    receiver, sender = process.Pipe(duplex=False)
    filling = process.Process(target=lambda: sender.send(fill(plane)))
    filling.start()
    size: int = receiver.recv()
    filling.join()
    return size


def _table(plane: ControlPlane, policies: Path, folder: Path) -> None:
    folder.mkdir()

    def audit(number: int = 0) -> list[str]:
        options = [f"--kubeconfig={plane.kubeconfig}", f"--policies={policies}", f"--output={folder}/{number}.json"]
        return [sys.executable, "-m", "webhook", "audit", "--cluster", "--format=json", "--fail-on=never", *options]

    reading = [sys.executable, "-m", "tests.lab.benchmarks.audit", str(plane.kubeconfig), str(folder / "read.json")]
    rows: dict[str, Callable[[], list[list[str]]]] = {
        "an audit": lambda: [audit()],
        "two at once, each": lambda: [audit(1), audit(2)],
        "reading alone": lambda: [reading],
    }
    taken: dict[str, list[Run]] = {name: [] for name in rows}
    for _ in range(ROUNDS):
        for name, commands in rows.items():
            time.sleep(SETTLED_SECONDS)
            taken[name] += run_at_once(plane, commands())
            _demand_counts(folder)
    head("", "seconds", "CPU, s", "CPU of the API server, s", "calls")
    for name, runs in taken.items():
        keys = ("seconds", "cpu", "server_cpu", "calls")
        middle = {key: statistics.median(getattr(run, key) for run in runs) for key in keys}
        seconds = (f"{middle[key]:.1f}" for key in keys[:3])
        row(name, *seconds, f"{middle['calls']:.0f} lists")
    peaks = ", ".join(f"{name} {max(run.peak for run in runs):.0f}" for name, runs in taken.items())
    print(f"\nMost memory, MiB: {peaks}")
    print(f"API server, resident now: {_metric(plane, 'process_resident_memory_bytes') / 2**20:.0f} MiB")


def _demand_counts(folder: Path) -> None:
    """What was written has counted everything; each file is looked at once."""
    files = list(folder.iterdir())
    demand(bool(files), "no audit wrote what it found")
    for file in files:
        found = json.loads(file.read_text())["counts"]
        right = {key: expected()[key] for key in found}
        demand(bool(found) and found == right, f"{file.stem}: counted are {found}; expected are {right}")
        file.unlink()


def run_at_once(plane: ControlPlane, commands: list[list[str]], *, may_fail: bool = False) -> list[Run]:
    """Run them at the same time. What the API server did is shared out evenly. `may_fail`: they may find faults."""
    calls, server_cpu = _calls(plane), _metric(plane, "process_cpu_seconds_total")
    begun = time.monotonic()
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    ended = []
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        demand(process.returncode in (0, int(may_fail)), f"{process.args} ended with status {process.returncode}")
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


def read(kubeconfig: str, output: str) -> None:
    """Read all objects and keep none; how many, is written."""
    count = sum(1 for _ in ClusterObjects(ApiServer(kubeconfig), NamespaceScope(), lambda _progress: None))
    Path(output).write_text(json.dumps({"counts": {"read": count}}))


if __name__ == "__main__":
    if sys.argv[1:]:
        read(*sys.argv[1:])
    else:
        main()
