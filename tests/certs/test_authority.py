"""Certificates that real TLS stacks accept, and the questions about them."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.authority import (
    CertificateError,
    KeyPair,
    belong_together,
    covers,
    is_authority,
    issue,
    new_authority,
    read_certificate,
    signed,
)
from tests.golden import each

NOW = datetime.now(UTC)
SERVICE = "gpu-policy.gpu-policy.svc"


@pytest.fixture(scope="module")
def authority() -> KeyPair:
    return new_authority(NOW)


def shake_hands(server: KeyPair, trusted: KeyPair, name: str, folder: Path) -> str:
    """One TLS handshake in memory, verified as strictly as OpenSSL can; answers the protocol that was agreed on."""
    (folder / "server.pem").write_bytes(server.certificate_pem + server.key_pem)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(folder / "server.pem")
    client_context = ssl.create_default_context(cadata=trusted.certificate_pem.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    other = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, other, client, other):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.version() or "none"


@each("name", {"service name": SERVICE, "IPv4": "127.0.0.1", "IPv6": "::1", "wildcard": "any.example.org"})
def test_a_client_that_trusts_the_authority_accepts_the_server_under_every_name(
    authority: KeyPair, name: str, tmp_path: Path
) -> None:
    server = issue(authority, [SERVICE, "127.0.0.1", "::1", "*.example.org"], NOW)
    assert shake_hands(server, authority, name, tmp_path) == "TLSv1.3"


@each(
    "issuer, name, fault",
    {
        "a name that it lacks": (None, "other.gpu-policy.svc", "Hostname mismatch"),
        "another authority": (new_authority(NOW), SERVICE, "unable to get local issuer"),
    },
)
def test_a_client_refuses(authority: KeyPair, tmp_path: Path, issuer: KeyPair | None, name: str, fault: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=fault):
        shake_hands(issue(issuer or authority, [SERVICE], NOW), authority, name, tmp_path)


def test_a_serving_certificate_cannot_sign_others(authority: KeyPair, tmp_path: Path) -> None:
    server = issue(authority, [SERVICE], NOW)
    forged = issue(server, ["kubernetes.default.svc"], NOW)
    chain = KeyPair(forged.certificate_pem + server.certificate_pem, forged.key_pem)
    with pytest.raises(ssl.SSLCertVerificationError, match="invalid CA certificate"):
        shake_hands(chain, authority, "kubernetes.default.svc", tmp_path)


def test_an_authority_says_what_it_may_do_and_nothing_more(authority: KeyPair) -> None:
    certificate = read_certificate(authority.certificate_pem)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, True, False)
    assert isinstance(certificate.public_key().curve, ec.SECP256R1)  # type: ignore[union-attr]  # that is the claim


def test_a_serving_certificate_carries_its_names_and_serves_only(authority: KeyPair) -> None:
    certificate = read_certificate(issue(authority, [SERVICE, "10.0.0.7", SERVICE.upper()], NOW).certificate_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(names) == [x509.DNSName(SERVICE), x509.IPAddress(ipaddress.ip_address("10.0.0.7"))]
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_the_key_identifiers_lead_from_the_certificate_to_its_authority(authority: KeyPair) -> None:
    leaf = read_certificate(issue(authority, [SERVICE], NOW).certificate_pem)
    own = read_certificate(authority.certificate_pem).extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    points_to = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    assert own.value.digest == points_to.value.key_identifier


def test_serial_numbers_and_names_of_authorities_differ() -> None:
    first, second = (read_certificate(new_authority(NOW).certificate_pem) for _ in range(2))
    assert first.serial_number != second.serial_number
    assert first.subject != second.subject


def test_a_name_too_long_for_a_common_name_is_carried_as_alternative_name_only(authority: KeyPair) -> None:
    long = f"{'a' * 60}.{'b' * 60}.svc"
    certificate = issue(authority, [long], NOW).certificate_pem
    (common,) = read_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert common.value == "gpu-policy"
    assert covers(certificate, [long])


def test_validity_starts_two_hours_early_for_clocks_that_lag(authority: KeyPair) -> None:
    moment = datetime(2030, 5, 17, 12, 0, 30, 999_999, tzinfo=UTC)
    certificate = issue(authority, [SERVICE], moment).certificate_pem
    assert read_certificate(certificate).not_valid_before_utc == datetime(2030, 5, 17, 10, 0, 30, tzinfo=UTC)
    assert read_certificate(certificate).not_valid_after_utc == datetime(2031, 5, 17, 12, 0, 30, tzinfo=UTC)


def test_a_certificate_never_outlives_its_authority() -> None:
    authority = new_authority(NOW, timedelta(days=100))
    assert issue(authority, [SERVICE], NOW).certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc


@each(
    "names, covered",
    {
        "one of them": ([SERVICE], True),
        "all, in capitals": ([SERVICE.upper(), "10.0.0.7"], True),
        "a shorter name": (["gpu-policy.gpu-policy"], False),
        "one too many": ([SERVICE, "10.0.0.8"], False),
    },
)
def test_a_certificate_covers_exactly_the_names_it_carries(authority: KeyPair, names: list[str], covered: bool) -> None:
    assert covers(issue(authority, [SERVICE, "10.0.0.7"], NOW).certificate_pem, names) is covered


def test_parts_of_different_pairs_are_told_apart(authority: KeyPair) -> None:
    one, other = issue(authority, [SERVICE], NOW), issue(authority, [SERVICE], NOW)
    assert belong_together(one)
    assert not belong_together(KeyPair(one.certificate_pem, other.key_pem))
    assert signed(one.certificate, authority.certificate)
    assert not signed(one.certificate, new_authority(NOW).certificate)
    assert is_authority(authority.certificate)
    assert not is_authority(one.certificate)


@each(
    "names, message",
    {
        "none": ([], "no names given"),
        "empty": ([""], "'' is neither a DNS name"),
        "an address with its scheme": (["https://webhook.example"], "is neither a DNS name"),
        "outside ASCII": (["größe.example"], "is neither a DNS name"),
        "label of 64 characters": (["a" * 64 + ".example"], "is neither a DNS name"),
        "wildcard in the middle": (["a.*.example"], "is neither a DNS name"),
    },
)
def test_names_that_no_certificate_can_carry_are_refused(authority: KeyPair, names: list[str], message: str) -> None:
    with pytest.raises(CertificateError, match=message):
        issue(authority, names, NOW)


def test_a_private_key_does_not_show_when_a_pair_is_printed(authority: KeyPair) -> None:
    assert "PRIVATE" not in repr(authority)
