"""The GPU pods that were heard of, by uid and by namespace, and the uids of those that went."""

import math
from collections.abc import Collection, Iterator, Set

from webhook.ledger.ledger_store import GpuPod
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
