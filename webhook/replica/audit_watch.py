"""What a replica shows of the last audit of the cluster: all replicas show the same, since all of them read it in one
place.
"""

import logging
import random
import threading

from certs.cluster import ClusterError
from webhook.admission.metrics import Metrics
from webhook.kubernetes.api_server import ApiServer
from webhook.replica.audit_metrics import show
from webhook.replica.audit_status import AuditStatus, StatusError, stale_after, status_in
from webhook.replica.certificate_cluster import KubernetesCluster
from webhook.replica.settings import AuditSettings

LOOK_SECONDS = 60.0
"""How often the ConfigMap is read, a fifth more or less; it has some 20 KiB where there are many namespaces."""
_CLOSE_SECONDS = 1.5

_log = logging.getLogger("gpu_policy.audit")


class AuditWatch:
    """A companion of a replica that follows the status of audits. Make it after the fork.

    While it cannot be read, what was read last is shown: its age is among it.
    """

    def __init__(self, settings: AuditSettings) -> None:
        self._cluster = KubernetesCluster(ApiServer(settings.kubeconfig))
        self._place = settings.status
        self._most = settings.namespace_series
        self._status: AuditStatus | None = None
        self._stale_after: float | None = None
        self._complaint = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-status", daemon=True)

    def start(self, metrics: Metrics) -> None:
        """Begin, and show in the metrics what was found."""
        show(metrics.registry, lambda: self._status, lambda: self._stale_after, self._most)
        self._thread.start()

    def close(self) -> None:
        """End the thread; a request that hangs is left to itself."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def look(self) -> None:
        """Read the status once. Raises ClusterError and StatusError."""
        found = self._cluster.get(self._place.path)
        if found is None:
            self._status = self._stale_after = None
            raise StatusError(f"there is no ConfigMap {self._place}; apply the release again, with audit.enabled")
        self._stale_after = stale_after(found)
        self._status = status_in(found)

    def _run(self) -> None:
        while True:
            complaint, bug = "", None
            try:
                self.look()
            except (ClusterError, StatusError) as error:
                complaint = str(error)
            except Exception as error:  # noqa: BLE001  # a bug met in one look must not end all later ones
                complaint, bug = repr(error), error
            if complaint and complaint != self._complaint:
                _log.warning("the status of audits: %s", complaint, exc_info=bug)
            self._complaint = complaint
            if self._stop.wait(LOOK_SECONDS * random.uniform(0.8, 1.2)):  # noqa: S311  # apart from other replicas
                return
