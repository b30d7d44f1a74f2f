"""Ledgers of one process, for inventories: nothing outlives it."""

from threading import Lock

from webhook.ledger.book import Book
from webhook.ledger.store import Held, LedgerChangedError


class MemoryStore:
    """`webhook.ledger.store.Store` in memory. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._books: dict[str, Held] = {}
        self._writes = 0

    def read(self, key: str, seconds: float) -> Held | None:  # noqa: ARG002  # nothing takes time here
        """The book as it is now."""
        return self._books.get(key)

    def read_all(self, seconds: float) -> dict[str, Held]:  # noqa: ARG002  # as above
        """Every book."""
        return dict(self._books)

    def create(self, key: str, book: Book, seconds: float) -> Held:  # noqa: ARG002  # as above
        """Begin a book."""
        with self._lock:
            if key in self._books:
                raise LedgerChangedError
            return self._keep(key, book)

    def replace(self, key: str, book: Book, over: Held, seconds: float) -> Held:  # noqa: ARG002  # as above
        """Write a book over what was read."""
        with self._lock:
            self._check(key, over)
            return self._keep(key, book)

    def amend(self, key: str, book: Book, over: Held, seconds: float) -> Held:  # noqa: ARG002  # as above
        """Write what differs in what is appended."""
        with self._lock:
            held = self._books.get(key)
            if held is None:
                raise LedgerChangedError
            settled = {uid for uid in over.book.appended.keys() - book.appended.keys() if uid in book.entries}
            if settled and held.edition != over.edition:
                raise LedgerChangedError
            now = held.book
            for uid, marks in over.book.appended.items():
                for mark in () if uid in settled else marks - book.appended.get(uid, frozenset()):
                    now = now.without([uid], mark)
            for uid, marks in book.appended.items():
                for mark in marks - over.book.appended.get(uid, frozenset()):
                    now = now.appending({uid: book.entries[uid]}, mark)
            return self._keep(key, now.settled(settled), "" if settled else held.edition)

    def can_amend(self) -> bool:
        """Always."""
        return True

    def remove(self, key: str, over: Held, seconds: float) -> None:  # noqa: ARG002  # as above
        """Remove a book."""
        with self._lock:
            self._check(key, over)
            del self._books[key]

    def _check(self, key: str, over: Held) -> None:
        held = self._books.get(key)
        if held is None or held.version != over.version:
            raise LedgerChangedError

    def _keep(self, key: str, book: Book, edition: str = "") -> Held:
        self._writes += 1
        held = self._books[key] = Held(str(self._writes), book, edition or str(self._writes))
        return held
