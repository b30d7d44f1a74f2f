"""What was heard of the pods of a cluster: who counts, and who went.

`PodTable` has the pods by uid and by namespace, and the uids of those that are gone.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from threading import Lock
from typing import Any

from webhook.facts.gpu_pods import StoredPod, stored_from_raw, uid_of
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.globs import is_glob, matcher


class PodTable:
    """GPU pods, and when each stops counting. `now` is always the API server's clock, in seconds since 1970."""

    def __init__(self) -> None:
        self._pods: dict[bytes, GpuPod] = {}
        self._in: dict[str, set[bytes]] = {}
        self._named: dict[str, dict[str, bytes]] = {}
        self._ends: dict[bytes, float] = {}  # of those few that have an end

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def put(self, pod: GpuPod, ends: float) -> None:
        """Add a pod, or what has changed of it."""
        self._pods[pod.uid] = pod
        self._in.setdefault(pod.namespace, set()).add(pod.uid)
        self._named.setdefault(pod.namespace, {})[pod.name] = pod.uid
        if ends < math.inf:
            self._ends[pod.uid] = ends
        else:
            self._ends.pop(pod.uid, None)

    def get(self, uid: bytes) -> tuple[GpuPod, float] | None:
        """A pod and when it ends, whether it still counts or not."""
        pod = self._pods.get(uid)
        return None if pod is None else (pod, self._ends.get(uid, math.inf))

    def remove(self, uid: bytes) -> bool:
        """Take a pod out; whether there was one."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return False
        self._ends.pop(uid, None)
        others = self._in[pod.namespace]
        others.discard(uid)
        named = self._named[pod.namespace]
        if named.get(pod.name) == uid:
            del named[pod.name]
        if not others:
            del self._in[pod.namespace], self._named[pod.namespace]
        return True

    def named(self, namespace: str, name: str) -> bytes | None:
        """The uid of the pod that was last put under a name, whether it still counts or not."""
        return self._named.get(namespace, {}).get(name)

    def counting(self, uids: Set[bytes], now: float) -> Set[bytes]:
        """Those that are here and count."""
        return (uids & self._pods.keys()) - self.ended(uids, now)

    def ended(self, uids: Set[bytes], now: float) -> Set[bytes]:
        """Those that are here and do not count any more."""
        return {uid for uid, ends in self._ends.items() if now > ends and uid in uids}

    def has_any_in(self, namespace: str) -> bool:
        """Whether some of the pods are in a namespace."""
        return namespace in self._in

    def seen(self, namespace: str | None, now: float) -> list[GpuPod]:
        """The pods that count, of one namespace or of all."""
        uids = self._pods if namespace is None else self._in.get(namespace, ())
        return [self._pods[uid] for uid in uids if now <= self._ends.get(uid, math.inf)]


class Gone:
    """Uids of pods that went, each remembered for `seconds` at least, unless `most` more went meanwhile.

    They are kept in two generations, so that forgetting costs nothing.
    """

    def __init__(self, seconds: float = 600.0, most: int = 100_000) -> None:
        self._seconds = seconds
        self._most = most
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()
        self._begun = -math.inf

    def __contains__(self, uid: object) -> bool:
        return uid in self._new or uid in self._old

    def among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those that are remembered."""
        return (uids & self._new) | (uids & self._old)

    def add(self, uid: bytes, now: float) -> None:
        """Remember one; `now` is a monotonic clock."""
        if now - self._begun >= self._seconds or len(self._new) >= self._most:
            self._old, self._new, self._begun = self._new, set(), now
        self._new.add(uid)

    def discard(self, uid: bytes) -> None:
        """Forget one, which is there after all."""
        self._new.discard(uid)
        self._old.discard(uid)


def is_covered(namespace: str, patterns: Collection[str]) -> bool:
    """Whether the namespace is one of those with these names and globs."""
    return namespace in patterns or any(is_glob(p) and matcher(p).fullmatch(namespace) for p in patterns)


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
