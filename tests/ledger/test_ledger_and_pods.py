"""A ledger begins with the pods that are stored, and loses entries whose pods are gone or never came."""

import threading
import time

from tests.ledger.bookkeeping import (
    IN_FLIGHT,
    Replica,
    at_once,
    eventually,
    exceeded,
    joined,
    of_namespace,
    shared_quota,
    uid,
)
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.context import LedgerTiming
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.verdicts import Granted, Unanswered

VISION, SPEECH = of_namespace(4), of_namespace(4, "speech")


KEY = VISION.key


GRANTED = Granted()


# What was there before.


def test_a_ledger_begins_with_the_pods_that_were_there(replica):
    for number, namespace, count in [(1, "vision", 1), (2, "vision", 2), (3, "speech", 4)]:
        replica.truth.store(seen_pod(number, namespace, count))
    assert replica.enter(4, VISION, 2) == exceeded(2, 3)
    assert replica.entered(VISION) == {1, 2}
    assert replica.view.lists[0] == "all vision"


def test_pods_are_listed_once_and_by_one_replica(replica):
    other = replica.another()
    for number in range(4):
        (replica, other)[number % 2].enter(number, VISION)
    assert (replica.view.lists, other.view.lists) == (["all vision"], [])


def test_two_replicas_that_begin_a_ledger_at_once_make_one(replica):
    other = replica.another()
    replica.view.before_list = lambda: other.enter(1, VISION, 3)
    assert replica.enter(2, VISION, 2) == exceeded(2, 3)
    assert replica.entered(VISION) == {1}


def test_a_namespace_that_joins_a_shared_quota_brings_its_pods(replica):
    replica.enter(1, shared_quota(8, "vision"), 2)
    replica.truth.store(seen_pod(2, "speech", 5))
    wider = shared_quota(8, "vision", "spee*")
    assert replica.enter(3, wider, 2) == exceeded(2, 7, hard=8)
    assert replica.entered(wider) == {1, 2}
    assert replica.view.lists[:2] == ["all vision", "all spee*"]


def test_a_shared_quota_that_has_lost_a_namespace_does_not_count_its_pods_any_more(replica):
    replica.enter(1, shared_quota(8, "speech", "vision"), 8)
    narrower = shared_quota(8, "vision")
    assert replica.enter(2, narrower, 8) == GRANTED
    assert replica.enter(3, narrower) == exceeded(1, 8, hard=8)


def test_a_pod_that_is_admitted_while_the_others_are_listed_is_not_lost(replica):
    other = replica.another()
    replica.truth.store(seen_pod(1, "vision", 1))
    wider = shared_quota(8, "speech", "vision")
    replica.enter(2, shared_quota(8, "vision"))
    replica.view.before_list = lambda: other.enter(3, shared_quota(8, "vision"))
    replica.enter(4, wider)
    assert replica.entered(wider) == {1, 2, 3, 4}


def test_a_list_that_breaks_off_begins_no_ledger(replica):
    replica.view.fault = LedgerError("pods: the list broke off")
    assert replica.enter(1, VISION) == Unanswered("pods: the list broke off")
    assert replica.store.read(KEY, 1) is None


def test_who_comes_while_the_pods_are_being_listed_for_long_is_told_so(replica):
    timing = LedgerTiming(longest_pause=0.0)
    replica = Replica(timing=timing, clock=time.monotonic)
    go_on = threading.Event()
    replica.view.before_list = lambda: go_on.wait(5)
    threads = at_once(lambda: replica.ledgers.of(KEY).prepare(VISION, time.monotonic() + 60))
    eventually(lambda: bool(replica.view.lists))
    pending = replica.pending(1, VISION)
    pending.deadline = time.monotonic() + 0.05
    verdict = replica.ledgers.of(KEY).reserve(pending)
    assert verdict == Unanswered("its pods are being counted")
    go_on.set()
    joined(threads)
    assert replica.enter(2, VISION) == GRANTED
    assert len(replica.view.lists) == 1


# Stale entries.


def test_nobody_is_refused_for_pods_that_are_gone_though_the_watch_has_not_told(replica):
    replica.enter(1, VISION, 4)
    replica.truth.store(seen_pod(1, "vision", 4))
    replica.view.catch_up()
    replica.truth.delete(uid(1))
    assert replica.enter(2, VISION, 4) == GRANTED
    assert replica.entered(VISION) == {2}
    assert replica.told.counts["looked up"] == 1


def test_what_is_known_to_be_gone_is_removed_before_a_refusal_without_a_list(replica):
    replica.enter(1, VISION, 4)
    replica.truth.store(seen_pod(1, "vision", 4))
    replica.truth.delete(uid(1))
    replica.view.catch_up()
    replica.view.fault = LedgerError("no lists today")
    assert replica.enter(2, VISION, 4) == GRANTED


def test_an_entry_whose_pod_never_came_is_removed_once_that_is_sure(replica):
    replica.enter(1, VISION, 4)
    replica.clock.now += IN_FLIGHT + 0.001
    assert replica.enter(2, VISION, 3) == GRANTED
    assert replica.entered(VISION) == {2}


def test_how_long_an_entry_has_been_there_begins_to_count_when_a_replica_sees_it(replica):
    replica.enter(1, VISION, 4)
    replica.clock.now += IN_FLIGHT
    late = replica.another()
    assert late.enter(2, VISION) == exceeded(1, 4)
    replica.clock.now += IN_FLIGHT
    assert late.enter(3, VISION) == exceeded(1, 4)
    replica.clock.now += 1
    assert late.enter(4, VISION) == exceeded(1, 4)
    replica.clock.now += 3
    assert late.enter(5, VISION) == GRANTED


def test_a_pod_that_is_there_is_never_removed_however_old_its_entry_is(replica):
    replica.enter(1, VISION, 4)
    replica.truth.store(seen_pod(1, "vision", 4))
    replica.clock.now += 10 * IN_FLIGHT
    assert replica.enter(2, VISION) == exceeded(1, 4)
    assert replica.entered(VISION) == {1}


def test_pods_are_listed_for_refusals_only_so_often(replica):
    replica.enter(1, VISION, 4)
    replica.truth.store(seen_pod(1, "vision", 4))
    replica.view.catch_up()
    lists = []
    for seconds in (0.0, 1.0, 0.9, 0.2):
        replica.clock.now += seconds
        assert replica.enter(2, VISION) == exceeded(1, 4)
        lists.append(replica.view.lists.count("live vision"))
    assert lists == [1, 1, 1, 2]


def test_a_list_that_fails_before_a_refusal_does_not_keep_it_from_being_told(replica, caplog):
    replica.enter(1, VISION, 4)
    replica.clock.now += IN_FLIGHT + 1
    replica.view.fault = LedgerError("pods: 403")
    assert replica.enter(2, VISION) == exceeded(1, 4)
    assert [record.message for record in caplog.records] == [
        f"quota {KEY}: pods could not be listed before a refusal: pods: 403"
    ]
