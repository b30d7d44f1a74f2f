"""A release is upgraded and rolled back by the real helm while pods keep coming: each of them is judged."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from deploy.generate import CHART, helm
from tests.deploy.manifests import needs_helm, rendered
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kept_certificates import POLICIES
from tests.e2e.load_balancer import free_ports
from tests.e2e.objects import gpu_pod
from tests.e2e.replica_set import Replica

NAME, NAMESPACE = "gpu-policy", "upgraded"
CRDS = ("gpuquotas.gpupolicy.dev", "gpupolicies.gpupolicy.dev")
TENANT = "judged-upgrade"


@contextmanager
def judged_all_the_time(plane: ControlPlane) -> Iterator[list[str]]:
    """Twenty pods a second, good and forbidden in turns; gives what was not answered as it should be."""
    wrong: list[str] = []
    ended = threading.Event()
    path = f"/api/v1/namespaces/{TENANT}/pods?dryRun=All"

    def create() -> None:
        number = 0
        while not ended.wait(0.05):
            number += 1
            gpus, expected = ((1, 201), (100, 403))[number % 2]
            status, answer = plane.raw("POST", path, gpu_pod(f"pod-{number}", gpus=gpus))
            if status != expected:
                wrong.append(f"{gpus} GPUs: {status} {answer}")
        assert number > 20, "hardly a pod came"

    thread = threading.Thread(target=create)
    thread.start()
    try:
        yield wrong
    finally:
        ended.set()
        thread.join()


@needs_helm
def test_upgrades_and_rollbacks_leave_no_gap(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With failurePolicy Fail a moment without trust would refuse, and one without a configuration would allow."""
    monkeypatch.setenv("HOME", str(control_plane.directory))
    plane = control_plane
    (port,) = free_ports(1)
    before = {
        "webhook": {
            "url": f"https://localhost:{port}",
            "mutate": {"failurePolicy": "Fail", "timeoutSeconds": 5},
            "validate": {"failurePolicy": "Fail", "timeoutSeconds": 5},
            "namespaceSelector": {"matchExpressions": [{"operator": "In", "values": [TENANT]}]},
        }
    }
    after = {
        "replicas": 5,
        "commonLabels": {"team": "platform"},
        "webhook": {
            **before["webhook"],
            "mutate": {"failurePolicy": "Fail", "timeoutSeconds": 3},
            "validate": {"failurePolicy": "Fail", "timeoutSeconds": 4},
            "labels": {"admissions.enforcer/disabled": "true"},
        },
    }
    plane.namespace(NAMESPACE)
    plane.namespace(TENANT)
    where = (f"--kubeconfig={plane.kubeconfig}", f"--namespace={NAMESPACE}")
    registration = tmp_path / "webhooks.yaml"
    registration.write_text(yaml.safe_dump_all(rendered(before).configurations))
    arguments = [
        f"--kubeconfig={plane.kubeconfig}",
        f"--certificate-secret={NAMESPACE}/gpu-policy-tls",
        f"--certificate-dir={tmp_path / 'tls'}",
        "--certificate-name=localhost",
        f"--registration={registration}",
    ]
    replica = Replica(tmp_path / "replica", port, POLICIES, arguments)
    plane.kubectl("delete", "crd", *CRDS, "--ignore-not-found")  # helm takes none over
    helm("install", NAME, str(CHART), "--values=-", *where, values=before)
    try:
        replica.start()
        path = f"/api/v1/namespaces/{TENANT}/pods?dryRun=All"
        eventually(lambda: plane.raw("POST", path, gpu_pod("early", gpus=100))[0] == 403)
        with judged_all_the_time(plane) as wrong:
            for values in (after, before, after):
                helm("upgrade", NAME, str(CHART), "--values=-", *where, values=values)
            helm("rollback", NAME, *where)
        assert wrong == []
    finally:
        helm("uninstall", NAME, *where)
        replica.kill()
