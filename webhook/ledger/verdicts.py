"""What a ledger is asked, and what it answers."""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction

from webhook.ledger.entries import reservation_key
from webhook.ledger.remainders import GroupRequest, Remainder
from webhook.quota.quotas import Demand, Excess, Quota


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """What a pod would use of one quota. A pod whose request is not `enforced` gets an entry even beyond a limit.

    `reserved` is the part of a pod's demand that claims will take over when Kubernetes has made them: each by its name
    in the pod. A pod gets one entry for what is left, `own`, and one for each of these. `group` is what the pod starts
    together with; None for a pod that may start alone.
    """

    quota: Quota
    demand: Demand
    enforced: bool = True
    reserved: tuple[tuple[str, Demand], ...] = ()
    own: Demand | None = None
    group: GroupRequest | None = None

    def entries(self, uid: bytes) -> dict[bytes, Demand]:
        if not self.reserved:
            return {uid: self.demand}
        own = {} if self.own is None else {uid: self.own}
        namespace = self.demand.namespace
        return own | {reservation_key(namespace, uid, name): demand for name, demand in self.reserved}


@dataclass(frozen=True, slots=True)
class Granted:
    """The pod has an entry; a dry run would have one."""


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The pod exceeds these limits. It gets no entry, unless its request is not enforced.

    `group` is the name of the group that does not fit as a whole, and `pods` how many pods of it ask for room together;
    empty for a pod that asks for itself.
    """

    excesses: tuple[Excess, ...]
    group: str = ""
    pods: int = 1


@dataclass(frozen=True, slots=True)
class TooManyUnconfirmed:
    """The pod would fit, but unconfirmed entries of its namespace hold too much of a limit. It gets no entry.

    `excess.used` is what these entries hold, `most` what they may hold together with the pod. If they hold nothing,
    the namespace had a pod lately that was admitted and never stored.
    """

    excess: Excess
    most: Fraction


@dataclass(frozen=True, slots=True)
class LedgerFull:
    """With the pod, its namespace would have more different demands than a ledger takes. It gets no entry."""

    demands: int
    most: int


@dataclass(frozen=True, slots=True)
class AlreadyStored:
    """Another pod has this name, so the API server will not store this one. It gets no entry."""

    name: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The ledger did not answer; `reason` is for people, `code` as in LedgerError. The pod may have an entry or not."""

    reason: str
    code: int = 503


KeptOut = TooManyUnconfirmed | LedgerFull | AlreadyStored
"""Verdicts on a pod that would fit, and is kept out because of other pods in its namespace."""

Verdict = Granted | Exceeded | KeptOut | Unanswered


@dataclass(slots=True)
class PendingEntry:
    """A pod that waits for an entry. `deadline` is on the monotonic clock. A dry run gets a verdict and no entry.

    `takes_over` is the key of an entry whose room this entry takes if it needs no more; empty for none. `stands_for`
    says that it is the entry of a pod: what it counts goes on to count. `starts` says that the pod is stored already
    and loses its last scheduling gate: an entry that it has is renewed.
    """

    uid: bytes
    request: QuotaRequest
    deadline: float
    is_dry_run: bool = False
    takes_over: bytes = b""
    stands_for: bool = False
    starts: bool = False
    verdict: Verdict | None = None


@dataclass(slots=True)
class Correction:
    """Entries that a reconciliation adds and removes. From then on the ledger covers only namespaces in `patterns`.

    `is_done` is False until the correction is written. An entry that was renewed after `decided`, on the monotonic
    clock, is not removed.
    """

    added: Mapping[bytes, Demand] = field(default_factory=dict)
    removed: Set[bytes] = frozenset()
    patterns: frozenset[str] | None = None
    remainders: Mapping[bytes, tuple[Remainder, Remainder | None]] = field(default_factory=dict)
    """Key -> a remainder as it was judged, and what becomes of it, unless it has changed since."""
    deadline: float = 0.0
    decided: float = math.inf
    is_done: bool = False
