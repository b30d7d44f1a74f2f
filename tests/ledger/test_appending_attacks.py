"""Entries that are appended, against a hostile cluster."""

import time

from tests.ledger.bookkeeping import IN_FLIGHT, Replica, demand, of_namespace, pot, uid
from tests.ledger.small_cluster import seen_pod
from tests.ledger.test_appending import AT_ONCE, GRANTED, KEY, LARGE, SMALL, standing, writers
from webhook.ledger.means import Appending, Timing
from webhook.ledger.memory import MemoryStore
from webhook.ledger.store import LedgerError
from webhook.ledger.verdicts import Claim, Exceeded, Granted


def sharing(quota, appending=AT_ONCE, **means):
    """Two replicas that know of each other, 901 and 902 entered and stored."""
    one = Replica(appending=appending, **means)
    other = one.another()
    for number, replica in ((901, one), (902, other)):
        assert replica.ask(number, Claim(quota, demand(1, "speech"))) == (GRANTED,)
        one.truth.store(seen_pod(number, "speech", 1))
    for replica in (one, other):
        replica.view.catch_up()
        replica.ledgers.of(quota.key)._company = 8
        replica.ledgers.of(quota.key)._copy.read(one.clock() + 9)
    return one, other


def test_a_late_take_back_does_not_strike_what_was_admitted_since():
    """One admission, nobody repeats it: the replica itself asks again for a pod that waits for the window."""
    shared = pot(16, "vision", "speech")
    one, other = sharing(shared, is_bounded=True)
    late, amend, calls = [], type(one.store).amend, []

    def amended(key, book, over, seconds):
        calls.append(1)
        if len(calls) == 1:  # before the append of `one`: another pod of its namespace at `other`, stored at once
            assert other.ask(2, Claim(shared, demand(5, "vision"))) == (GRANTED,)
            one.truth.store(seen_pod(2, "vision", 5))
        elif len(calls) == 3:  # `one` takes its entry back; the connection breaks while the request is on its way
            late.append(lambda: MemoryStore.amend(one.store, key, book, over, seconds))
            raise LedgerError("connection reset")
        return amend(one.store, key, book, over, seconds)

    one.store.amend = amended
    assert one.ask(1, Claim(shared, demand(4, "vision"))) == (GRANTED,)
    del one.store.amend
    assert len(late) == 1
    assert 1 in one.entered(shared)
    late[0]()
    assert 1 in one.entered(shared), "admitted, and its entry is gone"


def test_a_repeated_call_does_not_take_back_what_has_admitted_the_pod():
    one, other, _ = writers(SMALL)  # 3 of 4
    assert one.enter(1, SMALL) == GRANTED  # 4 of 4
    repeated, calls = [], []

    def before(call):
        calls.append(call)
        if calls.count(f"amend {SMALL.key}") == 2:  # the other's entry is there, and about to be taken back
            one.store.before = lambda _: None
            repeated.append(one.enter(1, SMALL))

    one.store.before = before
    verdict = other.enter(2, SMALL)
    assert repeated == [GRANTED]
    assert 1 in one.entered(SMALL)
    assert isinstance(verdict, Exceeded), "901, 902, 903, 1 and 2 are admitted by a quota of 4"


def test_a_repeated_call_that_travels_with_a_pod_that_does_not_fit():
    quota = of_namespace(6)
    one, other, _ = writers(quota)
    assert one.enter(1, quota) == GRANTED  # 4 of 6
    batch = [one.reservation(5, quota, 2), one.reservation(1, quota)]

    def before(call):
        if call.startswith("amend"):
            one.store.before = lambda _: None
            other.enter(2, quota)

    one.store.before = before
    one.ledgers.of(quota.key)._settle(batch)
    assert 1 in one.entered(quota)


def test_a_made_up_review_does_not_make_an_entry_smaller():
    """With the uid of a pod, as whoever may get pods knows it, fewer GPUs and another namespace."""
    quota = pot(16, "vision", "speech")
    one, other = sharing(quota)
    assert one.enter(1, quota, 10) == GRANTED  # 12 of 16, appended
    other.ledgers.of(quota.key)._copy.read(one.clock() + 9)
    other.ledgers.of(quota.key)._appending = Appending()  # four times 4 do not fit: it is written with the book
    other.ask(1, Claim(quota, demand(4, "speech")))
    assert MemoryStore.read(one.store, quota.key, 1).book.entries[uid(1)] == demand(10, "vision")
    assert isinstance(other.enter(3, quota, 10), Exceeded), "10 + 10 + 2 of 16"


def test_one_pod_twice_in_a_batch_does_not_end_the_batch():
    one, *_ = writers(LARGE)
    assert one.enter(1, LARGE) == GRANTED
    assert standing(one)[1] == {1}
    batch = [one.reservation(1, LARGE), one.reservation(1, LARGE), one.reservation(2, LARGE)]
    one.ledgers.of(KEY)._settle(batch)
    assert [each.verdict for each in batch] == [GRANTED] * 3


def test_pods_that_never_fit_hold_up_nobody():
    one = Replica(timing=Timing(in_flight=IN_FLIGHT, longest_pause=0.0))
    other = one.another()
    for number, replica in enumerate((one, other)):
        replica.enter(901 + number, LARGE)
        replica.ledgers.of(KEY)._company = 8
    other.enter(10, LARGE)
    begun = time.monotonic()
    assert isinstance(one.enter(1, LARGE, 5000), Exceeded)
    assert time.monotonic() - begun < 0.1


def test_what_could_not_be_taken_back_is_not_made_to_last():
    quota = of_namespace(7)
    one, other, _ = writers(quota)  # 3 of 7
    amend, calls = type(one.store).amend, []

    def amended(key, book, over, seconds):
        calls.append(1)
        if len(calls) == 1:
            assert other.enter(2, quota, 2) == GRANTED  # 5 of 7
        elif len(calls) == 3:
            raise LedgerError("connection refused")  # the take-back, which is not done
        return amend(one.store, key, book, over, seconds)

    one.store.amend = amended
    batch = [one.reservation(1, quota, 3), one.reservation(3, quota, 1)]
    one.ledgers.of(quota.key)._settle(batch)
    del one.store.amend
    assert [type(each.verdict) for each in batch] == [Exceeded, Granted]
    assert one.entered(quota) == {901, 902, 903, 2, 3}


def test_an_answer_without_what_was_appended_admits_nobody_by_it():
    one, *_ = writers(LARGE)
    one.store.amend = lambda key, *_: MemoryStore.read(one.store, key, 1)
    verdict = one.enter(1, LARGE)
    assert verdict != GRANTED or 1 in one.entered(LARGE)


def test_patches_that_hang_do_not_end_a_quota_for_good():
    """Something before the API server swallows PATCH; GET and PUT work as ever."""
    one, *_ = writers(LARGE)

    def hangs(key, book, over, seconds):
        one.clock.now += seconds
        raise LedgerError("timed out")

    one.store.amend = hangs
    verdicts = []
    for number in range(1, 41):
        verdicts.append(one.enter(number, LARGE))
        one.clock.now += 15
    assert verdicts.count(GRANTED) > 35, verdicts.count(GRANTED)


def test_patches_that_are_never_understood_are_not_tried_for_ever():
    """400, 405, 415."""
    one, *_ = writers(LARGE)
    calls = []

    def refused(*_):
        calls.append(1)
        raise LedgerError("the API server answered 405: method not allowed")

    one.store.amend = refused
    for number in range(1, 31):
        assert one.enter(number, LARGE) == GRANTED
        one.ledgers.of(KEY)._company = 8  # others write
    assert len(calls) < 10, len(calls)


def test_what_was_taken_back_is_appended_again_once_no_admission_can_be_in_flight():
    one, other, _ = writers(LARGE)
    copy = one.ledgers.of(KEY)._copy
    copy.take_back({uid(1): demand()}, one.clock() + 9)
    assert copy.was_withdrawn(uid(1))
    one.clock.now += IN_FLIGHT + 1
    copy.take_back({uid(2): demand()}, one.clock() + 9)
    assert not copy.was_withdrawn(uid(1))
    other.enter(9, LARGE)
    one.store.calls.clear()
    one.ledgers.of(KEY)._company = 8
    assert one.enter(1, LARGE) == GRANTED
    assert one.store.calls == [f"amend {KEY}"]
