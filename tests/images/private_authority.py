"""A private certificate authority, and server certificates of it."""

import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from certs.authority import KeyPair, issue, new_authority

AUTHORITY = new_authority(datetime.now(UTC))
PEM = AUTHORITY.certificate_pem.decode()


def pair(*names: str) -> KeyPair:
    """A certificate for these names, and its key."""
    return issue(AUTHORITY, names, datetime.now(UTC))


def server_context(*names: str, authority: KeyPair = AUTHORITY) -> ssl.SSLContext:
    """The TLS context of a server with these names."""
    found = issue(authority, names, datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "pair.pem")
        path.write_bytes(found.certificate_pem + found.key_pem)
        context.load_cert_chain(path)
    return context
