"""The command `gpu-policy serve`: runs one replica.

Imports stand inside the functions, so that the supervising process does not import what only its worker uses.
"""

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import click

from webhook.commands.inputs import UNUSABLE, fail, inventory_of, load_policies, refuse_two_sources
from webhook.commands.options import Facts, Policies, option, takes
from webhook.periodic_task import Attempts
from webhook.replica.settings import ConfigMapPlace, InstallationSettings, kept_certificates

if TYPE_CHECKING:
    from certs.cluster import Kept
    from webhook.replica.quota_service import QuotaParts
    from webhook.replica.replica import Companion, Replica

_LOG = logging.getLogger("gpu_policy")


class ServeSettings(Policies, Facts):
    """The options by their parameters. Raises ValueError, which names the options, where they contradict each other."""

    cert: Path | None = option("Serving certificate, PEM.")
    key: Path | None = option("Private key of the serving certificate, PEM.")
    certificate_secret: str | None = option(
        "Secret in which the replicas make and renew certificates together, instead of --cert and --key.",
        metavar="NAMESPACE/NAME",
    )
    certificate_dir: Path | None = option(
        "Directory to which this replica writes the certificate and key of the Secret."
    )
    certificate_names: tuple[str, ...] = option(
        "DNS name or IP address that the API server calls; certificates in the Secret have it. Repeatable.",
        None,
        "--certificate-name",
        envvar="GPU_POLICY_SERVE_CERTIFICATE_NAME",
    )
    certificate_settle_seconds: float = option(
        "Seconds for which a new CA is in every caBundle before it issues certificates.",
        60.0,
        type=click.FloatRange(0, 3600),
    )
    registration: Path | None = option(
        "File with the webhook configurations as they were installed. Replicas report if the configurations in the "
        "cluster differ from the file. With --certificate-secret they also keep the caBundles up to date."
    )
    registries: Path | None = option(
        "File that lists the registries in which images are looked up, in the background. No others are queried."
    )
    registry_credentials: Path | None = option(
        "File with credentials for the registries, in the format of Docker's config.json. Read again when it changes."
    )
    image_results: str | None = option(
        "ConfigMap in which the replicas share the results of look-ups.", metavar="NAMESPACE/NAME"
    )
    quota_ledgers: str | None = option(
        "Namespace in which the replicas keep the ledgers of quotas. Without it, pods cannot be counted. With "
        "--inventory, ledgers are kept in memory.",
        metavar="NAMESPACE",
    )
    quota_in_flight_seconds: float = option(
        "Longest time in seconds from the answer about a pod until the API server has stored the pod: its "
        "--request-timeout plus a margin. A pod that is never created counts against its quotas for this long.",
        90.0,
        type=click.FloatRange(5, 3600),
    )
    quota_names: str = option(
        "What a refusal says about a full quota. own: its usage, and the largest pods in the namespace of the refused"
        " pod. none: only the limit, because whoever reaches the port can send a pod of any namespace.",
        "own",
        type=click.Choice(["own", "none"]),
    )
    audit_status: str | None = option(
        "ConfigMap with the status of the last audit of the cluster, which the metrics show.", metavar="NAMESPACE/NAME"
    )
    warning_events: bool = option(
        "Write warnings about pods that controllers make into Events on the controllers, at most 20 a minute."
    )
    policy_objects: str | None = option(
        "Show people the policies of their namespaces in objects (kubectl get gpupolicies). A label of the objects is"
        " this namespace; name the namespace of the installation.",
        metavar="NAMESPACE",
    )
    client_ca: Path | None = option("Answer only clients with a certificate of this CA (PEM).")
    client_names: tuple[str, ...] = option(
        "Answer only client certificates with this common name or DNS name. Needs --client-ca; repeatable.",
        None,
        "--client-name",
        envvar="GPU_POLICY_SERVE_CLIENT_NAME",
    )
    host: str = option("Address to listen on.", "0.0.0.0")  # noqa: S104  # a server in a pod
    port: int = option("Port to listen on.", 8443, type=click.IntRange(1, 65535))
    decision_seconds: float = option(
        "CPU seconds that one decision may take. A longer decision ends with an error, and failurePolicy decides.",
        2.0,
        type=click.FloatRange(0.1, 30),
    )
    metrics_port: int | None = option(
        "Port that serves only /metrics. Without it, /metrics is served on --port.", type=click.IntRange(1, 65535)
    )
    threads: int = option("Threads for large requests, and for requests that wait.", 16, type=click.IntRange(1, 64))
    drain_seconds: float = option(
        "On SIGTERM, seconds between becoming unready and closing the port.", 0.0, type=click.FloatRange(0, 300)
    )
    idle_seconds: float = option(
        "Seconds after which an unused connection is closed. Choose more than the 90 of the API server, and less than"
        " the limit of any proxy in between.",
        120.0,
        type=click.FloatRange(1, 3600),
    )
    namespace_series: int = option(
        "Most namespaces with metrics of their own; all others are counted together.",
        200,
        type=click.IntRange(0, 10000),
    )
    log_level: str = option(
        "Lowest level of messages that are logged.", "info", type=click.Choice(["debug", "info", "warning", "error"])
    )

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
        _ = self.certificates, self.shared_images, self.audits  # whose texts can be wrong in themselves

    @property
    def certificates(self) -> "Kept | None":
        """The certificates that the replicas keep themselves; None without --certificate-secret."""
        if self.certificate_secret is None:
            return None
        settle = self.certificate_settle_seconds
        return kept_certificates(self.certificate_secret, self.certificate_dir, self.certificate_names, settle)

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
    def shared_images(self) -> ConfigMapPlace | None:
        """Where the replicas share the results of look-ups; None without --image-results."""
        return None if self.image_results is None else ConfigMapPlace.of("--image-results", self.image_results)

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
    from webhook.replica.replica import Replica

    companions: list[Companion] = []
    look_ups = events = shown = None
    if settings.installation is not None:
        from webhook.replica.maintenance import Maintenance

        companions.append(Maintenance(settings.installation))
    if settings.audits is not None:
        from webhook.replica.audit_status import AuditWatch

        companions.append(AuditWatch(settings.audits, settings.namespace_series, settings.kubeconfig))
    if settings.registries is not None:
        from webhook.replica.image_lookups import lookups_of

        results = settings.shared_images
        look_ups = lookups_of(settings.registries, settings.registry_credentials, results, settings.kubeconfig)
    if settings.warning_events:
        from webhook.replica.warning_events import WarningEvents

        events = WarningEvents(settings.kubeconfig)
    if settings.policy_objects is not None:
        from webhook.replica.status_objects import PolicyObjects

        shown = PolicyObjects(settings.policy_objects, settings.kubeconfig)
    return Replica(
        settings.policies,
        settings.inventory,
        settings.kubeconfig,
        namespace_series=settings.namespace_series,
        images=look_ups,
        quotas=_quota_parts(settings),
        events=events,
        shown=shown,
        companions=companions,
        decision_seconds=settings.decision_seconds,
    )


def _quota_parts(settings: ServeSettings) -> "QuotaParts | None":
    from webhook.kubernetes.api_server import ApiServer
    from webhook.ledger.context import LedgerContext, LedgerTiming
    from webhook.ledger.ledger_store import MemoryStore
    from webhook.ledger.pod_source import PodsAndClaims
    from webhook.replica.ledger_config_maps import ApiStore
    from webhook.replica.quota_service import QuotaParts
    from webhook.replica.status_objects import QuotaStatus

    accelerators = load_policies(settings.policies, judges_ends=False).accelerators
    tells_usage = settings.quota_names == "own"
    if settings.quota_ledgers is not None:
        server, timing = ApiServer(settings.kubeconfig), LedgerTiming(in_flight=settings.quota_in_flight_seconds)
        store, pods = ApiStore(server, settings.quota_ledgers), PodsAndClaims(server, accelerators=accelerators)
        context = LedgerContext(store, pods, timing, is_bounded=True, tells_usage=tells_usage, groups=pods.groups)
        return QuotaParts(context, pods, QuotaStatus(server, settings.quota_ledgers))
    if settings.inventory is None:
        return None
    held = inventory_of(settings.inventory, accelerators).pods
    return QuotaParts(LedgerContext(MemoryStore(), held, tells_usage=tells_usage), held)


@click.command()
@takes(ServeSettings)
def serve(settings: ServeSettings) -> None:
    """Answer the API server over TLS until SIGTERM.

    Without --inventory and --kubeconfig the facts come from the cluster that the process runs in.
    """
    from webhook.admission import logs
    from webhook.server.process import ServerSettings
    from webhook.server.process import serve as run_server

    logs.configure(settings.log_level)
    run_apart(partial(check, settings))
    check_source_of_facts(settings.inventory, settings.kubeconfig)
    if settings.installation is not None:
        run_apart(partial(prepare, settings.installation))
    cert, key = settings.served_files
    for file in (cert, key, settings.client_ca):
        if file is not None and not file.is_file():
            fail(f"{file}: no such file; `gpu-policy certs` makes a certificate and its key")
    server = ServerSettings(
        host=settings.host,
        port=settings.port,
        metrics_port=settings.metrics_port,
        cert_file=cert,
        key_file=key,
        client_ca_file=settings.client_ca,
        client_names=settings.client_names,
        threads=settings.threads,
        drain_seconds=settings.drain_seconds,
        keepalive_seconds=settings.idle_seconds,
    )
    run_server(server, partial(replica, settings))
