"""The status of certificates: when each part of the trust in a webhook ends, for metrics and people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from certs.authority import CertificateError, not_after, read_certificate, signed
from certs.cluster import Cluster, ClusterError
from certs.configurations import Configurations, all_trusted, entries, trust_ends


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """The status of the certificates at the last look."""

    ends: Mapping[str, datetime] = field(default_factory=dict)
    """`ca`, `leaf` or `ca_bundle` -> when it ends; unknown ends are absent. `ca_bundle` is the trust of the live
    caBundles in the leaf; it ends at the look where one does not trust the leaf."""
    fault: str = ""
    """What is wrong with the certificates, for people; empty where nothing is."""


def ends_of(certificate_pem: bytes, configurations: Configurations, now: datetime) -> dict[str, datetime]:
    """When the certificate ends, its authority (where a caBundle holds it) and the trust of the caBundles in it."""
    certificate = read_certificate(certificate_pem)
    ends = {"leaf": certificate.not_valid_after_utc}
    authorities = [one.not_valid_after_utc for one in all_trusted(configurations) if signed(certificate, one)]
    if authorities:
        ends["ca"] = max(authorities)
    if any(True for _ in entries(configurations)):
        ends["ca_bundle"] = trust_ends(configurations, certificate_pem) or now
    return ends


class CertificateWitness:
    """Watches certificates that another program keeps, such as cert-manager; changes nothing."""

    def __init__(self, cluster: Cluster, certificate_file: Path, configurations: tuple[str, ...]) -> None:
        self._cluster = cluster
        self._file = certificate_file
        self._paths = configurations
        self.status = CertificateStatus()

    def look(self) -> None:
        """Update the status. Raises ClusterError and CertificateError; the last status is then kept, with the fault."""
        try:
            found = {path: self._cluster.get(path) for path in self._paths}
            pem = self._read()
            ends = ends_of(pem, found, self._cluster.now())
        except (ClusterError, CertificateError) as error:
            self.status = CertificateStatus(self.status.ends, str(error))
            raise
        fault = ""
        if "ca_bundle" in ends and trust_ends(found, pem) is None:
            fault = f"a caBundle does not hold the authority that signed {self._file}; see who is to put it there"
        elif not_after(pem) <= self._cluster.now():
            fault = f"{self._file} ended {not_after(pem):%Y-%m-%d %H:%M} UTC; renew it"
        self.status = CertificateStatus(ends, fault)

    def _read(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError as error:
            raise CertificateError(f"{self._file} cannot be read: {error.strerror}") from error
