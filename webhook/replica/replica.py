"""One replica as the server runs it: the application, and the threads that keep policies and facts current."""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from webhook.admission.app import create_app
from webhook.admission.claim_phase import PodsOfClaims
from webhook.admission.metrics import NAMESPACE_SERIES, Metrics
from webhook.admission.service import Service
from webhook.admission.watchdog import DECISION_SECONDS
from webhook.facts.facts import FactsSource
from webhook.facts.live import LiveFacts, StaticFacts
from webhook.ledger.inventory import load_inventory
from webhook.policy.policy_store import PolicyStore, ReloadStatus
from webhook.replica.quota_service import QuotaParts, QuotaService

if TYPE_CHECKING:  # each is loaded only where a replica does its work
    from webhook.kubernetes.api_server import ApiServer
    from webhook.outcome import Outcome
    from webhook.replica.image_lookups import ImageLookups
    from webhook.replica.status_objects import PolicyObjects
    from webhook.replica.warning_events import WarningEvents

_LOG = logging.getLogger("gpu_policy")


class Companion(Protocol):
    """Work of a replica besides answering reviews, in threads of its own."""

    def start(self, metrics: Metrics) -> None:
        """Start the threads, and show in the metrics how the work goes."""

    def close(self) -> None:
        """End the threads, within 2 seconds."""


class Replica:
    """The WSGI application of one replica: made after the fork, drained on SIGTERM, closed at the end.

    Without `inventory` facts come from the cluster. Without `images` nothing is looked up in registries. Without
    `quotas` no pod gets an entry in a quota. Without `events` only the answers have the warnings. Without `shown`
    policies are shown nowhere.
    """

    def __init__(  # noqa: PLR0913  # what it runs, by name
        self,
        policies: Path,
        inventory: Path | None = None,
        kubeconfig: Path | None = None,
        *,
        namespace_series: int = NAMESPACE_SERIES,
        images: "ImageLookups | None" = None,
        quotas: QuotaParts | None = None,
        events: "WarningEvents | None" = None,
        shown: "PolicyObjects | None" = None,
        companions: Sequence[Companion] = (),
        decision_seconds: float = DECISION_SECONDS,
    ) -> None:
        self._metrics = Metrics(namespace_series)
        self._policies = PolicyStore(policies, listener=self._reloaded)
        self._inventory = inventory
        self._facts: FactsSource
        self._server: ApiServer | None = None
        if inventory is not None:
            self._facts = StaticFacts(load_inventory(inventory, self._policies.current.accelerators))
        else:
            self._facts = live = LiveFacts(kubeconfig, accelerators=self._policies.current.accelerators)
            self._server = live.server
        self._quotas = (
            None if quotas is None else QuotaService(quotas, self._policies, self._metrics, lambda: self._facts.facts)
        )
        listeners = [one.hear for one in (events, shown) if one is not None]
        self._service = Service(
            self._policies,
            self._facts,
            self._metrics,
            None if images is None else images.service,
            None if self._quotas is None else self._quotas.ledgers,
            clock=self._facts.now,
            listeners=listeners,
            pods=None if self._server is None else PodsOfClaims(self._server),
            judge_driver=self._judge_driver,
        )
        self._service.decision_seconds = decision_seconds
        if shown is not None:
            shown.follow(self._policies)
        self._metrics.know_namespaces(self._is_known)
        self._wsgi = create_app(self._service).wsgi_app
        self._reloaded(self._policies.status)
        self._policies.watch()
        self._facts.start()
        self._companions = [*companions, *(one for one in (images, events, shown) if one is not None)]
        for companion in self._companions:
            companion.start(self._metrics)
        if self._quotas is not None:
            self._quotas.start()
        _LOG.info("serving", extra={"fields": {"policies": self._policies.current.hash}})

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._wsgi(environ, start_response)

    def refused(self, status: int) -> None:
        self._service.refused(status)

    def drain(self) -> None:
        """Turn unready. Requests that still arrive are answered."""
        self._service.is_draining = True
        _LOG.info("draining: unready from now on; requests that still arrive are answered")

    def close(self) -> None:
        if self._quotas is not None:
            self._quotas.close()
        for companion in self._companions:
            companion.close()
        self._policies.close()
        self._facts.close()

    def _reloaded(self, status: ReloadStatus) -> None:
        self._metrics.policies(
            status.hash, is_current=status.last_ok, failures=status.failures, removed_quotas=status.removed_quotas
        )

    def _judge_driver(self, *about: Any, seconds: float) -> "Outcome | None":
        from webhook.upgrades.driver_changes import judge_by  # noqa: PLC0415  # plans are rare

        judge = judge_by(self._server or self._inventory, self._policies.current.accelerators)
        return judge.outcome(*about, seconds=seconds)

    def _is_known(self, namespace: str) -> bool:
        """Whether a namespace exists: a policy names it, or a pod was stored in it. Without ledgers of quotas nobody
        watches pods, and every name counts.
        """
        if self._quotas is None:
            return bool(namespace)
        return namespace in self._policies.current.claims or self._quotas.has_pods_in(namespace)
