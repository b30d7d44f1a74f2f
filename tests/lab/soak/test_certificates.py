"""Certificates that the replicas keep by themselves, on a real API server, broken in every way that was thought of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificate_files import issued_by
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kept_certificates import KeptSite
from tests.e2e.replica_set import Replica


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[KeptSite]:
    """An installation of its own, not started."""
    site = KeptSite(control_plane, f"kept-{abs(hash(request.node.name)) % 10**8}", tmp_path)
    yield site
    site.remove()


def test_rotation_reaches_every_replica_without_a_restart_and_trust_never_breaks_off(site: KeptSite) -> None:
    """The serving certificate first, then the authority; pods are judged all the time."""
    site.start()
    eventually(site.is_answering)
    for what in ("serving", "authority"):
        before = site.served()
        authority = site.material().authority
        site.rotate(what)

        def rotated(before: list[bytes] = before) -> bool:
            assert site.is_answering()
            return not set(before) & set(site.served()) and len(set(site.served())) == 1

        eventually(rotated)
        material = site.material()
        assert (material.authority != authority) is (what == "authority")
        assert material.serving is not None
        assert material.authority is not None
        assert issued_by(material.serving.certificate_pem, material.authority.certificate_pem)
        assert "gpupolicy.dev/rotate" not in str((site.secret() or {})["metadata"])
    assert len(site.material().bundle) == 2
    eventually(lambda: len(site.bundles()[0]) == 2)
    assert site.is_answering()


def ok_lines(replica: Replica) -> str:
    """What the metrics say about the configurations; nothing where that cannot be looked at."""
    lines = replica.get("/metrics")[1].splitlines()
    return "\n".join(line for line in lines if line.startswith("gpu_policy_webhook_configuration_ok{"))


def test_a_replica_without_rights_says_which_and_serves_on(site: KeptSite) -> None:
    site.start()
    site.plane.kubectl("delete", "clusterrolebinding", site.name)
    site.plane.kubectl("delete", "rolebinding", "gpu-policy", namespace=site.name)
    first = site.replicas[0]
    eventually(lambda: first.metric("gpu_policy_certificate_fault") == 1)
    assert "install the RBAC objects of the chart again" in first.log.read_text()
    eventually(lambda: 'configuration="mutating"' not in ok_lines(first))
    assert site.is_answering()
