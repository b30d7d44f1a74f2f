"""Names of hosts, in the one spelling in which they are compared, resolved and verified.

A name in any other spelling is refused, not normalised. Names that two readers understand differently are a way around
lists of allowed hosts.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from webhook.model.shape import FormatError, spelled

HTTPS = 443
HTTP = 80

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Host:
    """A DNS name in lower case, or an IP address in its canonical spelling, and a port."""

    name: str
    port: int = HTTPS

    def __str__(self) -> str:
        return self.spelled(HTTPS)

    def spelled(self, default: int) -> str:
        """The host as a URL has it, without the port if that is `default`."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == default else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host, or all hosts below a domain: a name that starts with `*.` stands for any number of labels."""

    name: str
    port: int = HTTPS

    def matches(self, host: Host) -> bool:
        if host.port != self.port:
            return False
        if self.name.startswith("*."):
            return host.name.endswith(self.name[1:])
        return host.name == self.name


def split_host(text: str) -> tuple[str, int | None]:
    """The name and the port of `name`, `name:port`, `address:port` or `[address]:port`. Raises FormatError."""
    name, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        name, port = text, ""
    elif not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise _not_a_host(text)
    return _name(name.lower(), text), int(port) if port else None


def split_pattern(text: str) -> tuple[str, int | None]:
    """The name and the port of a host pattern, whose name may start with `*.`. Raises FormatError."""
    if not text.startswith("*."):
        return split_host(text)
    name, port = split_host(text[2:])
    if "." not in name or ":" in name or _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise FormatError(f"{spelled(text)} matches too many hosts; write *. and a domain of at least two labels")
    return f"*.{name}", port


def _not_a_host(text: str) -> FormatError:
    return FormatError(f"{spelled(text)} is not a host; write a DNS name or an IP address, with :port if it needs one")


def _name(name: str, text: str) -> str:
    if name.startswith("[") and name.endswith("]"):
        return _address(name[1:-1], text, IPv6Address)
    labels = name.split(".")
    if len(name) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise _not_a_host(text)
    if _NUMBER.fullmatch(labels[-1]):
        return _address(name, text, IPv4Address)
    return name


def _address(name: str, text: str, kind: type[IPv4Address] | type[IPv6Address]) -> str:
    try:
        address = ip_address(name)
    except ValueError:
        address = None
    if not isinstance(address, kind) or str(address) != name or "%" in name:
        raise FormatError(
            f"{spelled(text)} is not an IP address in its usual form; write it like 192.0.2.1 or [2001:db8::1]"
        )
    return name
