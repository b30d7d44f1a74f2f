"""What the ledger is asked, and what it answers."""

from dataclasses import dataclass
from typing import Protocol

from webhook.quota.quota import Demand, Excess, Quota


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
class Unanswered:
    """The ledger could not be reached in time; the reason is for people. The pod may have been entered or not."""

    reason: str


Verdict = Granted | Exceeded | Unanswered


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
