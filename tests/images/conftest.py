"""Look-ups for tests: registries in memory, and a clock that tests advance."""

from collections.abc import Iterator

import pytest

from tests.images.replicas import EVERYBODY, Clock, Counts, Registries
from tests.images.scripted import ScriptedServer, examples_are_here, scripted
from webhook.images.lookups import LookupService

__all__ = ["examples_are_here"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client() -> Registries:
    return Registries()


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def images(client: Registries, clock: Clock, counts: Counts) -> Iterator[LookupService]:
    images = LookupService(client.look_up, EVERYBODY, clock=clock)
    images.start(counts)
    yield images
    images.close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A registry with scripted responses."""
    with scripted() as server:
        yield server
