"""Connections to registries, and the addresses that they may use.

A name is resolved once, its addresses are checked, and the connection goes to a checked address. A second resolution
could have another result (DNS rebinding).

Unless the list allows them, addresses are refused that IANA's registries of special-purpose addresses (RFC 6890) do not
call globally reachable, and some more. `ipaddress.is_global` is not used: it takes 64:ff9b::10.0.0.1 and 2002:a00:1::1
for global, which both lead to 10.0.0.1.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread

from webhook.images.hosts import Host
from webhook.images.lookup_limits import Deadline, ImageLookupError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str], Sequence[str]]
"""Resolves a DNS name to its addresses, as texts. Raises OSError."""

_MOST_ADDRESSES = 4
"""Most addresses of one name that are tried. Each gets its share of the time that is left."""

_RESOLVERS = BoundedSemaphore(8)
"""Names are resolved in threads of their own, because the C library has no time limit. This bounds the threads."""

_SPECIAL_4 = (
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by a provider's customers (RFC 6598)"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "the address of Azure's host"),  # learn.microsoft.com, "What is IP address 168.63.129.16?"
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "reserved"),
    ("198.51.100.0/24", "reserved"),
    ("203.0.113.0/24", "reserved"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)
_SPECIAL_6 = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("2001::/32", "a tunnel (Teredo)"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "reserved"),
    ("2002::/16", "a tunnel (6to4)"),
    ("3fff::/20", "reserved"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)
_SPECIAL = tuple((ip_network(network), kind) for network, kind in (*_SPECIAL_4, *_SPECIAL_6))
_GLOBAL_6 = IPv6Network("2000::/3")
"""Every address that IANA has assigned for ordinary use."""
_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses by which machines without IPv4 reach IPv4 (RFC 6052). The last 32 bits are the IPv4 address."""


def fault_in(address: Address, permitted: Iterable[Network]) -> str:
    """The kind of a special-purpose address; empty for an ordinary address and for a permitted one."""
    meant = _meant(address)
    if any(address in network or meant in network for network in permitted):
        return ""
    for network, kind in _SPECIAL:
        if meant in network:
            return kind
    return "reserved" if isinstance(meant, IPv6Address) and meant not in _GLOBAL_6 else ""


def _meant(address: Address) -> Address:
    """The IPv4 address to which an IPv6 address leads; the address itself if it leads to none."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def resolve(name: str) -> list[str]:
    """The addresses of a DNS name, resolved by the operating system with its hosts file and search list."""
    found = socket.getaddrinfo(name.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]).partition("%")[0] for *_, place in found))


def connect(host: Host, permitted: Sequence[Network], deadline: Deadline, resolver: Resolve = resolve) -> socket.socket:
    """Connect to the first permitted address of the host that accepts. Raises ImageLookupError and OSError."""
    addresses = _permitted(host, permitted, _addresses(host, deadline, resolver))
    fault: OSError = OSError("it has no address")
    for tried, address in enumerate(addresses):
        connection = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        try:
            connection.settimeout(deadline.left() / (len(addresses) - tried))
            connection.connect((str(address), host.port))
        except OSError as error:
            connection.close()
            fault = error
        else:
            return connection
    raise fault


def _permitted(host: Host, permitted: Sequence[Network], addresses: Sequence[Address]) -> list[Address]:
    faults = [fault_in(address, permitted) for address in addresses]
    found = [address for address, fault in zip(addresses, faults, strict=True) if not fault]
    if not found:
        raise ImageLookupError(
            f"{host} resolves to an address that is not allowed ({faults[0]}); to allow it, list a network that "
            "contains it in the registry's privateAddresses"
        )
    return found[:_MOST_ADDRESSES]


def _addresses(host: Host, deadline: Deadline, resolver: Resolve) -> list[Address]:
    with suppress(ValueError):
        return [ip_address(host.name)]
    try:
        addresses = [ip_address(text) for text in _within(deadline, resolver, host.name)]
    except (OSError, ValueError) as error:
        raise ImageLookupError(f"the DNS name {host.name} cannot be resolved", is_lasting=False) from error
    if not addresses:
        raise ImageLookupError(f"the DNS name {host.name} has no address", is_lasting=False)
    return addresses


def _within(deadline: Deadline, resolver: Resolve, name: str) -> Sequence[str]:
    """The result of the resolver. Raises OSError, also if the resolver is not done by the deadline."""
    if not _RESOLVERS.acquire(timeout=deadline.left()):
        raise TimeoutError("too many names are being resolved")
    answers: SimpleQueue[Sequence[str] | Exception] = SimpleQueue()

    def work() -> None:
        try:
            answers.put(resolver(name))
        except (OSError, ValueError) as error:
            answers.put(error)
        finally:
            _RESOLVERS.release()

    Thread(target=work, name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.left())
    except Empty:
        raise TimeoutError("the name was not resolved in time") from None
    if isinstance(answer, Exception):
        raise answer
    return answer
