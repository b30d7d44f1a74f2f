"""Entries that several replicas append to one book without reading it: what is admitted by them, what is taken back."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, Replica, demand, of_namespace, pot, uid
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.keeper import Keeper
from webhook.ledger.ledger import Correction, _Attempts
from webhook.ledger.means import Appending
from webhook.ledger.memory import MemoryStore
from webhook.ledger.store import LedgerError
from webhook.ledger.verdicts import Claim, Exceeded, Granted, Unanswered

LARGE = of_namespace(1000)
SMALL = of_namespace(4)
KEY = LARGE.key
GRANTED = Granted()
AT_ONCE = Appending(room=0, settled_from=2)
"""Entries are appended even where the book is nearly full, and last soon."""


def writers(quota, appending=AT_ONCE, size=3):
    """Replicas that know of each other: each has entered a pod, of 901 and so on, and met the others' writes."""
    first = Replica(appending=appending)
    replicas = [first, *(first.another() for _ in range(size - 1))]
    for number, one in enumerate(replicas):
        one.enter(901 + number, quota)
    for one in replicas:
        one.ledgers.of(quota.key)._company = 8  # as after a write that came second
        one.ledgers.of(quota.key)._copy.read(first.clock() + 9)
    first.store.calls.clear()
    return replicas


def standing(replica, quota=LARGE):
    """What lasts of the stored book, and what is appended to it."""
    book = MemoryStore.read(replica.store, quota.key, 1).book
    return (
        {int.from_bytes(one) for one in book.entries if book.lasts(one)},
        {int.from_bytes(one) for one in book.appended},
    )


@contextmanager
def in_the_middle(replica, call, act, after=0):
    """Let something happen before a call of the store, once; `after` so many other calls."""
    calls = []

    def before(name):
        if name.startswith(call):
            calls.append(name)
            if len(calls) == after + 1:
                replica.store.before = lambda _: None
                act()

    replica.store.before = before
    yield
    assert len(calls) > after, "it has not happened"


# Without a look at the book.


def test_replicas_that_write_at_the_same_time_each_make_one_call_for_a_pod():
    replicas = writers(LARGE, Appending())
    for number in range(1, 10):
        assert replicas[number % 3].enter(number, LARGE) == GRANTED
    assert replicas[0].store.calls == [f"amend {KEY}"] * 9
    assert replicas[0].entered(LARGE) >= set(range(1, 10))
    assert sum(one.told.counts[f"conflicted {KEY}"] for one in replicas) == 0


def test_one_that_comes_between_keeps_nobody_from_writing():
    one, other, _ = writers(LARGE, Appending())
    with in_the_middle(one, "amend", lambda: other.enter(2, LARGE)):
        assert one.enter(1, LARGE) == GRANTED
    assert one.store.calls == [f"amend {KEY}"] * 2
    assert one.entered(LARGE) >= {1, 2}


def test_who_is_alone_writes_over_what_is_held():
    replica = Replica()
    for number in range(1, 5):
        replica.enter(number, LARGE)
    assert {call.split()[0] for call in replica.store.calls} == {"read", "create", "replace"}
    one = writers(LARGE, Appending(alone_after=3))[0]
    one.ledgers.of(KEY)._company = 3
    for number in range(1, 6):
        one.enter(number, LARGE)
    assert one.store.calls == [f"amend {KEY}"] * 3 + [f"replace {KEY}"] * 2


def test_what_a_replica_had_last_itself_is_no_sign_of_others():
    one = writers(LARGE, Appending(alone_after=6, settled_from=2))[0]
    for number in range(1, 12):
        one.enter(number, LARGE)
    assert one.store.calls[-2:] == [f"replace {KEY}"] * 2


@pytest.mark.parametrize(
    ("quota", "count"),
    [
        pytest.param(of_namespace(12), 2, id="hardly any room"),
        pytest.param(pot(12, "vision"), 2, id="hardly any room in a pot"),
    ],
)
def test_where_there_is_little_room_the_book_is_read_first(quota, count):
    one = writers(quota, Appending())[0]
    assert one.enter(1, quota, count) == GRANTED
    assert one.store.calls == [f"read {quota.key}", f"replace {quota.key}"]


def test_where_nothing_can_be_amended_all_is_as_without_it():
    one = writers(LARGE)[0]
    one.store.is_amended = False
    assert one.enter(1, LARGE) == GRANTED
    assert one.store.calls == [f"read {KEY}", f"replace {KEY}"]


@pytest.mark.parametrize(
    "appending",
    [
        pytest.param(Appending(largest=3), id="a large book"),
        pytest.param(Appending(most=0), id="a book to which much is appended"),
        pytest.param(Appending(longest=10), id="a demand of many bytes"),
    ],
)
def test_what_would_take_too_much_room_is_written_with_the_book(appending):
    one = writers(LARGE, appending)[0]
    assert one.enter(1, LARGE) == GRANTED
    assert one.store.calls == [f"read {KEY}", f"replace {KEY}"]


def test_a_dry_run_appends_nothing():
    one = writers(LARGE)[0]
    assert one.ask(1, Claim(LARGE, demand()), is_dry_run=True) == (GRANTED,)
    assert one.store.calls == [f"read {KEY}"]


# What is admitted.


def test_of_those_that_take_the_last_place_at_the_same_time_one_is_admitted():
    one, other, _ = writers(SMALL)
    with in_the_middle(one, "amend", lambda: other.enter(2, SMALL)):
        assert isinstance(one.enter(1, SMALL), Exceeded)
    assert standing(one, SMALL) == ({901, 902, 903}, {2})
    assert one.told.counts[f"conflicted {SMALL.key}"] == 1


def test_a_book_that_is_full_of_entries_that_may_be_taken_back_refuses_after_a_moment_only():
    one, other, _ = writers(SMALL)
    book = MemoryStore.read(one.store, SMALL.key, 1)
    one.store.amend(SMALL.key, book.book.appending({uid(77): demand()}, "other"), book, 1)
    reads = []

    def taken_back(call):
        if call.startswith("read"):
            reads.append(call)
            if len(reads) == 3:
                held = MemoryStore.read(one.store, SMALL.key, 1)
                MemoryStore.amend(one.store, SMALL.key, held.book.without([uid(77)], "other"), held, 1)

    one.store.before = taken_back
    assert one.enter(1, SMALL) == GRANTED
    assert other.enter(2, SMALL) == Exceeded(other.enter(2, SMALL).excesses)


def test_nobody_waits_for_entries_that_have_been_there_for_longer():
    one = writers(SMALL)[0]
    book = MemoryStore.read(one.store, SMALL.key, 1)
    one.store.amend(SMALL.key, book.book.appending({uid(77): demand()}, "other"), book, 1)
    assert isinstance(one.enter(1, SMALL), Exceeded)
    one.clock.now += 5
    one.store.calls.clear()
    assert isinstance(one.enter(2, SMALL), Exceeded)
    assert one.store.calls.count(f"read {SMALL.key}") <= 2


@pytest.mark.parametrize("lasts", [pytest.param(False, id="appended"), pytest.param(True, id="one that lasted")])
def test_who_has_not_seen_that_an_entry_was_struck_does_not_admit_by_it(lasts):
    """The pod of the first was asked about before; its entry went since, when nobody could come by it any more."""
    one, other, _ = writers(LARGE)
    one.enter(1, LARGE)
    if lasts:
        one.ledgers.of(KEY).correct(Correction(struck=frozenset({uid(901)}), deadline=one.clock() + 9))
    other.ledgers.of(KEY).correct(Correction(struck=frozenset({uid(1)}), deadline=one.clock() + 9))
    ledger = one.ledgers.of(KEY)
    ledger._company = 8
    batch = [one.reservation(1, LARGE), one.reservation(2, LARGE)]
    ledger._settle(batch)
    assert [reservation.verdict for reservation in batch] == [GRANTED, GRANTED]
    assert one.entered(LARGE) >= {1, 2}


def test_a_book_that_no_longer_covers_the_namespaces_admits_nobody_before_their_pods_are_listed():
    quota = pot(1000, "vision")
    one, other, _ = writers(quota)
    one.truth.store(seen_pod(50, "vision", 3))

    def narrowed():
        other.ledgers.of(quota.key).correct(Correction(patterns=frozenset({"speech"}), deadline=one.clock() + 9))

    with in_the_middle(one, "amend", narrowed):
        assert one.enter(1, quota) == GRANTED
    assert one.entered(quota) >= {1, 50}


def test_a_book_that_somebody_removed_is_begun_again():
    one = writers(LARGE)[0]
    one.truth.store(seen_pod(50, "vision", 3))
    with in_the_middle(one, "amend", lambda: one.store.remove(KEY, MemoryStore.read(one.store, KEY, 1), 1)):
        assert one.enter(1, LARGE) == GRANTED
    assert one.entered(LARGE) == {1, 50}


# One pod that several replicas are asked about.


def test_an_entry_that_may_be_taken_back_admits_nobody_at_another_replica():
    """The first replica takes its entry back after the second was asked about the same pod."""
    one, other, third = writers(SMALL)
    verdicts = []

    def meanwhile():
        third.enter(3, SMALL)  # the last place, so that the first has to take back
        one.store.before = lambda call: call.startswith("amend") and _then()

    def _then():  # the entry of the first is there, and about to be taken back
        one.store.before = lambda _: None
        verdicts.append(other.enter(1, SMALL))

    with in_the_middle(one, "amend", meanwhile):
        verdicts.append(one.enter(1, SMALL))
    assert [type(verdict) for verdict in verdicts] == [Exceeded, Exceeded]
    assert one.entered(SMALL) == {901, 902, 903, 3}


def test_a_replica_that_refuses_a_pod_does_not_strike_what_admits_it_at_another():
    one, other, _ = writers(of_namespace(6))
    wide, narrow = of_namespace(6), of_namespace(4)
    assert one.enter(1, wide, 3) == GRANTED
    assert standing(one, wide)[1] == {1}
    assert isinstance(other.enter(1, narrow, 3), Exceeded)
    assert one.entered(wide) == {901, 902, 903, 1}


def test_a_pod_that_two_replicas_enter_counts_once_and_lasts_for_the_second():
    one, other, _ = writers(of_namespace(6))
    quota = of_namespace(6)
    assert one.enter(1, quota, 3) == GRANTED
    assert other.enter(1, quota, 3) == GRANTED
    assert standing(one, quota) == ({901, 902, 903}, {1})
    one.ledgers.of(quota.key)._copy.read(one.clock() + 9)
    one.ledgers.of(quota.key)._copy.take_back({uid(1): demand(3)}, one.clock() + 9)
    assert one.entered(quota) == {901, 902, 903, 1}


# Faults.


def test_what_was_appended_without_an_answer_is_taken_back_with_the_next_write():
    one, other, _ = writers(LARGE)
    amend = MemoryStore.amend

    def silent(*args):
        amend(one.store, *args)
        raise LedgerError("the connection broke off")

    def silent_for_good(*_):
        raise LedgerError("the connection broke off")

    one.store.amend, one.store.replace, one.store.read = silent, silent_for_good, silent_for_good
    assert one.enter(1, LARGE) == Unanswered("the connection broke off")
    del one.store.amend, one.store.replace, one.store.read
    assert 1 in other.entered(LARGE)
    one.clock.now += 20
    assert one.enter(2, LARGE) == GRANTED  # which shows that the first is there
    assert one.enter(3, LARGE) == GRANTED
    assert one.entered(LARGE) == {901, 902, 903, 2, 3}


def test_entries_are_taken_back_whatever_a_reconciliation_has_read_meanwhile():
    """It may have begun to read before they were appended, and ended after that."""
    one, other, _ = writers(SMALL)
    ledger = one.ledgers.of(SMALL.key)
    earlier = MemoryStore.read(one.store, SMALL.key, 1)

    one.told.conflicted = lambda _: ledger._copy.keep(earlier)
    with in_the_middle(one, "amend", lambda: other.enter(2, SMALL)):
        reservation = one.reservation(1, SMALL)
        assert not ledger._appended([reservation], _Attempts(one.clock() + 9))
    assert one.entered(SMALL) == {901, 902, 903, 2}


def test_what_was_taken_back_and_is_asked_about_again_stays():
    one, other, _ = writers(SMALL)
    with in_the_middle(one, "amend", lambda: other.enter(2, SMALL)):
        assert isinstance(one.enter(1, SMALL), Exceeded)
    other.truth.store(seen_pod(2, "vision", 1))
    other.truth.delete(uid(2))
    other.view.catch_up()
    other.ledgers.of(SMALL.key).correct(Correction(struck=frozenset({uid(2)}), deadline=one.clock() + 9))
    one.ledgers.of(SMALL.key)._company = 8
    one.ledgers.of(SMALL.key)._copy.read(one.clock() + 9)
    assert one.enter(1, SMALL) == GRANTED
    assert one.entered(SMALL) == {901, 902, 903, 1}
    assert isinstance(one.enter(4, SMALL), Exceeded)


def test_an_entry_without_a_pod_goes_after_an_admission_may_have_lasted():
    """Its replica has ended in the middle."""
    one, other, _ = writers(SMALL)
    assert one.enter(1, SMALL) == GRANTED
    assert isinstance(other.enter(2, SMALL), Exceeded)
    other.clock.now += IN_FLIGHT + 3
    assert other.enter(3, SMALL) == GRANTED
    assert 1 not in other.entered(SMALL)


# What lasts.


def test_entries_last_from_a_certain_number_on_without_a_write_of_their_own():
    one, *others = writers(LARGE, Appending(settled_from=3))
    for number in range(1, 5):
        others[number % 2].enter(100 + number, LARGE)
        one.enter(number, LARGE)
    assert standing(one)[0] >= {1, 2, 3}
    assert 4 in standing(one)[1]
    assert one.store.calls == [f"amend {KEY}"] * 8


def test_of_two_that_have_their_entries_last_at_the_same_time_none_is_lost():
    one, other, _ = writers(LARGE, Appending(settled_from=2))
    for number in (1, 2):
        one.enter(number, LARGE)
        other.enter(10 + number, LARGE)
    with in_the_middle(one, "amend", lambda: other.enter(13, LARGE)):
        assert one.enter(3, LARGE) == GRANTED
    assert one.entered(LARGE) == {901, 902, 903, 1, 2, 3, 11, 12, 13}
    assert other.enter(14, LARGE) == GRANTED
    assert one.enter(4, LARGE) == GRANTED
    assert one.entered(LARGE) == {901, 902, 903, 1, 2, 3, 4, 11, 12, 13, 14}


def test_who_writes_the_book_has_its_own_entries_last_and_leaves_the_others():
    one, other, _ = writers(LARGE, Appending())
    one.enter(1, LARGE)
    other.enter(2, LARGE)
    one.ledgers.of(KEY)._copy.read(one.clock() + 9)
    one.ledgers.of(KEY).correct(Correction(struck=frozenset({uid(901)}), deadline=one.clock() + 9))
    assert standing(one) == ({902, 903, 1}, {2})


class Quotas:
    """Only LARGE is in force."""

    exist = are_settled = True
    pots = ()
    namespaces = ("vision",)

    def of(self, namespace):
        return LARGE if namespace == "vision" else None


def test_what_a_replica_left_appended_lasts_by_the_reconciliation_of_another_once_the_pod_is_stored():
    one, other, _ = writers(LARGE, Appending())
    for number in (1, 2):
        other.enter(9, LARGE)
        one.enter(number, LARGE)
    one.truth.store(seen_pod(1, "vision", 1))
    other.view.catch_up()
    keeper = Keeper(other.ledgers, Quotas())
    keeper.round()
    assert 1 in standing(one)[1]
    other.clock.now += 31
    keeper.round()
    assert 1 in standing(one)[0]
    assert 2 in standing(one)[1]


def test_a_correction_that_comes_with_a_pod_is_written_after_it():
    one, other, _ = writers(LARGE)
    other.enter(9, LARGE)
    reservation = one.reservation(1, LARGE)
    correction = Correction(struck=frozenset({uid(901)}), deadline=one.clock() + 60)
    one.store.calls.clear()
    one.ledgers.of(KEY)._settle([reservation, correction])
    assert (reservation.verdict, correction.is_done) == (GRANTED, True)
    assert one.store.calls == [f"amend {KEY}", f"read {KEY}", f"replace {KEY}"]
    assert one.entered(LARGE) == {902, 903, 9, 1}


def test_a_claim_that_is_not_enforced_and_passes_the_quota_is_written_with_the_book():
    one = writers(SMALL)[0]
    verdict = one.enter(1, SMALL, 3, enforced=False)
    assert isinstance(verdict, Exceeded)
    assert 1 in standing(one, SMALL)[0]


def test_two_versions_of_a_quota_in_one_batch_are_both_kept_to():
    one = writers(of_namespace(6))[0]
    earlier, later = of_namespace(6), replace(of_namespace(6), limits=of_namespace(5).limits)
    batch = [one.reservation(1, earlier, 2), one.reservation(2, later, 1)]
    one.ledgers.of(earlier.key)._settle(batch)
    assert [type(reservation.verdict) for reservation in batch] == [Granted, Exceeded]
