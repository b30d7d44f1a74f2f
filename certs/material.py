"""The certificates that all replicas share, and the plan to renew them: pure values, no I/O.

An authority is never replaced at once. A new authority is first announced: it is in the caBundle beside the former
authority, whose serving certificate is still served. The new authority issues only when every API server must have read
the caBundle. The former authority stays in the bundle until it ends, so a late replica is trusted, too.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import (
    BACKDATE,
    CertificateError,
    KeyPair,
    belong_together,
    covers,
    general_names,
    is_authority,
    issue,
    join_bundle,
    names_of,
    new_authority,
    read_bundle,
    signed,
)

MOST_AUTHORITIES = 8
"""Most authorities in one bundle; the oldest are left out. A usual rotation needs two."""

_UNCOVERED = "the serving certificate did not cover every name"

SPREAD = timedelta(minutes=10)
"""Time after which every running replica serves a new certificate; replicas look every few seconds."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The names of the serving certificate, and how long before their end it and its authority are replaced.

    Raises CertificateError for names that no certificate can have.
    """

    names: tuple[str, ...]
    serving_renewal: timedelta = timedelta(days=90)
    authority_renewal: timedelta = timedelta(days=730)
    """Longer than the validity of a serving certificate, so that no authority ends before its certificate."""

    def __post_init__(self) -> None:
        general_names(self.names)


@dataclass(frozen=True, slots=True)
class Material:
    """The content of a Secret. None and () stand for missing or unusable parts; `faults` says what is wrong."""

    authority: KeyPair | None = None
    """ca.crt and ca.key: the newest authority, which issues when it has been announced for long enough."""
    serving: KeyPair | None = None
    """tls.crt and tls.key: the serving certificate of every replica."""
    bundle: tuple[x509.Certificate, ...] = ()
    """ca-bundle.crt: every authority that clients have to trust."""
    faults: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of a plan besides the certificates."""

    now: datetime
    """With a time zone; the clock of the API server, which verifies."""
    is_announced: bool
    """Whether every client has known the newest authority for long enough."""
    request: str = ""
    """The rotation that an administrator asks for: serving, authority or retire; empty for none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The material as it has to become. Without reasons it stays as it is."""

    material: Material
    reasons: tuple[str, ...]
    ends_request: bool
    """Whether the request is done: the plan fulfils it, or it is unknown. False without a request."""


def material_of(data: Mapping[str, str]) -> Material:
    """The material in the data of a Secret (values in base64). Unusable parts are left out and named in `faults`."""
    faults: list[str] = []
    authority = _pair_of(data, "ca", faults)
    if authority and not is_authority(authority.certificate):
        faults.append("ca.crt is not the certificate of an authority")
        authority = None
    serving = _pair_of(data, "tls", faults)
    bundle: tuple[x509.Certificate, ...] = ()
    try:
        if "ca-bundle.crt" in data:
            bundle = read_bundle(_decoded(data, "ca-bundle.crt"))
    except CertificateError as error:
        faults.append(f"ca-bundle.crt: {error}")
    return Material(authority, serving, bundle, tuple(faults))


def data_of(material: Material) -> dict[str, str]:
    """The data of a Secret for a complete material. Raises ValueError for an incomplete one."""
    if material.authority is None or material.serving is None:
        raise ValueError("only a complete material can be stored")
    contents = {
        "ca.crt": material.authority.certificate_pem,
        "ca.key": material.authority.key_pem,
        "tls.crt": material.serving.certificate_pem,
        "tls.key": material.serving.key_pem,
        "ca-bundle.crt": join_bundle(material.bundle),
    }
    return {name: base64.b64encode(content).decode() for name, content in contents.items()}


def plan(found: Material, terms: Terms, situation: Situation) -> Plan:
    """The plan for the material: the parts to make, and why."""
    authority, news = _authority(found, terms, situation)
    if news:
        situation = replace(situation, is_announced=False)
    certificate = authority.certificate
    bundle = (certificate, *_others(found, certificate, situation.now))
    reasons = [news] if news else []
    serving = found.serving
    fault = _serving_fault(serving, certificate, bundle, terms, situation)
    if serving is None or fault:
        serving = issue(authority, _names(serving, fault, terms), situation.now)
        reasons.append(fault)
    issued = serving.certificate.not_valid_before_utc + BACKDATE
    is_settled = situation.is_announced and not fault and issued + SPREAD <= situation.now
    if situation.request == "retire" and is_settled and len(bundle) > 1:
        bundle = (certificate,)
        reasons.append("former authorities are retired, as asked")
    elif set(bundle) != set(found.bundle) and not reasons:
        reasons.append("the bundle did not hold exactly the authorities to trust")
    granted = {"": False, "authority": bool(news), "serving": bool(fault), "retire": is_settled}
    return Plan(Material(authority, serving, bundle), tuple(reasons), granted.get(situation.request, True))


def _authority(found: Material, terms: Terms, situation: Situation) -> tuple[KeyPair, str]:
    """The authority to issue with, and why it was made; an empty text where it existed.

    An authority is not replaced on request before it has issued.
    """
    authority, serving = found.authority, found.serving
    if authority is None:
        news = "there was no usable authority"
    elif (
        situation.request == "authority"
        and situation.is_announced
        and serving is not None
        and signed(serving.certificate, authority.certificate)
    ):
        news = "a new authority was asked for"
    elif (end := authority.certificate.not_valid_after_utc) <= situation.now + terms.authority_renewal:
        news = f"the authority {'ended' if end <= situation.now else 'ends'} {end:%Y-%m-%d}"
    elif authority.certificate.not_valid_before_utc > situation.now:
        news = "the authority was not valid yet"
    else:
        return authority, ""
    return new_authority(situation.now), news


def _serving_fault(
    serving: KeyPair | None,
    authority: x509.Certificate,
    bundle: tuple[x509.Certificate, ...],
    terms: Terms,
    situation: Situation,
) -> str:
    """Why a serving certificate has to be issued now; an empty text where the present one is kept."""
    if serving is None:
        return "there was no usable serving certificate"
    certificate = serving.certificate
    end = certificate.not_valid_after_utc
    unusable = {
        f"the serving certificate ended {end:%Y-%m-%d}": end <= situation.now,
        "the serving certificate was not valid yet": certificate.not_valid_before_utc > situation.now,
        "no authority in the bundle had signed the serving certificate": not any(
            signed(certificate, one) for one in bundle
        ),
    }
    unwanted = {
        _UNCOVERED: not covers(serving.certificate_pem, terms.names),
        f"the serving certificate ends {end:%Y-%m-%d}": end <= situation.now + terms.serving_renewal,
        "a new serving certificate was asked for": situation.request == "serving",
        "the new authority has been announced for long enough": not signed(certificate, authority),
    }
    faults = {**unusable, **(unwanted if situation.is_announced else {})}
    return next((fault for fault, present in faults.items() if present), "")


def _names(serving: KeyPair | None, fault: str, terms: Terms) -> tuple[str, ...]:
    """The names of the new certificate. If only names are missing, the former names stay: in an upgrade, replicas with
    different names would otherwise issue in turns for ever.
    """
    if serving is None or fault != _UNCOVERED:
        return terms.names
    return tuple(dict.fromkeys((*terms.names, *names_of(serving.certificate_pem))))


def _others(found: Material, authority: x509.Certificate, now: datetime) -> tuple[x509.Certificate, ...]:
    """The other authorities that have not ended, each once: issuers of the served certificate, then the newest."""
    serving = found.serving and found.serving.certificate
    alive = dict.fromkeys(one for one in found.bundle if one != authority and one.not_valid_after_utc > now)
    newest_first = sorted(alive, key=lambda one: one.not_valid_before_utc, reverse=True)
    in_use_first = sorted(newest_first, key=lambda one: not (serving and signed(serving, one)))
    return tuple(in_use_first[: MOST_AUTHORITIES - 1])


def _pair_of(data: Mapping[str, str], stem: str, faults: list[str]) -> KeyPair | None:
    names = (f"{stem}.crt", f"{stem}.key")
    absent = [name for name in names if name not in data]
    if len(absent) == 1:
        faults.append(f"there is no {absent[0]}")
    if absent:
        return None
    try:
        pair = KeyPair(_decoded(data, names[0]), _decoded(data, names[1]))
        if belong_together(pair):
            # only the first certificate counts: the rest of the text was never checked
            return KeyPair(pair.certificate.public_bytes(Encoding.PEM), pair.key_pem)
        faults.append(f"{names[1]} is not the key of {names[0]}")
    except CertificateError as error:
        faults.append(f"{' or '.join(names)}: {error}")
    return None


def _decoded(data: Mapping[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(data[name], validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise CertificateError("not base64") from error
