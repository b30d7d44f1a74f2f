"""What a quota adds to the creation of a pod through a real API server, beside what the in-tree ResourceQuota adds.

    python -m tests.benchmarks.quota

Needs wrk, haproxy and a control plane (KUBEBUILDER_ASSETS). Every case has the same API server and the same replicas
behind the same load balancer; only the namespace is another one. Nothing is refused. Rounds are interleaved; medians
are printed, and their ratios to the namespace without a quota.
"""

import json
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.benchmarks.cluster import DEFAULT
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import NAMESPACE, SERVICE, Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.quota_site import QuotaSite

HERE = Path(__file__).parent
ROUNDS, SECONDS = 5, 3
WORKERS = (1, 8, 32)
REPLICAS = (1, 3)
PLENTY = 1_000_000
CASES = {"free": "no quota", "limited": "gpuQuota", "intree": "ResourceQuota"}
"""Namespaces, and what limits their pods."""


def main() -> None:
    """Print one table for each number of replicas."""
    if reason := ControlPlane.missing() or (None if HAPROXY else "no haproxy here; Debian's package is haproxy"):
        raise SystemExit(reason)
    for replicas in REPLICAS:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            directory = Path(folder)
            plane = ControlPlane(directory)
            stack.callback(plane.stop)
            plane.start()
            print(f"Kubernetes {plane.version[0]}.{plane.version[1]}, replicas: {replicas}", flush=True)
            _table(stack.enter_context(_site(plane, directory, replicas)))


def _site(plane: ControlPlane, directory: Path, replicas: int) -> QuotaSite:
    """Replicas that enforce every rule, and the namespaces of the cases."""
    for name in (NAMESPACE, "judged-probe", *CASES):
        plane.namespace(name)
    (directory / "installation").mkdir()
    installation = Installation(plane, directory / "installation")
    plane.webhook_service(NAMESPACE, SERVICE, installation.port)
    hard = {"requests.nvidia.com/gpu": str(PLENTY)}
    path = "/api/v1/namespaces/intree/resourcequotas"
    plane.raw("POST", path, {"metadata": {"name": "in-tree"}, "spec": {"hard": hard}})
    used = {"hard": hard, "used": {"requests.nvidia.com/gpu": "0"}}
    assert plane.raw("PATCH", f"{path}/in-tree/status", {"status": used})[0] == 200
    policies = {"_default.yaml": "\n".join(line for line in DEFAULT.splitlines() if "gpuQuota" not in line)}
    for name in CASES:
        quota = f"{{mode: enforce, gpus: {PLENTY}}}" if name == "limited" else "{mode: disabled}"
        head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\n"
        policies[f"{name}.yaml"] = f"{head}spec: {{rules: {{gpuQuota: {quota}}}}}\n"
    return QuotaSite(installation, directory, policies, in_flight_seconds=90, size=replicas, proxied=0)


def _table(site: QuotaSite) -> None:
    titles = ("creators", "limited by", "pods/s", "p50 ms", "p99 ms", "p50 ratio", "p99 ratio", "errors")
    print("".join(f"{title:>14}" for title in titles))
    for name in CASES:
        _load(site, name, WORKERS[-1])  # connections and caches as in a cluster that has been at it for a while
    for workers in WORKERS:
        samples: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
        for _ in range(ROUNDS):
            for name in CASES:
                samples[name].append(_load(site, name, workers))
        middle = {
            name: {key: statistics.median(sample[key] for sample in taken) for key in taken[0]}
            for name, taken in samples.items()
        }
        for name, row in middle.items():
            errors = sum(sample["errors"] for sample in samples[name])
            ratios = "".join(f"{row[key] / middle['free'][key]:>14.2f}" for key in ("p50", "p99"))
            print(
                f"{workers:>14}{CASES[name]:>14}{row['rate']:>14.0f}{row['p50']:>14.1f}{row['p99']:>14.1f}"
                f"{ratios}{errors:>14}",
                flush=True,
            )
        beside = [f"{middle['limited'][key] / middle['intree'][key]:.2f} x" for key in ("p50", "p99")]
        print(f"{'':>14}gpuQuota has {beside[0]} the p50 and {beside[1]} the p99 of ResourceQuota", flush=True)


def _load(site: QuotaSite, namespace: str, workers: int) -> dict[str, Any]:
    """Create pods for SECONDS, then have the namespace empty and its ledger too.

    wrk ends in the middle of its last requests, so the ledger keeps as many entries of pods that never came, for their
    time; those of earlier calls are among them.
    """
    before = len(site.entered(f"namespace.{namespace}"))
    plane = site.plane
    url = f"{plane.url}/api/v1/namespaces/{namespace}/pods"
    script = ["-s", str(HERE / "create.lua"), url, "--", str(HERE / "pod.json"), namespace, plane.token]
    command = ["wrk", "-t1", f"-c{workers}", f"-d{SECONDS}s", "--timeout", "30s", *script]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    result["rate"] = result["requests"] / result["seconds"]
    plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    eventually(lambda: len(site.entered(f"namespace.{namespace}")) <= before + workers)
    time.sleep(1)
    return result


if __name__ == "__main__":
    main()
