"""Ledgers come to agree with the stored pods, whatever was admitted without an entry, and unused ledgers go."""

from dataclasses import replace

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, of_namespace, shared_quota, uid
from tests.ledger.reconciling import Kept
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.context import ReconcileIntervals
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.verdicts import Exceeded
from webhook.model.node import NodeClass

VISION, SHARED = of_namespace(4), shared_quota(8, "vision", "spee*")
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@pytest.fixture
def replica():
    return Kept().keeping(VISION)


# Stale entries.


@pytest.mark.parametrize("work", ["reconcile", "remove_gone"])
def test_the_entry_of_a_pod_that_is_known_to_be_gone_is_removed(replica, work):
    for number in (1, 2):
        replica.enter(number, VISION)
        replica.store_pod(number)
    replica.truth.delete(uid(1))
    replica.view.catch_up()
    getattr(replica.reconciler, work)()
    assert replica.entered(VISION) == {2}


def test_without_anything_gone_nothing_is_written_or_read(replica):
    replica.enter(1, VISION)
    calls = list(replica.store.calls)
    replica.reconciler.remove_gone()
    assert replica.store.calls == calls


def test_the_entry_of_a_pod_that_never_came_is_removed_when_it_was_there_for_longer_than_an_admission(replica):
    replica.enter(1, VISION)
    replica.reconciler.reconcile()
    replica.clock.now += IN_FLIGHT
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == {1}
    replica.clock.now += 1
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == set()


def test_a_pod_that_is_there_keeps_its_entry_though_the_watch_never_told_of_it(replica):
    replica.enter(1, VISION)
    replica.store_pod(1, heard=False)
    replica.pass_time(3 * IN_FLIGHT)
    assert replica.entered(VISION) == {1}


def test_a_list_that_fails_removes_nothing(replica):
    replica.enter(1, VISION)
    replica.view.fault = LedgerError("pods: 500")
    replica.pass_time(3 * IN_FLIGHT)
    assert replica.entered(VISION) == {1}


def test_a_reconciliation_may_list_for_longer_than_a_review(replica):
    """A quota may span so many pods that nobody who waits for an answer can list them all."""
    replica.enter(1, VISION, 4)
    replica.clock.now += IN_FLIGHT + 1
    replica.view.fault = LedgerError("pods: not all in time")
    replica.enter(2, VISION)
    replica.reconciler.reconcile()
    of_review, of_reconciliation = replica.view.seconds
    assert of_review <= replica.timing.one_call < of_reconciliation == ReconcileIntervals().one_round


# What was admitted without an entry.


def test_a_pod_without_an_entry_is_added_when_it_is_missing_twice_and_a_list_shows_it(replica):
    replica.enter(1, VISION, 3)
    replica.store_pod(1, 3)
    replica.store_pod(2, 4)
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == {1}
    assert "live vision" not in replica.view.lists
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == {1, 2}
    assert replica.view.lists.count("live vision") == 1
    verdict = replica.enter(3, VISION)
    assert isinstance(verdict, Exceeded)
    assert verdict.excesses[0].used == 7


def test_a_pod_that_only_a_late_watch_still_shows_is_not_added(replica):
    replica.enter(1, VISION)
    replica.store_pod(1)
    replica.store_pod(2)
    replica.truth.delete(uid(2))
    replica.rounds(4)
    assert replica.entered(VISION) == {1}


def test_a_pod_that_was_missing_once_and_then_again_later_has_not_been_missing_twice(replica):
    replica.enter(1, VISION)
    for number in (1, 2):
        replica.store_pod(number)
    replica.reconciler.reconcile()
    replica.enter(2, VISION)
    replica.reconciler.reconcile()
    held = replica.store.read(VISION.key, 1)
    replica.store.replace(VISION.key, held.entries.changed({}, {uid(2)}), held, 1)
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == {1}
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == {1, 2}


def test_pods_of_other_namespaces_and_without_gpus_are_not_added(replica):
    replica.enter(1, VISION)
    for number, namespace, count in ((1, "vision", 1), (2, "speech", 1), (3, "vision", 0)):
        replica.truth.store(seen_pod(number, namespace, count))
    replica.view.catch_up()
    replica.rounds(3)
    assert replica.entered(VISION) == {1}


def test_while_pods_are_not_known_none_is_added_and_stale_ones_are_removed_all_the_same(replica):
    replica.enter(1, VISION)
    replica.store_pod(2)
    replica.view.known = False
    replica.rounds(3)
    assert replica.entered(VISION) == {1}
    replica.clock.now += IN_FLIGHT
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == set()


# What counts otherwise than before.


def on_an_h100(replica):
    """A stored pod with an entry that does not say its model."""
    replica.enter(1, VISION)
    replica.truth.store(replace(seen_pod(1, "vision", 1), kind=NodeClass(H100)))
    replica.view.catch_up()
    replica.reconciler.reconcile()
    return replica.store.read(VISION.key, 1).entries.by_uid[uid(1)].models


def test_a_pod_on_a_node_counts_as_its_gpus_once_no_replica_may_use_earlier_policies(replica):
    replica.in_force.are_settled = False
    assert on_an_h100(replica) is None
    replica.in_force.are_settled = True
    assert on_an_h100(replica) == ("H100-80GB",)
