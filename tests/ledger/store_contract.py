"""What every store of ledgers promises, as tests: a class to inherit from, with a fixture `store` that is empty."""

import pytest

from webhook.ledger.book import Book
from webhook.ledger.store import Held, LedgerChangedError, Store
from webhook.quota.quota import Demand

SECONDS = 10.0
KEY, OTHER = "namespace.team-vision", "pot.research"


def book(*pods: int, namespace: str = "team-vision") -> Book:
    """A book with entries for these pods."""
    demand = Demand(namespace, (("nvidia.com/gpu", 2),), ("H100-80GB", "T4"))
    open_demand = Demand(namespace, (("nvidia.com/mig-1g.10gb", 1),))
    entries = {pod.to_bytes(16): demand if pod % 2 else open_demand for pod in pods}
    return Book(entries, frozenset({namespace, "research-*"}))


def appending(held: Held, *pods: int, mark: str = "a") -> Book:
    """The book with entries for these pods appended."""
    return held.book.appending(book(*pods).entries, mark)


def uids(*pods: int) -> set[bytes]:
    """Those of these pods."""
    return {pod.to_bytes(16) for pod in pods}


class StoreContract:
    """Reads are consistent, and a write succeeds only over what was read last, unless it only appends."""

    def test_there_is_nothing_at_first(self, store: Store) -> None:
        assert store.read(KEY, SECONDS) is None
        assert store.read_all(SECONDS) == {}

    def test_what_is_created_is_read(self, store: Store) -> None:
        created = store.create(KEY, book(1, 2, 3), SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert book(1, 2, 3) == created.book == read.book
        assert created.version == read.version
        assert store.read(OTHER, SECONDS) is None

    def test_an_empty_book_is_not_none(self, store: Store) -> None:
        store.create(KEY, Book(), SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert read.book == Book()

    def test_what_is_there_is_not_created_again(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        with pytest.raises(LedgerChangedError):
            store.create(KEY, book(2), SECONDS)
        assert store.read(KEY, SECONDS) == first

    def test_what_was_read_is_replaced_again_and_again(self, store: Store) -> None:
        held = store.create(KEY, book(1), SECONDS)
        for number in range(2, 5):
            replaced = store.replace(KEY, book(*range(number)), held, SECONDS)
            assert replaced.version != held.version
            held = replaced
            read = store.read(KEY, SECONDS)
            assert read is not None
            assert (read.version, read.book) == (held.version, book(*range(number)))

    def test_nothing_is_written_over_what_has_changed_since(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        second = store.replace(KEY, book(1, 2), first, SECONDS)
        with pytest.raises(LedgerChangedError):
            store.replace(KEY, book(3), first, SECONDS)
        with pytest.raises(LedgerChangedError):
            store.remove(KEY, first, SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert (read.version, read.book) == (second.version, book(1, 2))

    def test_what_was_removed_is_gone_and_is_not_written_any_more(self, store: Store) -> None:
        held = store.create(KEY, book(1), SECONDS)
        store.remove(KEY, held, SECONDS)
        assert store.read(KEY, SECONDS) is None
        with pytest.raises(LedgerChangedError):
            store.replace(KEY, book(2), held, SECONDS)
        with pytest.raises(LedgerChangedError):
            store.remove(KEY, held, SECONDS)
        assert store.read(KEY, SECONDS) is None

    def test_what_was_begun_anew_is_another(self, store: Store) -> None:
        before = store.create(KEY, book(1), SECONDS)
        store.remove(KEY, before, SECONDS)
        after = store.create(KEY, book(1), SECONDS)
        assert before.version != after.version
        with pytest.raises(LedgerChangedError):
            store.replace(KEY, book(2), before, SECONDS)
        with pytest.raises(LedgerChangedError):
            store.remove(KEY, before, SECONDS)

    def test_a_version_alone_is_enough_to_write_over(self, store: Store) -> None:
        version = store.create(KEY, book(1), SECONDS).version
        replaced = store.replace(KEY, book(1, 2), Held(version, book(1)), SECONDS)
        store.remove(KEY, Held(replaced.version, Book()), SECONDS)
        assert store.read(KEY, SECONDS) is None

    def test_all_books_are_read_at_once(self, store: Store) -> None:
        store.create(KEY, book(1), SECONDS)
        store.create(OTHER, book(2, namespace="research-a"), SECONDS)
        expected = {KEY: book(1), OTHER: book(2, namespace="research-a")}
        assert expected == {key: held.book for key, held in store.read_all(SECONDS).items()}

    def test_what_is_appended_is_there_whatever_others_have_written_meanwhile(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        store.amend(KEY, appending(first, 2, mark="b"), first, SECONDS)
        second = store.read(KEY, SECONDS)
        assert second is not None
        store.replace(KEY, second.book.changed(book(3).entries), second, SECONDS)
        written = store.amend(KEY, appending(first, 4, 5), first, SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert (read.version, read.book, read.edition) == (written.version, written.book, written.edition)
        assert book(1, 2, 3, 4, 5).entries == read.book.entries
        assert {uid: set(marks) for uid, marks in read.book.appended.items()} == {
            **{one: {"b"} for one in uids(2)},
            **{one: {"a"} for one in uids(4, 5)},
        }

    def test_what_is_appended_leaves_what_lasts_as_it_was_and_everything_else_does_not(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        second = store.amend(KEY, appending(first, 2), first, SECONDS)
        assert (first.edition, True) == (second.edition, first.version != second.version)
        third = store.replace(KEY, second.book.changed({}, uids(1)), second, SECONDS)
        fourth = store.amend(KEY, third.book.settled(uids(2)), third, SECONDS)
        assert len({first.edition, third.edition, fourth.edition}) == 3

    def test_of_one_pod_that_two_have_appended_each_takes_back_its_own(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        one = store.amend(KEY, appending(first, 2, 3, mark="a"), first, SECONDS)
        both = store.amend(KEY, appending(first, 2, mark="b"), first, SECONDS)
        assert both.book.appended == {**{one: {"a", "b"} for one in uids(2)}, **{one: {"a"} for one in uids(3)}}
        back = store.amend(KEY, one.book.without(uids(2, 3), "a"), one, SECONDS)
        assert back.book.appended == {one: {"b"} for one in uids(2)}
        again = store.amend(KEY, one.book.without(uids(2, 3), "a"), one, SECONDS)
        assert again.book == back.book

    def test_what_is_appended_is_made_to_last_and_more_is_appended_in_the_same_write(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        mine = store.amend(KEY, appending(first, 2), first, SECONDS)
        store.amend(KEY, appending(first, 3, mark="b"), first, SECONDS)
        written = store.amend(KEY, appending(mine, 4).settled(uids(2)), mine, SECONDS)
        assert book(1, 2, 3, 4).entries == written.book.entries
        assert written.book.appended == {**{one: {"b"} for one in uids(3)}, **{one: {"a"} for one in uids(4)}}

    def test_nothing_is_made_to_last_where_what_lasts_has_changed_since(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        both = store.amend(KEY, appending(first, 2, 3), first, SECONDS)
        changed = store.amend(KEY, both.book.settled(uids(3)), both, SECONDS)
        for book_ in (both.book.settled(uids(2)), both.book.settled(uids(2, 3))):
            with pytest.raises(LedgerChangedError):
                store.amend(KEY, book_, both, SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert read.book == changed.book

    def test_nothing_is_appended_to_what_is_not_there(self, store: Store) -> None:
        held = store.create(KEY, book(1), SECONDS)
        store.remove(KEY, held, SECONDS)
        with pytest.raises(LedgerChangedError):
            store.amend(KEY, appending(held, 2), held, SECONDS)
        assert store.read(KEY, SECONDS) is None

    def test_what_lasts_is_written_over_with_what_is_appended(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        held = store.amend(KEY, appending(first, 2, 3), first, SECONDS)
        store.replace(KEY, held.book.changed(book(4).entries, uids(3)), held, SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert book(1, 2, 4).entries == read.book.entries
        assert read.book.appended == {one: {"a"} for one in uids(2)}
        assert {KEY: read.book} == {key: one.book for key, one in store.read_all(SECONDS).items()}

    def test_nothing_is_written_over_what_was_appended_meanwhile(self, store: Store) -> None:
        first = store.create(KEY, book(1), SECONDS)
        store.amend(KEY, appending(first, 2), first, SECONDS)
        with pytest.raises(LedgerChangedError):
            store.replace(KEY, book(1, 3), first, SECONDS)

    @pytest.mark.parametrize("pods", [pytest.param(8_000, id="8,000 pods"), pytest.param(20_000, id="20,000 pods")])
    def test_large_books_are_kept(self, store: Store, pods: int) -> None:
        held = store.create(KEY, book(*range(pods)), SECONDS)
        store.replace(KEY, book(*range(1, pods)), held, SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert book(*range(1, pods)) == read.book
        written = store.amend(KEY, appending(read, pods), read, SECONDS)
        assert book(*range(1, pods + 1)).entries == written.book.entries
