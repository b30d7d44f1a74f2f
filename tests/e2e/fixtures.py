"""Fixtures: one replica of the webhook, registered with the session's API server."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import NAMESPACE, SERVICE, Installation
from tests.e2e.objects import POLICIES
from tests.e2e.registration import Registration


@pytest.fixture(scope="session")
def installation(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The webhook process and the Service that leads to it."""
    installation = Installation(control_plane, tmp_path_factory.mktemp("installation"))
    for name, text in POLICIES.items():
        installation.write_policy(name, text)
    control_plane.shared_namespace(NAMESPACE)
    control_plane.namespace("judged-probe")
    control_plane.webhook_service(NAMESPACE, SERVICE, installation.port)
    installation.start()
    yield installation
    installation.stop()


@pytest.fixture(scope="module")
def registration(installation: Installation) -> Iterator[Registration]:
    """The configurations as they are shipped, for all tests of a file that ask for the webhook."""
    with Registration(installation) as registration:
        yield registration


@pytest.fixture
def webhook(installation: Installation, registration: Registration) -> Installation:
    """The webhook, registered whatever an earlier test of the file did to the configurations."""
    registration.restore()
    return installation


@pytest.fixture
def make_namespace(control_plane: ControlPlane) -> Callable[[str], str]:
    """Creates a namespace whose name begins with a prefix and is new in the session."""
    counter = iter(range(1, 1000))

    def make(prefix: str) -> str:
        for _ in range(100):
            name = f"{prefix}-{next(counter)}"
            if control_plane.raw("GET", f"/api/v1/namespaces/{name}")[0] == 404:
                return control_plane.namespace(name)
        raise AssertionError(f"no free namespace {prefix}")

    return make
