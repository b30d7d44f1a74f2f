"""Writes objects of kind GPUQuota, which show people what is in use.

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

from webhook.engine.quota_usage import Place, QuotaUsage, Status, statuses
from webhook.kubernetes.api_errors import ApiServerError, RefusedError, UnreachableError
from webhook.kubernetes.api_paths import delete_options, path_of
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.periodic_task import Attempts, PeriodicTask

API = "gpupolicy.dev/v1alpha1"
KIND = "GPUQuota"
EVERYWHERE = path_of(f"/apis/{API}", "gpuquotas")
"""The path of the objects of all namespaces."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpu-policy-webhook"
INSTALLATION = "gpupolicy.dev/installation"
"""The label that distinguishes the objects of installations: the namespace of their ledgers."""

_LONGEST_VERSION = 20
_NOT_COMPARED = frozenset({"ledger", "updated"})


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """An object as the watch last saw it. The status is kept only if the object is of this installation."""

    uid: str
    version: str
    is_ours: bool
    status: Status

    def is_as(self, status: Status) -> bool:
        """Whether the object has this status, apart from times."""
        return _compared(self.status) == _compared(status)

    def is_newer_than(self, status: Status) -> bool:
        """Whether the object shows a newer ledger. Resource versions are compared as numbers."""
        theirs, mine = (str(one.get("ledger", ""))[:_LONGEST_VERSION] for one in (self.status, status))
        return theirs.isdecimal() and mine.isdecimal() and int(theirs) > int(mine)


def labels_of(installation: str) -> Mapping[str, str]:
    """The labels of the objects of one installation."""
    return {MANAGED_BY: MANAGER, INSTALLATION: installation}


def stored_in(raw: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[Place, StoredStatus]:
    """The place of an object, and the object. It is of this installation if it has these labels."""
    metadata, status = raw["metadata"], raw.get("status")
    found = metadata.get("labels") or {}
    is_ours = all(found.get(key) == value for key, value in labels.items())
    kept = status if is_ours and isinstance(status, dict) else {}
    return (metadata["namespace"], metadata["name"]), StoredStatus(
        metadata["uid"], metadata["resourceVersion"], is_ours, kept
    )


def body(place: Place, status: Status, labels: Mapping[str, str], over: StoredStatus | None) -> dict[str, Any]:
    """The body that creates an object, or replaces the one that was seen."""
    metadata: dict[str, Any] = {"namespace": place[0], "name": place[1], "labels": dict(labels)}
    if over is not None:
        metadata["resourceVersion"] = over.version
    return {"apiVersion": API, "kind": KIND, "metadata": metadata, "status": dict(status)}


def path_in(namespace: str, name: str = "") -> str:
    """The path of the objects of a namespace, or of one object."""
    return path_of(f"/apis/{API}", "gpuquotas", namespace=namespace, name=name)


def _compared(status: Status) -> dict[str, Any]:
    return {key: value for key, value in status.items() if key not in _NOT_COMPARED}


_ANSWER_SECONDS = 5.0
_CLOSE_SECONDS = 0.7

_log = logging.getLogger("gpu_policy.quota")

Wanted = Mapping[Place, Status | None]


@dataclass(frozen=True, slots=True)
class StatusTiming:
    """Pauses in seconds, and how much is written at once."""

    round: float = 2.0
    """Pause between two rounds of writing, a fifth more or less."""
    spread: float = 3.0
    """A difference is written after a random time of up to this. By then another replica has often written it."""
    lag: float = 60.0
    """Time for which an object that shows a newer ledger is left alone."""
    linger: float = 150.0
    """Time for which an object stays after its quota was removed. Replicas load changed policies within two minutes of
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


class QuotaStatus:
    """Writes GPUQuota objects for the installation whose ledgers are in the namespace `installation`.

    Objects of others are never changed. No error here refuses a pod.
    """

    def __init__(
        self,
        server: ApiServer,
        installation: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        timing: StatusTiming | None = None,
        watch_timing: WatchTiming | None = None,
    ) -> None:
        self._server = server
        self._labels = labels_of(installation)
        self._clock = clock
        self._timing = timing or StatusTiming()
        self._wanted: Wanted | None = None
        self._seen: dict[Place, StoredStatus] = {}
        self._lock = Lock()
        self._differences: dict[Place, _Difference] = {}
        self._resting_until = 0.0
        self._complaint = ""
        resource = WatchedResource("gpuquotas", EVERYWHERE, self._replace, self._change, optional=True)
        self._watch = Watch(resource, server, clock, watch_timing)
        attempts = Attempts(_log, "GPUQuota objects cannot be brought up to date", level=logging.WARNING)
        work = partial(attempts.make, self.write_some)
        self._task = PeriodicTask("quota-status", work, self._timing.round, waits_first=True)

    def start(self) -> None:
        """Start to watch objects and to write. Call it once, after the fork."""
        self._watch.start()
        self._task.start()

    @property
    def known(self) -> int | None:
        """How many GPUQuota objects the cluster has, also of others; None while they are not watched."""
        return len(self._seen) if self._watch.health.following else None

    def show(self, usages: Iterable[QuotaUsage]) -> None:
        """Publish the usage of all quotas, in the background."""
        self._wanted = statuses(usages)

    def close(self) -> None:
        """End the threads, within 2 seconds. The objects stay."""
        self._watch.stop()
        self._task.close(_CLOSE_SECONDS)
        self._watch.join(_CLOSE_SECONDS)

    def write_some(self) -> None:
        """One round: write some of the objects that differ from what `show` was given last."""
        wanted, now = self._wanted, self._clock()
        if wanted is None or self.known is None or now < self._resting_until:
            return
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
            if status is not None and (found is None or (found.is_ours and not found.is_as(status))):
                yield place
        yield from (place for place, found in seen.items() if found.is_ours and place not in wanted)

    def _is_behind(self, place: Place, status: Status | None, found: StoredStatus | None, now: float) -> bool:
        """Whether another replica has written from a newer ledger, and lately."""
        if status is None or found is None or now - self._differences[place].since > self._timing.lag:
            return False
        return found.is_newer_than(status)

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
                self._server.send("DELETE", path_in(*place), delete_options(found.version, found.uid), _ANSWER_SECONDS)
            return
        sent = body(place, {**status, "updated": self._now()}, self._labels, found)
        if found is None:
            self._server.send("POST", path_in(place[0]), sent, _ANSWER_SECONDS)
        else:
            self._server.send("PUT", path_in(*place), sent, _ANSWER_SECONDS)

    def _now(self) -> str:
        """The API server's time, to the second."""
        return f"{datetime.now(UTC) - timedelta(seconds=self._server.clock_skew):%Y-%m-%dT%H:%M:%SZ}"

    def _complain(self, complaint: str) -> None:
        """Log a complaint once, until a round without complaints."""
        if complaint and not self._complaint:
            _log.warning("GPUQuota objects cannot be brought up to date: %s", complaint)
        self._complaint = complaint

    # The watch

    def _replace(self, raws: Iterable[object]) -> None:
        listed = dict(stored_in(raw, self._labels) for raw in raws if isinstance(raw, dict))
        with self._lock:
            self._seen = listed

    def _change(self, event: str, raw: Mapping[str, Any]) -> None:
        place, seen = stored_in(raw, self._labels)
        with self._lock:
            if event == "DELETED":
                self._seen.pop(place, None)
            else:
                self._seen[place] = seen
