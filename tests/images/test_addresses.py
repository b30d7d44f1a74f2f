"""Connections go to the addresses that were checked, and to private addresses only if they are listed."""

import socket
import time
from ipaddress import IPv6Address, ip_address, ip_network
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.eventually import eventually
from tests.images.scripted import LOOPBACK
from webhook.images.addresses import connect, fault_in, resolve
from webhook.images.hosts import Host
from webhook.images.lookup_limits import Deadline, ImageLookupError

PRIVATE = [
    ip_network(text) for text in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
]
private_addresses = st.one_of([st.ip_addresses(v=4, network=str(network)) for network in PRIVATE])


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        pytest.param("10.1.2.3", "private", id="RFC 1918, class A"),
        pytest.param("172.31.255.255", "private", id="RFC 1918, class B"),
        pytest.param("192.168.0.1", "private", id="RFC 1918, class C"),
        pytest.param("127.0.0.1", "loopback", id="loopback"),
        pytest.param("127.8.8.8", "loopback", id="elsewhere on the loopback"),
        pytest.param("169.254.169.254", "link-local", id="metadata of clouds"),
        pytest.param("168.63.129.16", "the address of Azure's host", id="metadata of Azure"),
        pytest.param("100.100.100.200", "shared by a provider's customers (RFC 6598)", id="carrier-grade NAT"),
        pytest.param("0.0.0.0", "unspecified", id="this machine"),  # noqa: S104  # nothing is bound to it
        pytest.param("224.0.0.1", "multicast", id="multicast"),
        pytest.param("255.255.255.255", "reserved", id="broadcast"),
        pytest.param("192.0.0.192", "reserved", id="metadata of Oracle"),
        pytest.param("198.19.0.1", "reserved", id="benchmarks"),
        pytest.param("203.0.113.9", "reserved", id="documentation"),
        pytest.param("::", "unspecified", id="this machine in IPv6"),
        pytest.param("::1", "loopback", id="loopback of IPv6"),
        pytest.param("fe80::1", "link-local", id="link-local of IPv6"),
        pytest.param("fd00:ec2::254", "private", id="metadata of Amazon in IPv6"),
        pytest.param("fec0::1", "private", id="site-local"),
        pytest.param("ff02::1", "multicast", id="multicast of IPv6"),
        pytest.param("::7f00:1", "reserved", id="IPv4-compatible"),
        pytest.param("4000::1", "reserved", id="given out to nobody"),
        pytest.param("2001:db8::1", "reserved", id="documentation of IPv6"),
        pytest.param("64:ff9b:1::a00:1", "reserved", id="a NAT64 of one's own"),
        pytest.param("::ffff:10.0.0.1", "private", id="IPv4-mapped"),
        pytest.param("64:ff9b::a9fe:a9fe", "link-local", id="metadata of clouds by NAT64"),
        pytest.param("2002:7f00:1::1", "a tunnel (6to4)", id="6to4"),
        pytest.param("2001:0:a00:1::1", "a tunnel (Teredo)", id="Teredo"),
        pytest.param("8.8.8.8", "", id="public"),
        pytest.param("2606:4700::1111", "", id="public in IPv6"),
        pytest.param("::ffff:8.8.8.8", "", id="public, IPv4-mapped"),
        pytest.param("64:ff9b::808:808", "", id="public by NAT64"),
    ],
)
def test_addresses_that_are_not_public_are_refused(address, fault):
    assert fault == fault_in(ip_address(address), ())


@given(private_addresses)
def test_a_private_address_is_refused_in_any_wrapping(address):
    packed = int(address)
    wrapped = (
        IPv6Address((0xFFFF << 32) | packed),
        IPv6Address((0x64FF9B << 96) | packed),
        IPv6Address((0x2002 << 112) | packed << 80),
    )
    assert all(fault_in(each, ()) for each in (address, *wrapped))


@given(private_addresses)
def test_a_listed_network_permits_its_addresses_however_they_are_spelled(address):
    mapped = IPv6Address((0xFFFF << 32) | int(address))
    assert not any(fault_in(each, PRIVATE) for each in (address, mapped))


@given(st.ip_addresses(v=4).filter(lambda address: address not in ip_network("10.0.0.0/8")))
def test_a_listed_network_permits_nothing_else(address):
    listed = (ip_network("10.0.0.0/8"),)
    assert fault_in(address, listed) == fault_in(address, ())


ONLY = (ip_network("127.0.0.1/32"),)


def test_only_permitted_addresses_of_a_name_are_connected_to(server):
    answers = ["10.0.0.1", "127.0.0.2", LOOPBACK, "::1"]
    with connect(Host("a.example", server.port), ONLY, Deadline(5), lambda _name: answers) as connection:
        assert connection.getpeername() == (LOOPBACK, server.port)


def test_a_name_is_resolved_once_for_each_connection(server):
    """A second resolution could have another result (DNS rebinding)."""
    answers = [[LOOPBACK], ["127.0.0.2"]]
    with connect(Host("a.example", server.port), ONLY, Deadline(5), lambda _name: answers.pop(0)) as connection:
        assert connection.getpeername()[0] == LOOPBACK
    with pytest.raises(
        ImageLookupError, match=r"a\.example:\d+ resolves to an address that is not allowed \(loopback\)"
    ):
        connect(Host("a.example", server.port), ONLY, Deadline(5), lambda _name: answers.pop(0))
    assert answers == []
    eventually(lambda: server.connections == 1)


def test_the_next_address_is_tried_if_one_refuses(server):
    network = (ip_network("127.0.0.0/8"),)
    answers = ["127.0.0.7", LOOPBACK]
    with connect(Host("a.example", server.port), network, Deadline(5), lambda _name: answers) as connection:
        assert connection.getpeername()[0] == LOOPBACK


def test_an_address_needs_no_resolution(server):
    def resolver(name: str) -> list[str]:
        raise AssertionError(name)

    with connect(Host(LOOPBACK, server.port), ONLY, Deadline(5), resolver) as connection:
        assert connection.getpeername()[0] == LOOPBACK
    with pytest.raises(ImageLookupError, match=r"resolves to an address that is not allowed \(private\)"):
        connect(Host("10.0.0.1", server.port), ONLY, Deadline(5), resolver)


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
        connect(Host("a.example"), (), Deadline(5), resolver)
    assert not caught.value.is_lasting


def test_a_resolution_that_does_not_end_is_not_waited_for():
    over = Event()

    def resolver(_name: str) -> list[str]:
        over.wait(20)
        return []

    for _ in range(10):  # more than may be under way at a time
        with pytest.raises(ImageLookupError, match=r"the DNS name a\.example cannot be resolved"):
            connect(Host("a.example"), (), Deadline(0.05), resolver)
    over.set()
    for _ in range(200):
        try:
            with pytest.raises(ImageLookupError, match="has no address"):
                connect(Host("a.example"), (), Deadline(0.5), resolver)
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
        with connect(Host("::1", port), (ip_network("::1/128"),), Deadline(5)) as connection:
            assert connection.getpeername()[0] == "::1"
