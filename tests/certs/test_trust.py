"""The status of certificates that another program keeps, and the certificates that a bundle accepts."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import CertificateError, issue, new_authority, trusted_until
from certs.cluster import ClusterError
from certs.keeper import CertificateWitness
from tests.certs.memory_cluster import CONFIGURATIONS, MemoryCluster

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
AUTHORITY = new_authority(NOW)
SERVING = issue(AUTHORITY, ["gpu-policy.gpu-policy.svc"], NOW)
STRANGER = new_authority(NOW)


def trust(cluster: MemoryCluster, *authorities: bytes) -> None:
    for path in CONFIGURATIONS:
        configuration = cluster.objects[path]
        configuration["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(b"".join(authorities)).decode()
        cluster.put(path, configuration)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(NOW)


@pytest.fixture
def witness(cluster: MemoryCluster, tmp_path: Path) -> CertificateWitness:
    (tmp_path / "tls.crt").write_bytes(SERVING.certificate_pem)
    return CertificateWitness(cluster, tmp_path / "tls.crt", CONFIGURATIONS)


def test_a_witness_says_when_each_part_ends_and_writes_nothing(
    cluster: MemoryCluster, witness: CertificateWitness
) -> None:
    trust(cluster, STRANGER.certificate_pem, AUTHORITY.certificate_pem)
    witness.look()
    leaf = SERVING.certificate.not_valid_after_utc
    assert witness.status.ends == {"leaf": leaf, "ca": AUTHORITY.certificate.not_valid_after_utc, "ca_bundle": leaf}
    assert witness.status.fault == ""
    assert cluster.writes == []


@pytest.mark.parametrize("bundle", [b"", STRANGER.certificate_pem], ids=["blank", "another authority"])
def test_a_witness_says_that_the_served_certificate_is_not_trusted(
    bundle: bytes, cluster: MemoryCluster, witness: CertificateWitness
) -> None:
    trust(cluster, bundle)
    witness.look()
    assert witness.status.ends["ca_bundle"] == NOW
    assert "ca" not in witness.status.ends
    assert "does not hold the authority that signed" in witness.status.fault


def test_a_witness_says_that_the_served_certificate_has_ended(
    cluster: MemoryCluster, witness: CertificateWitness
) -> None:
    trust(cluster, AUTHORITY.certificate_pem)
    cluster.pass_time(366 * DAY)
    witness.look()
    assert "ended 2031-01-01 00:00 UTC; renew it" in witness.status.fault


def test_a_witness_without_configurations_knows_the_certificate_alone(
    cluster: MemoryCluster, witness: CertificateWitness
) -> None:
    cluster.objects.clear()
    witness.look()
    assert (set(witness.status.ends), witness.status.fault) == ({"leaf"}, "")


def test_a_witness_that_cannot_look_keeps_what_it_saw(cluster: MemoryCluster, witness: CertificateWitness) -> None:
    trust(cluster, AUTHORITY.certificate_pem)
    witness.look()
    ends = witness.status.ends
    cluster.unreachable = True
    with pytest.raises(ClusterError):
        witness.look()
    assert (witness.status.ends, witness.status.fault) == (ends, "no answer")


def test_a_missing_file_is_named(cluster: MemoryCluster, tmp_path: Path) -> None:
    witness = CertificateWitness(cluster, tmp_path / "tls.crt", ())
    with pytest.raises(CertificateError, match=r"tls\.crt cannot be read: No such file"):
        witness.look()


def test_a_bundle_accepts_what_one_of_its_authorities_signed_until_either_ends() -> None:
    end = SERVING.certificate.not_valid_after_utc
    assert trusted_until(SERVING.certificate, [AUTHORITY.certificate]) == end
    assert trusted_until(SERVING.certificate, [STRANGER.certificate, AUTHORITY.certificate]) == end
    assert trusted_until(SERVING.certificate, [STRANGER.certificate]) is None
    short = new_authority(NOW, lifetime=10 * DAY)
    assert trusted_until(issue(short, ["a.svc"], NOW).certificate, [short.certificate]) == NOW + 10 * DAY
