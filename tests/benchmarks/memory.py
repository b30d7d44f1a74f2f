"""Resident memory of a replica: without a cluster, and following a real API server with 5,000 nodes.

    python -m tests.benchmarks.memory

Needs a control plane (KUBEBUILDER_ASSETS).
"""

import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.cluster import nodes, write_policies
from tests.benchmarks.served import Served, product, serve
from tests.e2e.control_plane import ControlPlane

NODES = 5_000
SETTLED_SECONDS = 10


def main() -> None:
    """Print MiB of arbiter and worker for both."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        directory = Path(folder)
        write_policies(directory / "policies", 100)
        inventory = directory / "inventory.json"
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes(10)}))
        with serve(directory, "alone", product(directory / "policies", f"--inventory={inventory}")) as server:
            _print("without a cluster", server)
        if reason := ControlPlane.missing():
            raise SystemExit(reason)
        plane = ControlPlane(directory)
        stack.callback(plane.stop)
        plane.start()
        runtime_class, *machines = nodes(NODES)
        plane.raw("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class)
        with ThreadPoolExecutor(8) as pool:
            created = list(pool.map(lambda node: plane.raw("POST", "/api/v1/nodes", node)[0], machines))
        print(f"{created.count(201)} nodes created")
        with serve(directory, "live", product(directory / "policies", f"--kubeconfig={plane.kubeconfig}")) as server:
            time.sleep(SETTLED_SECONDS)
            _print(f"following {NODES} nodes", server)


def _print(what: str, server: Served) -> None:
    arbiter, worker = server.rss_mib()
    print(f"{what}: arbiter {arbiter:.0f} MiB, worker {worker:.0f} MiB (peak {server.peak_mib():.0f})", flush=True)


if __name__ == "__main__":
    main()
