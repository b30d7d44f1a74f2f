"""Kueue's own controller beside our quotas: `go install sigs.k8s.io/kueue/cmd/kueue@v0.19.0`."""

import base64
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificate_files import CertificateFiles
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import Daemon
from tests.e2e.eventually import eventually
from tests.e2e.load_balancer import free_ports
from tests.e2e.objects import deployment, gpu_pod
from tests.e2e.quota_fixtures import pods
from tests.e2e.quota_site import QuotaSite

KUEUE = shutil.which("kueue")
API = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE = "kueue.x-k8s.io/queue-name"
KINDS = {"workload", "clusterqueue", "resourceflavor", "deployment", "job", "pod"}
"""The kinds whose webhooks of Kueue are registered."""

_PRIVATE_ETC = """
cp -a /etc "$0/etc"
mkdir -p "$0/etc/kueue/metrics/certs"
cp "$0/tls.crt" "$0/tls.key" "$0/etc/kueue/metrics/certs"
mount --bind "$0/etc" /etc
exec "$@"
"""
"""Starts Kueue with an /etc of its own: it takes the certificate of its metrics from there and from nowhere else."""


def module_of(program: str) -> Path:
    """The folder of the module that a program was built from."""
    lines = subprocess.run(["go", "version", "-m", program], check=True, capture_output=True, text=True).stdout
    name, version = next(line.split()[1:3] for line in lines.splitlines() if line.split()[:1] == ["mod"])
    cache = subprocess.run(["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True).stdout.strip()
    return Path(cache) / f"{name}@{version}"


def parts() -> Path:
    return module_of(str(KUEUE)) / "config/components"


def webhooks(port: int, bundle: str) -> Iterator[dict[str, Any]]:
    for raw in yaml.safe_load_all((parts() / "webhook/manifests.yaml").read_text()):
        kept = [one for one in raw["webhooks"] if one["name"].removesuffix(".kb.io")[1:] in KINDS]
        for one in kept:
            path = one["clientConfig"]["service"]["path"]
            one["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
            one["namespaceSelector"] = {"matchLabels": {"queued": "yes"}}
            if one["rules"][0]["apiGroups"] == ["kueue.x-k8s.io"]:
                del one["namespaceSelector"]
        yield {**raw, "metadata": {"name": f"kueue-{raw['kind'].lower()}"}, "webhooks": kept}


@pytest.fixture
def queued(quotas: QuotaSite, make_namespace: Callable[[str], str], tmp_path: Path) -> Iterator[str]:
    """A namespace with a quota of 4 GPUs and a queue whose ClusterQueue admits 8."""
    if KUEUE is None:
        pytest.skip("no kueue here; go install sigs.k8s.io/kueue/cmd/kueue@v0.19.0")
    plane, (port, health) = quotas.plane, free_ports(2)
    plane.kubectl("apply", "--server-side", "-f", str(parts() / "crd/bases"))
    for kind in (
        "workloads",
        "clusterqueues",
        "localqueues",
        "resourceflavors",
        "admissionchecks",
        "cohorts",
        "topologies",
    ):
        eventually(lambda kind=kind: plane.raw("GET", f"{API}/{kind}")[0] == 200)
    files = CertificateFiles(tmp_path / "certs", ["127.0.0.1"])
    for name, file in (("tls.crt", files.cert_file), ("tls.key", files.key_file)):
        shutil.copy(file, tmp_path / name)
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(tmp_path)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": ["batch/job", "pod", "deployment"]},
    }
    (tmp_path / "kueue.yaml").write_text(yaml.safe_dump(configuration))
    if plane.raw("GET", "/api/v1/namespaces/kueue-system")[0] == 404:
        plane.namespace("kueue-system")
    argv = [KUEUE, f"--config={tmp_path / 'kueue.yaml'}", f"--kubeconfig={plane.kubeconfig}"]
    daemon = Daemon(
        ["/usr/bin/unshare", "-m", "sh", "-ec", _PRIVATE_ETC, str(tmp_path), *argv], log=tmp_path / "kueue.log"
    )
    bundle = base64.b64encode(files.ca_file.read_bytes()).decode()
    registered = yaml.safe_dump_all(list(webhooks(port, bundle)))
    namespace = make_namespace("few")
    try:
        plane.kubectl("label", "namespace", namespace, "queued=yes")
        plane.kubectl("apply", "-f", "-", input=registered)
        resources = [{"name": "nvidia.com/gpu", "nominalQuota": 8}, {"name": "cpu", "nominalQuota": 100}]
        resources.append({"name": "memory", "nominalQuota": "1000Gi"})
        group = {"coveredResources": [one["name"] for one in resources]}
        group["flavors"] = [{"name": "default", "resources": resources}]
        objects = {
            "ResourceFlavor": {"metadata": {"name": "default"}},
            "ClusterQueue": {
                "metadata": {"name": namespace},
                "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
            },
            "LocalQueue": {"metadata": {"name": "main", "namespace": namespace}, "spec": {"clusterQueue": namespace}},
        }
        for kind, raw in objects.items():
            written = yaml.safe_dump({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **raw})
            eventually(lambda text=written: not plane.kubectl("apply", "-f", "-", input=text, check=False).returncode)
        yield namespace
    finally:
        plane.kubectl("delete", "-f", "-", input=registered)
        for raw in pods(plane, namespace):
            path = f"/api/v1/namespaces/{namespace}/pods/{raw['metadata']['name']}"
            plane.raw("PATCH", path, {"metadata": {"finalizers": None}})
        daemon.stop()


def labelled(raw: dict[str, Any]) -> dict[str, Any]:
    raw["metadata"]["labels"] = {**raw["metadata"].get("labels", {}), QUEUE: "main"}
    return raw


def started(plane: ControlPlane, namespace: str) -> set[str]:
    return {one["metadata"]["name"] for one in pods(plane, namespace) if not one["spec"].get("schedulingGates")}


def test_pods_of_a_queue_start_while_the_quota_has_room(quotas: QuotaSite, queued: str) -> None:
    plane = quotas.plane
    path = f"/api/v1/namespaces/{queued}/pods"
    for number in range(3):
        raw = labelled(gpu_pod(f"queued-{number}", 2))
        eventually(lambda raw=raw: plane.raw("POST", path, raw)[0] == 201)
    eventually(lambda: len(started(plane, queued)) == 2)
    assert len(quotas.entered(f"namespace.{queued}")) == 2
    (waiting,) = {f"queued-{number}" for number in range(3)} - started(plane, queued)
    first = min(started(plane, queued))
    plane.raw("PATCH", f"{path}/{first}", {"metadata": {"finalizers": None}})
    plane.raw("DELETE", f"{path}/{first}?gracePeriodSeconds=0")
    plane.raw("PATCH", f"{path}/{waiting}", {"metadata": {"annotations": {"example.com/nudge": "1"}}})
    eventually(lambda: waiting in started(plane, queued))
    eventually(lambda: len(quotas.entered(f"namespace.{queued}")) == 2)


def test_jobs_and_deployments_of_a_queue_use_no_more_than_the_quota(
    cluster: ControlPlane, quotas: QuotaSite, queued: str
) -> None:
    """The pods of a Job are a group; each pod of a Deployment has a Workload of its own."""
    plane = cluster
    template = {"spec": gpu_pod("", 1)["spec"] | {"restartPolicy": "Never"}}
    job = {"metadata": {"name": "job"}, "spec": {"parallelism": 3, "completions": 3, "template": template}}
    web = deployment("web", gpu_pod("", 1))
    web["spec"]["replicas"] = 3
    assert plane.raw("POST", f"/apis/batch/v1/namespaces/{queued}/jobs", labelled(job))[0] == 201
    assert plane.raw("POST", f"/apis/apps/v1/namespaces/{queued}/deployments", labelled(web))[0] == 201

    def of_job() -> int:
        return sum(name.startswith("job-") for name in started(plane, queued))

    eventually(lambda: (len(started(plane, queued)), of_job()) in {(4, 3), (3, 0)})
    eventually(lambda: len(quotas.entered(f"namespace.{queued}")) == len(started(plane, queued)))
    assert (len(started(plane, queued)), of_job()) in {(4, 3), (3, 0)}


def test_a_group_of_a_queue_starts_whole_or_not_at_all(quotas: QuotaSite, queued: str, tmp_path: Path) -> None:
    """The queue has room for both groups, the quota for the smaller one."""
    plane = quotas.plane

    def make(name: str, size: int) -> None:
        for number in range(size):
            raw = labelled(gpu_pod(f"{name}-{number}", 2))
            raw["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = name
            raw["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(size)}
            eventually(lambda raw=raw: plane.raw("POST", f"/api/v1/namespaces/{queued}/pods", raw)[0] == 201)

    make("large", 3)
    eventually(lambda: "Workload large needs 6 GPUs for 3 pods together" in (tmp_path / "kueue.log").read_text())
    assert (started(plane, queued), quotas.entered(f"namespace.{queued}")) == (set(), set())
    plane.raw("DELETE", f"{API}/namespaces/{queued}/workloads/large")
    for number in range(3):
        path = f"/api/v1/namespaces/{queued}/pods/large-{number}"
        plane.raw("PATCH", path, {"metadata": {"finalizers": None}})
        plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")
    make("small", 2)
    eventually(lambda: len(started(plane, queued)) == 2)
    assert len(quotas.entered(f"namespace.{queued}")) == 2
