"""Ledgers follow the namespaces of their quotas, exist before a pod asks, and are removed when they are unused."""

import pytest

from tests.ledger.bookkeeping import of_namespace, shared_quota, uid
from tests.ledger.reconciling import IDLE, Kept
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.verdicts import Exceeded, Granted, Unanswered

VISION, SHARED = of_namespace(4), shared_quota(8, "vision", "spee*")


@pytest.fixture
def replica():
    return Kept().keeping(VISION)


# The namespaces of a shared quota.


def test_a_shared_quota_that_has_lost_namespaces_forgets_them_when_no_replica_goes_by_them_any_more():
    replica = Kept().keeping(shared_quota(8, "vision"))
    replica.enter(1, SHARED, 2)
    replica.store_pod(2, 2, "speech")
    replica.in_force.are_settled = False
    replica.reconciler.reconcile()
    assert replica.store.read(SHARED.key, 1).entries.patterns == {"spee*", "vision"}
    replica.in_force.are_settled = True
    replica.reconciler.reconcile()
    assert replica.store.read(SHARED.key, 1).entries.patterns == {"vision"}


def test_a_namespace_that_comes_back_to_a_shared_quota_is_listed_again():
    replica = Kept().keeping(shared_quota(8, "vision"))
    replica.enter(1, SHARED)
    replica.reconciler.reconcile()
    replica.store_pod(2, 8, "speech")
    assert isinstance(replica.enter(3, SHARED), Exceeded)
    assert replica.view.lists[:2] == ["all spee*,vision", "all spee*"]


def test_a_shared_quota_that_has_gained_a_namespace_has_its_pods_entered():
    replica = Kept().keeping(SHARED)
    replica.enter(1, shared_quota(8, "speech"))
    replica.store_pod(2, 2)
    replica.reconciler.reconcile()
    assert replica.entered(SHARED) == {1, 2}
    assert replica.store.read(SHARED.key, 1).entries.patterns == {"spee*", "vision"}


# Ledgers that begin, and ledgers that go.


def test_a_shared_quota_and_a_namespace_with_gpu_pods_have_a_ledger_before_anybody_asks():
    replica = Kept().keeping(SHARED, VISION, of_namespace(4, "empty"))
    replica.in_force.named = ("vision", "empty")
    replica.store_pod(1)
    replica.reconciler.reconcile()
    assert sorted(replica.store.read_all(1)) == [VISION.key, SHARED.key]
    assert replica.entered(VISION) == replica.entered(SHARED) == {1}


def test_a_namespace_whose_first_pod_cannot_wait_for_its_list_has_a_ledger_at_the_second_attempt(replica):
    """It may have so many pods without GPUs that no review can list them."""

    def list_slowly():
        replica.clock.now += 20
        if replica.clock() > deadline:
            raise LedgerError("pods: not all in time")

    replica.view.before_list = list_slowly
    deadline = replica.clock() + 5
    assert isinstance(replica.enter(1, VISION), Unanswered)
    deadline = replica.clock() + 60
    replica.reconciler.reconcile()
    assert replica.enter(2, VISION) == Granted()


def test_the_ledger_of_a_namespace_without_gpu_pods_goes_and_the_next_pod_begins_it_anew(replica):
    replica.enter(1, VISION)
    replica.store_pod(1)
    replica.pass_time(2 * IDLE)
    assert replica.entered(VISION) == {1}
    replica.truth.delete(uid(1))
    replica.view.catch_up()
    replica.pass_time(IDLE - 30)
    assert VISION.key in replica.store.read_all(1)
    replica.pass_time(30)
    assert replica.store.read_all(1) == {}
    assert replica.enter(2, VISION) == Granted()


def test_a_ledger_that_is_used_now_and_then_stays(replica):
    for number in range(4):
        replica.enter(number, VISION)
        replica.store_pod(number)
        replica.truth.delete(uid(number))
        replica.view.catch_up()
        replica.pass_time(IDLE - 60)
    assert VISION.key in replica.store.read_all(1)


def test_an_empty_shared_quota_keeps_its_ledger():
    replica = Kept().keeping(SHARED)
    replica.pass_time(3 * IDLE)
    assert SHARED.key in replica.store.read_all(1)


def test_the_ledger_of_a_quota_that_is_no_more_goes(replica):
    replica.enter(1, SHARED)
    replica.pass_time(IDLE)
    assert replica.store.read_all(1) == {}
    assert SHARED.key not in replica.ledgers.known


def test_the_ledger_of_a_quota_that_is_no_more_stays_while_others_may_still_go_by_it(replica):
    replica.in_force.are_settled = False
    replica.enter(1, SHARED)
    replica.pass_time(2 * IDLE)
    assert replica.entered(SHARED) == {1}


def test_a_replica_that_has_not_heard_of_a_quota_leaves_its_ledger_to_those_that_have(replica):
    """Files of policies reach replicas one after the other; what is in flight elsewhere stands only in the ledger."""
    informed = replica.beside(VISION, SHARED)
    informed.enter(1, SHARED, 8)
    for number in range(2, 6):
        replica.rounds(1)
        assert isinstance(informed.enter(number, SHARED), Exceeded)
    assert informed.entered(SHARED) == {1}


def test_a_ledger_that_somebody_writes_to_in_the_last_moment_stays(replica):
    other = replica.beside(VISION)
    replica.enter(1, VISION)
    replica.store_pod(1)
    replica.truth.delete(uid(1))
    replica.view.catch_up()
    replica.store.before = lambda call: call.startswith("remove") and other.enter(2, VISION)
    replica.pass_time(IDLE + 30)
    assert f"remove {VISION.key}" in replica.store.calls
    assert replica.entered(VISION) == {2}


def test_a_ledger_that_cannot_be_removed_is_said_to_be_there(replica, caplog):
    replica.enter(1, SHARED)
    replica.store.remove = lambda *_: (_ for _ in ()).throw(LedgerError("DELETE: 403"))
    replica.pass_time(IDLE)
    assert (
        f"quota {SHARED.key}: its ledger is not needed any more and cannot be removed: DELETE: 403" in caplog.messages
    )
