"""What replicas say of themselves reaches the doctor through the API server."""

from pathlib import Path

import pytest

from tests.doctor.breaks import needs_address
from tests.doctor.site import Site, said
from tests.e2e.control_plane import TENANT_TOKEN
from tests.e2e.daemon import Daemon
from tests.e2e.eventually import eventually
from tests.e2e.installation import COMMAND
from webhook.doctor.doctor_report import Status

pytestmark = pytest.mark.e2e


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
