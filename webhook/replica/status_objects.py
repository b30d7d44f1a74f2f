"""Writes objects of a custom resource whose status shows people something, and which decide nothing.

Every replica may write them, and writes only what differs.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Any

from webhook.kubernetes.api_errors import ApiServerError, RefusedError, UnreachableError
from webhook.kubernetes.api_paths import delete_options
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.replica.shown_kind import Place, ShownKind, Status, StoredStatus, labels_of, stored_in

_ANSWER_SECONDS = 5.0
_CLOSE_SECONDS = 0.7

Wanted = Mapping[Place, Status | None]


@dataclass(frozen=True, slots=True)
class StatusTiming:
    """Pauses in seconds, and how much is written at once."""

    round: float = 2.0
    """Pause between two rounds of writing, a fifth more or less."""
    spread: float = 3.0
    """A difference is written after a random time of up to this. By then another replica has often written it."""
    lag: float = 60.0
    """Time for which an object that shows a newer state is left alone."""
    linger: float = 150.0
    """Time for which an object stays after it is wanted no more. Replicas load changed policies within two minutes of
    each other, and until then they want different objects."""
    rest: float = 60.0
    """Time after which a failed write is repeated."""
    most: int = 20
    """Most objects that are written in one round."""


@dataclass(slots=True)
class _Difference:
    """An object with a wrong status: since when, and when it may be written."""

    since: float
    due: float


class _RoundOverError(Exception):
    """Nothing more can be written in this round; if it `rests`, nor in the next rounds."""

    def __init__(self, why: Exception, *, rests: bool = False) -> None:
        super().__init__(str(why))
        self.rests = rests


class StatusObjects:
    """Writes objects of one kind for the installation in the namespace `installation`.

    Objects of others are never changed. No error here refuses a pod.
    """

    def __init__(  # noqa: PLR0913  # whose objects they are, and clocks for tests
        self,
        server: ApiServer,
        installation: str,
        shown: ShownKind,
        log: logging.Logger,
        *,
        clock: Callable[[], float] = time.monotonic,
        timing: StatusTiming | None = None,
        watch_timing: WatchTiming | None = None,
    ) -> None:
        self._server = server
        self._shown = shown
        self._log = log
        self._labels = labels_of(installation)
        self._clock = clock
        self._timing = timing or StatusTiming()
        self._wanted_now: Callable[[], Wanted] | None = None
        self._seen: dict[Place, StoredStatus] = {}
        self._lock = Lock()
        self._differences: dict[Place, _Difference] = {}
        self._resting_until = 0.0
        self._complaint = ""
        resource = WatchedResource(shown.plural, shown.path(None), self._replace, self._change, optional=True)
        self._watch = Watch(resource, server, clock, watch_timing)
        attempts = Attempts(log, f"{shown.kind} objects cannot be brought up to date", level=logging.WARNING)
        work = partial(attempts.make, self.write_some)
        self._task = PeriodicTask(f"{shown.plural}-status", work, self._timing.round, waits_first=True)

    def start(self) -> None:
        """Start to watch objects and to write. Call it once, after the fork."""
        self._watch.start()
        self._task.start()

    @property
    def known(self) -> int | None:
        """How many such objects the cluster has, also of others; None while they are not watched."""
        return len(self._seen) if self._watch.health.following else None

    def want(self, wanted: Callable[[], Wanted]) -> None:
        """Set what is wanted, in the background: asked in every round; None for a status that is to stay as it is."""
        self._wanted_now = wanted

    def has(self, place: Place) -> bool:
        """Whether there is an object at this place, also of others."""
        return place in self._seen

    @property
    def ours(self) -> Mapping[Place, StoredStatus]:
        """The objects of this installation."""
        with self._lock:
            return {place: found for place, found in self._seen.items() if found.is_ours}

    def close(self) -> None:
        """End the threads, within 2 seconds. The objects stay."""
        self._watch.stop()
        self._task.close(_CLOSE_SECONDS)
        self._watch.join(_CLOSE_SECONDS)

    def write_some(self) -> None:
        """One round: write some of the objects that differ from what is wanted."""
        now = self._clock()
        if self._wanted_now is None or self.known is None or now < self._resting_until:
            return
        wanted = self._wanted_now()
        with self._lock:
            seen = dict(self._seen)
        complaint = ""
        for place in self._due(wanted, seen, now)[: self._timing.most]:
            try:
                self._write(place, wanted.get(place), seen.get(place))
                del self._differences[place]  # the watch will tell what was written
            except _RoundOverError as end:
                self._resting_until = now + self._timing.rest if end.rests else 0.0
                complaint = str(end)
                break
            except ApiServerError as error:
                self._differences[place].due = now + self._timing.rest
                if not (isinstance(error, RefusedError) and error.is_about_ending(place[0])):
                    complaint = f"{place[0]}/{place[1]}: {error}"
        self._complain(complaint)

    # Differences

    def _due(self, wanted: Wanted, seen: Mapping[Place, StoredStatus], now: float) -> list[Place]:
        """The objects that may be written now; the longest waiting come first."""
        different = set(self._different(wanted, seen))
        for place in self._differences.keys() - different:
            del self._differences[place]
        for place in different - self._differences.keys():
            wait = random.uniform(0, self._timing.spread)  # noqa: S311  # apart from other replicas
            wait += 0.0 if place in wanted else self._timing.linger
            self._differences[place] = _Difference(now, now + wait)
        due = [place for place, difference in self._differences.items() if difference.due <= now]
        return sorted(
            (place for place in due if not self._is_behind(place, wanted.get(place), seen.get(place), now)),
            key=lambda place: self._differences[place].due,
        )

    def _different(self, wanted: Wanted, seen: Mapping[Place, StoredStatus]) -> Iterator[Place]:
        for place, status in wanted.items():
            found = seen.get(place)
            if status is not None and (found is None or (found.is_ours and not self._is_as(found, status))):
                yield place
        yield from (place for place, found in seen.items() if found.is_ours and place not in wanted)

    def _is_behind(self, place: Place, status: Status | None, found: StoredStatus | None, now: float) -> bool:
        """Whether another replica has written from a newer state, and lately."""
        if status is None or found is None or now - self._differences[place].since > self._timing.lag:
            return False
        return self._shown.is_newer(found.status, status)

    def _is_as(self, found: StoredStatus, status: Status) -> bool:
        return self._shown.compared(found.status) == self._shown.compared(status)

    # Writing

    def _write(self, place: Place, status: Status | None, found: StoredStatus | None) -> None:
        """Create, replace or delete one object. Raises _RoundOverError, RefusedError and AnswerError."""
        try:
            self._send(place, status, found)
        except UnreachableError as error:
            raise _RoundOverError(error) from error
        except RefusedError as error:
            if error.status == 409 or (error.status == 404 and found is not None):
                return  # another writer was faster, and the watch will tell what it wrote
            if error.status == 404 and error.about != place[0]:
                raise _RoundOverError(error, rests=True) from error  # the kind is missing, not the namespace
            if error.status in (401, 429) or error.status >= 500:
                raise _RoundOverError(error) from error
            raise

    def _send(self, place: Place, status: Status | None, found: StoredStatus | None) -> None:
        if status is None:
            if found is not None:
                self._server.send(
                    "DELETE", self._shown.path(*place), delete_options(found.version, found.uid), _ANSWER_SECONDS
                )
            return
        sent = self._shown.body(place, {**status, "updated": self._now()}, self._labels, found)
        if found is None:
            self._server.send("POST", self._shown.path(place[0]), sent, _ANSWER_SECONDS)
        else:
            self._server.send("PUT", self._shown.path(*place), sent, _ANSWER_SECONDS)

    def _now(self) -> str:
        """The API server's time, to the second."""
        return f"{datetime.now(UTC) - timedelta(seconds=self._server.clock_skew):%Y-%m-%dT%H:%M:%SZ}"

    def _complain(self, complaint: str) -> None:
        """Log a complaint once, until a round without complaints."""
        if complaint and not self._complaint:
            self._log.warning("%s objects cannot be brought up to date: %s", self._shown.kind, complaint)
        self._complaint = complaint

    # The watch

    def _replace(self, raws: Iterable[object]) -> None:
        listed = dict(stored_in(raw, self._labels, self._shown.kept) for raw in raws if isinstance(raw, dict))
        with self._lock:
            self._seen = listed

    def _change(self, event: str, raw: Mapping[str, Any]) -> None:
        place, seen = stored_in(raw, self._labels, self._shown.kept)
        with self._lock:
            if event == "DELETED":
                self._seen.pop(place, None)
            else:
                self._seen[place] = seen
