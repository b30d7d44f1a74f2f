"""Pods created per second through a real API server: with the product, without a webhook, and beside its peers.

    python -m tests.benchmarks.through_apiserver

Needs wrk and a control plane (KUBEBUILDER_ASSETS). Rounds are interleaved; medians are printed. After them the bursts:
500 creates at once, twice, then 32.
"""

import base64
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.benchmarks.cluster import write_policies
from tests.benchmarks.peers import cel_policies
from tests.benchmarks.served import Served, minimal, product, serve
from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane

HERE = Path(__file__).parent
ROUNDS, SECONDS = 3, 5
WORKERS = (1, 8, 32)


def main() -> None:
    """Print the table and the bursts."""
    if reason := ControlPlane.missing():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        directory = Path(folder)
        plane = ControlPlane(directory)
        stack.callback(plane.stop)
        plane.start()
        print(f"Kubernetes {plane.version[0]}.{plane.version[1]}")
        plane.namespace("bench")
        plane.namespace("gpu-policy")
        write_policies(directory / "policies", 100)
        servers = {
            "product": stack.enter_context(
                serve(directory, "product", product(directory / "policies", f"--kubeconfig={plane.kubeconfig}"))
            ),
            "minimal": stack.enter_context(serve(directory, "minimal", minimal)),
        }
        cases: dict[str, Callable[[], Any]] = {"no webhook": _nothing}
        cases |= {name: lambda s=server: _registered(plane, directory, s) for name, server in servers.items()}
        if plane.version >= (1, 36):
            cases["CEL policies"] = lambda: _applied(plane, cel_policies())
        _table(plane, cases, servers)
        for name, case in cases.items():
            with case():
                figures = " ".join(_burst(plane, workers) for workers in (500, 500, 32))
                print(f"{'burst':>12}{name:>14}   {figures}", flush=True)
                _clean(plane)


def _table(plane: ControlPlane, cases: dict[str, Callable[[], Any]], servers: dict[str, Served]) -> None:
    header = ("creators", "case", "pods/s", "p50 ms", "p99 ms", "CPU ms/pod", "errors")
    print("".join(f"{title:>14}" for title in header))
    for workers in WORKERS:
        samples: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
        for _ in range(ROUNDS):
            for name, case in cases.items():
                with case():
                    samples[name].append(_load(plane, workers, servers.get(name)))
                    _clean(plane)
        for name, taken in samples.items():
            middle = {key: statistics.median(sample[key] for sample in taken) for key in taken[0]}
            errors = sum(sample["errors"] for sample in taken)
            print(
                f"{workers:>14}{name:>14}{middle['rate']:>14.0f}{middle['p50']:>14.1f}{middle['p99']:>14.1f}"
                f"{middle['cpu']:>14.2f}{errors:>14}",
                flush=True,
            )


def _load(plane: ControlPlane, workers: int, server: Served | None) -> dict[str, Any]:
    url = f"{plane.url}/api/v1/namespaces/bench/pods"
    script = ["-s", str(HERE / "create.lua"), url, "--", str(HERE / "pod.json"), "bench", plane.token]
    before = server.cpu_seconds() if server else 0.0
    command = ["wrk", "-t1", f"-c{workers}", f"-d{SECONDS}s", "--timeout", "30s", *script]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    result["rate"] = result["requests"] / result["seconds"]
    spent = server.cpu_seconds() - before if server else 0.0
    result["cpu"] = spent / max(result["requests"], 1) * 1000
    return result


def _burst(plane: ControlPlane, count: int) -> str:
    """Create `count` pods at once; the slowest in seconds and the number of errors."""
    template = (HERE / "pod.json").read_text().replace('"NS"', '"bench"')
    stamp = time.monotonic_ns()

    def create(number: int) -> tuple[float, bool]:
        body = json.loads(template.replace('"NAME"', f'"b-{stamp}-{number}"'))
        started = time.monotonic()
        status, _ = plane.raw("POST", "/api/v1/namespaces/bench/pods", body)
        return time.monotonic() - started, status == 201

    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(create, range(count)))
    slowest, errors = max(seconds for seconds, _ in results), sum(not ok for _, ok in results)
    return f"{count}: {slowest:.2f} s, {errors} errors;"


def _clean(plane: ControlPlane) -> None:
    plane.raw("DELETE", "/api/v1/namespaces/bench/pods?gracePeriodSeconds=0")


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _registered(plane: ControlPlane, directory: Path, server: Served) -> Iterator[None]:
    """Both configurations of deploy/ pointing at the server by Service reference."""
    plane.raw("DELETE", "/api/v1/namespaces/gpu-policy/services/gpu-policy")
    plane.webhook_service("gpu-policy", "gpu-policy", server.port)
    bundle = base64.b64encode((directory / "certs" / "ca.crt").read_bytes()).decode()
    objects = shipped()
    for entry in objects.entries:
        entry["clientConfig"]["caBundle"] = bundle
        entry["clientConfig"]["service"]["port"] = server.port
    with _applied(plane, objects.configurations):
        yield


@contextmanager
def _applied(plane: ControlPlane, objects: list[dict[str, Any]]) -> Iterator[None]:
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    time.sleep(2)
    yield
    plane.kubectl("delete", "-f", "-", input=yaml.safe_dump_all(objects))
    time.sleep(1)


if __name__ == "__main__":
    main()
