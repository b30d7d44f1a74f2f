"""A ledger under faults and conflicts: what is tried again, what is told, and what corrections leave to others."""

import pytest

from tests.ledger.bookkeeping import demand, exceeded, of_namespace, shared_quota, uid
from tests.ledger.small_cluster import seen_pod
from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.ledger import Correction
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.verdicts import Granted, Unanswered

VISION, SPEECH = of_namespace(4), of_namespace(4, "speech")


KEY = VISION.key


GRANTED = Granted()


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
    pending = replica.pending(1, VISION)
    replica.clock.now += 6
    assert replica.ledgers.of(KEY).reserve(pending) == Unanswered("the ledger did not answer in time")
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
        raise ConflictError

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
        raise ConflictError

    replica.store.replace = slow
    asked_at = replica.clock()
    pending = replica.pending(2, VISION)
    correction = Correction(removed=frozenset({uid(1)}), deadline=asked_at + 60)
    replica.ledgers.of(KEY).settle([pending, correction])
    assert isinstance(pending.verdict, Unanswered)
    assert not correction.is_done
    assert replica.clock() - asked_at <= 6


# Corrections.


def test_a_correction_of_a_ledger_that_is_no_more_is_not_done_and_begins_none(replica):
    correction = Correction(removed=frozenset({uid(1)}), deadline=replica.clock() + 60)
    assert replica.ledgers.of(KEY).correct(correction) is False
    assert replica.store.read(KEY, 1) is None


def test_a_correction_never_claims_that_pods_were_listed_which_were_not(replica):
    """The ledger was removed, and begun again by a replica that goes by earlier policies."""
    wide, narrow = shared_quota(8, "speech", "vision"), shared_quota(8, "vision")
    replica.truth.store(seen_pod(1, "speech", 8))
    replica.enter(2, narrow)
    patterns = frozenset(wide.patterns)
    assert replica.ledgers.of(wide.key).correct(Correction(patterns=patterns, deadline=replica.clock() + 60))
    assert replica.enter(3, wide) == exceeded(1, 9, hard=8)


def test_a_correction_is_written_over_what_others_have_written_since(replica):
    replica.enter(1, VISION)
    replica.another().enter(2, VISION)
    correction = Correction(added={uid(3): demand(2)}, removed=frozenset({uid(1)}), deadline=replica.clock() + 60)
    assert replica.ledgers.of(KEY).correct(correction)
    assert replica.entered(VISION) == {2, 3}


def test_a_correction_that_cannot_be_written_says_so(replica):
    replica.enter(1, VISION)
    replica.store.faults = [LedgerError("broken")] * 9
    correction = Correction(removed=frozenset({uid(1)}), deadline=replica.clock() + 60)
    assert replica.ledgers.of(KEY).correct(correction) is False
    assert replica.told.counts[f"failed {KEY}"] == 0
