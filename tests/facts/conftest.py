"""A pretended API server with two nodes and the classes of a cluster."""

from collections.abc import Iterator

import pytest

from tests.facts.fake_api_server import NODES, PRIORITY_CLASSES, RUNTIME_CLASSES, FakeApiServer, fake_api_server
from tests.facts.samples import node, priority_class, runtime_class


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        server.objects[NODES] = [node("a"), node("b")]
        server.objects[RUNTIME_CLASSES] = [runtime_class("nvidia")]
        server.objects[PRIORITY_CLASSES] = [priority_class("low", 10)]
        yield server
