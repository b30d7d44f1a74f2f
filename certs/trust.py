"""The trust of webhook configurations in a serving certificate: their caBundles, and when the trust ends."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography import x509

from certs.authority import CertificateError, join_bundle, read_bundle, read_certificate, signed, trusted_until
from certs.cluster import Cluster, ClusterError, Json

Configurations = Mapping[str, Json | None]
"""API path -> webhook configuration; None for a configuration that is absent."""


def entries(*configurations: Json | None) -> list[Json]:
    """All webhooks of configurations."""
    return [one for found in configurations for one in (found or {}).get("webhooks") or [] if isinstance(one, dict)]


def trusted_by(entry: Json) -> tuple[x509.Certificate, ...]:
    """The authorities in the caBundle of a webhook; none where it is missing or malformed."""
    try:
        return read_bundle(base64.b64decode(entry.get("clientConfig", {}).get("caBundle") or ""))
    except (binascii.Error, ValueError):  # a CertificateError is one, too
        return ()


def all_trusted(configurations: Configurations) -> tuple[x509.Certificate, ...]:
    """The authorities in any caBundle, each once."""
    return tuple(dict.fromkeys(one for entry in entries(*configurations.values()) for one in trusted_by(entry)))


def trust_ends(configurations: Configurations, certificate: x509.Certificate) -> datetime | None:
    """When the first webhook stops trusting the certificate; None where one does not trust it, or there are none."""
    ends = [trusted_until(certificate, trusted_by(entry)) for entry in entries(*configurations.values())]
    known = [end for end in ends if end is not None]
    return min(known) if known and len(known) == len(ends) else None


def set_bundle(configuration: Json, bundle: Iterable[x509.Certificate]) -> int:
    """Make every webhook trust exactly the bundle; returns the number of changed webhooks."""
    wanted = base64.b64encode(join_bundle(tuple(bundle))).decode()
    wrong = [entry for entry in entries(configuration) if entry.get("clientConfig", {}).get("caBundle") != wanted]
    for entry in wrong:
        entry.setdefault("clientConfig", {})["caBundle"] = wanted
    return len(wrong)


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """The status of the certificates when they were last read."""

    ends: Mapping[str, datetime] = field(default_factory=dict)
    """`ca`, `leaf` or `ca_bundle` -> its end; unknown ends are left out. `ca_bundle` is the trust of the live caBundles
    in the leaf; it has ended when a caBundle does not trust the leaf."""
    fault: str = ""
    """What is wrong with the certificates, for people; empty where nothing is wrong."""


def ends_of(certificate: x509.Certificate, configurations: Configurations, now: datetime) -> dict[str, datetime]:
    """The ends of the certificate, of its authority (if a caBundle has it), and of the trust of the caBundles."""
    ends = {"leaf": certificate.not_valid_after_utc}
    authorities = [one.not_valid_after_utc for one in all_trusted(configurations) if signed(certificate, one)]
    if authorities:
        ends["ca"] = max(authorities)
    if entries(*configurations.values()):
        ends["ca_bundle"] = trust_ends(configurations, certificate) or now
    return ends


class CertificateWitness:
    """Reads certificates that another program keeps, such as cert-manager. It changes nothing."""

    def __init__(self, cluster: Cluster, certificate_file: Path, configurations: tuple[str, ...]) -> None:
        self._cluster = cluster
        self._file = certificate_file
        self._paths = configurations
        self.status = CertificateStatus()

    def look(self) -> None:
        """Update the status. After ClusterError and CertificateError the last ends are kept, with the fault."""
        try:
            found = {path: self._cluster.get(path) for path in self._paths}
            certificate = read_certificate(self._read())
            ends = ends_of(certificate, found, self._cluster.now())
        except (ClusterError, CertificateError) as error:
            self.status = CertificateStatus(self.status.ends, str(error))
            raise
        fault = ""
        if "ca_bundle" in ends and trust_ends(found, certificate) is None:
            fault = (
                f"a caBundle does not hold the authority that signed {self._file}; the program that keeps the "
                "caBundle has to add it"
            )
        elif ends["leaf"] <= self._cluster.now():
            fault = f"{self._file} ended {ends['leaf']:%Y-%m-%d %H:%M} UTC; renew it"
        self.status = CertificateStatus(ends, fault)

    def _read(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError as error:
            raise CertificateError(f"{self._file} cannot be read: {error.strerror}") from error
