"""Unconfirmed entries: how much of a shared quota they may hold, while pods that are stored at once pass."""

import logging
from fractions import Fraction

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, Replica, of_namespace, shared_quota, uid
from tests.ledger.of_shared_quota import SHARED_QUOTA, TIMING, enter, only_this, store
from webhook.ledger.context import ReconcileIntervals
from webhook.ledger.reconciler import Reconciler
from webhook.ledger.verdicts import Exceeded, Granted, TooManyUnconfirmed
from webhook.quota.quotas import Excess


@pytest.fixture
def replica():
    return Replica(timing=TIMING, is_bounded=True)


def kept_out(asks, held, most=8):
    return TooManyUnconfirmed(Excess(SHARED_QUOTA.limits[0], Fraction(asks), Fraction(held)), Fraction(most))


def test_creates_that_hang_up_leave_the_others_what_they_use_and_half_of_the_rest(replica):
    """481 in eight minutes. The others have half of the quota, and go on to get half of what is left."""
    reconciler = Reconciler(replica.ledgers, only_this(), intervals=ReconcileIntervals())
    for number in range(1, 9):
        assert enter(replica, number, 1, "speech") == Granted()
        store(replica, number, 1, "speech")
        replica.view.catch_up()
    for second in range(481):
        enter(replica, 1000 + second, 1, "vision")
        assert enter(replica, 10_000 + second, 4, "speech", is_dry_run=True) == Granted(), second
        replica.clock.now += 1
        if second % 10 == 0:
            reconciler.reconcile()


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8])
def test_a_namespace_holds_half_and_no_more_without_stored_pods(replica, gpus):
    granted = sum(gpus for number in range(40) if enter(replica, number + 1, gpus) == Granted())
    assert granted <= 8
    assert granted + gpus > 8


def test_each_further_namespace_holds_half_of_what_the_others_leave(replica):
    wide = shared_quota(16, "team-*")
    for team in range(4):
        for number in range(20):
            enter(replica, 100 * team + number + 1, 1, f"team-{team}", wide)
    assert enter(replica, 999, 1, "team-honest", wide) == Granted()


def test_pods_that_are_stored_at_once_may_use_all_of_a_shared_quota(replica):
    for number in range(1, 17):
        assert enter(replica, number, 1) == Granted()
        store(replica, number, 1)
        replica.clock.now += 3  # the watch has told of none of them, and pods are listed again by now
    assert isinstance(enter(replica, 99, 1), Exceeded)


def test_pods_that_try_again_get_in_once_those_before_them_are_stored(replica):
    """A controller makes 1, 2, 4 and so on at once."""
    waiting, refused, stored = list(range(1, 17)), 0, 0
    for size in (1, 2, 4, 8, 8, 8, 8, 8):
        batch = [number for number in waiting[:size] if enter(replica, number, 1) == Granted()]
        refused += len(waiting[:size]) - len(batch)
        for number in batch:
            store(replica, number, 1)
        waiting = [number for number in waiting if number not in batch]
        stored += len(batch)
        replica.view.catch_up()
    assert (waiting, stored) == ([], 16)
    assert 0 < refused < 12


def test_a_pod_that_is_larger_than_the_window_is_entered_if_nothing_else_of_its_namespace_is_unconfirmed(replica):
    enter(replica, 1, 2)
    assert enter(replica, 2, 12) == kept_out(12, held=2)
    store(replica, 1, 2)
    replica.clock.now += 3
    assert enter(replica, 2, 12) == Granted()


def test_a_namespace_that_gave_a_pod_up_keeps_to_its_window_for_some_time(replica):
    """Or else it would hold all of the quota again and again."""
    reconciler = Reconciler(replica.ledgers, only_this(), intervals=ReconcileIntervals())
    blocked = 0
    for second in range(3000):
        enter(replica, 10_000 + second, 16, "vision")
        blocked += isinstance(enter(replica, 30_000 + second, 1, "speech", is_dry_run=True), Exceeded)
        replica.clock.now += 1
        if second % 5 == 0:
            reconciler.reconcile()
    assert blocked < 4 * (IN_FLIGHT + 10)
    assert enter(replica, 50_000, 16) == kept_out(16, held=0)
    assert enter(replica, 50_001, 8) == Granted()


def test_a_pod_that_was_stored_is_not_given_up_when_it_goes(replica):
    reconciler = Reconciler(replica.ledgers, only_this(), intervals=ReconcileIntervals())
    enter(replica, 1, 16)
    store(replica, 1, 16)
    replica.view.catch_up()
    replica.clock.now += 10 * IN_FLIGHT
    replica.truth.delete(uid(1))
    replica.view.catch_up()
    reconciler.reconcile()
    assert enter(replica, 2, 16) == Granted()


@pytest.mark.parametrize(
    "quota", [of_namespace(4), shared_quota(4, "vision", name="own")], ids=["own", "of one namespace"]
)
def test_a_namespace_may_hold_all_of_a_quota_that_it_shares_with_nobody(replica, quota):
    assert [enter(replica, number, 1, quota=quota) for number in range(1, 5)] == [Granted()] * 4


def test_pods_of_files_are_not_bounded_because_nobody_stores_them():
    replica = Replica(timing=TIMING)
    assert [enter(replica, number, 1) for number in range(1, 17)] == [Granted()] * 16


def test_pods_that_are_older_than_a_quota_are_not_unconfirmed(replica):
    for number in range(1, 9):
        store(replica, number, 1)
    assert enter(replica, 9, 4) == Granted()
    assert enter(replica, 10, 1, "speech") == Granted()


def test_a_replica_that_has_not_heard_of_pods_yet_lists_them_before_it_refuses(replica):
    for number in range(1, 13):
        enter(replica, number, 1)
        store(replica, number, 1)
        replica.clock.now += 3
    other = replica.another()
    assert enter(other, 13, 2) == Granted()
    assert "live vision" in other.view.lists


def test_the_log_names_the_namespaces_whose_entries_are_in_the_way(replica, caplog):
    wide = shared_quota(4, "vision", "speech", "robots")
    for number, namespace in ((1, "vision"), (2, "vision"), (3, "speech"), (4, "robots")):
        assert enter(replica, number, 1, namespace, wide) == Granted()
    with caplog.at_level(logging.WARNING, "gpu_policy.quota"):
        assert isinstance(enter(replica, 9, 1, "robots", wide), Exceeded)
        assert isinstance(enter(replica, 10, 1, "robots", wide), Exceeded)
    assert caplog.messages == [
        "quota shared.shared: a pod of namespace robots does not fit because of entries whose pods are not stored: "
        "vision 2, speech 1"
    ]


def test_nobody_is_blamed_for_a_quota_that_is_full_of_stored_pods(replica, caplog):
    for number in range(1, 17):
        enter(replica, number, 1)
        store(replica, number, 1)
        replica.view.catch_up()
    assert isinstance(enter(replica, 99, 1, "speech"), Exceeded)
    assert not caplog.messages
