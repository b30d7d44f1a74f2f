"""Writes objects of custom resources whose status shows people something, and which decide nothing.

Every replica may write them, and writes only what differs. An object that shows a newer state than a replica knows, or
that the replica wants no more, is left alone until all replicas must know the same.
"""

import hashlib
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.metrics import Metrics
from webhook.admission.phases import Decision
from webhook.engine.quota_usage import Place, Status
from webhook.kubernetes.api_errors import ApiServerError, RefusedError, UnreachableError
from webhook.kubernetes.api_paths import delete_options, path_of
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.policy.policy_set import PolicySet
from webhook.policy.policy_store import PolicyStore
from webhook.policy.show import PolicyStatuses

API = "gpupolicy.dev/v1alpha1"

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpu-policy-webhook"
INSTALLATION = "gpupolicy.dev/installation"
"""The label that distinguishes the objects of installations: the namespace of their ledgers."""

_ANSWER_SECONDS = 5.0
_CLOSE_SECONDS = 0.7
_NOT_COMPARED = ("content", "ledger", "updated")


def labels_of(installation: str) -> Mapping[str, str]:
    """The labels of the objects of one installation."""
    return {MANAGED_BY: MANAGER, INSTALLATION: installation}


def content_of(status: Status) -> str:
    """A hash of what a status says. The objects of thousands of namespaces are kept in memory as no more than this."""
    content = {key: value for key, value in status.items() if key not in _NOT_COMPARED}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class StatusTiming:
    """Pauses in seconds, and how much is written at once."""

    round: float = 2.0
    """Pause between two rounds of writing, a fifth more or less."""
    spread: float = 3.0
    """A difference is written after a random time of up to this. By then another replica has often written it."""
    settle: float = 180.0
    """Time for which an object stays that shows a newer state or is wanted no more. Replicas load changed policies
    within two minutes of each other, and until then they want different objects."""
    rest: float = 60.0
    """Time after which a failed write is repeated."""
    most: int = 20
    """Most objects that are written in one round."""


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """An object as the watch last saw it. `content` is empty for an object of others."""

    uid: str
    version: str
    is_ours: bool
    content: str
    ledger: str
    updated: str


class StatusObjects:
    """Writes objects of one kind for the installation in the namespace `installation`. Make it after the fork.

    Objects of others are never changed. No error here refuses a pod.
    """

    kind: str
    plural: str

    def __init__(
        self,
        server: ApiServer,
        installation: str,
        log: logging.Logger,
        timing: StatusTiming,
        clock: Callable[[], float],
    ) -> None:
        self._server = server
        self._log = log
        self._labels = labels_of(installation)
        self._clock = clock
        self._timing = timing
        self._seen: dict[Place, StoredStatus] = {}
        self._lock = Lock()
        self._since: dict[Place, float] = {}
        """Objects that differ from what is wanted -> from when on they may be written."""
        self._complaint = ""
        resource = WatchedResource(self.plural, self._path(None), self._replace, self._change, optional=True)
        self._watch = Watch(resource, server, clock)
        attempts = Attempts(log, f"{self.kind} objects cannot be brought up to date", level=logging.WARNING)
        work = partial(attempts.make, self.write_some)
        self._task = PeriodicTask(f"{self.plural}-status", work, timing.round, waits_first=True)

    def _wanted(self) -> Mapping[Place, Status | None] | None:
        """The status of each object that is to be there; None for a status that stays as it is.

        None before anything is wanted. A status with a `content` has that hash.
        """
        raise NotImplementedError

    def _is_newer(self, stored: StoredStatus, wanted: Status) -> bool:
        """Whether a stored object shows a later state than a status, so that its writer knows more."""
        raise NotImplementedError

    def start(self, metrics: Metrics | None = None) -> None:  # noqa: ARG002  # companions are started alike
        self._watch.start()
        self._task.start()

    @property
    def known(self) -> int | None:
        """How many such objects the cluster has, also of others; None while they are not watched."""
        return len(self._seen) if self._watch.health.following else None

    def has(self, place: Place) -> bool:
        return place in self._seen

    @property
    def ours(self) -> set[Place]:
        with self._lock:
            return {place for place, found in self._seen.items() if found.is_ours}

    def close(self) -> None:
        """End the threads, within 2 seconds. The objects stay."""
        self._watch.stop()
        self._task.close(_CLOSE_SECONDS)
        self._watch.join(_CLOSE_SECONDS)

    def write_some(self) -> None:
        """One round: write some of the objects that differ from what is wanted."""
        now = self._clock()
        if self.known is None or (wanted := self._wanted()) is None:
            return
        with self._lock:
            seen = dict(self._seen)
        complaint = ""
        for place in self._due(wanted, seen, now)[: self._timing.most]:
            try:
                self._write(place, wanted.get(place), seen.get(place))
                del self._since[place]  # the watch will tell what was written
            except ApiServerError as error:
                self._since[place] = now + self._timing.rest
                if not (isinstance(error, RefusedError) and error.is_about_ending(place[0])):
                    complaint = f"{place[0]}/{place[1]}: {error}"
                if _is_about_all(error, place[0]):
                    break
        if complaint and not self._complaint:  # once, until a round without complaints
            self._log.warning("%s objects cannot be brought up to date: %s", self.kind, complaint)
        self._complaint = complaint

    def _due(
        self, wanted: Mapping[Place, Status | None], seen: Mapping[Place, StoredStatus], now: float
    ) -> list[Place]:
        """The objects that may be written now; the longest waiting come first."""
        different = set(_different(wanted, seen))
        self._since = {place: since for place, since in self._since.items() if place in different}
        for place in different:
            self._since.setdefault(place, now + random.uniform(0, self._timing.spread))  # noqa: S311  # apart from others
        due = []
        for place, since in self._since.items():
            status, found = wanted.get(place), seen.get(place)
            settles = status is None or (found is not None and self._is_newer(found, status))
            if since + (self._timing.settle if settles else 0.0) <= now:
                due.append(place)
        return sorted(due, key=lambda place: self._since[place])

    def _write(self, place: Place, status: Status | None, found: StoredStatus | None) -> None:
        body: Mapping[str, Any] = {
            "apiVersion": API,
            "kind": self.kind,
            "metadata": {"namespace": place[0], "name": place[1], "labels": dict(self._labels)},
            "status": {**(status or {}), "updated": self._now()},
        }
        if found is None:
            method, path = "POST", self._path(place[0])
        elif status is None:
            method, path, body = "DELETE", self._path(*place), delete_options(found.version, found.uid)
        else:
            method, path = "PUT", self._path(*place)
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": found.version}}
        try:
            self._server.send(method, path, body, _ANSWER_SECONDS)
        except RefusedError as error:
            if not (error.status == 409 or (error.status == 404 and found is not None)):
                raise  # else another writer was faster, and the watch will tell what it wrote

    def _path(self, namespace: str | None, name: str = "") -> str:
        return path_of(f"/apis/{API}", self.plural, namespace=namespace, name=name)

    def _now(self, ago: float = 0.0) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._server.now() - ago))

    # The watch

    def _replace(self, raws: Iterable[object]) -> None:
        listed = dict(self._stored(raw) for raw in raws if isinstance(raw, dict))
        with self._lock:
            self._seen = listed

    def _change(self, event: str, raw: Mapping[str, Any]) -> None:
        place, found = self._stored(raw)
        with self._lock:
            if event == "DELETED":
                self._seen.pop(place, None)
            else:
                self._seen[place] = found

    def _stored(self, raw: Mapping[str, Any]) -> tuple[Place, StoredStatus]:
        metadata, status = raw["metadata"], raw.get("status")
        labels, status = metadata.get("labels") or {}, status if isinstance(status, dict) else {}
        is_ours = all(labels.get(key) == value for key, value in self._labels.items())
        return (metadata["namespace"], metadata["name"]), StoredStatus(
            metadata["uid"],
            metadata["resourceVersion"],
            is_ours,
            content_of(status) if is_ours else "",
            str(status.get("ledger", "")),
            str(status.get("updated", "")),
        )


def _is_about_all(error: ApiServerError, namespace: str) -> bool:
    """Whether the next object would meet the same error: the kind is missing, or the API server fails."""
    if not isinstance(error, RefusedError):
        return isinstance(error, UnreachableError)
    return error.status in (401, 429) or error.status >= 500 or (error.status == 404 and error.about != namespace)


def _different(wanted: Mapping[Place, Status | None], seen: Mapping[Place, StoredStatus]) -> Iterator[Place]:
    for place, status in wanted.items():
        found = seen.get(place)
        if status is None or (found is not None and not found.is_ours):
            continue
        if found is None or found.content != (status.get("content") or content_of(status)):
            yield place
    yield from (place for place, found in seen.items() if found.is_ours and place not in wanted)


class QuotaStatus(StatusObjects):
    """GPUQuota objects, for the installation whose ledgers are in the namespace `installation`."""

    kind, plural = "GPUQuota", "gpuquotas"

    def __init__(
        self,
        server: ApiServer,
        installation: str,
        *,
        timing: StatusTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(server, installation, logging.getLogger("gpu_policy.quota"), timing or StatusTiming(), clock)
        self._shown: Mapping[Place, Status | None] | None = None

    def show(self, statuses: Mapping[Place, Status]) -> None:
        self._shown = statuses

    def _wanted(self) -> Mapping[Place, Status | None] | None:
        return self._shown

    def _is_newer(self, stored: StoredStatus, wanted: Status) -> bool:
        """Whether the object was counted from a newer ledger. Resource versions are compared as numbers."""
        theirs, ours = stored.ledger[:20], str(wanted.get("ledger", ""))
        return theirs.isdecimal() and ours.isdecimal() and int(theirs) > int(ours)


NAME = "effective"
"""The name of the object of each namespace."""
MOST_HEARD = 100
"""Most namespaces without an object that are remembered from reviews; whoever reaches the port can make names up."""
_HEARD_SECONDS = 300.0
"""Time for which a replica tries to write the object of such a namespace."""

TIMING = StatusTiming(round=5.0, spread=5.0)


class PolicyObjects(StatusObjects):
    """EffectiveGPUPolicy objects, `kubectl get gpupolicies`: which policy a namespace has, for its people.

    Their kind differs from the kind of policy files, so that nobody takes one for the other. A namespace has one if a
    policy names it, or if a pod in it was reviewed. It stays until its namespace goes, and shows whatever policy the
    namespace has. No error here delays or changes an answer.
    """

    kind, plural = "EffectiveGPUPolicy", "gpupolicies"

    def __init__(
        self,
        namespace: str,
        kubeconfig: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        timing: StatusTiming = TIMING,
    ) -> None:
        """`namespace` is the namespace of the installation. `kubeconfig` is None in the cluster."""
        super().__init__(ApiServer(kubeconfig), namespace, logging.getLogger("gpu_policy.policies"), timing, clock)
        self._policies: PolicyStore | None = None
        self._heard: dict[str, float] = {}
        self._hearing = Lock()
        self._of: tuple[PolicySet, PolicyStatuses, dict[str, Status]] | None = None

    def follow(self, policies: PolicyStore) -> None:
        self._policies = policies

    def hear(self, request: AdmissionRequest, decision: Decision) -> None:
        if decision.outcome is None or request.is_dry_run or not decision.answer.is_allowed:
            return
        namespace = request.namespace
        if not namespace or namespace in self._heard or self.has((namespace, NAME)):
            return
        with self._hearing:
            if len(self._heard) < MOST_HEARD:
                self._heard[namespace] = self._clock()

    def _wanted(self) -> Mapping[Place, Status | None] | None:
        if self._policies is None:
            return None
        policies, now = self._policies.current, self._clock()
        if self._of is None or self._of[0] is not policies:
            self._of = policies, PolicyStatuses(policies), {}
        _, statuses, made = self._of
        ours = self.ours
        with self._hearing:
            self._heard = {
                one: since
                for one, since in self._heard.items()
                if now - since < _HEARD_SECONDS and (one, NAME) not in ours
            }
            heard = set(self._heard)
        wanted: dict[Place, Status | None] = {}
        for namespace in {*policies.names, *heard, *(namespace for namespace, name in ours if name == NAME)}:
            if namespace not in made:
                status = statuses.of(namespace)
                made[namespace] = {**status, "content": content_of(status)}
            wanted[namespace, NAME] = made[namespace]
        return wanted

    def _is_newer(self, stored: StoredStatus, wanted: Status) -> bool:  # noqa: ARG002  # the objects of quotas need it
        """Whether an object was written after this replica loaded its policies: its writer may have newer ones."""
        if self._policies is None:
            return True
        return stored.updated > self._now(ago=time.monotonic() - self._policies.status.loaded_at_monotonic)
