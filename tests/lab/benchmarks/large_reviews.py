"""Resident memory of a replica while reviews arrive that are made to take much of it, and how ordinary ones fare.

    python -m tests.lab.benchmarks.large_reviews [SECONDS]

Sixteen connections send the reviews of `BODIES` in turn, and one sends an ordinary review five times a second. Every
rule is enforced. With the name of a body instead of SECONDS, that body is sent three times, by one connection. Every
ordinary review has to be answered as it was before, by the same worker, and every large one has to have an answer.
"""

import json
import socket
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.build import pod, review
from tests.lab.benchmarks.cluster import nodes, write_policies
from tests.lab.benchmarks.runs import demand, head, row, sized
from tests.lab.benchmarks.served import Served, product, serve
from tests.server.serving import Client, request

SECONDS = sized(60.0, 1.0)
CONNECTIONS = sized(16, 2)
LARGEST = 7 * 2**20
PAUSE = 0.2
PATIENCE = 40.0
_GPU = {"limits": {"nvidia.com/gpu": 2, "memory": "1Gi"}}


def _pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "nvcr.io/a/b:1", "resources": _GPU}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def _packed(raw: dict[str, Any], *args: Any, **kwargs: Any) -> bytes:
    return json.dumps(review(raw, *args, **kwargs), separators=(",", ":")).encode()


def _padded(item: bytes) -> bytes:
    """A review with a list of as many of these as a body may hold."""
    before, after = _packed(_pod(hold=["HERE"])).split(b'"HERE"')
    count = (LARGEST - len(before) - len(after)) // (len(item) + 1)
    return before + b",".join([item] * count) + after


def _gpu_containers(count: int) -> list[dict[str, Any]]:
    return [{"name": f"c{number}", "resources": {"limits": {"nvidia.com/gpu": 1}}} for number in range(count)]


def _of_templates(count: int) -> bytes:
    container = {"name": "c", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    jobs = [{"template": {"spec": {"containers": [container]}}} for _ in range(count)]
    raw = {"apiVersion": "example.com/v1", "kind": "Sets", "metadata": {"name": "s"}, "spec": {"jobs": jobs}}
    return _packed(raw, kind=("example.com", "v1", "Sets"))


def _update(**spec: Any) -> bytes:
    return _packed(_pod(**spec), "UPDATE", old=_pod(**spec))


BODIES: dict[str, Callable[[], tuple[str, bytes]]] = {
    "empty": lambda: ("/mutate", _packed(_pod(containers=[{}] * 900_000))),
    "gpus": lambda: ("/mutate", _packed(_pod(containers=_gpu_containers(65_000)))),
    "thousands": lambda: ("/mutate", _packed(_pod(containers=_gpu_containers(12_000)))),
    "judged": lambda: ("/validate", _packed(_pod(containers=_gpu_containers(12_000)))),
    "maps": lambda: ("/validate", _padded(b'{"":0}')),
    "lists": lambda: ("/validate", _padded(b"[]")),
    "texts": lambda: ("/validate", _padded(b'"a"')),
    "env": lambda: ("/validate", _packed(_pod(containers=[{"name": "c", "env": [{"name": "a"}] * 450_000}]))),
    "tolerations": lambda: ("/validate", _update(tolerations=[{"key": f"k{n}"} for n in range(100_000)])),
    "volumes": lambda: ("/mutate", _packed(_pod(volumes=[{"name": f"v{n}"} for n in range(150_000)]))),
    "templates": lambda: ("/workloads", _of_templates(30_000)),
}


SENT = sized(tuple(BODIES), ("thousands", "judged"))
"""What the attack sends."""
ORDINARY = _packed(pod(1))


class _Run:
    """What happened: answers by status, and how many seconds each ordinary review took."""

    def __init__(self, server: Served, certificate: Path) -> None:
        self.server = server
        self.statuses: Counter[str] = Counter()
        self.ordinary: list[float] = []
        self.wrong: list[object] = []
        self.ended = threading.Event()
        self._trust = ssl.create_default_context(cafile=str(certificate))

    def client(self) -> Client:
        """A new connection."""
        sock = socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE)
        return Client(self._trust.wrap_socket(sock, server_hostname="127.0.0.1"))

    def send(self, name: str, path: str, body: bytes) -> None:
        """Send one large review."""
        try:
            client = self.client()
            client.send(request(f"{path}?timeout=10s", body, Content_Type="application/json"))
            status, _, answer = client.answer()
            client.sock.close()
        except (OSError, EOFError) as error:
            self.statuses[f"{name}: {type(error).__name__}"] += 1
            return
        code = json.loads(answer)["response"].get("status", {}).get("code", "allowed") if status == 200 else ""
        self.statuses[f"{name}: {status} {code}".rstrip()] += 1

    def attack(self, prepared: list[tuple[str, str, bytes]], first: int) -> None:
        """Send large reviews until the end."""
        number = first
        while not self.ended.is_set():
            self.send(*prepared[number % len(prepared)])
            number += 1

    def behave(self) -> None:
        """Send ordinary reviews until the end."""
        expected = self.ask()
        while not self.ended.wait(PAUSE):
            before = time.monotonic()
            found = self.ask()
            self.ordinary.append(time.monotonic() - before)
            if found != expected:
                self.wrong.append(found)

    def ask(self) -> object:
        """What is answered to an ordinary review: status and body, or the error."""
        try:
            client = self.client()
            status, _, answer = client.ask("/validate?timeout=5s", ORDINARY, Content_Type="application/json")
            client.sock.close()
        except (OSError, EOFError) as error:
            return str(error)
        return status, answer


def main() -> None:
    """Print memory and answers."""
    argument = sys.argv[1] if len(sys.argv) > 1 else str(SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_policies(directory / "policies", 10)
        inventory = directory / "inventory.json"
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes(100)}))
        with serve(directory, "server", product(directory / "policies", f"--inventory={inventory}")) as server:
            run = _Run(server, directory / "certs" / "ca.crt")
            if argument in BODIES:
                _alone(run, argument)
            else:
                _attacked(run, float(argument))


def _alone(run: _Run, name: str) -> None:
    path, body = BODIES[name]()
    for _ in range(3):
        before = time.monotonic(), run.server.cpu_seconds()
        run.send(name, path, body)
        took, cpu = time.monotonic() - before[0], run.server.cpu_seconds() - before[1]
        now, peak = run.server.rss_mib()[-1], run.server.peak_mib()
        print(
            f"{len(body) / 1e6:.1f} MB: {took:.2f} s, {cpu:.2f} s of CPU, {now:.0f} MiB, peak {peak:.0f} MiB; "
            f"{dict(run.statuses)}",
            flush=True,
        )


def _attacked(run: _Run, seconds: float) -> None:
    prepared = [(name, *BODIES[name]()) for name in SENT]
    at_rest, pids = run.server.rss_mib()[-1], run.server.pids
    first = run.ask()
    demand(isinstance(first, tuple) and first[0] == 200, f"an ordinary review was answered {first} before the attack")
    threads = [
        threading.Thread(target=run.attack, args=(prepared, number), daemon=True) for number in range(CONNECTIONS)
    ]
    threads.append(threading.Thread(target=run.behave, daemon=True))
    for thread in threads:
        thread.start()
    meanwhile = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(5.0, seconds))
        meanwhile.append(run.server.rss_mib()[-1])
    run.ended.set()
    for thread in threads:
        thread.join(PATIENCE)
    for status, count in sorted(run.statuses.items()):
        print(f"{count:>6} {status}")
    answered = f"{len(run.ordinary) - len(run.wrong)} of {len(run.ordinary)}"
    print()
    head("", "now")
    mib = f"{at_rest:.0f} MiB at rest, {min(meanwhile):.0f} to {max(meanwhile):.0f} meanwhile"
    waits = f"the median after {statistics.median(run.ordinary):.2f} s, the slowest after {max(run.ordinary):.2f} s"
    most = f"at most {run.server.peak_mib():.0f}"
    row(f"{seconds:g} s of {len(SENT)} kinds", f"{mib}, {most}; {answered} ordinary reviews answered, {waits}")
    demand(not run.wrong, f"{len(run.wrong)} ordinary reviews were answered otherwise than before: {run.wrong[:1]}")
    demand(pids == run.server.pids, "the worker that served the first review has ended")
    lost = [status for status in run.statuses if ": 200" not in status and ": 4" not in status and ": 5" not in status]
    demand(not lost, f"large reviews had no answer: {lost}")


if __name__ == "__main__":
    main()
