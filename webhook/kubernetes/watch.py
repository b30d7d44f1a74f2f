"""Lists and watches one resource for ever. A watch that breaks is resumed, or the resource is listed again."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from random import uniform
from threading import Event, Thread
from typing import Any

from webhook.kubernetes.api_errors import RefusedError, UnreachableError
from webhook.kubernetes.api_server import ApiServer, Stream, from_json
from webhook.kubernetes.paged_list import Listed, PagedList

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchTiming:
    """Times of a watch, in seconds."""

    watch: tuple[float, float] = (75.0, 105.0)
    """Time after which the API server is asked to end a watch; random, so that replicas do not return together.

    An API server sends no bookmark for a kind if it has seen no event of it since its start (dispatchEvents in
    apiserver/pkg/storage/cacher), so its end alone shows that a quiet watch is alive."""
    margin: float = 15.0
    """Time of silence after the requested end when a watch counts as broken."""
    answer: float = 30.0
    """Longest pause in a list."""
    first_retry: float = 0.2
    """Longest wait after the first failure; it doubles with each further failure."""
    last_retry: float = 30.0
    """Longest wait of all."""
    settled: float = 10.0
    """A watch that lasted this long was no failure, even without any event."""


@dataclass(frozen=True, slots=True)
class WatchedResource:
    """A resource to watch, and the callbacks for its objects.

    `replace` gets all objects of a list, one after the other as they arrive; `change` gets the type of an event (ADDED,
    MODIFIED, DELETED) and its object. An `optional` resource may be unknown to the API server. With a field `selector`
    only matching objects arrive, and an object that no longer matches counts as DELETED.

    `elsewhere` are the paths of other versions of its API, which are tried if the API server does not know `path`.
    `refused` is called when the list is forbidden: the resource then counts as loaded, with unknown content. Without
    `refused` the watch waits until the list is allowed.

    A resource that `is_dispensable` never makes a replica unready: nothing waits for it after its list has failed, and
    facts are not stale while it is not watched.
    """

    name: str
    path: str
    replace: Callable[[Iterable[object]], None]
    change: Callable[[str, Mapping[str, Any]], None]
    optional: bool = False
    page: int = 100
    """Objects in one answer to a list. A page is in memory as a whole; 500 nodes would take about 40 MiB."""
    selector: str = ""
    elsewhere: tuple[str, ...] = ()
    refused: Callable[[], None] | None = None
    is_dispensable: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, *self.elsewhere)


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a watch. Times are of a monotonic clock.

    `confirmed`: when the watch was last known to be current. `failing_since`: when it began to fail although the API
    server answers; None while it does not fail, or the API server cannot be reached. `is_served`: whether the API
    server knows the resource, and allows that it is read.
    """

    confirmed: float
    loaded: bool = False
    following: bool = False
    reachable: bool = False
    is_served: bool = True
    failing_since: float | None = None
    detail: str = "not asked yet"


class Watch:
    """Watches one resource in a thread of its own. `health` is replaced as a whole, so any thread may read it."""

    def __init__(
        self,
        resource: WatchedResource,
        server: ApiServer,
        clock: Callable[[], float],
        timing: WatchTiming | None = None,
    ) -> None:
        self.resource = resource
        self.health = Health(confirmed=clock())
        self._server = server
        self._clock = clock
        self._timing = timing or WatchTiming()
        self._version = ""  # of the newest object; empty where a list is due
        self._was_listed = False
        self._at = 0  # number of the path that is used
        self._absent = 0  # number of paths, one after the other, that the API server did not know
        self._failures = 0
        self._stream: Stream | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"watch-{resource.name}", daemon=True)

    @property
    def is_waited_for(self) -> bool:
        health = self.health
        return not health.loaded and not (self.resource.is_dispensable and health.failing_since is not None)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tell the thread to end, also while it waits for events. Returns at once."""
        self._stopping.set()
        if (stream := self._stream) is not None:
            stream.interrupt()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end. A thread that waits for a list ends with the process instead."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self._attempt())

    def _attempt(self) -> float:
        """List and watch until the connection breaks; returns the seconds to wait before the next attempt."""
        try:
            if not self._version:
                self._list()
            return 0.0 if self._watch() else self._pause()
        except RefusedError as refusal:
            return self._refused(refusal)
        except UnreachableError as fault:
            if not self._stopping.is_set():
                self._failed(str(fault), reachable=self._server.is_reachable(), silent=fault.was_silent)
        except Exception as fault:  # noqa: BLE001  # garbage, or a bug here: the replica is at fault, and lists again
            self._version = ""
            self._failed(f"{type(fault).__name__}: {fault}", reachable=True)
        return self._pause()

    def _list(self) -> None:
        """Replace all objects; if an answer fails, the previous objects stay."""
        resource = self.resource
        listed = PagedList(self._server, Listed(self.path, resource.page, resource.selector), self._patience)
        resource.replace(listed)
        self._version = listed.version
        self._was_listed = True
        self._absent = 0
        self.health = replace(self.health, loaded=True, confirmed=self._clock(), reachable=True, detail="listed")

    @property
    def path(self) -> str:
        return self.resource.paths[self._at]

    def _patience(self) -> float:
        """Longest pause in a page of a list."""
        if self._stopping.is_set():
            raise UnreachableError("closed")
        return self._timing.answer

    def _watch(self) -> bool:
        """Pass events on until the API server ends the watch; returns whether the watch lasted long enough."""
        seconds = uniform(*self._timing.watch)  # noqa: S311  # spreads load, keeps no secret
        query = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(round(seconds), 1)),
        }
        if self.resource.selector:
            query["fieldSelector"] = self.resource.selector
        begun = self._clock()
        with closing(self._server.stream(self.path, query, seconds + self._timing.margin)) as stream:
            self._stream = stream
            if self._stopping.is_set():  # `stop` may have come before there was a stream to interrupt
                return True
            self._follows()
            for line in stream:
                if self._stopping.is_set():
                    break
                self._take(line)
                self._failures = 0
                self._follows()
        self._stream = None
        if settled := self._clock() - begun >= self._timing.settled:
            self._failures = 0
        return settled

    def _take(self, line: bytes) -> None:
        try:
            event = from_json(line)
            kind, found = event["type"], event["object"]
            refusal = RefusedError(found["code"], found["message"]) if kind == "ERROR" else None
            version = "" if refusal else str(found["metadata"]["resourceVersion"])
        except (KeyError, TypeError, ValueError):
            raise ValueError("the watch sent something that is no event") from None
        if refusal:
            raise refusal
        if kind != "BOOKMARK":
            self.resource.change(kind, found)
        self._version = version

    def _follows(self) -> None:
        if not self.health.following:
            _log.info("%s: followed", self.resource.name)
        self.health = Health(confirmed=self._clock(), loaded=True, following=True, reachable=True, detail="followed")

    def _refused(self, refusal: RefusedError) -> float:
        if refusal.status != 429:
            self._version = ""
        if refusal.status == 404 and self._is_perhaps_elsewhere():
            return 0.0
        if refusal.status == 404 and self.resource.optional and not self._was_listed:
            self.resource.replace(())
            self._follows()
            detail = "unknown to the API server, so there are none"
            self.health = replace(self.health, is_served=False, detail=detail)
        elif refusal.status == 403 and self.resource.refused is not None:
            detail = f"nothing is known of them: {refusal}"  # so this goes on without them; further attempts follow
            if self.health.detail != detail:
                _log.warning("%s: %s", self.resource.name, detail)
            self.resource.refused()
            self.health = Health(confirmed=self._clock(), loaded=True, reachable=True, is_served=False, detail=detail)
        else:
            self._failed(str(refusal), reachable=True)
        return max(self._pause(), min(refusal.retry_after, self._timing.last_retry))

    def _is_perhaps_elsewhere(self) -> bool:
        """Take the next path; returns whether there is a path that was not tried since the last success."""
        self._absent = (self._absent + 1) % len(self.resource.paths)
        self._at = (self._at + 1) % len(self.resource.paths)
        return self._absent > 0

    def _failed(self, detail: str, *, reachable: bool, silent: bool = False) -> None:
        """Record a failure. The watch was current until now, unless the failure is a silence."""
        if self._stopping.is_set():
            return
        health, now = self.health, self._clock()
        if health.following or health.detail != detail:
            _log.warning("%s: not followed: %s", self.resource.name, detail)
        failing_since = now if health.failing_since is None else health.failing_since
        self.health = replace(
            health,
            confirmed=now if health.following and not silent else health.confirmed,
            following=False,
            reachable=reachable,
            failing_since=failing_since if reachable else None,
            detail=detail,
        )

    def _pause(self) -> float:
        longest = min(self._timing.first_retry * 2**self._failures, self._timing.last_retry)
        self._failures = min(self._failures + 1, 30)
        return uniform(longest / 2, longest)  # noqa: S311  # spreads load, keeps no secret
