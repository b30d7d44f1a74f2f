"""Names of registries are resolved within the deadline, and every address gets a try."""

import socket
import time
from threading import Event

import pytest

from tests.images.scripted import LOOPBACK
from webhook.images.addresses import connect, resolve
from webhook.images.hosts import Host
from webhook.images.lookup_limits import Deadline, ImageLookupError


def test_the_next_address_is_tried_if_one_refuses(server):
    answers = ["127.0.0.7", LOOPBACK]
    with connect(Host("a.example", server.port), Deadline(5), lambda _name: answers) as connection:
        assert connection.getpeername()[0] == LOOPBACK


def test_an_address_needs_no_resolution(server):
    def resolver(name: str) -> list[str]:
        raise AssertionError(name)

    with connect(Host(LOOPBACK, server.port), Deadline(5), resolver) as connection:
        assert connection.getpeername()[0] == LOOPBACK


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(socket.gaierror(-2, "Name or service not known"), id="no such name"),
        pytest.param(UnicodeError("label too long"), id="a label that is too long"),
        pytest.param(["not an address"], id="no address"),
        pytest.param([], id="nothing"),
    ],
)
def test_a_name_without_addresses_is_a_passing_failure(answer):
    def resolver(_name: str) -> list[str]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(
        ImageLookupError, match=r"the DNS name a\.example (cannot be resolved|has no address)"
    ) as caught:
        connect(Host("a.example"), Deadline(5), resolver)
    assert not caught.value.is_lasting


def test_a_resolution_that_does_not_end_is_not_waited_for():
    over = Event()

    def resolver(_name: str) -> list[str]:
        over.wait(20)
        return []

    for _ in range(10):  # more than may be under way at a time
        with pytest.raises(ImageLookupError, match=r"the DNS name a\.example cannot be resolved"):
            connect(Host("a.example"), Deadline(0.05), resolver)
    over.set()
    for _ in range(200):
        try:
            with pytest.raises(ImageLookupError, match="has no address"):
                connect(Host("a.example"), Deadline(0.5), resolver)
        except AssertionError:
            time.sleep(0.02)
        else:
            return
    pytest.fail("no name was resolved any more")


def test_the_operating_system_resolves_names():
    assert LOOPBACK in resolve("localhost")


def test_an_ipv6_address_is_connected_to():
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with listener:
        port = listener.getsockname()[1]
        with connect(Host("::1", port), Deadline(5)) as connection:
            assert connection.getpeername()[0] == "::1"
