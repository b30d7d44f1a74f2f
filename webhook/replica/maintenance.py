"""Maintenance of a replica: its certificates and its registration, in a thread of their own."""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs.authority import CertificateError
from certs.cluster import ClusterError, Kept
from certs.keeper import CertificateKeeper, CertificateWitness
from webhook.admission.metrics import Metrics
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.webhook_configurations import (
    Registration,
    RegistrationError,
    api_path,
    differences,
    load_registration,
)
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.replica.kubernetes_cluster import KubernetesCluster
from webhook.replica.settings import InstallationSettings

_log = logging.getLogger("gpu_policy.installation")


class RegistrationWatch:
    """Compares the webhook configurations in the cluster with the installed ones."""

    def __init__(self, cluster: KubernetesCluster, file: Path) -> None:
        self._cluster = cluster
        self._file = file
        self._found: Mapping[str, list[str]] = {}
        self.is_ok: Mapping[str, bool] = {}
        """`mutating` and `validating` -> whether the configuration is as installed; empty while they cannot be read."""
        self.timeouts = _timeouts(load_registration(file))
        """Short name of a configuration -> its timeout in seconds, as installed; updated in place."""

    def look(self) -> None:
        """Compare once. Raises ClusterError and RegistrationError; `is_ok` is empty then."""
        try:
            registration = load_registration(self._file)  # anew each time: an upgrade replaces the file
            found = {}
            for phase, document in registration.items():
                live = self._cluster.get(api_path(document))
                found[phase] = ["it is missing"] if live is None else differences(document, live)
        except (ClusterError, RegistrationError):
            self.is_ok = {}
            raise
        self.timeouts.update(_timeouts(registration))
        for phase, sentences in found.items():
            if sentences and sentences != self._found.get(phase):
                _log.warning("the %s webhook configuration is not as installed: %s", phase, "; ".join(sentences))
        self._found = found
        self.is_ok = {phase: not sentences for phase, sentences in found.items()}


def _timeouts(registration: Registration) -> dict[str, float]:
    """The shortest timeout of each configuration, in seconds."""
    return {
        phase: min(float(webhook.get("timeoutSeconds", 10)) for webhook in document["webhooks"])
        for phase, document in registration.items()
    }


LOOK_SECONDS = 5.0
"""Seconds between two looks at certificates and registration; a look takes five requests at most."""

_FIRST_RETRIES = (0.2, 0.5, 1.0, 2.0, 5.0)
_EXPECTED = (ClusterError, CertificateError, RegistrationError)


class Maintenance:
    """The maintenance of one replica. Make it after the fork."""

    def __init__(self, settings: InstallationSettings) -> None:
        self._server = ApiServer(settings.kubeconfig)
        cluster = KubernetesCluster(self._server)
        self._certificates: CertificateKeeper | CertificateWitness
        self._registration: RegistrationWatch | None = None
        self._degraded = ""
        try:
            if settings.certificates is not None:
                self._certificates = _keeper(cluster, settings, settings.certificates)
            else:
                self._certificates = CertificateWitness(cluster, settings.certificate_file, _configurations(settings))
            if settings.registration_file is not None:
                self._registration = RegistrationWatch(cluster, settings.registration_file)
        except RegistrationError as error:  # the file was valid when the process began, and GPU pods need answers
            self._degraded = (
                f"{error}; until this replica restarts, it renews no certificate and checks no registration"
            )
            _log.error("%s", self._degraded)  # the text says it all
            self._certificates = CertificateWitness(cluster, settings.certificate_file, ())
        self._attempts: dict[CertificateKeeper | CertificateWitness | RegistrationWatch, Attempts] = {
            self._certificates: Attempts(_log, "certificates", _EXPECTED)
        }
        if self._registration is not None:
            self._attempts[self._registration] = Attempts(_log, "webhook configurations", _EXPECTED)
        self._task = PeriodicTask("installation", self._look, LOOK_SECONDS)

    def start(self, metrics: Metrics) -> None:
        metrics.watch("certificate_expiry_seconds", self._seconds_left)
        metrics.watch("certificate_fault", self._has_fault)
        metrics.watch("clock_skew_seconds", lambda: self._server.clock_skew)
        if (registration := self._registration) is not None:
            metrics.watch("webhook_configuration_ok", lambda: registration.is_ok)
            metrics.watch("webhook_timeout_seconds", lambda: registration.timeouts)
        self._task.start()

    def close(self) -> None:
        self._task.close()

    def _has_fault(self) -> bool:
        complaint = self._attempts[self._certificates].complaint
        return bool(self._degraded or self._certificates.status.fault or complaint)

    def _seconds_left(self) -> dict[str, float]:
        now = datetime.now(UTC) - timedelta(seconds=self._server.clock_skew)
        return {name: max(0.0, (end - now).total_seconds()) for name, end in self._certificates.status.ends.items()}

    def _look(self) -> None:
        for task, attempts in self._attempts.items():
            attempts.make(task.look)


def prepare(settings: InstallationSettings) -> None:
    """Wait until there is a certificate to serve, however long the API server takes to answer.

    A certificate in the directory from an earlier run of this replica is enough. Raises ClusterConfigError and
    RegistrationError, because waiting does not fix these.
    """
    certificates = settings.certificates
    if certificates is None:
        return
    for attempt in range(10**9):
        try:
            _keeper(KubernetesCluster(ApiServer(settings.kubeconfig)), settings, certificates).look()
        except (ClusterError, CertificateError) as error:
            _log.warning("certificates: %s", error)
            if all((certificates.directory / name).is_file() for name in ("tls.crt", "tls.key")):
                return
            time.sleep(_FIRST_RETRIES[min(attempt, len(_FIRST_RETRIES) - 1)])
        else:
            return


def _keeper(cluster: KubernetesCluster, settings: InstallationSettings, kept: Kept) -> CertificateKeeper:
    return CertificateKeeper(cluster, replace(kept, configurations=_configurations(settings)))


def _configurations(settings: InstallationSettings) -> tuple[str, ...]:
    if settings.registration_file is None:
        return ()
    return tuple(api_path(one) for one in load_registration(settings.registration_file).values())
