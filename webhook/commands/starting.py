"""The options of `gpu-policy serve` as one value, checks and preparations before it serves, and the replica itself.

The supervising process has it, too: heavy imports stand inside the functions.
"""

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from webhook.commands.inputs import UNUSABLE, fail, inventory_of, load_policies, refuse_two_sources
from webhook.periodic_task import Attempts
from webhook.replica.settings import ConfigMapPlace, ImageSettings, InstallationSettings, KeptCertificates

if TYPE_CHECKING:
    from webhook.admission.quota_service import QuotaParts
    from webhook.replica.replica import Companion, Replica


_LOG = logging.getLogger("gpu_policy")


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The options by their parameters. Raises ValueError, which names the options, where they contradict each other."""

    policies: Path
    inventory: Path | None
    kubeconfig: Path | None
    cert: Path | None
    key: Path | None
    certificate_secret: str | None
    certificate_dir: Path | None
    certificate_names: tuple[str, ...]
    certificate_settle_seconds: float
    registration: Path | None
    registries: Path | None
    registry_credentials: Path | None
    image_results: str | None
    quota_ledgers: str | None
    quota_in_flight_seconds: float
    quota_names: str
    audit_status: str | None
    warning_events: bool
    policy_objects: str | None
    client_ca: Path | None
    client_names: tuple[str, ...]
    host: str
    port: int
    decision_seconds: float
    metrics_port: int | None
    threads: int
    drain_seconds: float
    idle_seconds: float
    namespace_series: int
    log_level: str

    def __post_init__(self) -> None:
        def refuse(is_wrong: object, message: str) -> None:
            if is_wrong:
                raise ValueError(message)

        refuse(
            self.client_names and not self.client_ca,
            "--client-name needs --client-ca, the CA of the client certificates",
        )
        twice = f"--metrics-port and --port are both {self.port}; choose another --metrics-port, or leave it out"
        refuse(self.metrics_port == self.port, twice)
        unused = "--registry-credentials and --image-results need --registries, the list of registries"
        refuse(not self.registries and (self.registry_credentials or self.image_results), unused)
        two = "--certificate-secret and --cert with --key exclude each other; name one source of certificates"
        refuse(self.certificate_secret and (self.cert or self.key), two)
        none = "no certificate to serve: name --cert and --key, or --certificate-secret"
        refuse(not self.certificate_secret and not (self.cert and self.key), none)
        if self.inventory is not None:
            it, them = (f"a cluster; leave {them} out, or leave out --inventory" for them in ("it", "them"))
            kept = self.certificate_secret or self.registration
            refuse(kept, f"--certificate-secret and --registration need {them}")
            refuse(self.image_results, f"--image-results needs {it}")
            in_memory = "--quota-ledgers needs a cluster; leave it out, because --inventory keeps ledgers in memory"
            refuse(self.quota_ledgers, in_memory)
            written = self.warning_events or self.policy_objects
            refuse(written, f"--warning-events and --policy-objects need {them}")
            refuse(self.audit_status, f"--audit-status needs {it}")
        _ = self.certificates, self.images, self.audits  # whose texts can be wrong in themselves

    @property
    def certificates(self) -> KeptCertificates | None:
        """The certificates that the replicas keep themselves; None without --certificate-secret."""
        if self.certificate_secret is None:
            return None
        settle = self.certificate_settle_seconds
        return KeptCertificates.of(self.certificate_secret, self.certificate_dir, self.certificate_names, settle)

    @property
    def served_files(self) -> tuple[Path, Path]:
        """The files of the served certificate and key, which may not exist yet."""
        if (kept := self.certificates) is not None:
            return kept.directory / "tls.crt", kept.directory / "tls.key"
        return cast("tuple[Path, Path]", (self.cert, self.key))  # `__post_init__` demands both

    @property
    def installation(self) -> InstallationSettings | None:
        if self.certificates is None and self.registration is None:
            return None
        return InstallationSettings(self.certificates, self.served_files[0], self.registration, self.kubeconfig)

    @property
    def images(self) -> ImageSettings | None:
        """The look-ups of images; None without --registries."""
        if self.registries is None:
            return None
        return ImageSettings.of(self.registries, self.registry_credentials, self.image_results, self.kubeconfig)

    @property
    def audits(self) -> ConfigMapPlace | None:
        """Where the status of audits is; None without --audit-status."""
        return None if self.audit_status is None else ConfigMapPlace.of("--audit-status", self.audit_status)


def run_apart(check: Callable[[], None]) -> None:
    """Run a check in another process, so that this process does not import its modules; exit if the check fails."""

    def run() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            check()
        finally:
            logging.shutdown()  # a forked process ends without writing buffered log lines

    process = multiprocessing.get_context("fork").Process(target=run)

    def stop(_signal: int, _frame: object) -> NoReturn:  # SIGTERM does not end the first process of a container
        process.terminate()
        sys.exit(0)

    before = signal.signal(signal.SIGTERM, stop)
    process.start()
    process.join()
    signal.signal(signal.SIGTERM, before)
    if process.exitcode:
        sys.exit(UNUSABLE)


def check_source_of_facts(inventory: Path | None, kubeconfig: Path | None) -> None:
    """Exit with status 2 for mistakes that can be found without the Kubernetes client, which only the worker loads."""
    refuse_two_sources(inventory, is_cluster_named=kubeconfig is not None)
    if kubeconfig is not None and not kubeconfig.is_file():
        fail(f"{kubeconfig}: no such file; name a kubeconfig that kubectl accepts")
    if inventory is None and kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        fail(
            "no source of facts about the cluster: this process does not run in a pod; give --inventory or --kubeconfig"
        )


def check(settings: ServeSettings) -> None:
    """Exit with status 2 and a message if a replica could not work with these files and names.

    For mistakes in policies it waits instead: nothing else in the cluster holds a whole set of them to start with.
    """
    from certs.authority import CertificateError, general_names
    from webhook.images.allowlist import AllowList
    from webhook.images.credentials import Credentials
    from webhook.kubernetes.webhook_configurations import RegistrationError, load_registration
    from webhook.policy.loader import load
    from webhook.yaml_files.file_errors import FileErrors

    if not settings.policies.is_dir():
        load_policies(settings.policies)
    attempts = Attempts(_LOG, "not ready until these mistakes in the policies are corrected", (FileErrors,))
    while not attempts.make(lambda: load(settings.policies)):
        time.sleep(1)
    if settings.inventory is not None:
        inventory_of(settings.inventory)
    try:
        if settings.registration is not None:
            load_registration(settings.registration)
        if settings.certificate_names:
            general_names(settings.certificate_names)
        if settings.registries is not None:
            AllowList.load(settings.registries)
            Credentials(settings.registry_credentials)
    except CertificateError as error:
        fail(f"--certificate-name: {error}")
    except (FileErrors, RegistrationError) as error:
        fail(str(error))


def prepare(installation: InstallationSettings) -> None:
    """Get a certificate before anything is served; exit with status 2 and a message if that is impossible."""
    from webhook.kubernetes.api_errors import ClusterConfigError
    from webhook.kubernetes.webhook_configurations import RegistrationError
    from webhook.replica import maintenance

    try:
        maintenance.prepare(installation)
    except (ClusterConfigError, RegistrationError) as error:
        fail(str(error))


def replica(settings: ServeSettings) -> "Replica":
    """The replica. It is made in the worker process, because it imports a lot."""
    from webhook.replica.replica import Replica, ReplicaSources

    companions: list[Companion] = []
    look_ups = events = shown = None
    if settings.installation is not None:
        from webhook.replica.maintenance import Maintenance

        companions.append(Maintenance(settings.installation))
    if settings.audits is not None:
        from webhook.replica.audit_status import AuditWatch

        companions.append(AuditWatch(settings.audits, settings.namespace_series, settings.kubeconfig))
    if settings.images is not None:
        from webhook.replica.image_lookups import lookups_of

        look_ups = lookups_of(settings.images)
    if settings.warning_events:
        from webhook.replica.warning_events import WarningEvents

        events = WarningEvents(settings.kubeconfig)
    if settings.policy_objects is not None:
        from webhook.replica.policy_objects import PolicyObjects

        shown = PolicyObjects(settings.policy_objects, settings.kubeconfig)
    return Replica(
        ReplicaSources(settings.policies, settings.inventory, settings.kubeconfig),
        namespace_series=settings.namespace_series,
        images=look_ups,
        quotas=_quota_parts(settings),
        events=events,
        shown=shown,
        companions=companions,
        decision_seconds=settings.decision_seconds,
    )


def _quota_parts(settings: ServeSettings) -> "QuotaParts | None":
    """The ledgers of quotas in the cluster, or in memory with the pods of an inventory."""
    from webhook.kubernetes.api_server import ApiServer
    from webhook.replica.ledger_config_maps import quota_parts_from, quota_parts_of

    accelerators = load_policies(settings.policies, judges_ends=False).accelerators
    tells_usage = settings.quota_names == "own"
    if settings.quota_ledgers is not None:
        server, in_flight = ApiServer(settings.kubeconfig), settings.quota_in_flight_seconds
        return quota_parts_of(server, settings.quota_ledgers, in_flight, accelerators, tells_usage=tells_usage)
    if settings.inventory is None:
        return None
    return quota_parts_from(inventory_of(settings.inventory, accelerators).pods, tells_usage=tells_usage)
