"""Fixtures: one replica of the webhook, registered with the session's API server."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import NAMESPACE, SERVICE, Installation
from tests.e2e.objects import POLICIES


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


@pytest.fixture
def webhook(installation: Installation) -> Iterator[Installation]:
    """The webhook registered while the test runs, and only then."""
    installation.register()
    eventually(installation.is_asked)
    yield installation
    installation.unregister()


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
