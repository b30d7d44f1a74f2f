"""Keeps the certificates of all replicas in one Secret, and the caBundles of the webhook configurations current.

Every replica runs a keeper, and the first replica writes. By the resourceVersion of the Secret and of the
configurations other replicas notice that, and use what it wrote. Nothing here waits or starts a thread. Where another
program keeps certificates, a witness reads them.
"""

import base64
import binascii
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from cryptography import x509

from certs.authority import CertificateError, join_bundle, read_bundle, read_certificate, signed, trusted_until
from certs.cluster import ChangedError, Cluster, ClusterError, Json, Kept
from certs.files import replace_pair
from certs.material import SPREAD, Material, Plan, Situation, Terms, data_of, material_of, plan

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


ROTATE = "gpupolicy.dev/rotate"
"""Annotation on the Secret with which an administrator asks for a rotation: serving, authority or retire."""

_ATTEMPTS = 5

_log = logging.getLogger("gpu_policy.certificates")


class CertificateKeeper:
    """Keeps one Secret, the files made of it, and the caBundles of webhook configurations."""

    def __init__(self, cluster: Cluster, kept: Kept, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._kept = kept
        self._terms = Terms(kept.names)
        self._clock = clock
        self._remembered = Material()
        self._remembered_at = 0.0
        self._metadata: Json = {"name": kept.secret.name, "namespace": kept.secret.namespace}
        self._announced_since: tuple[bytes, float] | None = None
        self.status = CertificateStatus()

    def look(self) -> None:
        """Read the cluster once, and write what has to change.

        Raises ClusterError and CertificateError. The served certificate is then kept, and the next call starts again
        from the state of the API server.
        """
        try:
            self._look()
        except (ClusterError, CertificateError) as error:
            self.status = replace(self.status, fault=str(error))
            raise

    def _look(self) -> None:
        for _ in range(_ATTEMPTS):
            with suppress(ChangedError):
                configurations = {path: self._cluster.get(path) for path in self._kept.configurations}
                material = self._settled(configurations)
                try:
                    self._repair(configurations, material)
                finally:  # also if a caBundle cannot be repaired: it may trust the certificate already
                    self._report(material, configurations)
                    self._serve(material)
                return
        raise ClusterError(f"other writers were faster, {_ATTEMPTS} times in a row")

    def _settled(self, configurations: Configurations) -> Material:
        """The material that all replicas share from now on. It is written if it had to change."""
        secret = self._cluster.get(self._kept.secret.path)
        found = material_of(_data(secret))
        known = self._completed_from_memory(found)
        if not found.bundle:  # current authorities stay trusted: other replicas may serve their certificates
            known = replace(known, bundle=(*known.bundle, *all_trusted(configurations)))
        asked = (((secret or {}).get("metadata") or {}).get("annotations") or {}).get(ROTATE, "")
        is_announced = self._is_announced(known, configurations)
        situation = Situation(now=self._cluster.now(), is_announced=is_announced, request=str(asked))
        made = plan(known, self._terms, situation)
        reasons = (*found.faults, *made.reasons)
        if not reasons and known != found:
            reasons = ("the Secret had lost certificates that this replica still had",)
        if reasons or made.ends_request:
            self._write(secret, made)
            _log.info("Secret %s: %s", self._kept.secret, "; ".join(reasons) or f"{situation.request}: nothing to do")
        self._remember(secret, made.material)
        return made.material

    def _completed_from_memory(self, found: Material) -> Material:
        """The material of the Secret, with missing parts from memory while the memory is fresh.

        An authority that is no longer trusted is not restored: it may have been retired for a reason. A certificate
        that this replica may still serve stays trusted, also if somebody restores an older Secret.
        """
        if self._clock() - self._remembered_at > SPREAD.total_seconds():
            return found
        remembered = self._remembered
        if found.bundle and remembered.authority is not None:
            is_trusted = remembered.authority.certificate in found.bundle
            remembered = replace(remembered, authority=remembered.authority if is_trusted else None)
        known = Material(
            found.authority or remembered.authority,
            found.serving or remembered.serving,
            found.bundle or remembered.bundle,
        )
        if remembered.serving is None:
            return known
        signers = (one for one in remembered.bundle if signed(remembered.serving.certificate, one))
        return replace(known, bundle=tuple(dict.fromkeys((*known.bundle, *signers))))

    def _write(self, secret: Json | None, made: Plan) -> None:
        if secret is None:
            body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": self._metadata}
            self._cluster.create(self._kept.secret.collection, {**body, "data": data_of(made.material)})
            return
        metadata = dict(secret["metadata"])
        if made.ends_request:
            metadata["annotations"] = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != ROTATE}
        data = {**_data(secret), **data_of(made.material)}
        self._cluster.replace(self._kept.secret.path, {**secret, "metadata": metadata, "data": data})

    def _remember(self, secret: Json | None, material: Material) -> None:
        """Keep the parts from which a deleted Secret is made again; its labels name the release that it belongs to."""
        self._remembered = material
        self._remembered_at = self._clock()
        metadata = (secret or {}).get("metadata") or {}
        for name in ("labels", "annotations"):
            if metadata.get(name):
                self._metadata[name] = {k: v for k, v in metadata[name].items() if k != ROTATE}

    def _is_announced(self, known: Material, configurations: Configurations) -> bool:
        """Whether every caBundle has had the newest authority for long enough. It has, if there is no configuration."""
        if known.authority is None:
            return False
        certificate = known.authority.certificate
        if not all(certificate in trusted_by(entry) for entry in entries(*configurations.values())):
            self._announced_since = None
            return False
        now = self._clock()
        if self._announced_since is None or self._announced_since[0] != known.authority.certificate_pem:
            self._announced_since = (known.authority.certificate_pem, now)
        return now - self._announced_since[1] >= self._kept.settle_seconds

    def _serve(self, material: Material) -> None:
        if material.serving is not None and replace_pair(self._kept.directory, "tls", material.serving):
            end = material.serving.certificate.not_valid_after_utc
            _log.info("serving a certificate that is valid until %s UTC", f"{end:%Y-%m-%d %H:%M}")

    def _repair(self, configurations: Configurations, material: Material) -> None:
        """Make every webhook of every configuration trust exactly the bundle."""
        wanted = base64.b64encode(join_bundle(material.bundle)).decode()
        for path, configuration in configurations.items():
            wrong = [one for one in entries(configuration) if one.get("clientConfig", {}).get("caBundle") != wanted]
            for entry in wrong:
                entry.setdefault("clientConfig", {})["caBundle"] = wanted
            if configuration is not None and wrong:
                self._cluster.replace(path, configuration)
                _log.info("%s: caBundle replaced in %d of its webhooks", path, len(wrong))

    def _report(self, material: Material, configurations: Configurations) -> None:
        if material.authority is not None and material.serving is not None:
            ends = ends_of(material.serving.certificate, configurations, self._cluster.now())
            self.status = CertificateStatus({**ends, "ca": material.authority.certificate.not_valid_after_utc})


def _data(secret: Json | None) -> dict[str, str]:
    data = (secret or {}).get("data")
    return data if isinstance(data, dict) else {}
