"""New files replace the certificate without ending connections, and never by an unusable one."""

import os
import ssl

import pytest

from tests.golden import each, golden
from tests.server.serving import make_certificate, request, serving, trusting
from webhook.server.tls import ServingCertificate


def keeper_of(directory, **options):
    return ServingCertificate(*make_certificate(directory), check_seconds=0, **options)


def handshake(server_context, client_context):
    """Shake hands in memory; return the certificate that the client saw."""
    return shake_hands(server_context, client_context)[0].getpeercert()


def shake_hands(server_context, client_context):
    """Both ends of a connection in memory, the client's first."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client, server


def test_files_that_do_not_change_keep_the_context(tmp_path):
    keeper = keeper_of(tmp_path)
    assert keeper.context() is keeper.context()


def test_files_are_looked_at_only_so_often(tmp_path):
    keeper = ServingCertificate(*make_certificate(tmp_path), check_seconds=3600)
    context = keeper.context()
    make_certificate(tmp_path)
    assert context is keeper.context()


def test_replaced_files_are_served(tmp_path):
    keeper = keeper_of(tmp_path)
    cert_file, _ = make_certificate(tmp_path)
    assert handshake(keeper.context(), trusting(cert_file))
    assert keeper.error is None


def test_the_symlink_swap_of_a_mounted_secret_is_noticed(tmp_path):
    """The kubelet renames a link to a new directory over the old one; the paths of the files never change."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    make_certificate(tmp_path / "old")
    new, _ = make_certificate(tmp_path / "new")
    (tmp_path / "..data").symlink_to("old")
    keeper = ServingCertificate(tmp_path / "..data/server.crt", tmp_path / "..data/server.key", check_seconds=0)
    keeper.context()
    (tmp_path / "..tmp").symlink_to("new")
    os.replace(tmp_path / "..tmp", tmp_path / "..data")
    assert handshake(keeper.context(), trusting(new))


def garble_certificate(cert_file, key_file):
    cert_file.write_text("garbage")


def garble_key(cert_file, key_file):
    key_file.write_text("garbage")


def mismatch_key(cert_file, key_file):
    _, other = make_certificate(key_file.parent, "other")
    key_file.write_bytes(other.read_bytes())


def remove_key(cert_file, key_file):
    key_file.unlink()


@each(
    "spoil",
    {
        "garbage for a certificate": garble_certificate,
        "garbage for a key": garble_key,
        "the key of another certificate": mismatch_key,
        "no key": remove_key,
    },
)
def test_files_that_cannot_be_used_keep_the_old_certificate_until_they_can(tmp_path, caplog, spoil):
    cert_file, key_file = make_certificate(tmp_path)
    old = trusting(cert_file)
    keeper = ServingCertificate(cert_file, key_file, check_seconds=0)
    spoil(cert_file, key_file)
    for _ in range(3):
        assert handshake(keeper.context(), old)
    assert keeper.error
    assert len(caplog.records) == 1, "said once, not every time"
    make_certificate(tmp_path)
    assert handshake(keeper.context(), trusting(cert_file))
    assert keeper.error is None


def test_an_encrypted_key_is_an_error_and_not_a_question_on_the_terminal(tmp_path):
    cert_file, key_file = make_certificate(tmp_path, password=b"secret")
    with pytest.raises(ValueError, match="encrypted"):
        ServingCertificate(cert_file, key_file)


@each("version, fits", {"1.2": (ssl.TLSVersion.TLSv1_2, True), "1.3": (ssl.TLSVersion.TLSv1_3, True)})
def test_tls_versions_from_1_2_are_spoken(tmp_path, version, fits):
    keeper = keeper_of(tmp_path)
    client = trusting(tmp_path / "server.crt")
    client.minimum_version = client.maximum_version = version
    assert handshake(keeper.context(), client)
    assert ssl.TLSVersion.TLSv1_2 == keeper.context().minimum_version


def test_without_an_authority_for_clients_nobody_is_objected_to(tmp_path):
    keeper = keeper_of(tmp_path)
    assert keeper.objection(shake_hands(keeper.context(), trusting(tmp_path / "server.crt"))[1]) == ""


@golden
def test_a_client_with_a_certificate_of_the_authority_may_ask_if_it_has_a_right_name(tmp_path, names, expected):
    ours = make_certificate(tmp_path, "api-server", dns_names=["api.example.com"])
    keeper = keeper_of(tmp_path, client_ca_file=ours[0], client_names=names)
    _, connection = shake_hands(keeper.context(), trusting(tmp_path / "server.crt", *ours))
    assert expected == keeper.objection(connection)


def test_a_client_without_a_certificate_gets_in_and_is_objected_to(tmp_path):
    """Probes and Prometheus have none."""
    ours = make_certificate(tmp_path, "client")
    keeper = keeper_of(tmp_path, client_ca_file=ours[0])
    _, connection = shake_hands(keeper.context(), trusting(tmp_path / "server.crt"))
    expected = "client certificate: found none, expected one of the authority in --client-ca"
    assert expected == keeper.objection(connection)


def test_a_certificate_of_another_authority_ends_the_handshake(tmp_path):
    ours, theirs = make_certificate(tmp_path, "client"), make_certificate(tmp_path, "stranger")
    keeper = keeper_of(tmp_path, client_ca_file=ours[0])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(keeper.context(), trusting(tmp_path / "server.crt", *theirs))


def test_the_application_learns_of_each_request_whether_its_client_may_ask(tmp_path):
    ours = make_certificate(tmp_path, "client")
    with serving(tmp_path, client_ca_file=str(ours[0]), client_names=["client"]) as server:
        known, unknown = server.tls(trusting(server.cert_file, *ours)), server.tls()
        for _ in range(2):
            assert known.ask("/objection")[::2] == (200, b"")
            assert unknown.ask("/objection")[2].startswith(b"client certificate: found none")
            assert unknown.ask("/readyz")[2] == b"ready"


def test_a_new_authority_for_clients_is_taken_up_under_connections_that_go_on(tmp_path):
    old, new = make_certificate(tmp_path, "client"), make_certificate(tmp_path, "successor")
    authorities = tmp_path / "clients.crt"
    authorities.write_bytes(old[0].read_bytes())
    with serving(tmp_path, client_ca_file=str(authorities), certificate_check_seconds=0) as server:
        kept = server.tls(trusting(server.cert_file, *old))
        assert kept.ask("/objection")[2] == b""
        authorities.write_bytes(new[0].read_bytes())
        assert server.tls(trusting(server.cert_file, *new)).ask("/objection")[2] == b""
        with pytest.raises((OSError, EOFError)):  # whichever arrives first
            server.tls(trusting(server.cert_file, *old)).ask("/objection")
        assert kept.ask("/objection")[2] == b""


def test_new_certificates_are_served_and_requests_go_on_through_rotations_on_the_connections_they_are_on(tmp_path):
    """The API server keeps its connections; none of them notices that the certificate has changed three times."""
    with serving(tmp_path, certificate_check_seconds=0) as server:
        kept = [server.tls() for _ in range(5)]
        slow = server.tls().send(request("/long"))
        for _ in range(3):
            make_certificate(tmp_path)
            assert server.tls(trusting(server.cert_file)).ask()[0] == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                server.tls()
            answers = [client.ask(body=b"hello") for client in kept]
            assert {(status, headers["connection"]) for status, headers, _ in answers} == {(200, "keep-alive")}
        assert slow.answer()[::2] == (200, b"done")
