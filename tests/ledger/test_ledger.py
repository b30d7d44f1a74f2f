"""One ledger, and several that a pod goes by: what is written when, what is asked again, and what is told.

That no quota is ever passed in any order of events is in test_ledger_machine.py.
"""

import threading
import time
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.ledger.bookkeeping import (
    IN_FLIGHT,
    Replica,
    at_once,
    demand,
    eventually,
    gpus,
    joined,
    of_namespace,
    pot,
    uid,
)
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.context import LedgerTiming
from webhook.ledger.ledger import Correction
from webhook.ledger.ledger_store import LedgerChangedError, LedgerError
from webhook.ledger.verdicts import Claim, Exceeded, Granted, Unanswered
from webhook.quota.quotas import Excess

VISION, SPEECH = of_namespace(4), of_namespace(4, "speech")
KEY = VISION.key
GRANTED = Granted()


@pytest.fixture
def replica():
    return Replica()


def exceeded(asks: int, used: int, hard: int = 4) -> Exceeded:
    return Exceeded((Excess(gpus(hard), Fraction(asks), Fraction(used)),))


# Entering.


def test_a_pod_is_entered_before_the_answer_and_the_one_that_is_too_much_is_not(replica):
    assert [replica.enter(number, VISION, 2) for number in (1, 2, 3)] == [GRANTED, GRANTED, exceeded(2, 4)]
    assert replica.entered(VISION) == {1, 2}
    assert replica.told.counts[f"refused {KEY}"] == 1


def test_a_refusal_gives_every_limit_that_is_passed_and_what_is_in_use(replica):
    quota = replace(VISION, limits=(gpus(4), replace(gpus(2), name="again"), replace(gpus(9), name="never")))
    replica.enter(1, quota, 2)
    verdict = replica.enter(2, quota, 3)
    assert isinstance(verdict, Exceeded)
    assert [(one.limit.hard, one.asks, one.used, one.free) for one in verdict.excesses] == [(4, 3, 2, 2), (2, 3, 2, 0)]


def test_what_passes_a_quota_already_refuses_the_next_pod_and_strikes_nobody(replica):
    replica.enter(1, of_namespace(8), 8)
    verdict = replica.enter(2, VISION)
    assert verdict == exceeded(1, 8)
    assert verdict.excesses[0].free == 0
    assert replica.entered(VISION) == {1}


def test_a_pod_that_is_asked_about_again_counts_once_whichever_replica_answers(replica):
    other = replica.another()
    assert [one.enter(1, VISION, 3) for one in (replica, other, replica, other)] == [GRANTED] * 4
    assert replica.entered(VISION) == {1}
    assert other.enter(2, VISION, 2) == exceeded(2, 3)


def test_a_pod_without_gpus_that_a_limit_counts_passes_a_full_quota(replica):
    quota = replace(VISION, limits=(replace(VISION.limits[0], measure="resource", name="amd.com/gpu"),))
    full = Claim(quota, replace(demand(), gpus=(("amd.com/gpu", 4),)))
    assert replica.ask(1, full) == (GRANTED,)
    assert replica.ask(2, Claim(quota, demand(9))) == (GRANTED,)


def test_one_write_is_made_for_all_that_wait(replica):
    replica.enter(1, of_namespace(100))
    let_go = threading.Event()
    replica.store.before = lambda call: call.startswith("replace") and let_go.wait(5)
    verdicts = {}

    def come(number):
        verdicts[number] = replica.enter(number, of_namespace(100))

    before = len(replica.store.calls)
    first = at_once(lambda: come(2))
    eventually(lambda: len(replica.store.calls) > before)
    others = at_once(*(lambda number=number: come(number) for number in range(3, 23)))
    eventually(lambda: replica.ledgers.of(KEY).waiting == 20)
    let_go.set()
    joined(first + others)
    assert set(verdicts.values()) == {GRANTED}
    assert replica.entered(VISION) == set(range(1, 23))
    assert replica.store.calls[before:] == [f"replace {KEY}"] * 2


def test_of_those_that_are_written_together_no_more_fit_than_is_free(replica):
    replica.enter(1, VISION)
    ledger = replica.ledgers.of(KEY)
    batch = [replica.reservation(number, VISION, 2) for number in (2, 3)] + [replica.reservation(4, VISION)]
    ledger.settle(batch)
    assert [one.verdict for one in batch] == [GRANTED, exceeded(2, 3), GRANTED]
    assert replica.entered(VISION) == {1, 2, 4}


def test_those_that_are_written_together_by_two_versions_of_a_quota_are_added_up(replica):
    """While policies are changed, some requests of a batch still go by the earlier ones."""
    earlier, later = VISION, replace(VISION, limits=(gpus(5),))
    batch = [replica.reservation(1, earlier, 3), replica.reservation(2, later, 3), replica.reservation(3, earlier, 2)]
    replica.ledgers.of(KEY).settle(batch)
    assert [one.verdict for one in batch] == [GRANTED, exceeded(3, 3, hard=5), exceeded(2, 3)]
    assert replica.entered(VISION) == {1}


def test_what_an_earlier_version_of_a_pot_covers_uses_nothing_of_a_later_one_that_does_not(replica):
    earlier, later = pot(4, "speech", "vision"), pot(4, "vision")
    batch = [replica.reservation(1, later), replica.reservation(2, earlier, 3), replica.reservation(3, later, 3)]
    assert batch[1].claim.demand.namespace == "speech"
    replica.ledgers.of(later.key).settle(batch)
    assert [one.verdict for one in batch] == [GRANTED] * 3


# Dry runs, and claims that are not enforced.


def test_a_dry_run_is_judged_alike_and_leaves_nothing(replica):
    claim = Claim(VISION, demand(4))
    assert replica.ask(1, claim, is_dry_run=True) == (GRANTED,)
    assert replica.entered(VISION) == set()
    replica.enter(2, VISION)
    calls = list(replica.store.calls)
    assert replica.ask(3, claim, is_dry_run=True) == (exceeded(4, 1),)
    assert not [call for call in replica.store.calls[len(calls) :] if not call.startswith("read")]


def test_a_dry_run_is_judged_by_what_other_replicas_have_entered_since(replica):
    other = replica.another()
    other.enter(1, VISION)
    replica.enter(2, VISION, 3)
    assert other.ask(3, Claim(VISION, demand()), is_dry_run=True) == (exceeded(1, 4),)


def test_a_claim_that_is_not_enforced_is_entered_and_said_to_pass_the_limit(replica):
    replica.enter(1, VISION, 4)
    assert replica.enter(2, VISION, 3, enforced=False) == exceeded(3, 4)
    assert replica.entered(VISION) == {1, 2}
    assert replica.told.counts[f"refused {KEY}"] == 0
    assert replica.enter(3, VISION) == exceeded(1, 7)


# Several quotas.


def test_the_verdicts_are_in_the_order_of_the_claims(replica):
    shared = pot(2, "vision")
    claims = [Claim(VISION, demand(3)), Claim(shared, demand(3)), Claim(pot(9, "*", name="all"), demand(3))]
    assert replica.ask(1, *claims) == (GRANTED, exceeded(3, 0, hard=2), GRANTED)


def test_the_quota_that_seems_full_is_asked_first_and_the_others_are_then_only_asked(replica):
    shared = pot(2, "vision")
    replica.enter(1, VISION)
    replica.enter(1, shared, 2)
    assert replica.ask(2, Claim(VISION, demand()), Claim(shared, demand())) == (GRANTED, exceeded(1, 2, hard=2))
    assert replica.entered(VISION) == {1}


def test_what_was_entered_before_another_quota_refused_stays_for_as_long_as_an_admission_may_last(replica):
    """The replica has not heard yet that the pot is full."""
    shared = pot(2, "vision")
    replica.enter(9, of_namespace(1, "other"))
    replica.another().enter(1, shared, 2)
    assert replica.ask(2, Claim(VISION, demand(4)), Claim(shared, demand())) == (GRANTED, exceeded(1, 2, hard=2))
    assert replica.entered(VISION) == {2}
    replica.clock.now += IN_FLIGHT
    assert replica.enter(3, VISION) == exceeded(1, 4)
    replica.clock.now += 3
    assert replica.enter(4, VISION) == GRANTED
    assert replica.entered(VISION) == {4}


def test_a_quota_that_is_only_warned_of_keeps_nobody_out_of_the_others(replica):
    replica.enter(1, VISION, 4)
    shared = pot(4, "vision")
    assert replica.ask(2, Claim(VISION, demand(), enforced=False), Claim(shared, demand())) == (
        exceeded(1, 4),
        GRANTED,
    )
    assert (replica.entered(VISION), replica.entered(shared)) == ({1, 2}, {2})


def test_a_ledger_that_cannot_be_reached_does_not_answer_for_another(replica):
    replica.store.before = lambda call: call.endswith(KEY) and replica.store.faults.append(LedgerError("broken"))
    assert replica.ask(1, Claim(VISION, demand()), Claim(SPEECH, demand(1, "speech"))) == (
        Unanswered("broken"),
        GRANTED,
    )


# Faults and conflicts.


def test_a_store_that_fails_is_asked_so_often_and_no_more_and_the_failure_is_told(replica):
    replica.store.faults = [LedgerError(f"fault {number}") for number in range(9)]
    assert replica.enter(1, VISION) == Unanswered("fault 2")
    assert len(replica.store.calls) == replica.timing.attempts_at_faults
    assert replica.told.counts == {f"reserved {KEY}": 1, f"failed {KEY}": 1}


@pytest.mark.parametrize("faults", [1, 2])
def test_a_fault_that_passes_is_not_seen(replica, faults):
    replica.store.faults = [LedgerError("passing")] * faults
    assert replica.enter(1, VISION) == GRANTED
    assert replica.told.counts[f"failed {KEY}"] == 0


def test_a_write_whose_answer_was_lost_is_found_again(replica):
    replica.enter(1, VISION)
    write, calls = replica.store.replace, []

    def written_and_lost(*args):
        result = write(*args)
        calls.append(result)
        if len(calls) == 1:
            raise LedgerError("the connection broke off")
        return result

    replica.store.replace = written_and_lost
    assert replica.enter(2, VISION, 3) == GRANTED
    assert (replica.entered(VISION), len(calls)) == ({1, 2}, 1)


def test_who_comes_too_late_is_told_so_and_not_entered(replica):
    reservation = replica.reservation(1, VISION)
    replica.clock.now += 6
    assert replica.ledgers.of(KEY).reserve(reservation) == Unanswered("the ledger did not answer in time")
    assert replica.store.calls == []


def test_a_write_that_came_second_is_told_and_tried_again_over_what_is_there(replica):
    other = replica.another()
    replica.enter(1, VISION)
    other.enter(2, VISION)
    assert replica.enter(3, VISION) == GRANTED
    assert replica.entered(VISION) == {1, 2, 3}
    assert replica.told.counts[f"conflicted {KEY}"] == 1
    assert other.told.counts[f"conflicted {KEY}"] == 0


def test_the_last_place_goes_to_the_one_that_writes_first(replica):
    other = replica.another()
    replica.enter(1, VISION)
    other.enter(2, VISION)
    replica.enter(3, VISION)
    replica.store.before = lambda call: call.startswith("replace") and _once(replica, lambda: other.enter(4, VISION))
    assert replica.enter(5, VISION) == exceeded(1, 4)
    assert replica.entered(VISION) == {1, 2, 3, 4}


def _once(replica, act):
    replica.store.before = lambda _: None
    act()


def test_where_others_write_too_the_book_is_read_first_until_nobody_else_does(replica):
    other = replica.another()
    quota = of_namespace(100)
    replica.enter(1, quota)
    other.enter(2, quota)
    replica.enter(3, quota)
    told = dict(replica.told.counts)
    for number in range(4, 8):
        other.enter(number, quota)
        replica.enter(number + 10, quota)
    assert replica.told.counts[f"conflicted {KEY}"] == told[f"conflicted {KEY}"]
    replica.enter(20, quota)
    before = len(replica.store.calls)
    for number in range(21, 25):
        replica.enter(number, quota)
    assert replica.store.calls[before:] == [f"replace {KEY}"] * 4


def test_a_store_that_never_lets_anybody_write_ends_with_the_time(replica):
    replica.enter(1, VISION)

    def taken(*_):
        replica.clock.now += 1
        raise LedgerChangedError

    replica.store.replace = taken
    assert replica.enter(2, VISION) == Unanswered("too many wrote at the same time")
    assert replica.told.counts[f"conflicted {KEY}"] == 5


def test_a_ledger_that_somebody_removed_is_begun_again_from_the_pods_that_are_there(replica):
    replica.enter(1, VISION)
    replica.truth.store(seen_pod(1, "vision", 1))
    replica.store.remove(KEY, replica.store.read(KEY, 1), 1)
    assert replica.enter(2, VISION, 3) == GRANTED
    assert replica.entered(VISION) == {1, 2}


def test_a_correction_waits_for_nobody_and_nobody_waits_longer_because_of_it(replica):
    """A reconciliation has a minute; a review that is written together with it does not."""
    replica.enter(1, VISION)

    def slow(*_):
        replica.clock.now += 1
        raise LedgerChangedError

    replica.store.replace = slow
    asked_at = replica.clock()
    reservation = replica.reservation(2, VISION)
    correction = Correction(struck=frozenset({uid(1)}), deadline=asked_at + 60)
    replica.ledgers.of(KEY).settle([reservation, correction])
    assert isinstance(reservation.verdict, Unanswered)
    assert not correction.is_done
    assert replica.clock() - asked_at <= 6


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


def test_a_namespace_that_joins_a_pot_brings_its_pods(replica):
    replica.enter(1, pot(8, "vision"), 2)
    replica.truth.store(seen_pod(2, "speech", 5))
    wider = pot(8, "vision", "spee*")
    assert replica.enter(3, wider, 2) == exceeded(2, 7, hard=8)
    assert replica.entered(wider) == {1, 2}
    assert replica.view.lists[:2] == ["all vision", "all spee*"]


def test_a_pot_that_has_lost_a_namespace_does_not_count_its_pods_any_more(replica):
    replica.enter(1, pot(8, "speech", "vision"), 8)
    narrower = pot(8, "vision")
    assert replica.enter(2, narrower, 8) == GRANTED
    assert replica.enter(3, narrower) == exceeded(1, 8, hard=8)


def test_a_pod_that_is_admitted_while_the_others_are_listed_is_not_lost(replica):
    other = replica.another()
    replica.truth.store(seen_pod(1, "vision", 1))
    wider = pot(8, "speech", "vision")
    replica.enter(2, pot(8, "vision"))
    replica.view.before_list = lambda: other.enter(3, pot(8, "vision"))
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
    reservation = replica.reservation(1, VISION)
    reservation.deadline = time.monotonic() + 0.05
    verdict = replica.ledgers.of(KEY).reserve(reservation)
    assert verdict == Unanswered("its pods are being counted for the first time; try again in a moment")
    go_on.set()
    joined(threads)
    assert replica.enter(2, VISION) == GRANTED
    assert len(replica.view.lists) == 1


# What is there in vain.


def test_nobody_is_refused_for_pods_that_are_gone_though_the_watch_has_not_told(replica):
    replica.enter(1, VISION, 4)
    replica.truth.store(seen_pod(1, "vision", 4))
    replica.view.catch_up()
    replica.truth.delete(uid(1))
    assert replica.enter(2, VISION, 4) == GRANTED
    assert replica.entered(VISION) == {2}
    assert replica.told.counts["looked up"] == 1


def test_what_is_known_to_be_gone_is_struck_before_a_refusal_without_a_list(replica):
    replica.enter(1, VISION, 4)
    replica.truth.store(seen_pod(1, "vision", 4))
    replica.truth.delete(uid(1))
    replica.view.catch_up()
    replica.view.fault = LedgerError("no lists today")
    assert replica.enter(2, VISION, 4) == GRANTED


def test_an_entry_whose_pod_may_still_come_is_not_struck(replica):
    replica.enter(1, VISION, 4)
    replica.clock.now += IN_FLIGHT
    assert replica.enter(2, VISION) == exceeded(1, 4)
    assert replica.entered(VISION) == {1}


def test_an_entry_whose_pod_never_came_is_struck_once_that_is_sure(replica):
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


def test_a_pod_that_is_there_is_never_struck_however_old_its_entry_is(replica):
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


def test_nothing_is_listed_while_there_is_room(replica):
    replica.enter(1, VISION)
    replica.clock.now += 10 * IN_FLIGHT
    for number in range(2, 5):
        replica.enter(number, VISION)
    assert replica.view.lists == ["all vision"]


# Corrections.


def test_a_correction_of_a_ledger_that_is_no_more_is_not_done_and_begins_none(replica):
    correction = Correction(struck=frozenset({uid(1)}), deadline=replica.clock() + 60)
    assert replica.ledgers.of(KEY).correct(correction) is False
    assert replica.store.read(KEY, 1) is None


def test_a_correction_never_claims_that_pods_were_listed_which_were_not(replica):
    """The ledger was removed, and begun again by a replica that goes by earlier policies."""
    wide, narrow = pot(8, "speech", "vision"), pot(8, "vision")
    replica.truth.store(seen_pod(1, "speech", 8))
    replica.enter(2, narrow)
    patterns = frozenset(wide.patterns)
    assert replica.ledgers.of(wide.key).correct(Correction(patterns=patterns, deadline=replica.clock() + 60))
    assert replica.enter(3, wide) == exceeded(1, 9, hard=8)


def test_a_correction_is_written_over_what_others_have_written_since(replica):
    replica.enter(1, VISION)
    replica.another().enter(2, VISION)
    correction = Correction(entered={uid(3): demand(2)}, struck=frozenset({uid(1)}), deadline=replica.clock() + 60)
    assert replica.ledgers.of(KEY).correct(correction)
    assert replica.entered(VISION) == {2, 3}


def test_a_correction_that_cannot_be_written_says_so(replica):
    replica.enter(1, VISION)
    replica.store.faults = [LedgerError("broken")] * 9
    correction = Correction(struck=frozenset({uid(1)}), deadline=replica.clock() + 60)
    assert replica.ledgers.of(KEY).correct(correction) is False
    assert replica.told.counts[f"failed {KEY}"] == 0
