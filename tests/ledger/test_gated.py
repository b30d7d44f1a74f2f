"""Pods with scheduling gates: they hold nothing until their last gate goes, and only what is stored without gates is
proof that it went.
"""

from dataclasses import replace

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, of_namespace, shared_quota, uid
from tests.ledger.of_shared_quota import enter
from tests.ledger.reconciling import Kept
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.verdicts import Exceeded, Granted
from webhook.quota.quotas import Counting, Gated

LATER = of_namespace(8)
NOW = replace(LATER, counting=Counting(gated=Gated.NOW))


@pytest.fixture
def replica():
    return Kept().keeping(LATER)


def store_gated(replica, number, gpus):
    replica.truth.store(replace(seen_pod(number, "vision", gpus), is_gated=True))
    replica.view.catch_up()


def start(replica, number, gpus, **how):
    """The update that takes the last gate away is reviewed."""
    return enter(replica, number, gpus, quota=LATER, starts=True, **how)


@pytest.mark.parametrize(("quota", "entered"), [(LATER, {2}), (NOW, {1, 2})])
def test_pods_that_are_older_than_the_quota_count_if_they_have_no_gates_or_gates_do_not_matter(quota, entered):
    replica = Kept().keeping(quota)
    store_gated(replica, 1, 4)
    replica.store_pod(2, 1)
    replica.enter(3, quota)
    replica.store_pod(3)
    replica.pass_time(3 * IN_FLIGHT)
    assert replica.entered(quota) == {*entered, 3}
    assert replica.shown[-1][quota.key].gated == {quota.limits[0]: 0 if quota is NOW else 4}


def test_an_update_that_another_webhook_refused_holds_room_no_longer_than_an_admission_takes(replica):
    store_gated(replica, 1, 8)
    assert start(replica, 1, 8) == Granted()
    assert isinstance(replica.enter(2, LATER), Exceeded)
    replica.clock.now += IN_FLIGHT + 1
    assert replica.enter(2, LATER) == Granted()
    assert replica.entered(LATER) == {2}


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_pod_that_is_deleted_before_it_starts_makes_room_at_once(replica, is_heard):
    store_gated(replica, 1, 8)
    start(replica, 1, 8)
    replica.truth.delete(uid(1))
    if is_heard:
        replica.view.catch_up()
        replica.reconciler.remove_gone()
        assert replica.entered(LATER) == set()
    assert replica.enter(2, LATER, 8) == Granted()


def test_two_replicas_that_are_asked_at_once_enter_a_pod_once(replica):
    """The API server repeats an update, and another replica answers that."""
    other = replica.beside(LATER)
    store_gated(replica, 1, 5)
    for one in (replica, other):
        one.reconciler.reconcile()
        one.ledgers.of(LATER.key).prepare(LATER, one.clock() + 5)
    assert [start(one, 1, 5) for one in (replica, other)] == [Granted()] * 2
    assert replica.entered(LATER) == {1}
    assert replica.enter(2, LATER, 3) == Granted()


def test_with_a_watch_that_is_late_a_started_pod_keeps_its_entry(replica):
    store_gated(replica, 1, 8)
    start(replica, 1, 8)
    replica.truth.start(uid(1))
    replica.pass_time(3 * IN_FLIGHT)
    assert isinstance(replica.enter(2, LATER), Exceeded)


@pytest.mark.parametrize("moment", ["before the other reads", "while the other lists"])
def test_another_try_keeps_the_entry_for_as_long_again(replica, moment):
    """Kueue tries for the last time at 85 s, and that update is stored at 100 s."""
    other = replica.beside(LATER)
    store_gated(replica, 1, 8)
    other.view.catch_up()
    start(replica, 1, 8)
    for one in (replica, other):
        one.reconciler.reconcile()
    replica.clock.now += 85
    if moment == "before the other reads":
        start(replica, 1, 8)
    replica.clock.now += 6
    if moment == "while the other lists":

        def meanwhile():
            replica.clock.now += 0.1
            start(replica, 1, 8)

        other.view.before_list = meanwhile
    other.reconciler.reconcile()
    other.view.before_list = lambda: None
    assert replica.entered(LATER) == {1}
    replica.clock.now += 9
    replica.truth.start(uid(1))
    other.view.catch_up()
    other.reconciler.reconcile()
    assert isinstance(other.enter(2, LATER), Exceeded)


def test_a_dry_run_renews_nothing(replica):
    store_gated(replica, 1, 8)
    start(replica, 1, 8)
    calls = list(replica.store.calls)
    start(replica, 1, 8, is_dry_run=True)
    assert not any(call.startswith("replace") for call in replica.store.calls[len(calls) :])


def test_in_a_shared_quota_a_pod_that_did_not_start_counts_as_unconfirmed():
    quota = shared_quota(16, "vision", "speech")
    replica = Kept(is_bounded=True).keeping(quota)
    store_gated(replica, 1, 6)
    assert enter(replica, 1, 6, quota=quota, starts=True) == Granted()
    replica.reconciler.reconcile()
    assert replica.shown[-1][quota.key].unconfirmed == 1
    replica.truth.start(uid(1))
    replica.view.catch_up()
    replica.reconciler.reconcile()
    assert replica.shown[-1][quota.key].unconfirmed == 0
