"""Whatever was done to certificates, running replicas mend it, and so do those that start on it."""

from collections.abc import Iterator

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kept_certificates import KeptSite
from tests.lab.soak.certificate_damages import DAMAGES, Damage, is_whole


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptSite]:
    """An installation that is broken again and again."""
    site = KeptSite(control_plane, "broken", tmp_path_factory.mktemp("site"))
    site.start()
    yield site
    site.remove()


@pytest.mark.parametrize("damage", DAMAGES)
def test_running_replicas_mend_what_was_broken(damage: Damage, site: KeptSite) -> None:
    eventually(site.is_answering)
    damage(site)
    eventually(lambda: is_whole(site))
    eventually(site.is_answering)


@pytest.mark.parametrize("damage", DAMAGES)
def test_replicas_that_start_on_something_broken_mend_it(damage: Damage, site: KeptSite) -> None:
    """Nobody remembers anything; what is left of the Secret and the configurations is all there is."""
    for replica in site.replicas:
        replica.kill()
    damage(site)
    site.start()
    eventually(lambda: is_whole(site))
    eventually(site.is_answering)
