"""What the thread of the reconciler logs and reports, and that no fault ends it."""

import logging
import threading

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, PATIENCE, eventually, gpus, of_namespace, shared_quota, uid
from tests.ledger.reconciling import Kept
from webhook.ledger.ledger_store import LedgerError

VISION, SHARED = of_namespace(4), shared_quota(8, "vision", "spee*")


@pytest.fixture
def replica():
    return Kept().keeping(VISION)


@pytest.fixture
def running(replica):
    """The replica with the reconciler's thread."""
    replica.reconciler.start()
    yield replica
    replica.reconciler.close()


# What is told.


def test_what_is_in_use_is_told_after_each_round():
    replica = Kept().keeping(SHARED, VISION)
    replica.enter(1, VISION, 3)
    replica.enter(2, SHARED, 2)
    replica.reconciler.reconcile()
    (shown,) = replica.shown
    assert shown == replica.reconciler.usage
    assert {key: (dict(one.used), one.entries, one.namespaces) for key, one in shown.items()} == {
        SHARED.key: ({gpus(8): 2}, 1, frozenset({"vision"})),
        VISION.key: ({gpus(4): 3}, 1, frozenset({"vision"})),
    }
    assert shown[VISION.key].version == replica.store.read(VISION.key, 1).version


def test_a_namespace_that_policies_name_is_told_of_before_it_has_pods(replica):
    replica.in_force.named = ("vision",)
    replica.reconciler.reconcile()
    assert [(one.entries, one.version, dict(one.used)) for one in replica.reconciler.usage.values()] == [
        (0, "", {gpus(4): 0})
    ]


def test_what_other_replicas_write_is_told_too(replica):
    replica.in_force.named = ("vision",)
    replica.reconciler.reconcile()
    replica.beside(VISION).enter(1, VISION, 2)
    replica.reconciler.reconcile()
    assert dict(replica.reconciler.usage[VISION.key].used) == {gpus(4): 2}


def test_a_ledger_that_cannot_be_corrected_keeps_no_other_from_it(caplog):
    replica = Kept().keeping(VISION, of_namespace(4, "speech"))
    for number, namespace in ((1, "vision"), (2, "speech")):
        replica.enter(number, of_namespace(4, namespace))
    replica.clock.now += IN_FLIGHT + 1
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == replica.entered(of_namespace(4, "speech")) == set()
    replica = Kept().keeping(VISION, of_namespace(4, "another"))
    for number, namespace in ((1, "another"), (2, "vision")):
        replica.store_pod(number, 1, namespace)
    replica.view.before_list = lambda: _fail_on(replica, "all another")
    replica.reconciler.reconcile()
    assert replica.entered(VISION) == {2}
    assert "quota namespace.another: the ledger is not reconciled: pods: 500" in caplog.messages


def _fail_on(replica, what):
    if replica.view.lists[-1] == what:
        raise LedgerError("pods: 500")


def test_a_fault_is_said_once_until_it_is_another_or_has_passed(replica, caplog):
    told = []
    for fault in ("a", "a", "", "a", "b", "b"):
        replica.store.faults = [LedgerError(fault)] if fault else []
        replica.reconciler.attempt(replica.reconciler.reconcile)
        replica.reconciler.attempt(replica.reconciler.remove_gone)  # news between two rounds end no fault
        told.append(len(caplog.records))
    assert caplog.messages == [f"ledgers of quotas: {text}" for text in ("a", "a", "b")]
    assert told == [1, 1, 1, 2, 3, 3]


def test_a_bug_in_one_round_is_logged_with_its_place_and_ends_no_later_one(replica, caplog):
    replica.store.read_all = lambda _: 1 // 0
    for _ in range(2):
        replica.reconciler.attempt(replica.reconciler.reconcile)
    (record,) = caplog.records
    assert (record.levelno, record.exc_info[0]) == (logging.ERROR, ZeroDivisionError)


# Its thread.


def is_running() -> bool:
    """Whether the thread of a reconciler has not ended."""
    return "quota-reconciler" in {thread.name for thread in threading.enumerate()}


def test_news_of_a_pod_that_is_gone_remove_its_entry_before_the_next_round(running):
    running.enter(1, VISION)
    eventually(lambda: bool(running.shown))
    running.store_pod(1)
    running.truth.delete(uid(1))
    running.view.catch_up()
    rounds = len(running.shown)
    running.reconciler.wake()
    eventually(lambda: running.entered(VISION) == set())
    assert len(running.shown) == rounds


def test_news_without_end_put_off_no_round(running):
    eventually(lambda: bool(running.shown))
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            running.reconciler.wake()
            running.clock.now += 1

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    eventually(lambda: len(running.shown) >= 3)
    stop.set()
    thread.join(PATIENCE)


def test_a_fault_in_one_round_is_over_in_the_next(running):
    eventually(lambda: bool(running.shown))
    running.store.faults = [LedgerError("away")]
    running.clock.now += 2 * IN_FLIGHT
    running.reconciler.wake()
    eventually(lambda: not running.store.faults)
    running.clock.now += 2 * IN_FLIGHT
    running.reconciler.wake()
    eventually(lambda: len(running.shown) >= 2)


def test_without_quotas_nobody_is_asked_for_anything(replica):
    replica.in_force.quotas.clear()
    replica.reconciler.start()
    eventually(lambda: replica.shown == [{}])
    assert (replica.begun.is_set(), replica.store.calls, replica.reconciler.age) == (False, [], None)
    replica.reconciler.close()
    assert not is_running()


def test_the_first_quota_begins_it(replica):
    replica.in_force.quotas.clear()
    replica.reconciler.start()
    eventually(lambda: replica.shown == [{}])
    replica.in_force.quotas.append(SHARED)
    eventually(lambda: SHARED.key in replica.reconciler.usage)
    assert replica.begun.is_set()
    replica.reconciler.close()


def test_its_age_is_that_of_the_last_round_in_which_all_was_compared(running):
    eventually(lambda: bool(running.shown))
    running.clock.now += 30
    assert running.reconciler.age == 30
    running.view.known = False
    running.reconciler.reconcile()
    assert running.reconciler.age == 30
    running.view.known = True
    running.reconciler.reconcile()
    assert running.reconciler.age == 0


def test_it_ends_without_waiting_for_a_store_that_hangs(replica):
    go_on = threading.Event()
    replica.store.before = lambda _: go_on.wait(PATIENCE)
    replica.reconciler.start()
    eventually(lambda: bool(replica.store.calls))
    replica.reconciler.close()
    assert is_running()
    go_on.set()
    eventually(lambda: not is_running())


def test_a_keeper_that_was_never_started_can_be_closed(replica):
    replica.reconciler.close()
    assert not is_running()
