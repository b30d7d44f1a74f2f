"""Unconfirmed entries: how much of a pot they may hold, and for how long, while honest pods pass."""

import itertools
import logging
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, Replica, at_once, joined, of_namespace, pot, uid
from tests.ledger.shared_pot import POT, TIMING, OneQuota, enter, store
from webhook.ledger.context import ReconcileIntervals
from webhook.ledger.reconciler import Reconciler
from webhook.ledger.verdicts import Exceeded, Granted, Withheld


@pytest.fixture
def replica():
    return Replica(timing=TIMING, is_bounded=True)


def test_A43_creates_that_others_refuse_leave_room_for_another_namespace(replica):
    """Two of them took a pot of 16 GPUs for 90 seconds, again and again."""
    reconciler = Reconciler(replica.ledgers, OneQuota(), intervals=ReconcileIntervals())
    for second in range(600):
        for number in range(3):
            enter(replica, 1000 + second * 10 + number, 8, "vision")
        honest = enter(replica, second + 1, 1, "speech")
        assert honest == Granted(), second
        store(replica, second + 1, 1, "speech")
        replica.view.catch_up()
        replica.truth.delete(uid(second + 1))
        replica.view.catch_up()
        replica.clock.now += 1
        if second % 10 == 0:
            reconciler.reconcile()


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8])
def test_A43_a_namespace_holds_its_share_and_no_more_without_stored_pods(replica, gpus):
    granted = sum(gpus for number in range(40) if enter(replica, number + 1, gpus) == Granted())
    assert granted <= 8
    assert granted + gpus > 8


def test_A43_each_further_namespace_holds_half_of_what_the_others_leave(replica):
    wide = pot(16, "team-*")
    for team in range(4):
        for number in range(20):
            enter(replica, 100 * team + number + 1, 1, f"team-{team}", wide)
    assert enter(replica, 999, 1, "team-honest", wide) == Granted()


def test_pods_that_are_stored_at_once_may_use_all_of_a_pot(replica):
    for number in range(1, 17):
        assert enter(replica, number, 1) == Granted()
        store(replica, number, 1)
        replica.clock.now += 0.3  # the watch has told of none of them, and lists are made again by now
    assert isinstance(enter(replica, 99, 1), Exceeded)


def test_a_burst_as_a_job_makes_it_uses_all_of_a_pot(replica):
    """A controller makes 1, 2, 4 and so on at once, each time those before it were stored."""
    replica.timing = replace(TIMING, waits=(0.001,) * 2000)
    replica.__post_init__()
    number = 0
    for size in (1, 2, 4, 8, 1):
        numbers = range(number + 1, number + size + 1)
        verdicts = {}

        def create(one, verdicts=verdicts):
            verdicts[one] = enter(replica, one, 1)
            store(replica, one, 1)
            replica.clock.now += 0.3  # the time in which a list is not made again

        joined(at_once(*(lambda one=one: create(one) for one in numbers)))
        assert [verdicts[one] for one in numbers] == [Granted()] * size
        number += size
    assert len(replica.entered(POT)) == 16


def test_a_pod_that_is_larger_than_the_share_is_entered_where_nothing_else_of_its_namespace_waits(replica):
    assert enter(replica, 1, 16) == Granted()
    store(replica, 1, 16)


def test_A43_a_pod_that_is_larger_than_the_share_waits_for_those_before_it(replica):
    enter(replica, 1, 2)
    assert enter(replica, 2, 12) == Withheld(POT.limits[0], Fraction(12), Fraction(2), Fraction(8), settles=True)
    store(replica, 1, 2)
    replica.clock.now += 1
    assert enter(replica, 2, 12) == Granted()


def test_A43_large_pods_that_nobody_stores_rest_from_the_second_time_on(replica):
    reconciler = Reconciler(replica.ledgers, OneQuota(), intervals=ReconcileIntervals())
    blocked = []
    for second in range(1200):
        enter(replica, 10_000 + second, 16, "vision")
        blocked.append(isinstance(enter(replica, 30_000 + second, 1, "speech", is_dry_run=True), Exceeded))
        replica.clock.now += 1
        if second % 5 == 0:
            reconciler.reconcile()
    assert sum(blocked[:600]) < 350
    assert sum(blocked[600:]) < 200


def never_stored(replica, reconciler, number, gpus):
    """Have a pod entered that is never stored."""
    assert enter(replica, number, gpus) == Granted()
    replica.clock.now += IN_FLIGHT + 1
    reconciler.reconcile()


def stored_and_gone(replica, reconciler, number, gpus, resource="nvidia.com/gpu"):
    """Have a pod entered, stored and deleted, and its entry removed."""
    assert enter(replica, number, gpus, resource=resource) == Granted()
    store(replica, number, gpus)
    replica.view.catch_up()
    reconciler.reconcile()
    replica.truth.delete(uid(number))
    replica.view.catch_up()
    reconciler.reconcile()


@pytest.mark.parametrize("gpus", [9, 16])
def test_a_namespace_whose_pods_are_stored_again_does_not_rest(replica, gpus):
    reconciler = Reconciler(replica.ledgers, OneQuota(), intervals=ReconcileIntervals())
    never_stored(replica, reconciler, 1, gpus)
    never_stored(replica, reconciler, 2, gpus)
    assert isinstance(enter(replica, 3, gpus), Withheld)
    replica.clock.now += IN_FLIGHT
    stored_and_gone(replica, reconciler, 4, gpus)
    never_stored(replica, reconciler, 5, gpus)
    assert enter(replica, 6, gpus) == Granted()


def test_A43_small_pods_that_are_stored_do_not_make_up_for_large_ones_that_are_not(replica):
    """With one of 1 GPU between them, a pot of 16 was held all the time."""
    reconciler = Reconciler(replica.ledgers, OneQuota(), intervals=ReconcileIntervals())
    never_stored(replica, reconciler, 1, 16)
    never_stored(replica, reconciler, 2, 16)
    stored_and_gone(replica, reconciler, 3, 8)
    assert isinstance(enter(replica, 4, 16), Withheld)


def test_A43_shares_that_are_stored_do_not_make_up_for_as_many_whole_gpus(replica):
    reconciler = Reconciler(replica.ledgers, OneQuota(), intervals=ReconcileIntervals())
    never_stored(replica, reconciler, 1, 16)
    never_stored(replica, reconciler, 2, 16)
    stored_and_gone(replica, reconciler, 3, 16, resource="nvidia.com/gpu@1/4")
    assert isinstance(enter(replica, 4, 16), Withheld)


def test_small_pods_that_are_stored_make_up_for_others_like_them(replica):
    reconciler = Reconciler(replica.ledgers, OneQuota(), intervals=ReconcileIntervals())
    never_stored(replica, reconciler, 1, 2)
    never_stored(replica, reconciler, 2, 1)
    stored_and_gone(replica, reconciler, 3, 2)
    assert enter(replica, 4, 16) == Granted()


def test_a_pod_waits_until_others_of_its_namespace_are_stored():
    replica = Replica(timing=replace(TIMING, waits=(0.0,) * 50), is_bounded=True)
    enter(replica, 1, 8)
    asked = []

    def stored_at_the_third_list():
        asked.append(1)
        if len(asked) == 3:
            store(replica, 1, 8)

    def time_passes(_):
        replica.clock.now += 0.25

    replica.view.before_list, replica.store.before = stored_at_the_third_list, time_passes
    assert enter(replica, 2, 8) == Granted()
    assert len(asked) == 3


def test_A43_nobody_waits_for_pods_that_should_have_been_stored_long_ago():
    replica = Replica(timing=replace(TIMING, waits=(0.0,) * 50), is_bounded=True)
    enter(replica, 1, 8)
    replica.clock.now += 10
    replica.view.lists.clear()
    assert enter(replica, 2, 8) == Withheld(POT.limits[0], Fraction(8), Fraction(8), Fraction(8), settles=False)
    assert replica.view.lists == ["live vision"]


def waiting(replica, namespace):
    """How many more pods of a namespace may wait."""
    return next(number for number in itertools.count() if not replica.ledgers.context.slots.acquire(namespace))


def test_A43_some_threads_of_a_replica_never_wait():
    replica = Replica(timing=replace(TIMING, waits=(0.0,) * 50), is_bounded=True)
    assert waiting(replica, "vision") == 5
    enter(replica, 1, 8)
    replica.view.lists.clear()
    assert isinstance(enter(replica, 2, 8), Withheld)
    assert len(replica.view.lists) == 1


def test_A43_a_namespace_whose_pods_wait_leaves_others_room_to_wait(replica):
    """Two pods of a tenant that were never stored, and ten that waited for them, had bursts of all others refused."""
    assert [waiting(replica, namespace) for namespace in ("evil", "vision", "speech")] == [5, 3, 1]
    for _ in range(5):
        replica.ledgers.context.slots.release("evil")
    assert (waiting(replica, "vision"), waiting(replica, "evil")) == (2, 2)


def test_A43_whoever_has_waited_gives_the_seat_back():
    replica = Replica(timing=replace(TIMING, waits=(0.0,) * 3), is_bounded=True)
    enter(replica, 1, 8)
    for number in range(2, 12):
        assert isinstance(enter(replica, number, 8), Withheld)
    assert waiting(replica, "vision") == 5


def test_A43_refusals_list_the_pods_of_a_namespace_only_so_often(replica):
    enter(replica, 1, 8)
    replica.view.lists.clear()
    for number in range(100):
        enter(replica, 100 + number, 8)
    assert len(replica.view.lists) == 1


def test_a_namespace_may_hold_all_of_a_quota_that_it_shares_with_nobody(replica):
    for quota in (of_namespace(4), pot(4, "vision", name="own")):
        assert [enter(replica, number, 1, quota=quota) for number in range(1, 5)] == [Granted()] * 4


def test_what_files_ask_for_is_not_bounded_because_nobody_stores_it():
    replica = Replica(timing=TIMING)
    assert [enter(replica, number, 1) for number in range(1, 17)] == [Granted()] * 16


def test_pods_that_were_there_before_a_quota_are_not_taken_for_pods_that_nobody_stored(replica):
    for number in range(1, 9):
        store(replica, number, 1)
    assert enter(replica, 9, 4) == Granted()
    assert enter(replica, 10, 1, "speech") == Granted()


def test_a_replica_that_has_not_heard_of_pods_yet_lists_them_before_it_refuses(replica):
    for number in range(1, 13):
        enter(replica, number, 1)
        store(replica, number, 1)
        replica.clock.now += 1
    other = replica.another()
    assert enter(other, 13, 2) == Granted()
    assert "live vision" in other.view.lists


# Who is told


def test_A43_operators_are_told_whose_entries_are_in_the_way(replica, caplog):
    wide = pot(4, "vision", "speech", "robots")
    for number, namespace in ((1, "vision"), (2, "vision"), (3, "speech"), (4, "robots")):
        assert enter(replica, number, 1, namespace, wide) == Granted()
    with caplog.at_level(logging.WARNING, "gpu_policy.quota"):
        assert isinstance(enter(replica, 9, 1, "robots", wide), Exceeded)
        assert isinstance(enter(replica, 10, 1, "robots", wide), Exceeded)
    assert caplog.messages == [
        "quota pot.shared: a pod of robots is refused for entries without a stored pod: vision 2, speech 1"
    ]
    assert replica.told.counts["blocked pot.shared vision"] == 2
    assert replica.told.counts["blocked pot.shared speech"] == 2


def test_nobody_is_blamed_for_a_quota_that_is_full_of_stored_pods(replica, caplog):
    for number in range(1, 17):
        enter(replica, number, 1)
        store(replica, number, 1)
        replica.view.catch_up()
    assert isinstance(enter(replica, 99, 1, "speech"), Exceeded)
    assert not caplog.messages
    assert not [name for name in replica.told.counts if name.startswith("blocked")]


def test_A43_a_namespace_that_is_kept_out_by_its_own_entries_is_told_of_too(replica, caplog):
    enter(replica, 1, 8)
    enter(replica, 2, 8)
    assert replica.told.counts["withheld pot.shared vision"] == 1
    assert caplog.messages == [
        "quota pot.shared: a pod of vision is refused for its own namespace's entries without a stored pod: 8 of 8"
    ]
