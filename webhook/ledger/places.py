"""The namespaces that are known to exist. Whoever reaches the port can make up reviews of others."""

import logging
from threading import Lock

from webhook.ledger.cached_ledger import LATE
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import LedgerError

_log = logging.getLogger("gpu_policy.quota")

_MOST_KNOWN = 20_000
_KNOWN_SECONDS = 600.0


class Places:
    """Asks once in ten minutes for each namespace that has a claim. Threads may share it.

    While nobody can be asked, a namespace that was there is taken to be there still.
    """

    def __init__(self, means: LedgerContext) -> None:
        self._means = means
        self._lock = Lock()
        self._known: dict[str, float] = {}
        self._failed_at = -float("inf")

    def objection_to(self, namespace: str, deadline: float) -> str:
        """Why no ledger is asked for a namespace; empty where there is such a namespace."""
        now = self._means.clock()
        if self._known.get(namespace, now) > now:
            return ""
        if deadline <= now:
            return LATE
        timing = self._means.timing
        patience = timing.hurry if now - self._failed_at < timing.after_fault else timing.one_call
        try:
            if not self._means.pods.has_namespace(namespace, min(deadline - now, patience)):
                self._known.pop(namespace, None)
                return f"there is no namespace {namespace}"
        except LedgerError as error:
            self._failed_at = now
            _log.warning("%s", error)  # of which the authors of pods hear less
            return "" if namespace in self._known else error.told
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[namespace] = now + _KNOWN_SECONDS
        return ""
