"""Connections to registries, within a deadline that also holds for the resolution of names."""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread

from webhook.images.hosts import Host
from webhook.images.lookup_limits import Deadline, ImageLookupError

Address = IPv4Address | IPv6Address
Resolve = Callable[[str], Sequence[str]]
"""Resolves a DNS name to its addresses, as texts. Raises OSError."""

_MOST_ADDRESSES = 4
"""Most addresses of one name that are tried. Each gets its share of the time that is left."""

_RESOLVERS = BoundedSemaphore(8)
"""Names are resolved in threads of their own, because the C library has no time limit. This bounds the threads."""


def resolve(name: str) -> list[str]:
    """The addresses of a DNS name, resolved by the operating system with its hosts file and search list."""
    found = socket.getaddrinfo(name.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]).partition("%")[0] for *_, place in found))


def connect(host: Host, deadline: Deadline, resolver: Resolve = resolve) -> socket.socket:
    """Connect to the first address of the host that accepts. Raises ImageLookupError and OSError."""
    addresses = _addresses(host, deadline, resolver)[:_MOST_ADDRESSES]
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
