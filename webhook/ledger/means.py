"""What ledgers work with, and how long things may take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from webhook.ledger.seats import Seats
from webhook.ledger.store import Pods, Store
from webhook.ledger.verdicts import Observer, Unobserved

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Timing:
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
    gathering: float = 0.008
    """For so long a write waits for more pods, where several replicas write and pods come together: each write takes as
    much of the API server as some pods do."""
    taking_back: tuple[float, ...] = (0.02, 0.04, 0.08, 0.16)
    """The pauses before a refusal, as long as somebody has appended entries a moment ago and may take them back."""
    after_fault: float = 10.0
    """For so long after a claim that was not answered, further ones are given little time."""
    hurry: float = 0.5
    """The longest that these may wait: threads that wait for a store which is away cannot answer anybody else."""
    attempts_at_faults: int = 3
    """How often one write is tried where the store does not answer."""


@dataclass(frozen=True, slots=True)
class Appending:
    """When entries are appended to a book that several replicas write, without looking at it first."""

    is_on: bool = True
    """Whether it is done at all."""
    alone_after: int = 8
    """Until so many writes in a row have met nobody else's."""
    room: int = 4
    """Where so many times as much would fit: as much as other replicas may append meanwhile."""
    longest: int = 512
    """Where no demand takes more bytes, which each such entry has by itself."""
    most: int = 256
    """Where a book has fewer entries that are appended."""
    largest: int = 10_000
    """Where a book has fewer entries in all, since all of it comes back."""
    settled_from: int = 12
    """A replica that has appended so many has them last with the next one."""


NOT_APPENDED = Appending(is_on=False, alone_after=1)
"""Every write is one of the whole book."""


@dataclass(frozen=True, slots=True)
class Means:
    """What ledgers work with, the same for all. `clock` is monotonic, in seconds.

    `is_bounded` says that what a namespace may hold is bounded, as of entries whose pods are not stored: not so for
    files that are judged, which nobody stores.
    """

    store: Store
    pods: Pods
    timing: Timing = field(default_factory=Timing)
    observer: Observer = field(default_factory=Unobserved)
    clock: Clock = time.monotonic
    is_bounded: bool = False
    appending: Appending = field(default_factory=Appending)
    seats: Seats = field(default_factory=Seats)
    """For pods that wait until others of their namespace are stored."""
    tells_usage: bool = True
    """Whether refusals say how much is in use, and by which pods of the namespace that asks."""
