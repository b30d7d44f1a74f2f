"""The serving certificate, which is loaded anew when its files change, without ending connections.

One `ssl.SSLContext` is built for every change and not for every connection, because building it is the largest cost of
a handshake. While new files cannot be used (half written, key and certificate do not match), the previous certificate
is served.
"""

import logging
import os
import ssl
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger("gpu_policy.tls")

_Fingerprint = tuple[tuple[int, int, int, int], ...]


class ServingCertificate:
    """The TLS context of the certificate files, as they are now or were last usable; checks certificates of clients.

    With a `client_ca_file` a client may present a certificate, which must then be issued by that authority; probes
    present none. Raises `OSError` or `ssl.SSLError` where the files cannot be used at the start.
    """

    def __init__(
        self,
        cert_file: Path,
        key_file: Path,
        client_ca_file: Path | None = None,
        client_names: Collection[str] = (),
        *,
        check_seconds: float = 5.0,
    ) -> None:
        self._cert_file = cert_file
        self._key_file = key_file
        self._client_ca_file = client_ca_file
        self._client_names = client_names
        self._check_seconds = check_seconds
        self._seen: _Fingerprint | None = self._fingerprint()
        self._context = self._load()
        self._next_check = time.monotonic() + check_seconds
        self.error: str | None = None
        """Why the files cannot be used as they are now; None where they are served."""

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. Looks at the files at most every `check_seconds`."""
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + self._check_seconds
            self._refresh()
        return self._context

    def objection(self, sock: ssl.SSLObject) -> str:
        """Why this client's reviews are not answered, after its handshake; empty where they are."""
        if self._client_ca_file is None:
            return ""
        certificate = sock.getpeercert()
        if not certificate:
            return "client certificate: found none, expected one of the authority in --client-ca"
        found = _names(certificate)
        if self._client_names and not found & set(self._client_names):
            expected = " or ".join(sorted(self._client_names))
            return f"client certificate: found the names {', '.join(sorted(found)) or 'none'}, expected {expected}"
        return ""

    def _refresh(self) -> None:
        found = None
        try:
            found = self._fingerprint()
            if found == self._seen and self.error is None:
                return
            # After a failure the files are tried again although they look the same: they may have been read half
            # written within one tick of the file system's clock.
            context = self._load()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            if (found, str(error)) != (self._seen, self.error):
                log.error("still serving the previous certificate, %s and %s cannot be used: %s", *self._pair(), error)  # noqa: TRY400  the files are at fault, a traceback says nothing
            self._seen, self.error = found, str(error)
            return
        self._context, self._seen, self.error = context, found, None
        log.info("serving the new certificate in %s", self._cert_file)

    def _pair(self) -> tuple[Path, Path]:
        return self._cert_file, self._key_file

    def _fingerprint(self) -> _Fingerprint:
        """Identify the files' contents; following symbolic links notices the swap of a mounted Secret."""
        files = [file for file in (*self._pair(), self._client_ca_file) if file is not None]
        stats = [os.stat(file) for file in files]
        return tuple((stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        # The API server keeps connections, it does not resume sessions: tickets would be made for nobody.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        context.load_cert_chain(self._cert_file, self._key_file, password=_no_password)
        if self._client_ca_file is not None:
            context.load_verify_locations(self._client_ca_file)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _names(certificate: Mapping[str, Any]) -> set[str]:
    """The common names and DNS names of a certificate, as `ssl` decodes it."""
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return common | {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}


def _no_password() -> str:
    """Refuse an encrypted key; OpenSSL would ask on the terminal otherwise."""
    raise ValueError("the key is encrypted; serve an unencrypted one")
