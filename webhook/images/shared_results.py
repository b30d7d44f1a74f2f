"""One object that all replicas share: what one of them has looked up the others know, and all know it after a restart.

Whoever has news merges them with what stands there and writes it back, by compare-and-swap. What stands there is then
what everybody goes by. Without it a replica looks up for itself.

`SyncLoop` is the thread that exchanges results with the shared object: soon after there is news, and now and then.
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
from webhook.images.packing import Content, PackError, pack, unpack
from webhook.kubernetes.api_errors import ApiServerError, ConflictError
from webhook.periodic_task import Attempts, about

_SAME_TIME_SECONDS = 5.0
"""Clocks of replicas are this far apart at most when they are counted as agreeing; they go by the API server's."""
_ATTEMPTS = 5
APART_SECONDS = 0.1
"""For which a writer that was overtaken stays away at most, at first; twice as long each time it happens again."""

_log = logging.getLogger("gpu_policy.images")


@dataclass(frozen=True, slots=True)
class StoredResults:
    """What the shared object holds. `content` is empty where nobody has written yet; `version` changes with it."""

    version: str
    content: bytes


class ResultStore(Protocol):
    """Where the shared object is. Every call may raise ApiServerError."""

    def read(self) -> StoredResults:
        """What it holds now (a consistent read)."""
        ...

    def write(self, content: bytes, over: StoredResults) -> None:
        """Replace the content; ConflictError unless it still is what was read."""
        ...

    def now(self) -> float:
        """The time in Unix seconds, by a clock that all replicas read."""
        ...


class Sharing:
    """Keeps a cache and the shared object in step. Nothing here waits for anything but the store."""

    def __init__(
        self,
        cache: ImageCache,
        store: ResultStore,
        expiry: Callable[[str], float],
        *,
        is_wanted: Callable[[str], bool] = lambda _reference: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`expiry` says after how many seconds a reference is looked up again; only wanted references are taken up."""
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
        """Bytes of the shared content."""

    @property
    def has_news(self) -> bool:
        """Whether something here is not in the shared object yet."""
        return bool(self._news)

    def add(self, reference: str) -> None:
        """There is a new result here."""
        with self._adding:
            self._news.add(reference)

    def exchange(self) -> None:
        """Take up what others have found, and write what they do not know. Raises ApiServerError."""
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
        raise ApiServerError(f"other writers were faster, {_ATTEMPTS} times in a row")

    def _read(self, held: StoredResults, ahead: float) -> Content:
        """What the object holds, in seconds of our clock; nobody has looked anything up in the future."""
        if not held.content:
            return Content({})
        try:
            content = unpack(held.content)
        except PackError as error:
            self._complain(f"what the replicas share cannot be read and counts as nothing: {error}")
            return Content({})
        self._complain(f"{content.strange} lines of what the replicas share make no sense" if content.strange else "")
        now = self._clock()
        results = {name: replace(one, at=min(one.at - ahead, now)) for name, one in content.results.items()}
        return replace(content, results=results)

    def _adopt(self, content: Content) -> None:
        """Go by what is shared, except for what this replica knows better, which becomes news."""
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
        """Whether our own result is to replace the shared one; what is shared wins where both are of one time."""
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
    """Whether it is of use to others: an answer always, a problem until it is time to ask again."""
    return result.config is not None or result.at + result.again > now


def _outweighs(ours: LookupResult, theirs: LookupResult) -> bool:
    """Whether one result is to replace another: an answer beats a problem, then the newer wins. Equal answers stay.

    Where both are of one moment, every replica decides alike.
    """
    if theirs.config is not None and ours.config == theirs.config:
        return False
    return _rank(ours) > _rank(theirs)


def _rank(result: LookupResult) -> tuple[bool, float, str]:
    return result.config is not None, result.at, result.problem if result.config is None else result.config.digest


READ_SECONDS = 15.0
"""How often the object is read."""
WRITE_SECONDS = 3.0
"""How long news wait for more of them."""
SLOW_BYTES = 64 * 1024
"""A larger object is written less often: for each so many bytes they wait a second longer."""

_FIRST_SECONDS = 10.0

_log = logging.getLogger("gpu_policy.images")


class SyncLoop:
    """Exchanges results when it is time. What goes wrong is said once, and never ends the thread."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._tried = threading.Event()
        self._attempts = Attempts(_log, "results are not shared with the other replicas", (ApiServerError,))
        self._thread = threading.Thread(target=self._run, name="images-shared", daemon=True)
        self.is_well = False
        """Whether the last exchange succeeded."""

    def add(self, reference: str) -> None:
        """There is news."""
        self._sharing.add(reference)
        self._wake.set()

    def start(self) -> None:
        """Begin, with a first exchange."""
        self._thread.start()

    def wait_for_the_first(self) -> None:
        """Wait until it was tried for the first time, 10 seconds at most."""
        self._tried.wait(_FIRST_SECONDS)

    def close(self, seconds: float) -> None:
        """End the thread within that time; it tries to write what is new."""
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
