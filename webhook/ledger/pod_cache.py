"""The GPU pods of a cluster in memory: which of them count against quotas, and which are gone.

`PodTable` has the pods by uid and by namespace; `GonePods` has the uids of pods that are gone; `PodCache` keeps both.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from operator import attrgetter
from threading import Lock
from typing import Any, NamedTuple

from webhook.ledger.gpu_pods import StoredPod, stored_from_raw, uid_of
from webhook.ledger.ledger_store import GpuPod
from webhook.model.globs import is_glob, matcher


class PodTable:
    """GPU pods, and when each stops counting. `now` is always the API server's clock, in seconds since 1970."""

    def __init__(self) -> None:
        self._pods: dict[bytes, GpuPod] = {}
        self._in: dict[str, set[bytes]] = {}
        self._named: dict[str, dict[str, bytes]] = {}
        self._ends: dict[bytes, float] = {}  # only of pods that end, which are few
        self._made: dict[bytes, dict[bytes, GpuPod]] = {}  # reservation or pod -> uid -> claim that was made for it
        self._gated: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def put(self, pod: GpuPod, ends: float) -> None:
        if (before := self._pods.get(pod.uid)) is not None:
            self._forget_made(before)
        self._pods[pod.uid] = pod
        self._in.setdefault(pod.namespace, set()).add(pod.uid)
        self._named.setdefault(pod.namespace, {})[pod.name] = pod.uid
        for key in filter(None, (pod.takes_over, pod.extends)):
            self._made.setdefault(key, {})[pod.uid] = pod
        if pod.is_gated:
            self._gated.add(pod.uid)
        else:
            self._gated.discard(pod.uid)
        if ends < math.inf:
            self._ends[pod.uid] = ends
        else:
            self._ends.pop(pod.uid, None)

    def get(self, uid: bytes) -> tuple[GpuPod, float] | None:
        """A pod, counting or not, and the time when it stops counting."""
        pod = self._pods.get(uid)
        return None if pod is None else (pod, self._ends.get(uid, math.inf))

    def remove(self, uid: bytes) -> GpuPod | None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._ends.pop(uid, None)
        self._gated.discard(uid)
        self._forget_made(pod)
        others = self._in[pod.namespace]
        others.discard(uid)
        named = self._named[pod.namespace]
        if named.get(pod.name) == uid:
            del named[pod.name]
        if not others:
            del self._in[pod.namespace], self._named[pod.namespace]
        return pod

    def named(self, namespace: str, name: str) -> bytes | None:
        return self._named.get(namespace, {}).get(name)

    def counting(self, uids: Set[bytes], now: float) -> Set[bytes]:
        return (uids & self._pods.keys()) - self.ended(uids, now)

    def ended(self, uids: Set[bytes], now: float) -> Set[bytes]:
        return {uid for uid, ends in self._ends.items() if now > ends and uid in uids}

    def gated(self, uids: Set[bytes]) -> Set[bytes]:
        return uids & self._gated

    def taken_over(self, keys: Set[bytes]) -> Set[bytes]:
        return {one.takes_over for key in keys & self._made.keys() for one in self._made[key].values()} & keys

    def standing_for(self, pods: Set[bytes]) -> list[GpuPod]:
        return [one for uid in pods & self._made.keys() for one in self._made[uid].values() if one.extends == uid]

    def _forget_made(self, claim: GpuPod) -> None:
        for key in filter(None, (claim.takes_over, claim.extends)):
            del self._made[key][claim.uid]
            if not self._made[key]:
                del self._made[key]

    def is_in(self, uid: bytes, namespace: str) -> bool:
        pod = self._pods.get(uid)
        return pod is not None and pod.namespace == namespace

    def has_any_in(self, namespace: str) -> bool:
        return namespace in self._in

    def seen(self, namespace: str | None, now: float) -> list[GpuPod]:
        uids = self._pods if namespace is None else self._in.get(namespace, ())
        return [self._pods[uid] for uid in uids if now <= self._ends.get(uid, math.inf)]


class Reservations:
    """The keys of reservations, and the pods that they belong to: each counts as long as its pod does.

    A reservation is an entry in a ledger that holds room for a resource claim which Kubernetes makes for a pod.
    """

    def __init__(self) -> None:
        self._keys: dict[bytes, tuple[bytes, ...]] = {}
        self._pods: dict[bytes, bytes] = {}
        self._ends: dict[bytes, float] = {}  # only of pods that end, which are few

    def put(self, pod: bytes, keys: tuple[bytes, ...], ends: float) -> None:
        self._keys[pod] = keys
        self._pods |= dict.fromkeys(keys, pod)
        if ends < math.inf:
            self._ends[pod] = ends
        else:
            self._ends.pop(pod, None)

    def remove(self, pod: bytes) -> tuple[bytes, ...]:
        keys = self._keys.pop(pod, ())
        self._ends.pop(pod, None)
        for key in keys:
            self._pods.pop(key, None)
        return keys

    def of(self, pods: Iterable[bytes]) -> Set[bytes]:
        return {key for pod in pods for key in self._keys.get(pod, ())}

    @property
    def keys(self) -> Set[bytes]:
        return self._pods.keys()

    def counting(self, keys: Set[bytes], now: float) -> Set[bytes]:
        return (keys & self._pods.keys()) - self.ended(keys, now)

    def ended(self, keys: Set[bytes], now: float) -> Set[bytes]:
        return self.of(pod for pod, ends in self._ends.items() if now > ends) & keys


class Member(NamedTuple):
    """A stored pod of a group: its part, and whether it has GPUs."""

    part: str
    has_gpus: bool


class GroupMembers:
    """The stored pods of each group that starts together, by namespace and the text of the group."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[bytes, Member]] = {}
        self._of: dict[bytes, tuple[tuple[str, str], ...]] = {}

    def put(self, stored: StoredPod) -> None:
        """Take note of a pod. One that is being deleted does not count as a member."""
        self.remove(stored.uid)
        if stored.groups and stored.ends == math.inf:
            self._of[stored.uid] = tuple((one.namespace, one.text) for one in stored.groups)
            for one in stored.groups:
                member = Member(one.part, stored.gpu_pod is not None or bool(stored.reserved))
                self._groups.setdefault((one.namespace, one.text), {})[stored.uid] = member

    def remove(self, uid: bytes) -> None:
        for place in self._of.pop(uid, ()):
            del self._groups[place][uid]
            if not self._groups[place]:
                del self._groups[place]

    def of(self, namespace: str, text: str) -> dict[bytes, Member]:
        return dict(self._groups.get((namespace, text), {}))


class GonePods:
    """Uids of pods that are gone, and the claims among them that were made for extended resources of a pod.

    Each is kept for at least `seconds`, unless `most` more pods go meanwhile.

    They are kept in two generations, so that dropping old uids takes no time.
    """

    def __init__(self, seconds: float = 600.0, most: int = 100_000) -> None:
        self._seconds = seconds
        self._most = most
        self._new: dict[bytes, GpuPod | None] = {}
        self._old: dict[bytes, GpuPod | None] = {}
        self._begun = -math.inf

    def __contains__(self, uid: object) -> bool:
        return uid in self._new or uid in self._old

    def among(self, uids: Set[bytes]) -> Set[bytes]:
        return (uids & self._new.keys()) | (uids & self._old.keys())

    def extending(self, uids: Set[bytes], pods: Set[bytes]) -> list[GpuPod]:
        """The claims that were made for extended resources of a pod: these, and those of these pods."""
        of_pods = (one for gone in (self._old, self._new) for one in gone.values() if one and one.extends in pods)
        return [*filter(None, (self._new.get(uid) or self._old.get(uid) for uid in uids)), *(of_pods if pods else ())]

    def add(self, uid: bytes, now: float, pod: GpuPod | None = None) -> None:
        if now - self._begun >= self._seconds or len(self._new) >= self._most:
            self._old, self._new, self._begun = self._new, {}, now
        self._new[uid] = pod if pod is not None and pod.extends else None

    def discard(self, uid: bytes) -> None:
        self._new.pop(uid, None)
        self._old.pop(uid, None)


def is_covered(namespace: str, patterns: Collection[str]) -> bool:
    """Whether a namespace is among these names and globs."""
    return namespace in patterns or any(is_glob(p) and matcher(p).fullmatch(namespace) for p in patterns)


_log = logging.getLogger("gpu_policy.quota")

_COUNTED = attrgetter("pod", "requests", "node", "is_gated")


class PodCache:
    """The GPU pods, or the resource claims, as the last lists and events had them. One thread writes, any may ask.

    `now` is the API server's clock in seconds since 1970; `clock` is monotonic. `read` reads an object, and raises
    ValueError where it cannot.
    """

    def __init__(
        self,
        now: Callable[[], float],
        clock: Callable[[], float],
        read: Callable[[object], StoredPod] = stored_from_raw,
    ) -> None:
        self._now = now
        self._read_object = read
        self._clock = clock
        self._lock = Lock()
        self._table = PodTable()
        self._gone = GonePods()
        self._on_gone: Callable[[], None] = lambda: None
        self._reservations = Reservations()
        self._members = GroupMembers()
        self._has_warned = False

    def listen(self, gone: Callable[[], None]) -> None:
        """Call `gone` in the thread that writes after pods that counted were deleted or have finished.

        It has to be quick. It is not called for pods whose deletion is overdue, although `gone_among` has them.
        """
        self._on_gone = gone

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        with self._lock:
            now = self._now()
            return self._table.counting(uids, now) | self._reservations.counting(uids, now)

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        with self._lock:
            now = self._now()
            return self._gone.among(uids) | self._table.ended(uids, now) | self._reservations.ended(uids, now)

    def gated_among(self, uids: Set[bytes]) -> Set[bytes]:
        with self._lock:
            return self._table.gated(uids)

    def taken_over(self, keys: Set[bytes]) -> Set[bytes]:
        with self._lock:
            return self._table.taken_over(keys)

    def standing_for(self, pods: Set[bytes]) -> list[GpuPod]:
        with self._lock:
            return self._table.standing_for(pods)

    def gone_extending(self, uids: Set[bytes], pods: Set[bytes] = frozenset()) -> list[GpuPod]:
        """As `GonePods.extending`."""
        with self._lock:
            return self._gone.extending(uids, pods)

    def is_in(self, uid: bytes, namespace: str) -> bool:
        return self._table.is_in(uid, namespace)

    def reserved_by(self, pods: Iterable[bytes]) -> Set[bytes]:
        with self._lock:
            return self._reservations.of(pods)

    def members(self, namespace: str, group: str) -> dict[bytes, Member]:
        """The stored pods of a group by their uids, by the `text` of the group."""
        with self._lock:
            return self._members.of(namespace, group)

    def named(self, namespace: str, name: str) -> bytes | None:
        with self._lock:
            return self._table.named(namespace, name)

    def has_any_in(self, namespace: str) -> bool:
        return self._table.has_any_in(namespace)

    def seen(self, namespace: str | None = None) -> list[GpuPod]:
        with self._lock:
            return self._table.seen(namespace, self._now())

    def replace(self, raws: Iterable[object]) -> None:
        """Replace all pods by the pods of a list; others are gone. If `raws` raises an error, nothing changes."""
        listed, reservations, members = PodTable(), Reservations(), GroupMembers()
        ended: list[bytes] = []
        for raw in raws:
            stored = self._read(raw)
            if stored is None or (stored.gpu_pod is None and not stored.reserved and not stored.groups):
                continue
            members.put(stored)
            if self._now() > stored.ends:
                ended += (stored.uid, *stored.reserved)
                continue
            if stored.gpu_pod is not None:
                listed.put(stored.gpu_pod, stored.ends)
            if stored.reserved:
                reservations.put(stored.uid, stored.reserved, stored.ends)
        with self._lock:
            self._members = members
            before, self._table = self._table, listed
            reserved, self._reservations = self._reservations, reservations
            vanished = [*(uid for uid in before if uid not in listed), *(reserved.keys - reservations.keys)]
            for uid in (*listed, *reservations.keys):
                self._gone.discard(uid)
            for uid in (*vanished, *ended):
                known = before.get(uid)
                self._gone.add(uid, self._clock(), known and known[0])
        if vanished:
            self._on_gone()

    def change(self, event: str, raw: Mapping[str, Any]) -> None:
        if event == "DELETED":
            try:
                self._leave(uid_of(raw))
            except ValueError as error:
                self._ignore(error)
            return
        stored = self._read(raw)
        if stored is None:
            return
        if self._now() > stored.ends:
            self._leave(stored.uid)
            return
        with self._lock:
            self._members.put(stored)
            if stored.gpu_pod is not None:
                self._gone.discard(stored.uid)
                self._table.put(stored.gpu_pod, stored.ends)
            if stored.reserved:
                self._reservations.put(stored.uid, stored.reserved, stored.ends)

    def _leave(self, uid: bytes) -> None:
        with self._lock:
            self._members.remove(uid)
            left = dict.fromkeys(self._reservations.remove(uid))
            if (pod := self._table.remove(uid)) is not None:
                left[uid] = pod
            for key, gone in left.items():
                self._gone.add(key, self._clock(), gone)
        if left:
            self._on_gone()

    def _read(self, raw: object) -> StoredPod | None:
        try:
            stored = self._read_object(raw)
        except ValueError as error:
            self._ignore(error)
            return self._known(raw)
        if (known := self._table.get(stored.uid)) is not None and (stored.gpu_pod or known[0].pod.fractions):
            seen, read = known[0], stored.gpu_pod or known[0]
            if seen.pod.fractions != read.pod.fractions:
                read = replace(read, pod=seen.pod)  # what it asked for by annotations when it came
            if _COUNTED(seen) == _COUNTED(read):
                return replace(stored, gpu_pod=seen)
            return replace(stored, gpu_pod=read)
        return stored

    def _known(self, raw: object) -> StoredPod | None:
        try:
            uid = uid_of(raw)
        except ValueError:
            return None
        known = self._table.get(uid)
        return None if known is None else StoredPod(uid, *known, tuple(self._reservations.of([uid])))

    def _ignore(self, error: ValueError) -> None:
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        _log.log(level, "a pod is ignored: %s; further ones are logged at level debug", error)
