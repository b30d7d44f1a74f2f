"""Checks and preparations before a replica serves, and the replica itself.

Imports stand inside the functions, so that the supervising process does not import what only its worker uses.
"""

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from webhook.commands.inputs import UNUSABLE, fail, inventory_of, load_policies, refuse_two_sources
from webhook.model.accelerators import Accelerators
from webhook.periodic_task import Attempts
from webhook.replica.settings import (
    AuditSettings,
    ConfigMapPlace,
    ImageSettings,
    InstallationSettings,
    PolicyObjectSettings,
    QuotaSettings,
)

if TYPE_CHECKING:
    from webhook.admission.quota_service import QuotaParts
    from webhook.replica.replica import Replica


_LOG = logging.getLogger("gpu_policy")


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
    refuse_two_sources(inventory, kubeconfig)
    if kubeconfig is not None and not kubeconfig.is_file():
        fail(f"{kubeconfig}: no such file; name a kubeconfig that kubectl accepts")
    if inventory is None and kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        fail(
            "no source of facts about the cluster: this process does not run in a pod; give --inventory or --kubeconfig"
        )


def image_settings(
    registries: Path | None, credentials: Path | None, results: str | None, kubeconfig: Path | None
) -> ImageSettings | None:
    """The look-ups of images by the options of `serve`; None without registries. Exits with status 2 for a mistake."""
    if registries is None:
        if credentials is not None or results is not None:
            fail("--registry-credentials and --image-results need --registries, the list of registries")
        return None
    try:
        return ImageSettings.of(registries, credentials, results, kubeconfig)
    except ValueError as error:
        fail(str(error))


def audit_settings(
    status: str | None, namespace_series: int, inventory: Path | None, kubeconfig: Path | None
) -> AuditSettings | None:
    """The status of audits by the options of `serve`; None without one. Exits with status 2 for a mistake."""
    if status is None:
        return None
    if inventory is not None:
        fail("--audit-status needs a cluster; leave it out, or leave out --inventory")
    try:
        return AuditSettings(ConfigMapPlace.of("--audit-status", status), namespace_series, kubeconfig)
    except ValueError as error:
        fail(str(error))


def check(
    policies: Path,
    inventory: Path | None,
    registration: Path | None,
    names: tuple[str, ...],
    images: ImageSettings | None,
) -> None:
    """Exit with status 2 and a message if a replica could not work with these files and names.

    For mistakes in policies it waits instead: nothing else in the cluster holds a whole set of them to start with.
    """
    from webhook.policy.loader import load
    from webhook.yaml_files.file_errors import FileErrors

    if not policies.is_dir():
        load_policies(policies)
    attempts = Attempts(_LOG, "not ready until these mistakes in the policies are corrected", (FileErrors,))
    while not attempts.make(lambda: load(policies)):
        time.sleep(1)
    if inventory is not None:
        inventory_of(inventory)
    if registration is not None:
        _check_registration(registration)
    if names:
        _check_certificate_names(names)
    if images is not None:
        _check_registries(images)


def _check_registration(path: Path) -> None:
    from webhook.kubernetes.webhook_configurations import RegistrationError, load_registration

    try:
        load_registration(path)
    except RegistrationError as error:
        fail(str(error))


def _check_certificate_names(names: tuple[str, ...]) -> None:
    from certs.authority import CertificateError, general_names

    try:
        general_names(names)
    except CertificateError as error:
        fail(f"--certificate-name: {error}")


def _check_registries(images: ImageSettings) -> None:
    from webhook.images.allowlist import AllowList
    from webhook.images.credentials import Credentials
    from webhook.yaml_files.file_errors import FileErrors

    try:
        AllowList.load(images.registries_file)
        Credentials(images.credentials_file)
    except FileErrors as error:
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


def replica(
    policies: Path,
    inventory: Path | None,
    kubeconfig: Path | None,
    namespace_series: int,
    installation: InstallationSettings | None,
    images: ImageSettings | None,
    quotas: QuotaSettings | None,
    audits: AuditSettings | None,
    *,
    decision_seconds: float,
    tells_usage: bool,
    writes_events: bool,
    policy_objects: str | None,
) -> "Replica":
    """The replica. It is made in the worker process, because it imports a lot."""
    from webhook.replica.replica import Companion, Replica, ReplicaSources

    companions: list[Companion] = []
    if installation is not None:
        from webhook.replica.maintenance import Maintenance

        companions.append(Maintenance(installation))
    if audits is not None:
        from webhook.replica.audit_status import AuditWatch

        companions.append(AuditWatch(audits))
    look_ups = None
    if images is not None:
        from webhook.replica.image_lookups import lookups_of

        look_ups = lookups_of(images)
    events = None
    if writes_events:
        from webhook.replica.warning_events import WarningEvents

        events = WarningEvents(kubeconfig)
    shown = None
    if policy_objects is not None:
        from webhook.replica.policy_objects import PolicyObjects

        shown = PolicyObjects(PolicyObjectSettings(policy_objects, kubeconfig))
    sources = ReplicaSources(policies=policies, inventory=inventory, kubeconfig=kubeconfig)
    return Replica(
        sources,
        namespace_series=namespace_series,
        images=look_ups,
        quotas=_quota_parts(
            quotas, inventory, load_policies(policies, judges_ends=False).accelerators, tells_usage=tells_usage
        ),
        events=events,
        shown=shown,
        companions=companions,
        decision_seconds=decision_seconds,
    )


def _quota_parts(
    settings: QuotaSettings | None, inventory: Path | None, accelerators: Accelerators, *, tells_usage: bool
) -> "QuotaParts | None":
    if settings is not None:
        from webhook.replica.ledger_config_maps import quota_parts_of

        return quota_parts_of(settings, accelerators, tells_usage=tells_usage)
    if inventory is None:
        return None
    from webhook.replica.ledger_config_maps import quota_parts_from

    return quota_parts_from(inventory_of(inventory, accelerators).pods, tells_usage=tells_usage)
