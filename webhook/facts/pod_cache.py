"""What was heard of the pods of a cluster: who counts, and who went."""

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from threading import Lock
from typing import Any

from webhook.facts.gpu_pods import StoredPod, stored_from_raw, uid_of
from webhook.facts.pod_table import Gone, PodTable
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators

_log = logging.getLogger("gpu_policy.quota")


class PodCache:
    """The GPU pods as lists and events told of them. One thread tells, any may ask.

    `now` is the API server's clock in seconds since 1970, `clock` a monotonic one.
    """

    def __init__(
        self, now: Callable[[], float], clock: Callable[[], float], accelerators: Accelerators = BUILT_IN
    ) -> None:
        self._now = now
        self._accelerators = accelerators
        self._clock = clock
        self._lock = Lock()
        self._table = PodTable()
        self._gone = Gone()
        self._complained = False

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those of the pods that were last heard of as some that count."""
        with self._lock:
            return self._table.counting(uids, self._now())

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those of the pods that were heard of and count no more."""
        with self._lock:
            return self._gone.among(uids) | self._table.ended(uids, self._now())

    def named(self, namespace: str, name: str) -> bytes | None:
        """The uid of the pod of this name that is there."""
        with self._lock:
            return self._table.named(namespace, name)

    def has_any_in(self, namespace: str) -> bool:
        """Whether a pod was heard of that is in a namespace."""
        return self._table.has_any_in(namespace)

    def seen(self, namespace: str | None = None) -> list[GpuPod]:
        """The pods that count, of one namespace or of all."""
        with self._lock:
            return self._table.seen(namespace, self._now())

    def replace(self, raws: Iterable[object]) -> bool:
        """Take the pods of a list for all there are: whoever is not among them went while nobody listened.

        Gives whether somebody went. What `raws` raises leaves everything as it was.
        """
        listed = PodTable()
        ended: list[bytes] = []
        for raw in raws:
            stored = self._read(raw)
            if stored is None or stored.seen is None:
                continue
            if self._now() > stored.ends:
                ended.append(stored.uid)
            else:
                listed.put(stored.seen, stored.ends)
        with self._lock:
            before, self._table = self._table, listed
            vanished = [uid for uid in before if uid not in listed]
            for uid in listed:
                self._gone.discard(uid)
            for uid in (*vanished, *ended):
                self._gone.add(uid, self._clock())
        return bool(vanished)

    def change(self, event: str, raw: Mapping[str, Any]) -> bool:
        """Hear of one pod; gives whether it went."""
        if event == "DELETED":
            try:
                return self._leave(uid_of(raw))
            except ValueError as error:
                self._pass_over(error)
                return False
        stored = self._read(raw)
        if stored is None:
            return False
        if self._now() > stored.ends:
            return self._leave(stored.uid)
        if stored.seen is not None:
            with self._lock:
                self._gone.discard(stored.uid)
                self._table.put(stored.seen, stored.ends)
        return False

    def _leave(self, uid: bytes) -> bool:
        with self._lock:
            counted = self._table.remove(uid)
            if counted:
                self._gone.add(uid, self._clock())
            return counted

    def _read(self, raw: object) -> StoredPod | None:
        """A pod, where nothing has changed the one that is known; also where it can no longer be read."""
        try:
            stored = stored_from_raw(raw, self._accelerators)
        except ValueError as error:
            self._pass_over(error)
            return self._known(raw)
        if stored.seen is not None and (known := self._table.get(stored.uid)) is not None:
            seen, _ = known
            if seen.pod == stored.seen.pod:
                return StoredPod(stored.uid, seen, stored.ends)
        return stored

    def _known(self, raw: object) -> StoredPod | None:
        try:
            uid = uid_of(raw)
        except ValueError:
            return None
        known = self._table.get(uid)
        return None if known is None else StoredPod(uid, *known)

    def _pass_over(self, error: ValueError) -> None:
        level = logging.DEBUG if self._complained else logging.WARNING
        self._complained = True
        _log.log(level, "a pod is passed over, and so are others of the kind without a word: %s", error)
