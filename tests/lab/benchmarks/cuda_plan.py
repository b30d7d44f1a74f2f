"""Plans of a driver upgrade for 10,000 pods and 2,000 workloads: of a real API server, and of an inventory file.

    python -m tests.lab.benchmarks.cuda_plan

Needs a control plane (KUBEBUILDER_ASSETS). The cluster is that of the audit's benchmark. In the inventory every pod has
GPUs, each Deployment is another one, and 500 nodes are of some hundred kinds, a third of the workloads choose nodes by
labels about the driver. Every plan has to have all workloads with GPUs and all GPUs in use.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from tests.e2e.control_plane import ControlPlane
from tests.lab.benchmarks.audit import Run, filled, run_at_once
from tests.lab.benchmarks.audited_cluster import gpu_workloads
from tests.lab.benchmarks.planes import control_plane, named
from tests.lab.benchmarks.runs import demand, head, row, sized
from tests.upgrades.generated import DRIVERS, cluster, spec_of

ROUNDS = sized(3, 1)
NODES, WORKLOADS, REPLICAS = sized((500, 2_000, 5), (20, 20, 2))
POLICY = {
    "apiVersion": "gpupolicy.dev/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "_default"},
    "spec": {
        "rules": {
            "tolerations": {"mode": "enforce"},
            "cudaDriver": {"mode": "enforce", "images": {"registry.example.com/team/*": "12.4"}},
        }
    },
}

RUNNING = {"phase": "Running"}

Raw = dict[str, Any]


def main() -> None:
    """Print the table."""
    with control_plane() as plane:
        folder = plane.directory / "plans"
        (folder / "policies").mkdir(parents=True)
        (folder / "policies" / "_default.yaml").write_text(json.dumps(POLICY))
        gpus = write_inventory(folder / "inventory.json")
        filled(plane)
        print(f"{named(plane)}: {WORKLOADS:,} workloads of {REPLICAS} pods in an inventory\n", flush=True)
        _table(plane, folder, gpus)


def _table(plane: ControlPlane, folder: Path, gpus: int) -> None:
    of_cluster = ["--cluster", f"--kubeconfig={plane.kubeconfig}", f"--policies={folder / 'policies'}"]
    of_file = [f"--inventory={folder / 'inventory.json'}"]
    some = ["--set=example.com/pool=gpu=595.71.05"]
    every = [f"--set=pool in (a,b)={DRIVERS[4]}"]
    rows: dict[str, tuple[list[str], tuple[int, int]]] = {
        "a cluster": ([*of_cluster, *some], gpu_workloads()),
        "a cluster, with --matrix": ([*of_cluster, *some, "--matrix"], gpu_workloads()),
        "an inventory": ([*of_file, *every], (WORKLOADS, gpus)),
        "an inventory, with --matrix": ([*of_file, *every, "--matrix"], (WORKLOADS, gpus)),
    }
    taken: dict[str, list[Run]] = {name: [] for name in rows}
    for _ in range(ROUNDS):
        for name, (options, expected) in rows.items():
            output = folder / "plan.json"
            command = [sys.executable, "-m", "webhook", "cuda", "plan", "--format=json", f"--output={output}", *options]
            taken[name] += run_at_once(plane, [command], may_fail=True)
            _demand_all(name, json.loads(output.read_text()), expected)
            output.unlink()
    head("A plan of", "seconds", "CPU, s", "peak, MiB", "calls")
    for name, runs in taken.items():
        middle = {key: statistics.median(getattr(run, key) for run in runs) for key in ("seconds", "cpu", "calls")}
        peak = max(run.peak for run in runs)
        row(name, f"{middle['seconds']:.1f}", f"{middle['cpu']:.1f}", f"{peak:.0f}", f"{middle['calls']:.0f} lists")


def _demand_all(name: str, plan: Raw, expected: tuple[int, int]) -> None:
    found = len(plan["workloads"]), sum(one["gpus"] for one in plan["workloads"])
    demand(found == expected, f"{name}: workloads and GPUs are {found}; expected are {expected}")
    demand(not plan["errors"], f"{name}: {plan['errors'][:1]} could not be read")


def write_inventory(path: Path) -> int:
    """Write the inventory, and return the GPUs of its pods."""
    random = Random(7)
    found = cluster(7, nodes=NODES, workloads=0)
    specs = [spec_of(random, has_claims=False) for _ in range(WORKLOADS)]
    items = [*found.nodes, *found.slices, *(one for at, spec in enumerate(specs) for one in _objects(at, spec))]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return REPLICAS * sum(int(spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]) for spec in specs)


def _objects(at: int, spec: Raw) -> Iterator[Raw]:
    """A Deployment, its ReplicaSet and its pods."""
    body = {
        "replicas": REPLICAS,
        "selector": {"matchLabels": {"app": f"d{at}"}},
        "template": {"metadata": {"labels": {"app": f"d{at}"}}, "spec": spec},
    }
    team = f"team-{at % 50}"
    top = _object("apps/v1", "Deployment", f"d{at}", team, spec=body)
    made = _object("apps/v1", "ReplicaSet", f"d{at}-x", team, spec=body, owner=top)
    yield from (top, made)
    for number in range(REPLICAS):
        placed = {**spec, "nodeName": f"n{(at * REPLICAS + number) % NODES}"}
        yield {**_object("v1", "Pod", f"d{at}-x-{number}", team, spec=placed, owner=made), "status": RUNNING}


def _object(  # what every object has
    version: str, kind: str, name: str, namespace: str, *, spec: Raw, owner: Raw | None = None
) -> Raw:
    metadata: Raw = {"name": name, "namespace": namespace, "uid": str(uuid5(NAMESPACE_URL, f"{kind}/{name}"))}
    if owner is not None:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        metadata["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"], "controller": True}]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


if __name__ == "__main__":
    main()
