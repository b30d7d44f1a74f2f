"""A group is in a quota whole or not at all: with its first pod the ledger holds room for the others."""

import json
import random
from dataclasses import replace

import pytest

from tests.ledger.bookkeeping import demand, exceeded, of_namespace, shared_quota, uid
from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.entries import Entries, entries_from_raw
from webhook.ledger.group_reader import FoundGroup
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.plan import BatchPlan, Unconfirmed, corrected
from webhook.ledger.pod_cache import Member
from webhook.ledger.remainders import LEASE, GroupRequest, PartRequest, Remainder, key_of
from webhook.ledger.verdicts import (
    Correction,
    Exceeded,
    Granted,
    LedgerFull,
    PendingEntry,
    QuotaRequest,
    TooManyUnconfirmed,
)
from webhook.model.pod_groups import group_in, group_of

EIGHT = of_namespace(8)


def group(*sizes, name="ga", gpus=4, at=0, present=(), number=1, has_begun=False):
    """A group whose parts have these sizes, and pods with so many GPUs; a tuple says other GPUs of a part."""
    parts = []
    for place, size in enumerate(sizes):
        count, each = size if isinstance(size, tuple) else (size, gpus)
        of = f"podgroups.scheduling.k8s.io/{name}//{place}"
        here = frozenset(map(uid, present)) if place == 0 else frozenset()
        parts.append(PartRequest(of, key_of(str(number), of), demand(each), count, here))
    return GroupRequest(f"PodGroup {name}", tuple(parts), at, has_begun=has_begun)


class Book:
    """The entries of one quota, to which pods are admitted one batch after the other."""

    def __init__(self, quota=EIGHT, *, is_bounded=False):
        self.quota, self.entries, self.is_bounded = quota, Entries(), is_bounded

    def ask(self, pod, its_group=None, gpus=None, *, is_dry_run=False, **parts):
        asks = demand(gpus or (its_group.parts[0].demand.gpus[0][1] if its_group else 1))
        request = QuotaRequest(self.quota, asks, group=its_group)
        pending = PendingEntry(uid(pod), request, 9.0, is_dry_run, **parts)
        plan = BatchPlan(self.entries, self.unconfirmed if self.is_bounded else None)
        plan.consider(pending)
        self.entries = plan.entries()
        assert self.entries.counts == Entries(self.entries.by_uid, remainders=self.entries.remainders).counts
        return plan.verdicts[id(pending)]

    def unconfirmed(self, _namespace, entries):
        counts = Entries(remainders=entries.remainders).counts
        return Unconfirmed(type(Unconfirmed().counts)(counts))

    def remove(self, *pods):
        self.entries = self.entries.changed({}, map(uid, pods))

    @property
    def used(self):
        return sum(number * gpus for one, number in self.entries.counts.items() for _, gpus in one.gpus)

    @property
    def left(self):
        return [one.left for one in self.entries.remainders.values()]


def not_whole(pods, asks, used=0, hard=8):
    return Exceeded(exceeded(asks, used, hard).excesses, "PodGroup ga", pods)


def test_the_first_pod_holds_room_for_all_and_each_later_one_takes_a_unit():
    book = Book()
    assert book.ask(1, group(2)) == Granted()
    assert (book.used, book.left) == (8, [1])
    assert book.ask(9) == exceeded(1, 8, 8)
    assert book.ask(1, group(2)) == Granted()  # asked about again
    assert book.left == [1]
    assert book.ask(2, group(2)) == Granted()
    assert (book.used, book.left) == (8, [0])
    assert book.ask(3, group(2)) == exceeded(4, 8, 8)  # one more than the group needs


@pytest.mark.parametrize(
    ("sizes", "verdict"),
    [
        pytest.param([3], not_whole(3, 12), id="three of four"),
        pytest.param([10**6], not_whole(10**6, 4 * 10**6), id="a million"),
        pytest.param([1, (3, 2)], not_whole(4, 10), id="a head and three workers"),
    ],
)
def test_a_group_that_does_not_fit_gets_nothing(sizes, verdict):
    book = Book()
    assert book.ask(1, group(*sizes)) == verdict
    assert book.entries == Entries()


def test_the_room_of_a_group_counts_for_the_others_of_its_batch():
    plan, asking = (
        BatchPlan(Entries()),
        ((1, QuotaRequest(EIGHT, demand(4), group=group(2))), (2, QuotaRequest(EIGHT, demand()))),
    )
    batch = [PendingEntry(uid(number), request, 9.0) for number, request in asking]
    for pending in batch:
        plan.consider(pending)
    assert [plan.verdicts[id(one)] for one in batch] == [Granted(), exceeded(1, 8, 8)]


def test_parts_are_held_apart_and_a_dry_run_holds_nothing():
    book, workers = Book(), group((3, 2), (1, 2))
    head = replace(workers, parts=workers.parts[::-1])
    assert book.ask(1, workers, is_dry_run=True) == Granted()
    assert book.used == 0
    assert [book.ask(1, workers), book.ask(2, head)] == [Granted(), Granted()]
    assert (book.used, sorted(book.left)) == (8, [0, 2])


@pytest.mark.parametrize(
    ("present", "asked", "used"),
    [
        pytest.param([1], group(3, gpus=2, present=[1]), 6, id="one pod came before the group"),
        pytest.param([1, 2, 3], group(3, gpus=2, present=[1, 2, 3]), 8, id="a pod more than a complete group needs"),
        pytest.param([1, 2], group(3, gpus=2, present=[1, 2]), 6, id="the last one is made anew"),
        pytest.param([1, 2], group(4, gpus=2, present=[1, 2]), 8, id="it became larger after it was complete"),
    ],
)
def test_pods_that_are_there_already_need_no_room(present, asked, used):
    book = Book()
    for pod in present:
        book.ask(pod, gpus=2)
    assert book.ask(7, asked) == Granted()
    assert book.used == used


def test_a_pod_that_replaces_another_takes_a_unit_and_asks_for_no_others():
    book = Book()
    assert book.ask(7, group(3, has_begun=True)) == Granted()
    assert (book.used, book.left) == (4, [])
    book.remove(7)
    book.ask(1, group(2))
    assert book.ask(2, group(2, has_begun=True)) == Granted()
    assert (book.used, book.left) == (8, [0])


def test_all_parts_end_with_the_last_pod_of_the_group():
    book, workers = Book(), group((3, 2), (1, 2))
    book.ask(1, replace(workers, parts=workers.parts[::-1]))  # a head that is the only one of its part
    assert sorted(book.left) == [0, 3]
    book.ask(2, workers)
    book.remove(1)
    assert sorted(book.left) == [1, 2]
    book.remove(2)
    assert book.entries == Entries()


def test_a_pod_that_never_came_gives_its_unit_back_and_the_last_one_ends_the_remainder():
    book = Book()
    book.ask(1, group(2))
    book.ask(2, group(2))
    book.remove(2)
    assert (book.used, book.left) == (8, [1])
    assert book.ask(3, group(2)) == Granted()
    book.remove(1, 3)
    assert book.entries == Entries()


def test_a_smaller_pod_gives_back_no_more_than_it_had():
    book = Book()
    book.ask(1, group(2))
    assert book.ask(2, group(2), gpus=1) == Granted()
    assert book.ask(9, gpus=3) == Granted()
    book.remove(2)
    assert (book.used, book.left) == (7, [0])


def test_a_larger_pod_takes_its_unit_and_the_rest_from_what_is_free():
    book = Book()
    book.ask(1, group(2, gpus=3))
    assert book.ask(2, group(2, gpus=3), gpus=6) == exceeded(6, 3, 8)
    assert book.ask(2, group(2, gpus=3), gpus=5) == Granted()
    assert book.used == 8


def test_a_group_follows_the_size_of_its_object():
    book = Book()
    book.ask(1, group(2, gpus=2))
    assert book.ask(2, group(4, gpus=2)) == Granted()
    assert (book.used, book.left) == (8, [2])
    assert book.ask(3, group(5, gpus=2)) == exceeded(2, 8, 8)  # it began with room for four
    assert book.ask(3, group(3, gpus=2)) == Granted()
    assert (book.used, book.left) == (6, [0])


def test_an_object_made_anew_is_another_group():
    book = Book()
    book.ask(1, group(2, gpus=2))
    assert book.ask(2, group(3, gpus=2, number=2, present=[1])) == Granted()
    assert (book.used, sorted(book.left)) == (8, [1, 1])  # a reconciliation takes the room of the old one


def test_a_claim_that_stands_for_a_pod_stays_a_member():
    book = Book()
    book.ask(1, group(2))
    assert book.ask(5, gpus=4, takes_over=uid(1), stands_for=True) == Granted()
    assert (book.used, book.left) == (8, [1])
    book.remove(5)
    assert book.entries == Entries()


def test_a_remainder_is_unconfirmed_in_a_shared_quota():
    quota = shared_quota(8, "vision", "speech")
    book = Book(quota, is_bounded=True)
    assert book.ask(1, group(2, gpus=3)) == Granted()
    assert isinstance(book.ask(2, gpus=2), TooManyUnconfirmed)
    assert book.ask(3, group(2, gpus=3)) == Granted()
    assert book.ask(2, gpus=1) == Granted()


def test_groups_fill_no_ledger(monkeypatch):
    monkeypatch.setattr("webhook.ledger.plan.MOST_DEMANDS", 3)
    book = Book(of_namespace(99), is_bounded=True)
    assert [book.ask(n, group(2, name=f"g{n}", gpus=1)) for n in (1, 2)] == [Granted(), Granted()]
    assert book.ask(3, group(2, name="g3", gpus=1)) == LedgerFull(4, 3)
    assert book.ask(3, gpus=1) == Granted()


def test_what_is_written_is_read_again():
    book = Book()
    book.ask(1, group((3, 2), (1, 2)))
    book.ask(2, group((3, 2), (1, 2)))
    again = entries_from_raw(json.loads(json.dumps(book.entries.to_raw())))
    assert again == book.entries
    assert again.counts == book.entries.counts
    assert "groups" not in Entries({uid(1): demand()}).to_raw()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"size": -1}, "groups.0.size: Input should be greater", id="size"),
        pytest.param({"kind": 7}, "groups.0: found no key, or no kind has the number 7", id="kind"),
        pytest.param({"key": ""}, "groups.0: found no key", id="key"),
        pytest.param({"members": "AAAA"}, "groups.0: 3 bytes are no whole number", id="members"),
        pytest.param({"namespace": ".."}, "cannot be part of a path", id="namespace"),
    ],
)
def test_what_is_no_remainder_is_said(change, message):
    book = Book()
    book.ask(1, group(2))
    raw = book.entries.to_raw()
    raw["groups"][0] |= change
    with pytest.raises(ValueError, match=message):
        entries_from_raw(raw)


def test_a_correction_leaves_a_remainder_alone_that_has_changed_since():
    book = Book()
    book.ask(1, group(3, gpus=1))
    (key, judged), *_ = book.entries.remainders.items()
    book.ask(2, group(3, gpus=1, at=5))
    assert corrected(book.entries, Correction(remainders={key: (judged, None)})) is book.entries
    now = book.entries.remainders[key]
    assert corrected(book.entries, Correction(remainders={key: (now, None)})).remainders == {}
    assert now.entered == 5


def test_a_remainder_ends_with_its_last_pod_whatever_else_becomes_of_it_in_the_same_write():
    book = Book()
    book.ask(1, group(2, gpus=1))
    ((key, one),) = book.entries.remainders.items()
    ended = Correction(removed={uid(1)}, remainders={key: (one, replace(one, size=0))})
    assert corrected(book.entries, ended) == Entries()


@pytest.mark.parametrize(
    ("seconds", "is_lasting", "is_over"),
    [(LEASE, False, False), (LEASE + 1, False, True), (LEASE + 1, True, False), (-LEASE - 1, False, True)],
)
def test_a_lease_is_ten_minutes_since_the_last_pod(seconds, is_lasting, is_over):
    one = Remainder("x", demand(), 2, frozenset(), 1000, is_lasting)
    assert one.has_expired(1000 + seconds) is is_over


# Three replicas in every order


class Replicas:
    """Groups and single pods of three replicas, which read and write one ledger by compare-and-swap, in any order."""

    def __init__(self, seed):
        self.random, self.store, self.quota = random.Random(seed), MemoryStore(), of_namespace(37)
        self.store.create(self.quota.key, Entries(), 1)
        self.live, self.number = {}, 0
        self.sizes = {name: self.random.randint(2, 6) for name in "abcd"}
        self.gpus = {name: self.random.randint(1, 4) for name in "abcd"}
        self.read = [None] * 3

    def step(self):
        replica = self.random.randrange(3)
        if self.read[replica] is None or self.random.random() < 0.4:
            self.read[replica] = self.store.read(self.quota.key, 1)
            return
        held, self.read[replica] = self.read[replica], None
        entries, then = self.random.choice([self._create, self._create, self._create, self._delete, self._end])(held)
        try:
            self.store.replace(self.quota.key, entries, held, 1)
        except ConflictError:
            return
        then()

    def _create(self, held):
        self.number, number = self.number + 1, self.number + 1
        name = self.random.choice("abcde")
        asked = None
        if name in self.sizes:
            there = [pod for pod, whose in self.live.items() if whose == name]
            asked = group(self.sizes[name], name=name, gpus=self.gpus[name], present=there, number=ord(name))
        request = QuotaRequest(self.quota, demand(self.gpus.get(name, 1)), group=asked)
        plan = BatchPlan(held.entries)
        plan.consider(pending := PendingEntry(uid(number), request, 9.0))
        is_in = plan.verdicts[id(pending)] == Granted()
        return plan.entries(), lambda: self.live.update({number: name} if is_in else {})

    def _delete(self, held):
        """A pod goes, or was never stored."""
        gone = self.random.choice([*self.live, 0])
        return held.entries.changed({}, [uid(gone)]), lambda: self.live.pop(gone, None)

    def _end(self, held):
        """The lease of a group is over, or it changes its size."""
        name = self.random.choice("abcd")
        if self.random.random() < 0.5:
            self.sizes[name] = self.random.randint(2, 6)
            return held.entries, lambda: None
        ended = {key: None for key, one in held.entries.remainders.items() if f"/{name}/" in one.of}
        return held.entries.changed({}, remainders=ended), lambda: None

    def check(self):
        entries = self.store.read(self.quota.key, 1).entries
        assert entries.by_uid.keys() == set(map(uid, self.live))
        assert entries.counts == Entries(entries.by_uid, remainders=entries.remainders).counts
        held = sum(one.left * one.demand.gpus[0][1] for one in entries.remainders.values())
        used = sum(self.gpus.get(name, 1) for name in self.live.values())
        assert used + held <= 37
        for one in entries.remainders.values():
            assert any(member in entries.by_uid for member in one.members), "room is held for nobody"


@pytest.mark.parametrize("seed", range(1000))
def test_no_order_of_three_replicas_passes_the_quota_or_holds_room_for_nobody(seed):
    replicas = Replicas(seed)
    for _ in range(60):
        replicas.step()
        replicas.check()


@pytest.mark.parametrize("seed", range(50))
def test_no_half_group_rests_while_its_object_stands(seed):
    """Whatever single pods do between them, all pods of a group that began get in."""
    source, book = random.Random(seed), Book(of_namespace(12))
    size, members = source.randint(2, 4), 0
    for number in range(1, 60):
        if source.random() < 0.5:
            book.ask(100 + number, gpus=source.randint(1, 3))
        elif members == 0 and source.random() < 0.3:
            book.remove(*range(100, 160))
        elif members < size:
            verdict = book.ask(number, group(size, gpus=3))
            assert verdict == Granted() or not members
            members += verdict == Granted()
        assert book.used <= 12


@pytest.mark.parametrize(
    ("together", "stored", "needed"),
    [
        (None, [True], 5),
        (None, [True, False], 4),
        ({"nvidia.com/gpu": "16"}, [True], 4),
        ({"nvidia.com/gpu": "17", "cpu": "9"}, [True], 4),
        ({"nvidia.com/gpu": "80"}, [True, False], 4),
        ({"cpu": "9"}, [True], 0),
        ({"nvidia.com/gpu": "lots"}, [True], 0),
    ],
)
def test_a_pod_group_needs_no_more_gpus_than_it_says(together, stored, needed):
    spec = {"minMember": 5} | ({} if together is None else {"minResources": together})
    raw = {"metadata": {"uid": "u"}, "spec": spec}
    named = group_in("podgroups.scheduling.volcano.sh/ga//")
    members = {uid(number): Member("", has_gpus) for number, has_gpus in enumerate(stored)}
    found = FoundGroup(named, group_of(named, raw), members)
    assert found.needed(found.group.parts[0], demand(4)) == needed
