"""Replicas that keep certificates together, when one of them is late, cut off, called otherwise or out of disk."""

import copy
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509 import Certificate

from certs.authority import CertificateError, covers, issue, new_authority, read_certificate
from certs.files import replace_pair
from certs.keeper import CertificateKeeper, Kept
from tests.certs.memory_cluster import CONFIGURATIONS, SECRET, MemoryCluster
from tests.certs.test_keeper import NOW, SETTLE, Keeper, assert_trusted, authority_of, material

HOURS = timedelta(hours=2)
LOOK = timedelta(seconds=5)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(NOW)


@pytest.fixture
def pair_of_replicas(cluster: MemoryCluster, tmp_path: Path) -> tuple[Keeper, Keeper]:
    """Two that have looked for hours."""
    keepers = Keeper(cluster, tmp_path / "a"), Keeper(cluster, tmp_path / "b")
    for _ in range(2):
        for keeper in keepers:
            keeper.look()
        cluster.pass_time(HOURS)
    return keepers


def looks(cluster: MemoryCluster, count: int, *keepers: Keeper) -> None:
    for _ in range(count):
        for keeper in keepers:
            keeper.look()
            assert_trusted(cluster, keeper)
        cluster.pass_time(LOOK)


def rotate_and_retire(cluster: MemoryCluster, *keepers: Keeper) -> Certificate:
    """Get rid of the authority, and return it."""
    former = read_certificate(authority_of(cluster))
    looks(cluster, 1, *keepers)
    cluster.annotate("authority")
    looks(cluster, 400, *keepers)
    cluster.annotate("retire")
    looks(cluster, 2, *keepers)
    assert former not in cluster.bundles()[0]
    return former


def test_a_rotation_that_is_asked_for_again_and_again_goes_on_and_never_breaks_trust(
    cluster: MemoryCluster, pair_of_replicas: tuple[Keeper, Keeper]
) -> None:
    """As a tool does that applies the annotation whenever it is gone."""
    first = pair_of_replicas[0].served()
    for _ in range(400):
        cluster.annotate("authority")
        looks(cluster, 1, *pair_of_replicas)
    assert pair_of_replicas[0].served() != first
    assert len(cluster.bundles()[0]) <= 8


def test_replicas_that_are_called_by_other_names_agree_on_one_certificate_for_all(
    cluster: MemoryCluster, tmp_path: Path
) -> None:
    """In the middle of an upgrade that changes the names, in both directions."""
    names = [("svc.ns.svc", "old.example"), ("svc.ns.svc", "new.example")]
    keepers = [
        CertificateKeeper(
            cluster, Kept(SECRET, tmp_path / str(number), of_one, SETTLE, CONFIGURATIONS), clock=cluster.monotonic
        )
        for number, of_one in enumerate(names)
    ]
    for _ in range(40):
        cluster.pass_time(LOOK)
        for keeper in keepers:
            keeper.look()
    assert cluster.writes.count(SECRET.path) == 2
    assert covers((tmp_path / "0" / "tls.crt").read_bytes(), {name for of_one in names for name in of_one})


@pytest.mark.parametrize("loss", ["Secret deleted", "key garbage"])
def test_a_replica_that_was_cut_off_brings_no_retired_authority_back(
    loss: str, cluster: MemoryCluster, pair_of_replicas: tuple[Keeper, Keeper]
) -> None:
    active, stale = pair_of_replicas
    former = rotate_and_retire(cluster, active)
    if loss == "Secret deleted":
        del cluster.objects[SECRET.path]
    else:
        broken = {**material(cluster), "ca.key": "Z2FyYmFnZQ=="}
        cluster.put(SECRET.path, {**cluster.objects[SECRET.path], "data": broken})
    stale.look()
    active.look()
    assert read_certificate(authority_of(cluster)) != former
    assert all(former not in bundle for bundle in cluster.bundles())
    assert_trusted(cluster, active, stale)


def test_an_older_secret_that_is_put_back_leaves_everybody_trusted(
    cluster: MemoryCluster, pair_of_replicas: tuple[Keeper, Keeper]
) -> None:
    looks(cluster, 1, *pair_of_replicas)
    backup = copy.deepcopy(cluster.objects[SECRET.path])
    cluster.annotate("authority")
    looks(cluster, 400, *pair_of_replicas)
    cluster.put(SECRET.path, backup)
    first, second = pair_of_replicas
    first.look()
    assert_trusted(cluster, first, second)
    second.look()
    assert first.served() == second.served()


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file can be longer than so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_does_not_stop_the_mending_of_bundles(
    cluster: MemoryCluster, pair_of_replicas: tuple[Keeper, Keeper]
) -> None:
    first, second = pair_of_replicas
    looks(cluster, 1, first, second)
    cluster.annotate("serving")
    second.look()
    for path in CONFIGURATIONS:
        configuration = cluster.objects[path]
        configuration["webhooks"][0]["clientConfig"] = {}
        cluster.put(path, configuration)
    with full_disk(10), pytest.raises(CertificateError):
        first.look()
    assert_trusted(cluster, first, second)
    first.look()
    assert first.served() == second.served()


def test_no_key_is_left_behind_where_there_is_no_room_for_its_certificate(tmp_path: Path) -> None:
    pair = issue(new_authority(NOW), ["a.example"], NOW)
    assert len(pair.key_pem) < 400 < len(pair.certificate_pem)
    with full_disk(400), pytest.raises(CertificateError):
        replace_pair(tmp_path, "tls", pair)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_behind_is_swept_away(tmp_path: Path) -> None:
    pair = issue(new_authority(NOW), ["a.example"], NOW)
    (tmp_path / ".new-abc").write_bytes(pair.key_pem)
    assert replace_pair(tmp_path, "tls", pair)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tls.crt", "tls.key"]
