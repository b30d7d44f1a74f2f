"""The results of look-ups in one object that all replicas share, so that replicas and restarts need fewer look-ups.

A replica merges its new results with the content of the object, and writes them back by compare-and-swap. All replicas
adopt the content. Without the object, a replica does its own look-ups.

`SyncLoop` is the thread that does so: 3 seconds after a new result, and every 15 seconds.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from webhook.images.cache import Entry, ImageCache, LookupResult
from webhook.images.packing import Content, pack, unpack
from webhook.kubernetes.api_errors import ApiServerError, ConflictError
from webhook.model.shape import FormatError
from webhook.periodic_task import Attempts, about

_SAME_TIME_SECONDS = 5.0
"""Results whose times differ by less count as equally new. Replicas use the clock of the API server."""
_ATTEMPTS = 5
APART_SECONDS = 0.1
"""Longest wait of a writer after its first conflict. The wait doubles with each further conflict."""

_log = logging.getLogger("gpu_policy.images")


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The content of the shared object, empty before the first write. `version` changes with the content."""

    version: str
    content: bytes


class ResultStore(Protocol):
    """Stores the shared object. Every call may raise ApiServerError."""

    def read(self) -> StoredResults:
        """The current content (a consistent read)."""
        ...

    def write(self, content: bytes, over: StoredResults) -> None:
        """Replace the content. Raises ConflictError if it has changed since `over` was read."""
        ...

    def now(self) -> float:
        """The time in Unix seconds, by a clock that all replicas share."""
        ...


class ResultSharing:
    """Synchronises a cache with the shared object. Only calls of the store take time."""

    def __init__(
        self,
        cache: ImageCache,
        store: ResultStore,
        expiry: Callable[[str], float],
        *,
        is_wanted: Callable[[str], bool] = lambda _reference: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`expiry` gives the seconds until a reference is looked up again. Only wanted references are adopted."""
        self._cache = cache
        self._store = store
        self._expiry = expiry
        self._is_wanted = is_wanted
        self._clock = clock
        self._news: set[str] = set()
        self._adding = threading.Lock()
        self._adopted: str | None = None
        self._complaint = ""
        self.size = 0
        """Size of the shared content in bytes."""

    @property
    def has_news(self) -> bool:
        """Whether the cache has results that are not in the shared object yet."""
        return bool(self._news)

    def add(self, reference: str) -> None:
        """Record that the cache has a new result for a reference."""
        with self._adding:
            self._news.add(reference)

    def exchange(self) -> None:
        """Adopt the results of other replicas, and write the new ones of this replica. Raises ApiServerError."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0.0, APART_SECONDS * 2 ** (attempt - 1)))  # noqa: S311  # apart from other replicas
            held = self._store.read()
            self.size = len(held.content)
            if held.version == self._adopted and not self._news:
                return
            ahead = self._store.now() - self._clock()
            content = self._read(held, ahead)
            self._adopt(content)
            self._adopted = held.version
            with suppress(ConflictError):
                self._write(held, content.results, ahead)
                return
        raise ApiServerError(f"other replicas wrote first, {_ATTEMPTS} times in a row")

    def _read(self, held: StoredResults, ahead: float) -> Content:
        """The content of the object, with times of this replica's clock, none of them in the future."""
        if not held.content:
            return Content({})
        try:
            content = unpack(held.content)
        except FormatError as error:
            self._complain(f"the shared results of look-ups cannot be read and are ignored: {error}")
            return Content({})
        self._complain("")
        now = self._clock()
        results = {name: replace(one, at=min(one.at - ahead, now)) for name, one in content.results.items()}
        return replace(content, results=results)

    def _adopt(self, content: Content) -> None:
        """Put the shared results into the cache, except where the cache has better ones, which are then new results."""
        now = self._clock()
        for reference, result in content.results.items():
            ours = self._cache.get(reference)
            if ours is None and not self._is_wanted(reference):
                continue
            if ours is not None and self._is_better(reference, _result_of(ours), result):
                self.add(reference)
            else:
                self._take(reference, result, ours, now)
        if content.is_complete:  # what is not there was lost
            for reference, entry in self._cache.entries():
                if entry.info.config is not None and reference not in content.results:
                    self.add(reference)

    def _is_better(self, reference: str, ours: LookupResult, theirs: LookupResult) -> bool:
        """Whether our own result replaces the shared one. If both are equally new, the shared one wins."""
        if ours.config is not None and theirs.config is not None and reference not in self._news:
            return ours.at > theirs.at + _SAME_TIME_SECONDS and _outweighs(ours, theirs)
        return (ours.config is not None or reference in self._news) and _outweighs(ours, theirs)

    def _take(self, reference: str, result: LookupResult, ours: Entry | None, now: float) -> None:
        if result.config is None:
            if _holds(result, now) and (ours is None or ours.due < result.at + result.again):
                self._cache.put(reference, result, failures=1)
        elif ours is None or ours.info.config != result.config or ours.at + _SAME_TIME_SECONDS < result.at:
            self._cache.put(reference, replace(result, again=self._expiry(reference)))

    def _write(self, held: StoredResults, theirs: Mapping[str, LookupResult], ahead: float) -> None:
        with self._adding:
            news, self._news = self._news, set()
        now = self._clock()
        merged = dict(theirs)
        for reference in news:
            entry = self._cache.get(reference)
            if entry is None or not _holds(ours := _result_of(entry), now):
                continue
            if reference not in theirs or _outweighs(ours, theirs[reference]):
                merged[reference] = ours
        if merged == theirs:
            return
        lasting = {
            name: replace(result, at=result.at + ahead) for name, result in merged.items() if _holds(result, now)
        }
        try:
            self._store.write(content := pack(lasting), held)
        except BaseException:
            with self._adding:
                self._news |= news
            raise
        self.size = len(content)

    def _complain(self, text: str) -> None:
        if text and text != self._complaint:
            _log.warning("%s", text)
        self._complaint = text


def _result_of(entry: Entry) -> LookupResult:
    return LookupResult(entry.at, max(0.0, entry.due - entry.at), entry.info.config, entry.info.problem)


def _holds(result: LookupResult, now: float) -> bool:
    """Whether a result is still valid: a configuration always, a problem until it is looked up again."""
    return result.config is not None or result.at + result.again > now


def _outweighs(ours: LookupResult, theirs: LookupResult) -> bool:
    """Whether one result replaces another: a configuration beats a problem, then the newer one wins.

    Equal configurations stay. For results of the same time, all replicas decide alike.
    """
    if theirs.config is not None and ours.config == theirs.config:
        return False
    return _rank(ours) > _rank(theirs)


def _rank(result: LookupResult) -> tuple[bool, float, str]:
    return result.config is not None, result.at, result.problem if result.config is None else result.config.digest


READ_SECONDS = 15.0
"""Seconds between reads of the object."""
WRITE_SECONDS = 3.0
"""Seconds that a new result waits for more, before all are written."""
SLOW_BYTES = 64 * 1024
"""A larger object is written less often: each so many bytes add a second to the wait."""

_FIRST_SECONDS = 10.0


class SyncLoop:
    """The thread that exchanges results. A failure is logged once and never ends the thread."""

    def __init__(self, sharing: ResultSharing) -> None:
        self._sharing = sharing
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._tried = threading.Event()
        self._attempts = Attempts(_log, "results are not shared with the other replicas", (ApiServerError,))
        self._thread = threading.Thread(target=self._run, name="images-shared", daemon=True)
        self.is_well = False
        """Whether the last exchange succeeded."""

    def add(self, reference: str) -> None:
        """Record a new result, and have it written soon."""
        self._sharing.add(reference)
        self._wake.set()

    def start(self) -> None:
        """Start the thread, which exchanges results at once."""
        self._thread.start()

    def wait_for_the_first(self) -> None:
        """Wait until the first exchange has succeeded or failed, 10 seconds at most."""
        self._tried.wait(_FIRST_SECONDS)

    def close(self, seconds: float) -> None:
        """End the thread within `seconds`. The thread tries to write new results before it ends."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._try()
            self._tried.set()
            if self._wake.wait(about(READ_SECONDS)):
                self._stop.wait(WRITE_SECONDS + self._sharing.size / SLOW_BYTES)
            self._wake.clear()
        if self._sharing.has_news:
            self._try()

    def _try(self) -> None:
        self.is_well = self._attempts.make(self._sharing.exchange)
