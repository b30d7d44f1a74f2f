"""What all ledgers of a replica share: store, pods, clock, observer, and how long things may take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webhook.ledger.ledger_store import LedgerStore, Pods

if TYPE_CHECKING:  # without a cluster no group is read
    from webhook.ledger.group_reader import GroupSource


class Observer:
    """Counts what happens to ledgers. It is called in the thread in which that happens; here it counts nothing."""

    def reserved(self, key: str, seconds: float) -> None:
        """A request was answered after this time."""

    def looked_up(self, seconds: float) -> None:
        """The pods of a quota's namespaces were listed, which took this long."""

    def conflicted(self, key: str) -> None:
        """Another replica wrote at the same time; the write is tried again."""

    def repaired(self) -> None:
        """A damaged ledger was written anew."""

    def failed(self, key: str) -> None:
        """A request was not answered."""

    def refused(self, key: str) -> None:
        """An enforced request was refused."""


Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LedgerTiming:
    """How long things may take, in seconds."""

    in_flight: float = 90.0
    """Longer than any admission takes from our answer to the stored pod. The API server gives a request up after its
    `--request-timeout`, 60 seconds by default; half as much is added for requests that are slow to end."""
    look_up_every: float = 2.0
    """Pods are listed before refusals at most this often, and less often where a list takes long."""
    one_call: float = 5.0
    """Longest time of one call to the API server that no request waits for."""
    longest_pause: float = 0.004
    """Longest pause before another attempt to write, about as long as a write takes. It does not grow, because the pod
    that has waited longest would then be the last to be written."""
    batch_window: float = 0.016
    """Time for which a write waits for more pods, where several replicas write and pods come together. A write costs
    the API server as much as some pods do."""
    after_fault: float = 10.0
    """Time after an unanswered request in which further requests may wait for `wait_after_fault` only."""
    wait_after_fault: float = 0.5
    """Longest wait of a request after a fault: a thread that waits for a lost API server answers nothing else."""
    attempts_at_faults: int = 3
    """How often one write is tried where the store does not answer."""


@dataclass(frozen=True, slots=True)
class LedgerContext:
    """What ledgers work with. `clock` is monotonic, in seconds."""

    store: LedgerStore
    pods: Pods
    timing: LedgerTiming = field(default_factory=LedgerTiming)
    observer: Observer = field(default_factory=Observer)
    clock: Clock = time.monotonic
    is_bounded: bool = False
    """Whether a namespace may hold only a part of a shared quota with unconfirmed entries. False for pods in files,
    which are never stored."""
    tells_usage: bool = True
    """Whether refusals say how much is in use, and by which pods of the requesting namespace."""
    groups: "GroupSource | None" = None
    """Reads the groups that pods name; without it, every pod counts by itself."""
    wall: Clock = time.time
    """Seconds since 1970, by which all replicas measure the leases of groups."""


LONGEST_ROUND = 10.0
"""Longest time between two reconciliations, in seconds."""

LEAST_IDLE = 600.0
"""Shortest time in seconds after which an unchanged ledger is removed."""


@dataclass(frozen=True, slots=True)
class ReconcileIntervals:
    """How often ledgers are reconciled, in seconds."""

    round: float = LONGEST_ROUND
    """Time between two reconciliations, a third more or less."""
    after_news: float = 0.5
    """Longest time from hearing that a pod is gone to removing its entry."""
    one_round: float = 60.0
    """Longest time that one ledger may take."""
    idle: float = LEAST_IDLE
    """Time without a change after which a ledger is removed if its quota is gone, or if it is of one namespace and has
    no entries. The next pod creates the ledger anew."""
