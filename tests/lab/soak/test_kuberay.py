"""KubeRay's own operator beside our quotas: `go install github.com/ray-project/kuberay/ray-operator@v1.4.2`."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Daemon
from tests.e2e.eventually import eventually
from tests.e2e.load_balancer import free_ports
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import pods
from tests.e2e.quota_site import QuotaSite
from tests.lab.soak.test_kueue import module_of

OPERATOR = shutil.which("ray-operator")
API = "/apis/ray.io/v1"


@pytest.fixture
def namespace(quotas: QuotaSite, make_namespace: Callable[[str], str], tmp_path: Path) -> Iterator[str]:
    """A namespace with a quota of 4 GPUs, in which the operator runs RayClusters."""
    if OPERATOR is None:
        pytest.skip("no ray-operator here; go install github.com/ray-project/kuberay/ray-operator@v1.4.2")
    plane, ports, namespace = quotas.plane, free_ports(2), make_namespace("few")
    plane.kubectl("apply", "--server-side", "-f", str(module_of(OPERATOR) / "config/crd/bases"))
    for kind in ("rayclusters", "rayjobs", "rayservices"):
        eventually(lambda kind=kind: plane.raw("GET", f"{API}/{kind}")[0] == 200)
    addresses = zip(("metrics-addr", "health-probe-bind-address"), ports, strict=True)
    options = [f"--{option}=127.0.0.1:{port}" for option, port in addresses]
    options += ["--enable-leader-election=false", f"--watch-namespace={namespace}", f"--kubeconfig={plane.kubeconfig}"]
    daemon = Daemon([OPERATOR, *options], log=tmp_path / "kuberay.log")
    try:
        yield namespace
    finally:
        daemon.stop()


def ray_cluster(name: str, workers: int) -> dict[str, Any]:
    """A head without GPUs, and workers with two each."""
    head, worker = ({"spec": gpu_pod("", gpus)["spec"]} for gpus in (0, 2))
    group = {"groupName": "gpus", "replicas": workers, "minReplicas": workers, "maxReplicas": workers}
    spec = {
        "headGroupSpec": {"rayStartParams": {}, "template": head},
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": worker}],
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}


def test_the_workers_of_a_ray_cluster_start_together_or_not_at_all(
    quotas: QuotaSite, namespace: str, tmp_path: Path
) -> None:
    plane, path = quotas.plane, f"{API}/namespaces/{namespace}/rayclusters"

    def workers(name: str) -> int:
        found = [one["metadata"]["labels"] for one in pods(plane, namespace)]
        return sum(one.get("ray.io/cluster") == name and one.get("ray.io/node-type") == "worker" for one in found)

    assert plane.raw("POST", path, ray_cluster("first", 2))[0] == 201
    eventually(lambda: workers("first") == 2)
    assert plane.raw("POST", path, ray_cluster("large", 3))[0] == 201
    eventually(lambda: "RayCluster large needs 6 GPUs for 3 pods together" in (tmp_path / "kuberay.log").read_text())
    assert plane.raw("POST", path, ray_cluster("second", 2))[0] == 201
    eventually(lambda: "RayCluster second needs 4 GPUs for 2 pods together" in (tmp_path / "kuberay.log").read_text())
    assert (workers("large"), workers("second"), len(quotas.entered(f"namespace.{namespace}"))) == (0, 0, 2)
    plane.raw("DELETE", f"{path}/first")
    for one in pods(plane, namespace):
        if one["metadata"]["labels"]["ray.io/cluster"] == "first":
            plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods/{one['metadata']['name']}?gracePeriodSeconds=0")
    eventually(lambda: workers("second") == 2)
    assert (workers("large"), len(quotas.entered(f"namespace.{namespace}"))) == (0, 2)
