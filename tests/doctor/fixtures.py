"""Fixtures: a whole installation that tests may break."""

from collections.abc import Iterator

import pytest

from tests.doctor.site import Site
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from webhook.doctor.doctor_report import Status


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An installation on an API server of its own: tests break what others stand on."""
    if reason := ControlPlane.missing():
        pytest.skip(reason)
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        site = Site(plane, tmp_path_factory.mktemp("site"))
        try:
            site.start()
            yield site
        finally:
            site.stop()
    finally:
        plane.stop()


@pytest.fixture
def site(standing: Site) -> Site:
    standing.heal()
    eventually(lambda: all(finding.status is not Status.PROBLEM for finding in standing.tried()))
    return standing
