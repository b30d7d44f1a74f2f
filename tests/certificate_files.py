"""Certificates that a server serves in a test."""

from collections.abc import Sequence
from pathlib import Path

from certs.authority import read_certificate, signed
from certs.files import ensure_files


class CertificateFiles:
    """An authority, and a certificate and key for these names, in a directory."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        ensure_files(directory, names)
        self.ca_file, self.cert_file, self.key_file = (directory / one for one in ("ca.crt", "tls.crt", "tls.key"))


def issued_by(certificate: bytes, authority: bytes) -> bool:
    return signed(read_certificate(certificate), read_certificate(authority))
