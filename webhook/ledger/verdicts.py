"""What the ledger is asked, and what it answers."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from webhook.quota.quotas import Demand, Excess, Limit, Quota


@dataclass(frozen=True, slots=True)
class Claim:
    """What a pod asks of one quota. One that is not `enforced` is entered even where it passes a limit."""

    quota: Quota
    demand: Demand
    enforced: bool = True


@dataclass(frozen=True, slots=True)
class Granted:
    """The pod is entered, or would be."""


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The pod passes these limits. It is not entered, unless the claim was not to be enforced."""

    excesses: tuple[Excess, ...]


@dataclass(frozen=True, slots=True)
class Withheld:
    """The pod would fit, but its namespace holds too much of a limit with entries whose pods are not stored. It is not
    entered.

    Amounts are in the unit of the limit: what the pod asks for, what those entries hold, and the most that they may.
    `settles` says that it may fit as soon as the pods of the last seconds are stored.
    """

    limit: Limit
    asks: Fraction
    held: Fraction
    most: Fraction
    settles: bool = False


@dataclass(frozen=True, slots=True)
class Crowded:
    """The entries of the pod's namespace would take more bytes of the ledger than their share. It is not entered."""

    bytes: int
    most: int


@dataclass(frozen=True, slots=True)
class AlreadyStored:
    """There is another pod with this name, so this one cannot be stored. It is not entered."""

    name: str


@dataclass(frozen=True, slots=True)
class InTreeExceeded:
    """A ResourceQuota of the namespace leaves too little for the pod, so it cannot be stored. It is not entered.

    `found` says which one, and what is left.
    """

    found: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The ledger could not be reached in time; the reason is for people. The pod may have been entered or not."""

    reason: str


Verdict = Granted | Exceeded | Withheld | Crowded | AlreadyStored | InTreeExceeded | Unanswered


class Observer(Protocol):
    """Is told how it goes, in the thread in which it goes."""

    def reserved(self, key: str, seconds: float) -> None:
        """A claim was answered, after this time."""
        ...

    def looked_up(self, seconds: float) -> None:
        """The pods of a quota's namespaces were listed, which took this long."""
        ...

    def conflicted(self, key: str) -> None:
        """Somebody else wrote at the same time; it is tried again."""
        ...

    def failed(self, key: str) -> None:
        """A claim was not answered."""
        ...

    def refused(self, key: str) -> None:
        """A claim that is enforced passed a limit."""
        ...

    def withheld(self, key: str, namespace: str) -> None:
        """A claim of this namespace was refused because of what its entries hold without stored pods."""
        ...

    def blocked(self, key: str, namespace: str) -> None:
        """A claim of another namespace was refused that would fit without what this one holds in that way."""
        ...


class Unobserved:
    """Tells nobody."""

    def reserved(self, key: str, seconds: float) -> None:
        """Nothing."""

    def looked_up(self, seconds: float) -> None:
        """Nothing."""

    def conflicted(self, key: str) -> None:
        """Nothing."""

    def failed(self, key: str) -> None:
        """Nothing."""

    def refused(self, key: str) -> None:
        """Nothing."""

    def withheld(self, key: str, namespace: str) -> None:
        """Nothing."""

    def blocked(self, key: str, namespace: str) -> None:
        """Nothing."""
