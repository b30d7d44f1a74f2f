"""What every store of ledgers promises, as tests: a class to inherit from, with a fixture `store` that is empty."""

import pytest

from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.entries import Entries
from webhook.ledger.ledger_store import LedgerStore, StoredLedger
from webhook.quota.quotas import Demand

SECONDS = 10.0
KEY, OTHER = "namespace.team-vision", "shared.research"


def entries(*pods: int, namespace: str = "team-vision") -> Entries:
    """Entries for these pods."""
    demand = Demand(namespace, (("nvidia.com/gpu", 2),), ("H100-80GB", "T4"))
    open_demand = Demand(namespace, (("nvidia.com/mig-1g.10gb", 1),))
    entries = {pod.to_bytes(16): demand if pod % 2 else open_demand for pod in pods}
    return Entries(entries, frozenset({namespace, "research-*"}))


class StoreContract:
    """Reads are consistent, and a write succeeds only over what was read last."""

    def test_there_is_nothing_at_first(self, store: LedgerStore) -> None:
        assert store.read(KEY, SECONDS) is None
        assert store.read_all(SECONDS) == {}

    def test_what_is_created_is_read(self, store: LedgerStore) -> None:
        created = store.create(KEY, entries(1, 2, 3), SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert entries(1, 2, 3) == created.entries == read.entries
        assert created.version == read.version
        assert store.read(OTHER, SECONDS) is None

    def test_an_empty_book_is_not_none(self, store: LedgerStore) -> None:
        store.create(KEY, Entries(), SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert read.entries == Entries()

    def test_what_is_there_is_not_created_again(self, store: LedgerStore) -> None:
        first = store.create(KEY, entries(1), SECONDS)
        with pytest.raises(ConflictError):
            store.create(KEY, entries(2), SECONDS)
        assert store.read(KEY, SECONDS) == first

    def test_what_was_read_is_replaced_again_and_again(self, store: LedgerStore) -> None:
        held = store.create(KEY, entries(1), SECONDS)
        for number in range(2, 5):
            replaced = store.replace(KEY, entries(*range(number)), held, SECONDS)
            assert replaced.version != held.version
            held = replaced
            read = store.read(KEY, SECONDS)
            assert read is not None
            assert (read.version, read.entries) == (held.version, entries(*range(number)))

    def test_nothing_is_written_over_what_has_changed_since(self, store: LedgerStore) -> None:
        first = store.create(KEY, entries(1), SECONDS)
        second = store.replace(KEY, entries(1, 2), first, SECONDS)
        with pytest.raises(ConflictError):
            store.replace(KEY, entries(3), first, SECONDS)
        with pytest.raises(ConflictError):
            store.remove(KEY, first, SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert (read.version, read.entries) == (second.version, entries(1, 2))

    def test_what_was_removed_is_gone_and_is_not_written_any_more(self, store: LedgerStore) -> None:
        held = store.create(KEY, entries(1), SECONDS)
        store.remove(KEY, held, SECONDS)
        assert store.read(KEY, SECONDS) is None
        with pytest.raises(ConflictError):
            store.replace(KEY, entries(2), held, SECONDS)
        with pytest.raises(ConflictError):
            store.remove(KEY, held, SECONDS)
        assert store.read(KEY, SECONDS) is None

    def test_what_was_begun_anew_is_another(self, store: LedgerStore) -> None:
        before = store.create(KEY, entries(1), SECONDS)
        store.remove(KEY, before, SECONDS)
        after = store.create(KEY, entries(1), SECONDS)
        assert before.version != after.version
        with pytest.raises(ConflictError):
            store.replace(KEY, entries(2), before, SECONDS)
        with pytest.raises(ConflictError):
            store.remove(KEY, before, SECONDS)

    def test_a_version_alone_is_enough_to_write_over(self, store: LedgerStore) -> None:
        version = store.create(KEY, entries(1), SECONDS).version
        replaced = store.replace(KEY, entries(1, 2), StoredLedger(version, entries(1)), SECONDS)
        store.remove(KEY, StoredLedger(replaced.version, Entries()), SECONDS)
        assert store.read(KEY, SECONDS) is None

    def test_all_books_are_read_at_once(self, store: LedgerStore) -> None:
        store.create(KEY, entries(1), SECONDS)
        store.create(OTHER, entries(2, namespace="research-a"), SECONDS)
        expected = {KEY: entries(1), OTHER: entries(2, namespace="research-a")}
        assert expected == {key: held.entries for key, held in store.read_all(SECONDS).items()}

    @pytest.mark.parametrize("pods", [pytest.param(8_000, id="8,000 pods"), pytest.param(20_000, id="20,000 pods")])
    def test_large_books_are_kept(self, store: LedgerStore, pods: int) -> None:
        held = store.create(KEY, entries(*range(pods)), SECONDS)
        store.replace(KEY, entries(*range(1, pods)), held, SECONDS)
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert entries(*range(1, pods)) == read.entries
