"""What ledgers work with, and how long things may take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

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
    longest_pause: float = 0.004
    """The longest wait before another attempt: about as long as a write takes. It does not grow, for whoever has waited
    longest would then be the last to write."""
    after_fault: float = 10.0
    """For so long after a claim that was not answered, further ones are given little time."""
    hurry: float = 0.5
    """The longest that these may wait: threads that wait for a store which is away cannot answer anybody else."""
    attempts_at_faults: int = 3
    """How often one write is tried where the store does not answer."""


@dataclass(frozen=True, slots=True)
class Means:
    """What ledgers work with, the same for all. `clock` is monotonic, in seconds."""

    store: Store
    pods: Pods
    timing: Timing = field(default_factory=Timing)
    observer: Observer = field(default_factory=Unobserved)
    clock: Clock = time.monotonic
