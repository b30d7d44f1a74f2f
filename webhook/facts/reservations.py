"""The keys of reservations, and the pods that they belong to: each counts as long as its pod does.

A reservation is an entry in a ledger that holds room for a resource claim which Kubernetes makes for a pod.
"""

import math
from collections.abc import Iterable, Set


class Reservations:
    """The keys of the pods in a cluster. `now` is always the API server's clock, in seconds since 1970."""

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
