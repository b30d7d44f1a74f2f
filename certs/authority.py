"""A private certificate authority and the serving certificates that it issues, as pure values.

An API server calls a webhook only over TLS that verifies against the caBundle of its configuration. The certificates
verify under OpenSSL's strict checks and under Go: ECDSA P-256, names in subjectAltName only, key identifiers,
critical basicConstraints and keyUsage (RFC 5280).
"""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME = timedelta(days=3650)

SERVING_LIFETIME = timedelta(days=365)
"""Default validity of a new serving certificate; it never ends after its authority."""

BACKDATE = timedelta(hours=2)
"""Time before now when validity starts, so that a machine with a slow clock accepts a new certificate."""

SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
"""Keys that an authority may have: new keys are EC, keys that people bring may be RSA."""

_DNS_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


class CertificateError(ValueError):
    """Certificates cannot be read, made or written; the message says which and why, and for files what to do."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM. The key is unencrypted PKCS #8 and stays out of repr()."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)

    @cached_property
    def certificate(self) -> x509.Certificate:
        return read_certificate(self.certificate_pem)


def new_authority(now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> KeyPair:
    """A new self-signed authority. It can sign serving certificates, and no further authorities (pathlen 0).

    `now` has a time zone. The common name ends in a random number, which distinguishes authorities in one bundle.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _common_name(f"gpu-policy CA {secrets.token_hex(4)}")
    builder = (
        _builder(name, name, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def issue(authority: KeyPair, names: Iterable[str], now: datetime, lifetime: timedelta = SERVING_LIFETIME) -> KeyPair:
    """A new key and its serving certificate, which is valid for every DNS name and IP address in `names`.

    The certificate ends with the authority at the latest. Raises CertificateError where `names` is empty or has
    something other than DNS names and IP addresses, and where the authority cannot be read.
    """
    subject_names = general_names(names)
    issuer = authority.certificate
    key = ec.generate_private_key(ec.SECP256R1())
    shown = next((text for name in subject_names if len(text := str(name.value)) <= 64), "gpu-policy")
    builder = (
        _builder(
            _common_name(shown),  # 64 characters at most; only people read it
            issuer.subject,
            key.public_key(),
            now,
            min(now + lifetime, issuer.not_valid_after_utc),
        )
        .add_extension(x509.SubjectAlternativeName(subject_names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_authority_key(issuer), critical=False)
    )
    return _signed(builder, key, read_key(authority.key_pem))


def general_names(names: Iterable[str]) -> tuple[x509.DNSName | x509.IPAddress, ...]:
    """DNS names (in lower case; they may begin with `*.`) and IP addresses as certificates hold them, each once.

    Raises CertificateError for anything else, and for no names. Names outside ASCII have to be written as xn--.
    """
    found = tuple(dict.fromkeys(_general_name(name) for name in names))
    if not found:
        raise CertificateError("no names given; a serving certificate needs at least one DNS name or IP address")
    return found


def _general_name(name: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    labels = name.removeprefix("*.").split(".")
    if len(name) > 253 or not all(_DNS_LABEL.fullmatch(label) for label in labels):
        raise CertificateError(f"{name!r} is neither a DNS name nor an IP address; write it as in gpu-policy.example")
    return x509.DNSName(name.lower())


def read_certificate(pem: bytes) -> x509.Certificate:
    """The first certificate in a PEM text. Raises CertificateError."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CertificateError("not a PEM certificate") from error


def read_key(pem: bytes) -> SigningKey:
    """The private key in a PEM text. It is EC or RSA, and not encrypted. Raises CertificateError."""
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError("not an unencrypted PEM private key") from error
    if not isinstance(key, SigningKey):
        raise CertificateError("neither an elliptic-curve nor an RSA private key")
    return key


def names_of(certificate_pem: bytes) -> tuple[str, ...]:
    """The DNS names and IP addresses in the certificate."""
    try:
        extension = read_certificate(certificate_pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in extension.value if isinstance(name, x509.DNSName | x509.IPAddress))


def covers(certificate_pem: bytes, names: Iterable[str]) -> bool:
    """Whether the certificate has each of `names` literally; wildcards are not expanded."""
    return {str(name.value) for name in general_names(names)} <= set(names_of(certificate_pem))


def belong_together(pair: KeyPair) -> bool:
    """Whether the key belongs to the certificate. Raises CertificateError."""
    return pair.certificate.public_key() == read_key(pair.key_pem).public_key()


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether the certificate may sign other certificates."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the authority signed the certificate. Validity in time is not checked."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before((now - BACKDATE).astimezone(UTC).replace(microsecond=0))
        .not_valid_after(end.astimezone(UTC).replace(microsecond=0))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: SigningKey) -> KeyPair:
    return KeyPair(
        builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _usage(*purposes: str) -> x509.KeyUsage:
    everything = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign "
        "encipher_only decipher_only"
    )
    return x509.KeyUsage(**{purpose: purpose in purposes for purpose in everything.split()})


def _authority_key(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        subject_key = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        digest = x509.SubjectKeyIdentifier.from_public_key(issuer.public_key()).digest
        return x509.AuthorityKeyIdentifier(digest, None, None)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_key)


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def read_bundle(pem: bytes) -> tuple[x509.Certificate, ...]:
    """All certificates in a PEM text, in order. Raises CertificateError where there is none or one cannot be read."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError as error:
        raise CertificateError("not a PEM bundle of certificates") from error


def join_bundle(certificates: tuple[x509.Certificate, ...]) -> bytes:
    """The certificates as one PEM text, each once."""
    return b"".join(dict.fromkeys(one.public_bytes(Encoding.PEM) for one in certificates))


def trusted_until(certificate: x509.Certificate, bundle: Iterable[x509.Certificate]) -> datetime | None:
    """When a client that trusts the bundle stops accepting the certificate, in UTC; None where no authority signed it.

    That is the end of the certificate, or of the last authority that signed it, whichever comes first. It may be in the
    past. Names and beginnings are not checked.
    """
    ends = [authority.not_valid_after_utc for authority in bundle if signed(certificate, authority)]
    return min(certificate.not_valid_after_utc, max(ends)) if ends else None
