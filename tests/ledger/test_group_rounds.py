"""What ends the room that is held for a group: its pods, its object, its lease; and nothing is held for nobody."""

from types import SimpleNamespace

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, demand, exceeded, of_namespace, uid
from tests.ledger.reconciling import Kept
from webhook.kubernetes.api_errors import RefusedError, UnreachableError
from webhook.ledger.group_reader import GroupReader
from webhook.ledger.ledger_store import LedgerError, MemoryStore
from webhook.ledger.pod_source import PodsAndClaims
from webhook.ledger.remainders import LEASE, GroupRequest, PartRequest, key_of
from webhook.ledger.verdicts import Exceeded, Granted, QuotaRequest

VISION = of_namespace(6)
OF = "podgroups.scheduling.k8s.io/ga//"
UID = "3f1c2a00-0000-4000-8000-000000000001"
SCHEDULED = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}


def podgroup(size=3, uid=UID, **status):
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    return {"metadata": {"uid": uid}, "spec": spec, "status": status}


class Server:
    """Answers every GET with one object, or its absence."""

    def __init__(self):
        self.found = podgroup()

    def get(self, path, query, seconds, accept=""):  # noqa: ARG002  # the API server's
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def replica(server, monkeypatch):
    monkeypatch.setattr("webhook.ledger.group_reader._FRESH", 0)
    return Kept(groups=GroupReader(server, lambda *_: {})).keeping(VISION)


def join(replica, number, size=3, *, is_lasting=False, present=()):
    """A pod of 2 GPUs is admitted with its group, of which these pods are stored as far as the replica knows."""
    part = PartRequest(OF, key_of(UID, OF), demand(2), size, frozenset(map(uid, present)))
    group = GroupRequest("PodGroup ga", (part,), int(replica.clock()), is_lasting)
    return replica.ask(number, QuotaRequest(VISION, demand(2), group=group))[0]


def left(replica):
    held = MemoryStore.read(replica.store, VISION.key, 1)
    return [one.left for one in held.entries.remainders.values()]


def free(replica):
    return replica.enter(99, VISION, 6).excesses[0].free


@pytest.mark.parametrize(
    ("found", "held"),
    [
        pytest.param(podgroup(), [2], id="it stands as it was"),
        pytest.param(podgroup(9), [2], id="it became larger: the next pod asks for more"),
        pytest.param(podgroup(2), [1], id="it became smaller"),
        pytest.param(podgroup(1), [0], id="it needs no more pods"),
        pytest.param(podgroup(3, "another"), [], id="it was made anew"),
        pytest.param(podgroup(3, **SCHEDULED), [], id="it was scheduled"),
        pytest.param(RefusedError(404, "gone", about="ga"), [], id="it is gone"),
        pytest.param(UnreachableError("silence"), [2], id="it cannot be read"),
    ],
)
def test_room_is_held_as_long_as_the_object_asks_for_it(replica, server, found, held):
    assert join(replica, 1) == Granted()
    replica.store_pod(1, 2)
    server.found = found
    replica.reconciler.reconcile()
    assert left(replica) == held


def test_room_is_held_for_ten_minutes_after_the_last_pod_came(replica):
    for number in (1, 2):
        join(replica, number)
        replica.store_pod(number, 2)
        replica.rounds(40)
    assert left(replica) == [1]
    replica.pass_time(LEASE - 400)
    assert left(replica) == [0]
    assert free(replica) == 2


def test_pods_that_come_later_enter_one_by_one_until_the_last_of_them_goes(replica):
    join(replica, 1)
    replica.store_pod(1, 2)
    replica.pass_time(LEASE)
    assert replica.enter(9, VISION, 2) == Granted()
    assert join(replica, 2, present=[1]) == Granted()
    assert join(replica, 3, present=[1, 2]) == exceeded(2, 6, 6)
    for number in (1, 2):
        replica.store_pod(number, 2)
        replica.truth.delete(uid(number))
    replica.pass_time(IN_FLIGHT)
    assert left(replica) == []
    assert join(replica, 4) == Granted()
    assert left(replica) == [2]


def test_pods_made_anew_at_once_get_in_whole_where_the_old_ones_are_still_seen(replica):
    """A queue evicts a group: it deletes all pods and makes others, before the watch tells of that."""
    for number in (1, 2, 3):
        join(replica, number)
        replica.store_pod(number, 2)
    replica.reconciler.reconcile()
    for number in (1, 2, 3):
        replica.truth.delete(uid(number))
    assert join(replica, 4, present=[1, 2, 3]) == Granted()
    assert left(replica) == [2]


def test_pods_that_come_one_after_the_other_have_as_long_as_one_lives(replica):
    join(replica, 1, is_lasting=True)
    replica.store_pod(1, 2)
    replica.pass_time(3 * LEASE)
    assert left(replica) == [2]
    replica.truth.delete(uid(1))
    replica.view.catch_up()
    replica.reconciler.remove_gone()
    assert left(replica) == []


def test_a_complete_group_is_forgotten_once_its_pods_are_stored(replica):
    for number in (1, 2, 3):
        join(replica, number)
    replica.reconciler.reconcile()
    assert left(replica) == [0]
    for number in (1, 2, 3):
        replica.store_pod(number, 2)
    replica.reconciler.reconcile()
    assert left(replica) == []


def test_a_pod_that_another_webhook_refuses_leaves_its_unit_to_the_next(replica):
    for number in (1, 2, 3):
        join(replica, number)
    for number in (1, 2):
        replica.store_pod(number, 2)
    replica.pass_time(IN_FLIGHT)
    assert left(replica) == [1]
    assert isinstance(replica.enter(9, VISION), Exceeded)
    assert join(replica, 4) == Granted()


def test_a_first_pod_that_is_never_stored_holds_nothing_for_longer_than_an_admission(replica):
    join(replica, 1)
    replica.pass_time(IN_FLIGHT)
    assert left(replica) == []
    assert replica.entered(VISION) == set()


def test_another_replica_ends_what_one_began_that_was_killed(replica):
    join(replica, 1)
    replica.beside(VISION).pass_time(IN_FLIGHT)
    assert left(replica) == []


def test_a_large_group_that_is_refused_costs_one_list(replica):
    for number in range(256):
        assert join(replica, number, 256) == Exceeded(exceeded(512, 0, 6).excesses, "PodGroup ga", 256)
    assert len(replica.view.lists) <= 2  # one of them to begin the ledger
    assert sum(call.startswith("replace") for call in replica.store.calls) == 0


def test_two_replicas_that_see_old_ledgers_hold_room_once(replica):
    other = replica.beside(VISION)
    other.reconciler.reconcile()
    assert [join(replica, 1), join(other, 2), join(replica, 3)] == [Granted()] * 3
    assert left(replica) == [0]
    assert isinstance(other.enter(4, VISION), Exceeded)


def test_what_is_held_counts_as_used_and_unconfirmed(replica):
    join(replica, 1)
    replica.store_pod(1, 2)
    replica.reconciler.reconcile()
    usage = replica.reconciler.usage[VISION.key]
    assert (usage.used[VISION.limits[0]], usage.unconfirmed) == (6, 2)


def test_nothing_is_said_of_a_group_until_pods_were_listed_once():
    """The pods of it that are there already would ask for room again."""
    with pytest.raises(LedgerError, match="pods are being listed"):
        PodsAndClaims(SimpleNamespace(now=lambda: 0.0)).members("vision", "podgroups.scheduling.k8s.io/ga/")
