"""The ledgers of a replica with their reconciler, whose policies and clock are controlled by tests."""

import threading
from dataclasses import dataclass, field

from tests.ledger.bookkeeping import IN_FLIGHT, Replica
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.context import ReconcileIntervals
from webhook.ledger.reconciler import QuotasInForce, Reconciler
from webhook.quota.quotas import Quota

IDLE = 300.0


@dataclass
class InForce:
    """Policies that change when told to."""

    quotas: list[Quota] = field(default_factory=list)
    are_settled: bool = True
    named: tuple[str, ...] = ()

    def __call__(self) -> QuotasInForce:
        own = {quota.name: quota for quota in self.quotas if quota.scope == "namespace"}
        shared = [quota for quota in self.quotas if quota.scope == "shared"]
        return QuotasInForce(shared, own.get, self.named, self.are_settled, exist=bool(self.quotas))


class Kept(Replica):
    """A replica with its reconciler."""

    def keeping(self, *quotas: Quota) -> "Kept":
        self.in_force = InForce(list(quotas))
        self.shown: list[dict] = []
        self.begun = threading.Event()
        intervals = ReconcileIntervals(round=IN_FLIGHT, after_news=0.01, idle=IDLE)
        self.reconciler = Reconciler(
            self.ledgers, self.in_force, intervals=intervals, begin=self.begun.set, listener=self.shown.append
        )
        return self

    def beside(self, *quotas: Quota) -> "Kept":
        """Another replica, which has other policies."""
        return Kept(self.truth, self.store, self.clock, self.timing, groups=self.groups).keeping(*quotas)

    def store_pod(self, number: int, count: int = 1, namespace: str = "vision", *, heard: bool = True) -> None:
        """The API server stores a pod."""
        self.truth.store(seen_pod(number, namespace, count))
        if heard:
            self.view.catch_up()

    def rounds(self, count: int, apart: float = 10.0) -> None:
        for _ in range(count):
            self.reconciler.reconcile()
            self.clock.now += apart

    def pass_time(self, seconds: float) -> None:
        """Reconcile for longer than this many seconds."""
        self.rounds(int(seconds // 10) + 2)
