"""Ledgers of one process, for inventories: nothing outlives it."""

from threading import Lock

from webhook.ledger.book import Book
from webhook.ledger.ledger_store import LedgerChangedError, StoredLedger


class MemoryStore:
    """`webhook.ledger.ledger_store.LedgerStore` in memory. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._books: dict[str, StoredLedger] = {}
        self._writes = 0

    def read(self, key: str, seconds: float) -> StoredLedger | None:  # noqa: ARG002  # nothing takes time here
        """The book as it is now."""
        return self._books.get(key)

    def read_all(self, seconds: float) -> dict[str, StoredLedger]:  # noqa: ARG002  # as above
        """Every book."""
        return dict(self._books)

    def create(self, key: str, book: Book, seconds: float) -> StoredLedger:  # noqa: ARG002  # as above
        """Begin a book."""
        with self._lock:
            if key in self._books:
                raise LedgerChangedError
            return self._keep(key, book)

    def replace(self, key: str, book: Book, over: StoredLedger, seconds: float) -> StoredLedger:  # noqa: ARG002  # as above
        """Write a book over what was read."""
        with self._lock:
            self._check(key, over)
            return self._keep(key, book)

    def remove(self, key: str, over: StoredLedger, seconds: float) -> None:  # noqa: ARG002  # as above
        """Remove a book."""
        with self._lock:
            self._check(key, over)
            del self._books[key]

    def _check(self, key: str, over: StoredLedger) -> None:
        held = self._books.get(key)
        if held is None or held.version != over.version:
            raise LedgerChangedError

    def _keep(self, key: str, book: Book) -> StoredLedger:
        self._writes += 1
        held = self._books[key] = StoredLedger(str(self._writes), book)
        return held
