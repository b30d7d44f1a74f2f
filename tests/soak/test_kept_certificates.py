"""Rotation by hand, step by step, while pods are judged; tests/soak/test_rotation.py has it under load."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from certs.authority import issued_by
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kept_certificates import KeptSite


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[KeptSite]:
    """An installation of its own, not started."""
    site = KeptSite(control_plane, "kept-rotated", tmp_path)
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

        eventually(rotated, seconds=60)
        material = site.material()
        assert (material.authority != authority) is (what == "authority")
        assert material.serving is not None
        assert material.authority is not None
        assert issued_by(material.serving.certificate_pem, material.authority.certificate_pem)
        assert "gpupolicy.dev/rotate" not in str((site.secret() or {})["metadata"])
    assert len(site.material().bundle) == 2
    eventually(lambda: len(site.bundles()[0]) == 2)
    assert site.is_answering()
