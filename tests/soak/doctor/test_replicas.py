"""What replicas say of themselves reaches the doctor through the API server."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.doctor.breaks import (
    TEAM_A,
    assert_says,
    needs_address,
)
from tests.doctor.site import Site, said
from tests.e2e.control_plane import TENANT_TOKEN
from tests.e2e.daemon import Daemon
from tests.e2e.eventually import eventually
from tests.e2e.installation import COMMAND
from webhook.doctor.cluster import DoctorCluster
from webhook.doctor.doctor_report import Status
from webhook.kubernetes.api_server import ApiServer

pytestmark = pytest.mark.e2e


class Later(DoctorCluster):
    """The cluster a while after what happened in it."""

    def now(self) -> datetime:
        return super().now() + timedelta(minutes=10)


def later(site: Site) -> DoctorCluster:
    return Later(ApiServer(site.plane.kubeconfig))


@needs_address
def test_replicas_that_do_not_take_up_a_changed_policy_are_a_problem_after_a_while(site: Site) -> None:
    """Kubelets need a minute or two; only then is it a fault."""
    site.patch("ConfigMap", "gpu-policy-policies", {"data": {"team-a.yaml": TEAM_A}})
    assert_says(
        said(site.examined(), "replicas", Status.WARNING),
        "replicas serve different policies: gpu-policy-0",
        "look again",
    )
    (finding,) = said(site.examined(later(site)), "replicas", Status.PROBLEM)
    assert "gpu-policy-0, gpu-policy-1, gpu-policy-2: " in finding.found
    assert "kubectl -n gpu-policy rollout restart deployment/gpu-policy" in finding.remedy


@needs_address
def test_a_refused_reload_is_shown(site: Site) -> None:
    file = site.webhook.policies / "team-b.yaml"
    file.write_text("spec: {rules: {gpuLimit: {}}}")
    try:
        refused = "gpu-policy-1 refused the policies on disk"
        (found,) = eventually(
            lambda: [one for one in said(site.examined(), "replicas", Status.PROBLEM) if refused in one.found]
        )
    finally:
        file.unlink()
    assert "spec.rules.gpuLimit: unknown rule" in found.found
    assert "gpu-policy policy check" in found.remedy
    eventually(lambda: said(site.examined(), "replicas", Status.OK))


@needs_address
def test_a_replica_that_is_not_ready_says_why(site: Site, tmp_path: Path) -> None:
    """One that may not list nodes never becomes ready."""
    tenant = site.plane.kubeconfig_for(TENANT_TOKEN)
    site.stop()
    command = [f"--policies={site.webhook.policies}", f"--kubeconfig={tenant}", f"--port={site.webhook.port}"]
    files = [f"--cert={site.webhook.files.cert_file}", f"--key={site.webhook.files.key_file}"]
    unready = Daemon([*COMMAND, "serve", *command, *files], log=tmp_path / "webhook.log")
    try:
        why = "replica gpu-policy-0 is not ready: facts: not loaded yet (nodes: the API server answered 403"
        found = eventually(lambda: [f for f in said(site.examined(), "replicas") if why in f.found])
    finally:
        unready.stop()
        site.start()
    assert found[0].status is Status.PROBLEM
    assert found[0].remedy == "kubectl -n gpu-policy logs gpu-policy-0 --tail=50"


@needs_address
def test_replicas_that_cannot_be_asked_are_skipped_with_the_reason(site: Site) -> None:
    site.stop()
    try:
        found = said(site.examined(), "replicas")
    finally:
        site.start()
    assert [finding.status for finding in found] == [Status.SKIPPED] * 3
    assert "connection refused" in found[0].found


def test_without_pods_nobody_can_be_asked(site: Site) -> None:
    for pod in site.all("Pod"):
        site.delete("Pod", pod["metadata"]["name"])
    report = site.examined()
    assert [finding.found for finding in said(report, "replicas")] == [
        "no pod of the Deployment runs, so there is no replica to ask"
    ]
    assert [finding.status for finding in said(report, "spread")] == [Status.SKIPPED]
