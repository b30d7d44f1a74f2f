"""Replicas that keep their certificates together: one authority, and trust that never breaks off."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.authority import new_authority, read_certificate, trusted_until
from certs.cluster import ClusterError, Kept
from certs.keeper import CertificateKeeper
from certs.material import material_of
from tests.certificate_files import issued_by
from tests.certs.memory_cluster import CONFIGURATIONS, SECRET, MemoryCluster
from tests.golden import each
from tests.strategies import examples

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ("gpu-policy.gpu-policy.svc",)
SETTLE = 60.0


class Keeper(CertificateKeeper):
    """One replica on a cluster in memory; its clock is the cluster's."""

    def __init__(self, cluster: MemoryCluster, directory: Path) -> None:
        self.directory = directory
        kept = Kept(SECRET, directory, NAMES, SETTLE, CONFIGURATIONS)
        super().__init__(cluster, kept, clock=cluster.monotonic)

    def served(self) -> bytes:
        return (self.directory / "tls.crt").read_bytes()


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(NOW)


@pytest.fixture
def keeper(cluster: MemoryCluster, tmp_path: Path) -> Keeper:
    """A replica that has looked twice, so that nothing is left to do."""
    keeper = Keeper(cluster, tmp_path)
    keeper.look()
    keeper.look()
    cluster.writes.clear()
    return keeper


def material(cluster: MemoryCluster) -> dict[str, str]:
    data: dict[str, str] = cluster.objects[SECRET.path]["data"]
    return data


def authority_of(cluster: MemoryCluster) -> bytes:
    return base64.b64decode(material(cluster)["ca.crt"])


def assert_trusted(cluster: MemoryCluster, *keepers: Keeper) -> None:
    for keeper in keepers:
        for bundle in cluster.bundles():
            end = trusted_until(read_certificate(keeper.served()), bundle)
            assert end is not None
            assert end > cluster.time


@pytest.mark.parametrize("exists", [True, False], ids=["empty Secret", "no Secret"])
@pytest.mark.parametrize("moment", range(6))
def test_replicas_that_start_at_the_same_instant_make_one_authority(moment: int, exists: bool, tmp_path: Path) -> None:
    """The second replica does everything between any two calls of the first."""
    cluster = MemoryCluster(NOW)
    if not exists:
        del cluster.objects[SECRET.path]
    first, second = Keeper(cluster, tmp_path / "1"), Keeper(cluster, tmp_path / "2")
    calls = 0

    def interrupt() -> None:
        nonlocal calls
        calls += 1
        if calls == moment + 1:
            cluster.before_call = lambda: None
            second.look()

    cluster.before_call = interrupt
    first.look()
    assert first.served() == second.served()
    assert cluster.writes.count(SECRET.path) == 1
    assert_trusted(cluster, first, second)


def test_looking_again_writes_nothing(cluster: MemoryCluster, keeper: Keeper) -> None:
    keeper.look()
    assert cluster.writes == []
    assert set(keeper.status.ends) == {"ca", "leaf", "ca_bundle"}
    assert keeper.status.fault == ""


@each(
    "bundle",
    {
        "gone": None,
        "blank": "",
        "garbage": "Z2FyYmFnZQ==",
        "a stranger's": base64.b64encode(new_authority(NOW).certificate_pem).decode(),
    },
)
def test_an_edited_bundle_is_set_right(bundle: str | None, cluster: MemoryCluster, keeper: Keeper) -> None:
    edited = cluster.objects[CONFIGURATIONS[1]]
    edited["webhooks"][0]["clientConfig"] = {} if bundle is None else {"caBundle": bundle}
    cluster.put(CONFIGURATIONS[1], edited)
    keeper.look()
    assert_trusted(cluster, keeper)


def test_an_entry_that_an_upgrade_adds_gets_the_bundle_and_nothing_is_issued_for_it(
    cluster: MemoryCluster, keeper: Keeper
) -> None:
    before = dict(material(cluster))
    upgraded = cluster.objects[CONFIGURATIONS[1]]
    upgraded["webhooks"].append({"name": "b", "clientConfig": {"service": {"path": "/b"}}})
    cluster.put(CONFIGURATIONS[1], upgraded)
    cluster.writes.clear()
    keeper.look()
    assert_trusted(cluster, keeper)
    assert (len(cluster.bundles()), cluster.writes, material(cluster)) == (3, [CONFIGURATIONS[1]], before)


def test_a_rotated_authority_issues_only_after_it_has_settled_in_every_bundle(
    cluster: MemoryCluster, keeper: Keeper
) -> None:
    before = keeper.served()
    cluster.pass_time(timedelta(seconds=SETTLE))
    cluster.annotate("authority")
    keeper.look()
    announced = cluster.time
    assert not cluster.objects[SECRET.path]["metadata"]["annotations"]
    while keeper.served() == before:
        assert cluster.time - announced <= timedelta(seconds=SETTLE + 10)
        cluster.pass_time(timedelta(seconds=5))
        keeper.look()
        assert_trusted(cluster, keeper)
    assert cluster.time - announced >= timedelta(seconds=SETTLE)
    assert issued_by(keeper.served(), authority_of(cluster))


def test_an_authority_that_cannot_be_announced_does_not_issue(cluster: MemoryCluster, keeper: Keeper) -> None:
    """One configuration cannot be written: what is trusted there goes on being served, and the fault is shown."""
    before = keeper.served()
    cluster.pass_time(timedelta(hours=2))
    cluster.annotate("authority")
    cluster.refused.add(CONFIGURATIONS[1])
    for _ in range(50):
        cluster.pass_time(timedelta(seconds=30))
        with pytest.raises(ClusterError, match="forbidden"):
            keeper.look()
    assert keeper.served() == before
    assert_trusted(cluster, keeper)
    assert keeper.status.fault == f"PUT {CONFIGURATIONS[1]}: forbidden"
    assert keeper.status.ends["ca_bundle"] > cluster.time


def test_a_bundle_that_cannot_be_mended_is_shown_as_ended(tmp_path: Path) -> None:
    cluster = MemoryCluster(NOW)
    cluster.refused.update(CONFIGURATIONS)
    keeper = Keeper(cluster, tmp_path)
    with pytest.raises(ClusterError):
        keeper.look()
    assert keeper.status.ends["ca_bundle"] == cluster.time


def test_a_deleted_secret_comes_back_as_it_was(cluster: MemoryCluster, keeper: Keeper) -> None:
    before = material(cluster)
    del cluster.objects[SECRET.path]
    keeper.look()
    assert material(cluster) == before
    assert cluster.objects[SECRET.path]["metadata"]["labels"] == {"app": "gpu-policy"}


def test_a_replica_that_remembers_nothing_keeps_the_others_trusted(tmp_path: Path) -> None:
    """The Secret is deleted, and the first to look is new: the others go on serving under what they have."""
    cluster = MemoryCluster(NOW)
    old = Keeper(cluster, tmp_path / "old")
    old.look()
    del cluster.objects[SECRET.path]
    new = Keeper(cluster, tmp_path / "new")
    new.look()
    assert new.served() != old.served()
    assert_trusted(cluster, old, new)
    old.look()
    assert old.served() == new.served()


def test_other_keys_of_the_secret_are_left_alone(tmp_path: Path) -> None:
    cluster = MemoryCluster(NOW)
    cluster.put(SECRET.path, {"metadata": {"name": SECRET.name}, "data": {"note": "bm90ZQ=="}})
    Keeper(cluster, tmp_path).look()
    assert material(cluster)["note"] == "bm90ZQ=="


def test_without_configurations_no_api_server_is_waited_for(tmp_path: Path) -> None:
    cluster = MemoryCluster(NOW)
    for path in CONFIGURATIONS:
        del cluster.objects[path]
    keeper = Keeper(cluster, tmp_path)
    keeper.look()
    keeper.look()
    cluster.pass_time(timedelta(seconds=SETTLE))
    cluster.annotate("serving")
    before = keeper.served()
    keeper.look()
    assert keeper.served() != before
    assert "ca_bundle" not in keeper.status.ends


def test_an_unreachable_cluster_leaves_what_is_served(cluster: MemoryCluster, keeper: Keeper) -> None:
    ends = keeper.status.ends
    cluster.unreachable = True
    with pytest.raises(ClusterError):
        keeper.look()
    assert (keeper.status.ends, keeper.status.fault) == (ends, "no answer")
    cluster.unreachable = False
    keeper.look()
    assert keeper.status.fault == ""


def test_a_writer_who_is_always_faster_is_a_fault_and_no_endless_loop(tmp_path: Path) -> None:
    cluster = MemoryCluster(NOW)
    cluster.before_call = lambda: cluster.put(SECRET.path, {"metadata": {"name": SECRET.name}})
    with pytest.raises(ClusterError, match="other writers were faster, 5 times in a row"):
        Keeper(cluster, tmp_path).look()


def test_in_thirty_years_nothing_ends_that_is_served_and_no_authority_before_what_it_issued(tmp_path: Path) -> None:
    """The clock is moved on by a month at a time; everything is renewed long before its end."""
    cluster = MemoryCluster(NOW)
    keepers = [Keeper(cluster, tmp_path / str(number)) for number in range(2)]
    authorities = set()
    for month in range(360):
        cluster.pass_time(timedelta(days=30) if month % 2 else timedelta(seconds=SETTLE))
        for keeper in keepers:
            keeper.look()
            assert_trusted(cluster, keeper)
            ends = keeper.status.ends
            assert ends["leaf"] - cluster.time > timedelta(days=30)
            assert ends["ca"] >= ends["leaf"] == ends["ca_bundle"]
        authorities.add(authority_of(cluster))
    assert len(authorities) == 2
    assert all(len(bundle) <= 2 for bundle in cluster.bundles())


EVENTS = st.sampled_from(
    ["look", "look", "look", "tick", "tick", "days", "serving", "authority", "retire", "delete", "garbage", "restart"]
)


class Replicas:
    """Three replicas to which things happen; `number` says to which, or in which part of the Secret."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = MemoryCluster(NOW)
        self.keepers = [Keeper(self.cluster, folder / str(number)) for number in range(3)]
        self.look_from(0)

    def look_from(self, first: int) -> None:
        for keeper in self.keepers[first:] + self.keepers[:first]:
            keeper.look()
            if all((keeper.directory / "tls.crt").exists() for keeper in self.keepers):
                assert_trusted(self.cluster, *self.keepers)

    def pass_time(self, step: timedelta, first: int) -> None:
        self.cluster.pass_time(step)
        self.look_from(first)

    def happen(self, event: str, number: int) -> None:
        if event in ("tick", "days"):
            self.pass_time(timedelta(seconds=45), number)
        if event == "days":
            self.cluster.pass_time(timedelta(days=40))
            self.look_from(number)
        if event == "restart":
            self.keepers[number] = Keeper(self.cluster, self.folder / str(number))
        elif event == "delete":
            self.cluster.objects.pop(SECRET.path, None)
        elif SECRET.path in self.cluster.objects and event == "garbage":
            broken = {**material(self.cluster), ("ca.key", "tls.crt", "ca-bundle.crt")[number]: "Z2FyYmFnZQ=="}
            self.cluster.put(SECRET.path, {**self.cluster.objects[SECRET.path], "data": broken})
        elif SECRET.path in self.cluster.objects and event in ("serving", "authority", "retire"):
            self.cluster.annotate(event)
        if event in ("look", "restart"):
            self.keepers[number].look()
        assert_trusted(self.cluster, *self.keepers)


@settings(max_examples=examples(100))
@given(events=st.lists(st.tuples(EVENTS, st.integers(0, 2)), max_size=60))
def test_whatever_happens_in_whatever_order_every_replica_stays_trusted(
    events: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rotations, lost Secrets and restarts among replicas that look in any order, each at least once a minute."""
    replicas = Replicas(tmp_path_factory.mktemp("keepers"))
    for event, number in events:
        replicas.happen(event, number)
    for _ in range(6):
        replicas.pass_time(timedelta(seconds=45), 0)
    replicas.look_from(0)
    assert material_of(material(replicas.cluster)).faults == ()
    assert len({keeper.served() for keeper in replicas.keepers}) == 1
    assert issued_by(replicas.keepers[0].served(), authority_of(replicas.cluster))
