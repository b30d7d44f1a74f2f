"""Running replicas mend their certificates, whatever was done to them."""

from collections.abc import Iterator

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kept_certificates import KeptSite
from tests.soak.certificate_damages import DAMAGES, Damage, is_whole


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptSite]:
    """An installation that is broken again and again."""
    site = KeptSite(control_plane, "mended", tmp_path_factory.mktemp("site"))
    site.start()
    yield site
    site.remove()


@pytest.mark.parametrize("damage", DAMAGES)
def test_running_replicas_mend_what_was_broken(damage: Damage, site: KeptSite) -> None:
    eventually(site.is_answering)
    damage(site)
    eventually(lambda: is_whole(site), seconds=30)
    eventually(site.is_answering)
