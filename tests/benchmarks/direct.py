"""Load on the running server over TLS, beside a minimal Flask application in the same run.

    python -m tests.benchmarks.direct

Needs wrk. Bounded: SECONDS for each of the lines printed.
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.benchmarks.cluster import nodes, write_policies
from tests.benchmarks.served import Served, minimal, product, serve
from webhook.cluster.inventory import load_inventory
from webhook.engine import complete
from webhook.policy.loader import load

HERE = Path(__file__).parent
REVIEW = HERE / "review-create-pod.json"
ROUNDS, SECONDS = 3, 3
CONNECTIONS = (1, 8, 32, 100)


def main() -> None:
    """Print a table of both servers, both phases, kept-alive and new connections; medians of interleaved rounds."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        write_policies(directory / "policies", 100)
        inventory = directory / "inventory.json"
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes(100)}))
        command = product(directory / "policies", f"--inventory={inventory}")
        servers = {
            "product": stack.enter_context(serve(directory, "product", command)),
            "minimal": stack.enter_context(serve(directory, "minimal", minimal)),
        }
        bodies = {"mutate": REVIEW, "validate": _completed(directory, inventory)}
        print(f"RSS MiB (arbiter, worker): {_memory(servers)}")
        header = ("connections", "phase", "server", "reviews/s", "p50 ms", "p99 ms", "CPU ms/review", "errors", "ratio")
        print("".join(f"{title:>14}" for title in header))
        for connections in CONNECTIONS:
            for kept in (True, False):
                for phase in ("mutate", "validate"):
                    _compare(servers, connections, phase, bodies[phase], kept=kept)
        print(f"RSS MiB (arbiter, worker): {_memory(servers)}")


def _completed(directory: Path, inventory: Path) -> Path:
    """The review of the validating phase: the same pod, completed."""
    review = json.loads(REVIEW.read_text())
    policy = load(directory / "policies").for_namespace(review["request"]["namespace"])
    review["request"]["object"] = complete(review["request"]["object"], policy, load_inventory(inventory)).object
    file = directory / "completed.json"
    file.write_text(json.dumps(review, separators=(",", ":")))
    return file


def _memory(servers: Mapping[str, Served]) -> str:
    return ", ".join(f"{name} {' + '.join(f'{mib:.0f}' for mib in s.rss_mib())}" for name, s in servers.items())


def _compare(servers: Mapping[str, Served], connections: int, phase: str, body: Path, *, kept: bool) -> None:
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, server in servers.items():
            samples[name].append(_load(server, connections, phase, body, kept=kept))
    label = f"{connections} {'kept' if kept else 'new'}"
    rates = {name: statistics.median(s["rate"] for s in taken) for name, taken in samples.items()}
    for name, taken in samples.items():
        middle = {key: statistics.median(sample[key] for sample in taken) for key in taken[0]}
        ratio = rates[name] / rates["minimal"]
        print(
            f"{label:>14}{phase:>14}{name:>14}{middle['rate']:>14.0f}"
            f"{middle['p50']:>14.2f}{middle['p99']:>14.2f}{middle['cpu']:>14.3f}"
            f"{sum(sample['errors'] for sample in taken):>14}{ratio:>14.2f}",
            flush=True,
        )


def _load(server: Served, connections: int, phase: str, body: Path, *, kept: bool) -> dict[str, Any]:
    script = [str(HERE / "review.lua"), f"{server.url}/{phase}", "--", str(body), *([] if kept else ["close"])]
    before = server.cpu_seconds()
    done = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "--timeout", "5s", "-s", *script],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    result["rate"] = result["requests"] / result["seconds"]
    result["cpu"] = (server.cpu_seconds() - before) / max(result["requests"], 1) * 1000
    return result


if __name__ == "__main__":
    main()
