"""Whether the webhook configurations of the cluster still are those that were installed."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from certs.cluster import ClusterError
from webhook.kubernetes.webhook_configurations import (
    Registration,
    RegistrationError,
    api_path,
    differences,
    load_registration,
)
from webhook.replica.certificate_cluster import KubernetesCluster

_log = logging.getLogger("gpu_policy.installation")


class RegistrationWatch:
    """Compares the webhook configurations of the cluster with those that were installed."""

    def __init__(self, cluster: KubernetesCluster, file: Path) -> None:
        self._cluster = cluster
        self._file = file
        self._found: Mapping[str, list[str]] = {}
        self.is_ok: Mapping[str, bool] = {}
        """By `mutating` and `validating`; empty while they cannot be looked at."""
        self.timeouts = _timeouts(load_registration(file))
        """The API server's patience in seconds, as installed; brought up to date in place."""

    def look(self) -> None:
        """Compare; raises ClusterError and RegistrationError, and then knows nothing."""
        try:
            registration = load_registration(self._file)  # anew each time: an upgrade replaces the file
            found = {phase: self._compare(document) for phase, document in registration.configurations.items()}
        except (ClusterError, RegistrationError):
            self.is_ok = {}
            raise
        self.timeouts.update(_timeouts(registration))
        for phase, sentences in found.items():
            if sentences and sentences != self._found.get(phase):
                _log.warning("the %s webhook configuration is not as installed: %s", phase, "; ".join(sentences))
        self._found = found
        self.is_ok = {phase: not sentences for phase, sentences in found.items()}

    def _compare(self, document: Mapping[str, Any]) -> list[str]:
        live = self._cluster.get(api_path(document))
        return ["it is missing"] if live is None else differences(document, live)


def _timeouts(registration: Registration) -> dict[str, float]:
    """The shortest timeout of each configuration, in seconds."""
    return {
        phase: min(float(webhook.get("timeoutSeconds", 10)) for webhook in document["webhooks"])
        for phase, document in registration.configurations.items()
    }
