"""Resident memory of a replica: without a cluster, with connections left open, and following a real API server.

    python -m tests.lab.benchmarks.memory

Every connection has had one review answered. The last row needs a control plane (KUBEBUILDER_ASSETS). Every node has to
be created, and the replica to be ready; its answer has to show that it knows the nodes: the pod gets an expression that
keeps it from those it cannot run on.
"""

import base64
import json
import socket
import ssl
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.eventually import eventually
from tests.lab.benchmarks.answers import ask
from tests.lab.benchmarks.cluster import nodes, write_policies
from tests.lab.benchmarks.planes import control_plane
from tests.lab.benchmarks.runs import demand, head, row, sized
from tests.lab.benchmarks.served import Served, product, serve
from tests.server.serving import Client, request

REVIEW = Path(__file__).with_name("review-create-pod.json")
NODES = sized(5_000, 20)
CONNECTIONS = sized((300, 1_500), (20,))
"""What three API servers keep for four entries, and most of what a replica takes."""
SETTLED_SECONDS = sized(10, 0)
STEERED = b"nvidia.com/cuda.driver-version.full"


def main() -> None:
    """Print MiB of arbiter and worker for each."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_policies(directory / "policies", 100)
        inventory = directory / "inventory.json"
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes(10)}))
        head("", "arbiter", "worker")
        with serve(directory, "alone", product(directory / "policies", f"--inventory={inventory}")) as server:
            _row("without a cluster", server)
            with ExitStack() as held:
                for count in CONNECTIONS:
                    _hold(server, count, held)
                    _row(f"and {count:,} idle connections", server)
                    held.close()
        with control_plane() as plane:
            runtime_class, *machines = nodes(NODES)
            plane.raw("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class)
            with ThreadPoolExecutor(8) as pool:
                created = list(pool.map(lambda node: plane.raw("POST", "/api/v1/nodes", node)[0], machines))
            demand(created == [201] * NODES, f"{created.count(201)} of {NODES} nodes were created")
            with serve(
                directory, "live", product(directory / "policies", f"--kubeconfig={plane.kubeconfig}")
            ) as server:
                _row(f"following {NODES:,} nodes on a real API server", server)


def _hold(server: Served, count: int, held: ExitStack) -> None:
    """Open so many connections, with one review each, and leave them open."""
    trust = ssl.create_default_context(cafile=str(server.ca_file))
    review = request("/mutate", REVIEW.read_bytes(), Content_Type="application/json")
    for _ in range(count):
        plain = held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
        client = Client(held.enter_context(trust.wrap_socket(plain, server_hostname="127.0.0.1")))
        status = client.send(review).answer()[0]
        demand(status == 200, f"/mutate answered {status}; 200 is expected")


def _row(what: str, server: Served) -> None:
    eventually(lambda: ask(server, "GET", "/readyz").status == 200)
    time.sleep(SETTLED_SECONDS)
    arbiter, worker = server.rss_mib()
    row(what, f"{arbiter:.0f} MiB", f"{worker:.0f} MiB, at most {server.peak_mib():.0f}")
    response = ask(server, "POST", "/mutate", REVIEW.read_bytes()).response
    knows = STEERED in base64.b64decode(response.get("patch", ""))
    demand(knows, f"{what}: {response} for a pod that some nodes cannot run; an expression of {STEERED!r} is expected")


if __name__ == "__main__":
    main()
