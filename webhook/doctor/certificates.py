"""Certificates: whether the API server trusts what the replicas serve, and for how long."""

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from certs.authority import CertificateError, covers, general_names, read_bundle, read_certificate, trusted_until
from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import Installation, Object, UnavailableError, decoded

SOON = timedelta(days=30)


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """The API server trusts the served certificate, and will do so for a while."""
    secret = installation.certificate_secret
    if secret is None:
        yield problem("there is no Secret with the serving certificate", "a Secret with tls.crt", _remedy(installation))
        return
    name = f"Secret {secret['metadata']['namespace']}/{secret['metadata']['name']}"
    data = secret.get("data") or {}
    pem, authority = decoded(data, "tls.crt"), decoded(data, "ca.crt")
    try:
        yield _valid(f"the serving certificate in {name}", pem, installation)
        for entry in installation.entries:
            yield _entry(entry, pem, installation)
    except CertificateError as error:
        yield problem(f"tls.crt in {name} is {error}", "the serving certificate", _remedy(installation))
    try:
        if authority:
            yield _valid(f"the authority in {name}", authority, installation)
    except CertificateError as error:
        yield problem(f"ca.crt in {name} is {error}", "the authority", _remedy(installation))


def _entry(entry: Object, pem: bytes, installation: Installation) -> DoctorFinding:
    """Whether a webhook's caBundle trusts the certificate, and the certificate covers the host name of the webhook."""
    name, client = entry["name"], entry.get("clientConfig", {})
    service = client.get("service")
    host = (
        f"{service['name']}.{service['namespace']}.svc" if service else urlsplit(client.get("url", "")).hostname or ""
    )
    try:
        general_names([host])
    except CertificateError:
        found = f"{name} is called at {client.get('url')}, whose host is neither a DNS name nor an IP address"
        return problem(found, "a host that a certificate can cover", "correct webhook.url of the chart")
    if not covers(pem, [host]):
        found = f"{name} is called at {host}, which the serving certificate does not cover"
        return problem(found, f"a certificate for {host}", _remedy(installation))
    try:
        bundle = base64.b64decode(client.get("caBundle") or "")
        end = trusted_until(read_certificate(pem), read_bundle(bundle)) if bundle else None
    except (CertificateError, binascii.Error) as error:
        return problem(f"the caBundle of {name} is {error}", "the authorities to trust", _remedy(installation))
    if end is not None:
        return _ending(f"the trust of {name} in the serving certificate", None, end, installation)
    if not bundle and _is_left_to_the_roots(installation):
        return skipped(f"the caBundle of {name} is empty, so the API server's own roots decide; see the check pods")
    found = f"the caBundle of {name} {'does not trust the serving certificate' if bundle else 'is empty'}"
    return problem(found, "the authority that signed the serving certificate", _remedy(installation))


def _is_left_to_the_roots(installation: Installation) -> bool:
    """Whether an empty caBundle stays empty, because no program fills it in."""
    found = (configuration for configuration in installation.configurations.values() if configuration)
    annotations = [key for one in found for key in one["metadata"].get("annotations") or {}]
    injects = any(key.startswith("cert-manager.io/inject-") for key in annotations)
    return not injects and not installation.workload.keeps_certificates


def _valid(what: str, pem: bytes, installation: Installation) -> DoctorFinding:
    certificate = read_certificate(pem)
    return _ending(what, certificate.not_valid_before_utc, certificate.not_valid_after_utc, installation)


def _ending(what: str, start: datetime | None, end: datetime, installation: Installation) -> DoctorFinding:
    now = installation.cluster.now()
    if start is not None and start > now:
        return problem(f"{what} begins {start:%Y-%m-%d %H:%M} UTC", "validity now", _remedy(installation))
    if end <= now:
        return problem(f"{what} ended {end:%Y-%m-%d %H:%M} UTC", "validity now", _remedy(installation))
    if end - now < SOON:
        found = f"{what} ends {end:%Y-%m-%d %H:%M} UTC, in {(end - now).days} days"
        return warning(found, f"more than {SOON.days} days", _remedy(installation))
    return ok(f"{what} ends {end:%Y-%m-%d}")


def _remedy(installation: Installation) -> str:
    try:
        keeps = installation.workload.keeps_certificates
    except UnavailableError:
        keeps = False
    if keeps:
        return (
            f"a replica fixes this within seconds; if it does not, its log says why: "
            f"{installation.kubectl} logs {installation.title} | grep gpu_policy.certificates"
        )
    return (
        "whoever issues the certificate (cert-manager, or you) has to renew it in the Secret, and put the authority "
        "that signed it into the caBundle of both configurations"
    )
