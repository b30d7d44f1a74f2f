"""What ledgers work with, and how long things may take.

`Seats` bounds how many threads wait for pods to be stored: some have to be left for other requests.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from webhook.ledger.ledger_store import LedgerStore, Pods
from webhook.ledger.verdicts import Observer, Unobserved

_MOST = 10


class Seats:
    """Seats of one replica. A namespace takes one only while more are free than it has: half of them alone, so that
    some are left for whoever has none. Threads may share it.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._free = most
        self._lock = Lock()
        self._taken: dict[str, int] = {}

    def take(self, namespace: str) -> bool:
        """Take a seat for a pod of a namespace; False where it gets none."""
        with self._lock:
            taken = self._taken.get(namespace, 0)
            if taken >= self._free:
                return False
            self._taken[namespace] = taken + 1
            self._free -= 1
            return True

    def leave(self, namespace: str) -> None:
        """Give one back."""
        with self._lock:
            self._free += 1
            left = self._taken.pop(namespace) - 1
            if left:
                self._taken[namespace] = left


Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LedgerTiming:
    """How long things may take, in seconds."""

    in_flight: float = 90.0
    """Longer than any admission takes from our answer to the stored pod: the API server gives a request up after its
    `--request-timeout`, 60 seconds unless set otherwise, and half as much is added for what is slow to give up."""
    look_up_every: float = 2.0
    """Pods are listed for refusals at most this often, and less often where that takes long."""
    one_call: float = 5.0
    """The longest that one call may take where nobody waits for the answer."""
    settling: float = 3.0
    """How long a pod may take from its entry until it is stored and heard of, before its entry is overdue."""
    waits: tuple[float, ...] = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 0.64, 0.64)
    """The pauses after which a pod asks again that waits until others of its namespace are stored."""
    confirm_every: float = 0.2
    """The pods of a namespace are listed at most this often to learn which of them are stored."""
    longest_pause: float = 0.004
    """The longest wait before another attempt: about as long as a write takes. It does not grow, for whoever has waited
    longest would then be the last to write."""
    gathering: float = 0.016
    """For so long a write waits for more pods, where several replicas write and pods come together: each write takes as
    much of the API server as some pods do."""
    after_fault: float = 10.0
    """For so long after a claim that was not answered, further ones are given little time."""
    hurry: float = 0.5
    """The longest that these may wait: threads that wait for a store which is away cannot answer anybody else."""
    attempts_at_faults: int = 3
    """How often one write is tried where the store does not answer."""


@dataclass(frozen=True, slots=True)
class LedgerContext:
    """What ledgers work with, the same for all. `clock` is monotonic, in seconds.

    `is_bounded` says that what a namespace may hold is bounded, as of entries whose pods are not stored: not so for
    files that are judged, which nobody stores.
    """

    store: LedgerStore
    pods: Pods
    timing: LedgerTiming = field(default_factory=LedgerTiming)
    observer: Observer = field(default_factory=Unobserved)
    clock: Clock = time.monotonic
    is_bounded: bool = False
    seats: Seats = field(default_factory=Seats)
    """For pods that wait until others of their namespace are stored."""
    tells_usage: bool = True
    """Whether refusals say how much is in use, and by which pods of the namespace that asks."""


LONGEST_ROUND = 10.0
"""Seconds from one reconciliation to the next, where nothing asks for a shorter time."""

LEAST_IDLE = 600.0
"""Seconds after which a ledger that nobody has changed may be of no use."""


@dataclass(frozen=True, slots=True)
class ReconcileIntervals:
    """How often things are done, in seconds."""

    round: float = LONGEST_ROUND
    """From one reconciliation to the next, a third more or less."""
    after_news: float = 0.5
    """The longest wait between hearing that a pod is gone and striking its entry."""
    one_round: float = 60.0
    """The longest that one ledger may take."""
    idle: float = LEAST_IDLE
    """After this long without a change a ledger is removed whose quota is no more, or that of a namespace without
    entries, which the next pod begins anew."""
