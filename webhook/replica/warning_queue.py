"""Warned pods that wait for their Events: each warning once an hour, a bounded number, and namespaces in turn."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock

from webhook.admission.warned_pods import HeardWarnings, WarnedPod

MOST_WAITING = 200
"""Most pods that wait; at 20 Events a minute the last of them is told after ten minutes."""
MOST_TOLD = 20_000
"""Most warnings that are remembered as told; one more makes room by forgetting all of them."""
SETTLE_SECONDS = 3.0
"""Seconds from the answer about a pod until it is looked for: by then the API server has usually stored it."""
INJECTIONS = ""
"""Stands for the rule in the warnings of a pod that has yet to be asked what rules would inject."""

_Key = tuple[str, str, str]
"""Namespace, uid of the controller, and rule."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    pod: WarnedPod
    due: float


class WarningQueue:
    """Pods by namespace. The namespaces take turns. Threads may share it; nobody waits for more than a moment.

    `hour` is the number of the present hour, by which warnings may be repeated. `clock` is in seconds.
    """

    def __init__(self, hour: Callable[[], int], clock: Callable[[], float], most: int = MOST_WAITING) -> None:
        self._hour_now = hour
        self._clock = clock
        self._most = most
        self._hour = hour()
        self._told: set[_Key] = set()
        self._lanes: dict[str, deque[_Waiting]] = {}
        self._count = 0
        self._lock = Lock()

    def __len__(self) -> int:
        """Pods that wait."""
        return self._count

    def add(self, heard: HeardWarnings) -> int:
        """Let a pod wait if anything about it is new in this hour. Returns how many pods were dropped: 0 or 1.

        If there is no room, the last pod of the longest lane is dropped, or this one if its lane would be the longest.
        """
        keys = _keys(heard.namespace, heard.controller, heard.rules, may_lack=heard.may_lack)
        if self._hour == self._hour_now() and self._told.issuperset(keys):
            return 0
        dropped = 0
        with self._lock:
            self._turn()
            if self._told.issuperset(keys):
                return 0
            if self._count >= self._most:
                dropped = 1
                if not self._makes_room(heard.namespace):
                    return dropped
            self._tell(keys)
            waiting = _Waiting(heard.pod(), self._clock() + SETTLE_SECONDS)
            self._lanes.setdefault(heard.namespace, deque()).append(waiting)
            self._count += 1
        return dropped

    def take(self) -> WarnedPod | None:
        """The next pod that has waited long enough; None if there is none."""
        with self._lock:
            now = self._clock()
            for namespace, lane in self._lanes.items():
                if lane[0].due <= now:
                    del self._lanes[namespace]
                    pod = lane.popleft().pod
                    if lane:
                        self._lanes[namespace] = lane  # behind the others
                    self._count -= 1
                    return pod
            return None

    def claim(self, pod: WarnedPod, rule: str) -> bool:
        """Whether a warning of this rule about the controller of the pod is new in this hour; it no longer is."""
        with self._lock:
            self._turn()
            key = (pod.namespace, pod.controller, rule)
            if key in self._told:
                return False
            self._tell([key])
            return True

    def forget(self, pod: WarnedPod, rules: Iterable[str] = ()) -> None:
        """Let warnings about the controller of the pod be new again: of these rules, or all that the pod waited for."""
        keys = [(pod.namespace, pod.controller, rule) for rule in rules] or _keys_of(pod)
        with self._lock:
            self._told.difference_update(keys)

    def _turn(self) -> None:
        """Begin another hour, also if the clock was set back: the API server refuses an Event that it has."""
        hour = self._hour_now()
        if hour != self._hour:
            self._hour, self._told = hour, set()

    def _tell(self, keys: Iterable[_Key]) -> None:
        if len(self._told) >= MOST_TOLD:
            self._told = set()
        self._told.update(keys)

    def _makes_room(self, namespace: str) -> bool:
        longest = max(self._lanes.values(), key=len)
        if len(longest) <= len(self._lanes.get(namespace, ())) + 1:
            return False
        self._told.difference_update(_keys_of(longest.pop().pod))  # of two pods or more, so the lane stays
        self._count -= 1
        return True


def _keys_of(pod: WarnedPod) -> list[_Key]:
    return _keys(pod.namespace, pod.controller, pod.warnings, may_lack=pod.may_lack)


def _keys(namespace: str, controller: str, rules: Iterable[str], *, may_lack: bool) -> list[_Key]:
    keys = [(namespace, controller, rule) for rule in rules]
    return [*keys, (namespace, controller, INJECTIONS)] if may_lack else keys


class Allowance:
    """Allows an act at most `most` times in any `seconds`. Used by one thread."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._acts: deque[float] = deque(maxlen=most)
        self._most = most

    @property
    def has_room(self) -> bool:
        """Whether one more act is allowed now."""
        return len(self._acts) < self._most or self._clock() - self._acts[0] >= self._seconds

    def take(self) -> bool:
        """Count one act if it is allowed; returns whether it is."""
        if not self.has_room:
            return False
        self._acts.append(self._clock())
        return True
