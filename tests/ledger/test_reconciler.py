"""Ledgers become what is stored, whatever was admitted without them or held in vain, and those of no use go."""

import logging
import threading
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest

from tests.ledger.bookkeeping import (
    IN_FLIGHT,
    PATIENCE,
    Replica,
    demand,
    eventually,
    gpus,
    of_namespace,
    pot,
    uid,
)
from tests.ledger.small_cluster import raw_pod, seen_pod
from webhook.ledger.context import ReconcileIntervals
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.reconciler import Reconciler
from webhook.ledger.verdicts import Exceeded, Granted, Unanswered
from webhook.model.pod_reader import pod_from_raw
from webhook.quota.quotas import Demand, Limit, Measure, Quota

IDLE = 300.0
VISION, SHARED = of_namespace(4), pot(8, "vision", "spee*")
H100, T4 = ({"nvidia.com/gpu.product": product} for product in ("NVIDIA-H100-80GB-HBM3", "Tesla-T4"))


@dataclass
class InForce:
    """Policies that change when told to."""

    quotas: list[Quota] = field(default_factory=lambda: [VISION])
    are_settled: bool = True
    named: tuple[str, ...] = ()

    @property
    def exist(self) -> bool:
        return bool(self.quotas)

    @property
    def pots(self) -> list[Quota]:
        return [quota for quota in self.quotas if quota.scope == "pot"]

    @property
    def namespaces(self) -> tuple[str, ...]:
        return self.named

    def of(self, namespace: str) -> Quota | None:
        return next((quota for quota in self.quotas if quota.scope == "namespace" and quota.name == namespace), None)


class Kept(Replica):
    """A replica with its keeper."""

    def keeping(self, *quotas: Quota) -> "Kept":
        self.in_force = InForce(list(quotas))
        self.shown: list[dict] = []
        self.begun = threading.Event()
        rhythm = ReconcileIntervals(round=IN_FLIGHT, after_news=0.01, idle=IDLE)
        self.keeper = Reconciler(
            self.ledgers, self.in_force, rhythm=rhythm, begin=self.begun.set, listener=self.shown.append
        )
        return self

    def beside(self, *quotas: Quota) -> "Kept":
        """Another replica that goes by other policies."""
        return Kept(self.truth, self.store, self.clock, self.timing).keeping(*quotas)

    def store_pod(self, number: int, count: int = 1, namespace: str = "vision", *, heard: bool = True) -> None:
        """The API server stores a pod."""
        self.truth.store(seen_pod(number, namespace, count))
        if heard:
            self.view.catch_up()

    def rounds(self, count: int, apart: float = 10.0) -> None:
        for _ in range(count):
            self.keeper.round()
            self.clock.now += apart

    def pass_time(self, seconds: float) -> None:
        """Rounds for longer than this."""
        self.rounds(int(seconds // 10) + 2)


@pytest.fixture
def replica():
    return Kept().keeping(VISION)


@pytest.fixture
def running(replica):
    """The replica with the keeper's thread."""
    replica.keeper.start()
    yield replica
    replica.keeper.close()


# What is there in vain.


@pytest.mark.parametrize("work", ["round", "strike_gone"])
def test_the_entry_of_a_pod_that_is_known_to_be_gone_is_struck(replica, work):
    for number in (1, 2):
        replica.enter(number, VISION)
        replica.store_pod(number)
    replica.truth.delete(uid(1))
    replica.view.catch_up()
    getattr(replica.keeper, work)()
    assert replica.entered(VISION) == {2}


def test_without_anything_gone_nothing_is_written_or_read(replica):
    replica.enter(1, VISION)
    calls = list(replica.store.calls)
    replica.keeper.strike_gone()
    assert replica.store.calls == calls


def test_the_entry_of_a_pod_that_never_came_is_struck_when_it_was_there_for_longer_than_an_admission(replica):
    replica.enter(1, VISION)
    replica.keeper.round()
    replica.clock.now += IN_FLIGHT
    replica.keeper.round()
    assert replica.entered(VISION) == {1}
    replica.clock.now += 1
    replica.keeper.round()
    assert replica.entered(VISION) == set()


def test_a_replica_that_was_just_started_waits_as_long_as_any_other(replica):
    replica.enter(1, VISION)
    replica.clock.now += 10 * IN_FLIGHT
    late = replica.beside(VISION)
    late.keeper.round()
    late.clock.now += IN_FLIGHT
    late.keeper.round()
    assert late.entered(VISION) == {1}
    late.clock.now += 1
    late.keeper.round()
    assert late.entered(VISION) == set()


def test_a_pod_that_is_there_keeps_its_entry_though_the_watch_never_told_of_it(replica):
    replica.enter(1, VISION)
    replica.store_pod(1, heard=False)
    replica.pass_time(3 * IN_FLIGHT)
    assert replica.entered(VISION) == {1}


def test_a_list_that_fails_strikes_nothing(replica):
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
    replica.keeper.round()
    of_review, of_reconciliation = replica.view.seconds
    assert of_review <= replica.timing.one_call < of_reconciliation == ReconcileIntervals().one_round


# What was admitted without an entry.


def test_a_pod_without_an_entry_is_added_when_it_is_missing_twice_and_a_list_shows_it(replica):
    replica.enter(1, VISION, 3)
    replica.store_pod(1, 3)
    replica.store_pod(2, 4)
    replica.keeper.round()
    assert replica.entered(VISION) == {1}
    assert "live vision" not in replica.view.lists
    replica.keeper.round()
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
    replica.keeper.round()
    replica.enter(2, VISION)
    replica.keeper.round()
    held = replica.store.read(VISION.key, 1)
    replica.store.replace(VISION.key, held.book.changed({}, {uid(2)}), held, 1)
    replica.keeper.round()
    assert replica.entered(VISION) == {1}
    replica.keeper.round()
    assert replica.entered(VISION) == {1, 2}


def test_pods_of_other_namespaces_and_without_gpus_are_not_added(replica):
    replica.enter(1, VISION)
    for number, namespace, count in ((1, "vision", 1), (2, "speech", 1), (3, "vision", 0)):
        replica.truth.store(seen_pod(number, namespace, count))
    replica.view.catch_up()
    replica.rounds(3)
    assert replica.entered(VISION) == {1}


def test_while_pods_are_not_known_none_is_added_and_those_in_vain_are_struck_all_the_same(replica):
    replica.enter(1, VISION)
    replica.store_pod(2)
    replica.view.known = False
    replica.rounds(3)
    assert replica.entered(VISION) == {1}
    replica.clock.now += IN_FLIGHT
    replica.keeper.round()
    assert replica.entered(VISION) == set()


# What counts otherwise than before.


def stored(replica, number, **spec):
    pod = replace(seen_pod(number, "vision", 1), pod=pod_from_raw(raw_pod(1, **spec)))
    replica.truth.store(pod)
    replica.view.catch_up()


def test_a_pod_whose_node_selector_was_narrowed_counts_as_it_does_now():
    quota = replace(VISION, limits=(Limit(Measure.MODEL, "H100", Fraction(4)), Limit(Measure.MODEL, "T4", Fraction(4))))
    replica = Kept().keeping(quota)
    replica.enter(1, quota)
    stored(replica, 1, nodeSelector=T4)
    replica.keeper.round()
    held = replica.store.read(quota.key, 1)
    assert held.book.entries == {uid(1): Demand("vision", (("nvidia.com/gpu", 1),), ("T4",))}
    assert list(replica.keeper.usage[quota.key].used.values()) == [0, 1]


def test_while_policies_change_no_entry_is_made_to_count_otherwise(replica):
    replica.in_force.are_settled = False
    replica.enter(1, VISION)
    stored(replica, 1, nodeSelector=H100)
    replica.keeper.round()
    assert replica.store.read(VISION.key, 1).book.entries == {uid(1): demand()}


# The namespaces of a pot.


def test_a_pot_that_has_lost_namespaces_forgets_them_when_no_replica_goes_by_them_any_more():
    replica = Kept().keeping(pot(8, "vision"))
    replica.enter(1, SHARED, 2)
    replica.store_pod(2, 2, "speech")
    replica.in_force.are_settled = False
    replica.keeper.round()
    assert replica.store.read(SHARED.key, 1).book.patterns == {"spee*", "vision"}
    replica.in_force.are_settled = True
    replica.keeper.round()
    assert replica.store.read(SHARED.key, 1).book.patterns == {"vision"}


def test_a_namespace_that_comes_back_to_a_pot_is_listed_again():
    replica = Kept().keeping(pot(8, "vision"))
    replica.enter(1, SHARED)
    replica.keeper.round()
    replica.store_pod(2, 8, "speech")
    assert isinstance(replica.enter(3, SHARED), Exceeded)
    assert replica.view.lists[:2] == ["all spee*,vision", "all spee*"]


def test_a_pot_that_has_gained_a_namespace_has_its_pods_entered():
    replica = Kept().keeping(SHARED)
    replica.enter(1, pot(8, "speech"))
    replica.store_pod(2, 2)
    replica.keeper.round()
    assert replica.entered(SHARED) == {1, 2}
    assert replica.store.read(SHARED.key, 1).book.patterns == {"spee*", "vision"}


# Ledgers that begin, and ledgers that go.


def test_a_pot_and_a_namespace_with_gpu_pods_have_a_ledger_before_anybody_asks():
    replica = Kept().keeping(SHARED, VISION, of_namespace(4, "empty"))
    replica.in_force.named = ("vision", "empty")
    replica.store_pod(1)
    replica.keeper.round()
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
    replica.keeper.round()
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


def test_an_empty_pot_keeps_its_ledger():
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
    assert f"quota {SHARED.key}: its ledger is of no use and cannot be removed: DELETE: 403" in caplog.messages


# What is told.


def test_what_is_in_use_is_told_after_each_round():
    replica = Kept().keeping(SHARED, VISION)
    replica.enter(1, VISION, 3)
    replica.enter(2, SHARED, 2)
    replica.keeper.round()
    (shown,) = replica.shown
    assert shown == replica.keeper.usage
    assert {key: (dict(one.used), one.entries, one.namespaces) for key, one in shown.items()} == {
        SHARED.key: ({gpus(8): 2}, 1, frozenset({"vision"})),
        VISION.key: ({gpus(4): 3}, 1, frozenset({"vision"})),
    }
    assert shown[VISION.key].version == replica.store.read(VISION.key, 1).version


def test_a_namespace_that_policies_name_is_told_of_before_it_has_pods(replica):
    replica.in_force.named = ("vision",)
    replica.keeper.round()
    assert [(one.entries, one.version, dict(one.used)) for one in replica.keeper.usage.values()] == [
        (0, "", {gpus(4): 0})
    ]


def test_what_other_replicas_write_is_told_too(replica):
    replica.in_force.named = ("vision",)
    replica.keeper.round()
    replica.beside(VISION).enter(1, VISION, 2)
    replica.keeper.round()
    assert dict(replica.keeper.usage[VISION.key].used) == {gpus(4): 2}


def test_a_ledger_that_cannot_be_corrected_keeps_no_other_from_it(caplog):
    replica = Kept().keeping(VISION, of_namespace(4, "speech"))
    for number, namespace in ((1, "vision"), (2, "speech")):
        replica.enter(number, of_namespace(4, namespace))
    replica.clock.now += IN_FLIGHT + 1
    replica.keeper.round()
    assert replica.entered(VISION) == replica.entered(of_namespace(4, "speech")) == set()
    replica = Kept().keeping(VISION, of_namespace(4, "another"))
    for number, namespace in ((1, "another"), (2, "vision")):
        replica.store_pod(number, 1, namespace)
    replica.view.before_list = lambda: _fail_on(replica, "all another")
    replica.keeper.round()
    assert replica.entered(VISION) == {2}
    assert "quota namespace.another: not reconciled: pods: 500" in caplog.messages


def _fail_on(replica, what):
    if replica.view.lists[-1] == what:
        raise LedgerError("pods: 500")


def test_a_fault_is_said_once_until_it_is_another_or_has_passed(replica, caplog):
    told = []
    for fault in ("a", "a", "", "a", "b", "b"):
        replica.store.faults = [LedgerError(fault)] if fault else []
        replica.keeper.attempt(replica.keeper.round)
        replica.keeper.attempt(replica.keeper.strike_gone)  # news between two rounds end no fault
        told.append(len(caplog.records))
    assert caplog.messages == [f"ledgers of quotas: {text}" for text in ("a", "a", "b")]
    assert told == [1, 1, 1, 2, 3, 3]


def test_a_bug_in_one_round_is_logged_with_its_place_and_ends_no_later_one(replica, caplog):
    replica.store.read_all = lambda _: 1 // 0
    for _ in range(2):
        replica.keeper.attempt(replica.keeper.round)
    (record,) = caplog.records
    assert (record.levelno, record.exc_info[0]) == (logging.ERROR, ZeroDivisionError)


# Its thread.


def is_running() -> bool:
    """Whether the thread of a keeper has not ended."""
    return "quota-keeper" in {thread.name for thread in threading.enumerate()}


def test_news_of_a_pod_that_is_gone_strike_its_entry_before_the_next_round(running):
    running.enter(1, VISION)
    eventually(lambda: bool(running.shown))
    running.store_pod(1)
    running.truth.delete(uid(1))
    running.view.catch_up()
    rounds = len(running.shown)
    running.keeper.wake()
    eventually(lambda: running.entered(VISION) == set())
    assert len(running.shown) == rounds


def test_news_without_end_put_off_no_round(running):
    eventually(lambda: bool(running.shown))
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            running.keeper.wake()
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
    running.keeper.wake()
    eventually(lambda: not running.store.faults)
    running.clock.now += 2 * IN_FLIGHT
    running.keeper.wake()
    eventually(lambda: len(running.shown) >= 2)


def test_without_quotas_nobody_is_asked_for_anything(replica):
    replica.in_force.quotas.clear()
    replica.keeper.start()
    eventually(lambda: replica.shown == [{}])
    assert (replica.begun.is_set(), replica.store.calls, replica.keeper.age) == (False, [], None)
    replica.keeper.close()
    assert not is_running()


def test_the_first_quota_begins_it(replica):
    replica.in_force.quotas.clear()
    replica.keeper.start()
    eventually(lambda: replica.shown == [{}])
    replica.in_force.quotas.append(SHARED)
    eventually(lambda: SHARED.key in replica.keeper.usage)
    assert replica.begun.is_set()
    replica.keeper.close()


def test_its_age_is_that_of_the_last_round_in_which_all_was_compared(running):
    eventually(lambda: bool(running.shown))
    running.clock.now += 30
    assert running.keeper.age == 30
    running.view.known = False
    running.keeper.round()
    assert running.keeper.age == 30
    running.view.known = True
    running.keeper.round()
    assert running.keeper.age == 0


def test_it_ends_without_waiting_for_a_store_that_hangs(replica):
    go_on = threading.Event()
    replica.store.before = lambda _: go_on.wait(PATIENCE)
    replica.keeper.start()
    eventually(lambda: bool(replica.store.calls))
    replica.keeper.close()
    assert is_running()
    go_on.set()
    eventually(lambda: not is_running())


def test_a_keeper_that_was_never_started_can_be_closed(replica):
    replica.keeper.close()
    assert not is_running()
