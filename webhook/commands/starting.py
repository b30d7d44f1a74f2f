"""Checks and preparations before a replica serves, and the replica itself.

Imports stand inside the functions, so that the supervising process does not import what only its worker uses.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from webhook.commands.inputs import (
    check_certificate_names,
    check_registration,
    check_registries,
    fail,
    inventory_pods,
    load_inventory,
    load_policies,
)
from webhook.model.accelerators import Accelerators
from webhook.replica.settings import AuditSettings, ImageSettings, InstallationSettings, QuotaSettings

if TYPE_CHECKING:
    from webhook.admission.quota_service import QuotaParts
    from webhook.replica.replica import Replica


def check(
    policies: Path,
    inventory: Path | None,
    registration: Path | None,
    names: tuple[str, ...],
    images: ImageSettings | None,
) -> None:
    """Exit with status 2 and a message where a replica could not work with these files and names."""
    load_policies(policies)
    if inventory is not None:
        load_inventory(inventory)
    if registration is not None:
        check_registration(registration)
    if names:
        check_certificate_names(names)
    if images is not None:
        check_registries(images.registries_file, images.credentials_file)


def prepare(installation: InstallationSettings) -> None:
    """Get a certificate before anything is served; exit with status 2 and a message where that is impossible."""
    from webhook.kubernetes.api_errors import ClusterConfigError
    from webhook.kubernetes.webhook_configurations import RegistrationError
    from webhook.replica import duties

    try:
        duties.prepare(installation)
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
) -> "Replica":
    """The replica. It is made in the worker process, because it imports a lot."""
    from webhook.replica.replica import Companion, Replica, ReplicaSources

    companions: list[Companion] = []
    if installation is not None:
        from webhook.replica.duties import Maintenance

        companions.append(Maintenance(installation))
    if audits is not None:
        from webhook.replica.audit_status import AuditWatch

        companions.append(AuditWatch(audits))
    look_ups = None
    if images is not None:
        from webhook.replica.image_lookups import look_ups_of

        look_ups = look_ups_of(images)
    sources = ReplicaSources(policies=policies, inventory=inventory, kubeconfig=kubeconfig)
    return Replica(
        sources,
        namespace_series=namespace_series,
        images=look_ups,
        quotas=_quota_parts(quotas, inventory, load_policies(policies).accelerators, tells_usage=tells_usage),
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

    return quota_parts_from(inventory_pods(inventory, accelerators), tells_usage=tells_usage)
