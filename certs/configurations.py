"""The caBundles of webhook configurations: which authorities they trust, and how they are replaced."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from cryptography import x509

from certs.authority import CertificateError, join_bundle, read_bundle, trusted_until
from certs.cluster import Json

Configurations = Mapping[str, Json | None]
"""Webhook configurations by their API path, None for one that is absent."""


def entries(configurations: Configurations) -> Iterator[Json]:
    """Every entry of every configuration that is present."""
    for configuration in configurations.values():
        yield from entries_of(configuration)


def entries_of(configuration: Json | None) -> list[Json]:
    """The entries of one configuration."""
    return [one for one in (configuration or {}).get("webhooks") or [] if isinstance(one, dict)]


def trusted_by(entry: Json) -> tuple[x509.Certificate, ...]:
    """The authorities in the caBundle of one entry; none where it is missing or malformed."""
    try:
        return read_bundle(_bundle(entry))
    except CertificateError:
        return ()


def all_trusted(configurations: Configurations) -> tuple[x509.Certificate, ...]:
    """The authorities in any caBundle, each once."""
    return tuple(dict.fromkeys(one for entry in entries(configurations) for one in trusted_by(entry)))


def trust_ends(configurations: Configurations, certificate_pem: bytes) -> datetime | None:
    """When the first entry stops trusting the certificate; None when one does not trust it at all or there are none."""
    ends = [_trust_end(entry, certificate_pem) for entry in entries(configurations)]
    known = [end for end in ends if end is not None]
    return min(known) if known and len(known) == len(ends) else None


def set_bundle(configuration: Json, bundle: Iterable[x509.Certificate]) -> int:
    """Have every entry trust exactly the bundle; returns how many entries were changed."""
    wanted = base64.b64encode(join_bundle(tuple(bundle))).decode()
    wrong = [entry for entry in entries_of(configuration) if entry.get("clientConfig", {}).get("caBundle") != wanted]
    for entry in wrong:
        entry.setdefault("clientConfig", {})["caBundle"] = wanted
    return len(wrong)


def _trust_end(entry: Json, certificate_pem: bytes) -> datetime | None:
    try:
        return trusted_until(certificate_pem, _bundle(entry))
    except CertificateError:
        return None


def _bundle(entry: Json) -> bytes:
    try:
        return base64.b64decode(entry.get("clientConfig", {}).get("caBundle") or "")
    except (binascii.Error, ValueError) as error:
        raise CertificateError("not base64") from error
