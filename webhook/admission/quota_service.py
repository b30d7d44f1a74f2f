"""The quotas of one replica: its ledgers, the reconciler, and what is published about usage."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from webhook.admission.metrics import Metrics
from webhook.admission.quota_metrics import QuotaMetrics
from webhook.engine.quota_usage import Place, Status, quota_usages, statuses
from webhook.facts.facts import ClusterFacts
from webhook.ledger.context import LEAST_IDLE, LONGEST_ROUND, LedgerContext, LedgerTiming, ReconcileIntervals
from webhook.ledger.group_reader import GroupReader
from webhook.ledger.ledger_store import LedgerStore, Pods
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.reconciler import QuotasInForce, Reconciler
from webhook.policy.policy_store import HELD_SECONDS, PolicyStore
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Quota, QuotaScope

_ROUNDS = 1 / 9
"""Longest time between two reconciliations, as a share of the time that an admission may take."""
_IDLE = 2
"""An unused ledger is removed when it has not changed for this many times the time of an admission."""


class WatchedPods(Pods, Protocol):
    """Pods that are watched from `start` to `close`."""

    def know(self, cluster: Callable[[], ClusterFacts | None]) -> None:
        """Set where DeviceClasses and nodes are looked up; `cluster` returns None while nothing is known yet."""
        ...

    def listen(self, gone: Callable[[], None]) -> None:
        """Have `gone` called once for each pod that no longer counts."""
        ...

    def has_any_in(self, namespace: str) -> bool:
        """Whether a pod was seen in this namespace, so that the namespace exists."""
        ...

    def start(self) -> None: ...

    def close(self) -> None: ...


class Publisher(Protocol):
    """Publishes usage for the users of each namespace."""

    def start(self) -> None: ...

    def show(self, statuses: Mapping[Place, Status]) -> None:
        """Publish the status of all quotas, in the background."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class QuotaParts:
    """The parts of a replica's quotas. Without `publisher` usage is in the metrics only."""

    store: LedgerStore
    pods: WatchedPods
    publisher: Publisher | None = None
    timing: LedgerTiming | None = None
    is_bounded: bool = False
    """Whether admitted pods are stored in a cluster, so that unconfirmed entries are bounded."""
    tells_usage: bool = True
    """Whether refusals say how much is in use, and by which pods of the requesting namespace."""
    groups: GroupReader | None = None
    """Reads the groups that pods name; without it, every pod counts by itself."""


class QuotaService:
    """The quotas of one replica. Pods are watched from the moment that the policies have a quota."""

    def __init__(
        self,
        parts: QuotaParts,
        policies: PolicyStore,
        metrics: Metrics,
        cluster: Callable[[], ClusterFacts | None] = lambda: None,
    ) -> None:
        self._parts = parts
        self._policies = policies
        observer = QuotaMetrics(metrics.registry, lambda: self._reconciler.usage, lambda: self._reconciler.age)
        timing = parts.timing or LedgerTiming()
        context = LedgerContext(
            parts.store,
            parts.pods,
            timing,
            observer,
            is_bounded=parts.is_bounded,
            tells_usage=parts.tells_usage,
            groups=parts.groups,
        )
        self.ledgers = Ledgers(context)
        self._reconciler = Reconciler(
            self.ledgers,
            lambda: quotas_in_force(policies),
            intervals=intervals_for(timing),
            begin=parts.pods.start,
            listener=self._show,
        )
        parts.pods.listen(self._reconciler.wake)
        parts.pods.know(cluster)
        self.has_pods_in = parts.pods.has_any_in
        """Whether a pod was seen in a namespace."""

    def start(self) -> None:
        if self._parts.publisher is not None:
            self._parts.publisher.start()
        self._reconciler.start()

    def close(self) -> None:
        self._reconciler.close()
        self._parts.pods.close()
        if self._parts.publisher is not None:
            self._parts.publisher.close()

    def _show(self, usage: Mapping[str, Usage]) -> None:
        if self._parts.publisher is not None:
            self._parts.publisher.show(statuses(quota_usages(usage, self._policies.current)))


def intervals_for(timing: LedgerTiming) -> ReconcileIntervals:
    """How often ledgers are reconciled. No entry is removed while its pod may be in flight."""
    return ReconcileIntervals(
        round=min(LONGEST_ROUND, timing.in_flight * _ROUNDS), idle=max(LEAST_IDLE, timing.in_flight * _IDLE)
    )


def quotas_in_force(policies: PolicyStore) -> QuotasInForce:
    """The quotas of the policies in force. They are settled once every replica has loaded them."""
    current = policies.current

    def of(namespace: str) -> Quota | None:
        bound = current.quotas_for(namespace)
        return next((one.quota for one in bound if one.quota.scope is QuotaScope.NAMESPACE), None)

    return QuotasInForce(
        [bound.quota for bound in current.shared_quotas],
        of,
        current.names,
        are_settled=time.monotonic() - policies.status.loaded_at_monotonic > HELD_SECONDS,
        exist=current.has_quotas,
    )
