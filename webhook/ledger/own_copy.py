"""The book as this replica knows it: read and written last, and since when each entry has been seen."""

import secrets
from collections.abc import Mapping, Set
from dataclasses import replace
from threading import Lock

from webhook.ledger.book import Book
from webhook.ledger.means import Means
from webhook.ledger.store import Held, LedgerChangedError, LedgerError
from webhook.ledger.unconfirmed import Unconfirmed
from webhook.quota.quota import Demand

LATE = "the ledger did not answer in time"


class OwnCopy:
    """What is known of one book, through the store. One thread writes at a time; any may ask."""

    def __init__(self, key: str, means: Means) -> None:
        self.key = key
        self._store, self._timing, self._clock = means.store, means.timing, means.clock
        self._appending = means.appending
        self._first_seen: dict[bytes, float] = {}
        self._listed: frozenset[bytes] = frozenset()
        self._seen_lock = Lock()
        self.unconfirmed = Unconfirmed(means.pods, means.timing.settling, means.timing.in_flight)
        """Which of the entries have no stored pod, as far as is known."""
        self.held: Held | None = None
        """The book as last read or written, without what this replica takes back; None where it was never, or there was
        none."""
        self._stored: Held | None = None  # as it was read or written
        self._mark = secrets.token_hex(4)
        self._rest, self._appends_from = 0.0, -float("inf")  # after patches that were not answered
        self._withdrawn: dict[bytes, float] = {}  # what is taken back, since when

    def covers(self, patterns: tuple[str, ...]) -> Held | None:
        """What is held, where it covers the namespaces with these names and globs."""
        held = self.held
        return held if held is not None and held.book.patterns.issuperset(patterns) else None

    def read(self, deadline: float) -> bool:
        """Bring it up to date; the same object stays where nothing has changed, which is told. Raises LedgerError."""
        held = self._store.read(self.key, self._seconds(deadline))
        if held is not None and self.held is not None and held.version == self.held.version:
            return False
        is_news = held is not self._stored
        self.keep(held)
        return is_news

    def create(self, book: Book, deadline: float) -> Held:
        """Begin a book. Raises LedgerChangedError and LedgerError."""
        written = self._store.create(self.key, book, self._seconds(deadline))
        self.keep(written)
        return written

    def replace(self, book: Book, over: Held, deadline: float) -> Held:
        """Write over what is held, where the book is another. Raises LedgerChangedError and LedgerError."""
        if book is over.book:
            return over
        written = self._store.replace(self.key, book.settled(self._own(book)), over, self._seconds(deadline))
        self.keep(written)
        return written

    # What is appended

    def can_append(self) -> bool:
        """Whether entries may be appended to what is held: not to a large book, since all of it comes back."""
        if self.held is None or not self._appending.is_on:
            return False
        if not self._store.can_amend() or self._clock() < self._appends_from:
            return False
        book = self.held.book
        return len(book.appended) < self._appending.most and len(book.entries) < self._appending.largest

    def append(self, entries: Mapping[bytes, Demand], deadline: float) -> tuple[Book, bool]:
        """Append entries to whatever is there by now. Whoever does has to look at the book then, or `take_back`.

        Gives the book as it is then without these entries, and whether others have written since it was held. Where no
        answer came the entries are taken back with the next write. Raises LedgerChangedError and LedgerError.
        """
        over, held = self._stored, self.held
        if over is None or held is None:
            raise LedgerChangedError
        # others may have struck what was there
        over = replace(over, book=over.book.without(entries.keys(), self._mark))
        book = held.book.appending(entries, self._mark)
        try:
            written, expected = self._amended(book, over, deadline)
            _demand_all(entries.keys(), written)
        except (LedgerError, LedgerChangedError) as error:
            self._withdraw(entries.keys())
            if isinstance(error, LedgerError):
                self._rest = min(max(self._rest * 4, self._timing.after_fault), 600.0)
                self._appends_from = self._clock() + self._rest
            raise
        self._rest = 0.0
        self.keep(written)
        lasts = expected is not book or written.edition == over.edition  # it was compared, or shows to be the same
        others = not lasts or written.book.appended != expected.appended
        return written.book.without(entries.keys(), self._mark), others

    def _amended(self, book: Book, over: Held, deadline: float) -> tuple[Held, Book]:
        """Append, and have the own entries last where they are many; the book as it is then, and as it was meant."""
        own = self._own(over.book)
        if len(own) >= self._appending.settled_from:
            settled = book.settled(own)
            try:
                return self._store.amend(self.key, settled, over, self._seconds(deadline)), settled
            except LedgerChangedError:
                pass  # others had something last: so it is only appended
        return self._store.amend(self.key, book, over, self._seconds(deadline)), book

    def take_back(self, entries: Mapping[bytes, Demand], deadline: float) -> None:
        """Take back what was appended, and bring the book up to date. Raises LedgerChangedError and LedgerError.

        Where that fails it is done with the next write; to this replica the entries are gone at once.
        """
        self._withdraw(entries.keys())
        if (over := self._stored) is None:
            return
        self.keep(over)
        over = replace(over, book=over.book.appending(entries, self._mark))  # which may be known without them by now
        book = over.book.without(tuple(self._withdrawn), self._mark)
        self.keep(self._store.amend(self.key, book, over, self._seconds(deadline)))

    def was_withdrawn(self, uid: bytes) -> bool:
        """Whether it was taken back lately: a patch that does so may still be on its way, whatever was answered."""
        return uid in self._withdrawn

    def admitted(self, book: Book) -> Set[bytes]:
        """The appended entries by which this replica has admitted pods."""
        return self._own(book) - self._withdrawn.keys()

    def _withdraw(self, uids: Set[bytes]) -> None:
        now = self._clock()
        for uid, since in list(self._withdrawn.items()):
            if now - since > self._timing.in_flight:
                del self._withdrawn[uid]
        self._withdrawn.update(dict.fromkeys(uids, now))

    def _own(self, book: Book) -> Set[bytes]:
        """The entries that this replica appended to a book."""
        return {uid for uid, marks in book.appended.items() if self._mark in marks}

    def appended_by_others(self) -> Set[bytes]:
        """The entries that were appended to the book by other replicas alone."""
        appended = {} if self.held is None else self.held.book.appended
        return {uid for uid, marks in appended.items() if self._mark not in marks}

    def keep(self, stored: Held | None) -> None:
        """Take note of the book, and of the moment for entries that are new."""
        held = stored
        if stored is not None and self._withdrawn:
            book = stored.book.without(tuple(self._withdrawn), self._mark)  # a copy, since another thread may add some
            held = stored if book is stored.book else replace(stored, book=book)
        self._stored, self.held = stored, held
        entries: Mapping[bytes, Demand] = {} if self.held is None else self.held.book.entries
        now = self._clock()
        with self._seen_lock:
            new, left = entries.keys() - self._first_seen.keys(), self._first_seen.keys() - entries.keys()
            for uid in new:
                self._first_seen[uid] = now
            for uid in left:
                del self._first_seen[uid]
            self.unconfirmed.entered({uid: entries[uid] for uid in new}, now)
            self.unconfirmed.left(left, now)
            self.unconfirmed.confirm(self._listed)
            self._listed -= entries.keys()

    def listed(self, uids: Set[bytes]) -> None:
        """Take note of pods that are stored, and about to be entered."""
        with self._seen_lock:
            self._listed |= uids

    def outlasted(self, uid: bytes, since: float) -> bool:
        """Whether an entry had been seen for longer than any admission is in flight, at `since`."""
        return self.age(uid, since) > self._timing.in_flight

    def age(self, uid: bytes, at: float) -> float:
        """For how many seconds an entry had been seen, at `at`; 0 for one that is not known."""
        return at - self._first_seen.get(uid, at)

    def left(self, deadline: float) -> float:
        """Seconds until then. Raises LedgerError where there are none."""
        left = deadline - self._clock()
        if left <= 0:
            raise LedgerError(LATE)
        return left

    def _seconds(self, deadline: float) -> float:
        return min(self.left(deadline), self._timing.one_call)


def _demand_all(uids: Set[bytes], written: Held) -> None:
    """Raise LedgerError where an answer lacks what was appended: nobody is admitted by what may not be there."""
    if not uids <= written.book.entries.keys():
        raise LedgerError("the answer lacks what was appended; see what stands before the API server")
