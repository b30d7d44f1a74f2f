"""What `gpu-policy cuda plan` needs of a cluster besides its objects: namespaces, a server, and where to write plans.

Imports stand inside the functions, so that the command pays only for what it uses.
"""

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from webhook.commands.inputs import fail

if TYPE_CHECKING:
    from webhook.audit.cluster_objects import NamespaceScope
    from webhook.kubernetes.api_server import ApiServer
    from webhook.replica.published_plan import PlanPublication
    from webhook.upgrades.driver_plan import DriverPlan

_EXCLUDED = ("kube-system",)


def scope_of(namespaces: tuple[str, ...], excluded: tuple[str, ...]) -> "NamespaceScope":
    """The namespaces of a cluster to plan for: all but kube-system, unless the options say otherwise."""
    from webhook.audit.cluster_objects import NamespaceScope

    without = excluded or (() if namespaces else _EXCLUDED)
    return NamespaceScope(namespaces, tuple(filter(None, without)))


def server_of(kubeconfig: str | None, context: str | None) -> "ApiServer":
    """The API server; exits with status 2 and the reason if there is none."""
    from webhook.doctor.cluster import UnavailableError, find_server

    try:
        return find_server(kubeconfig or os.environ.get("KUBECONFIG"), context)
    except UnavailableError as error:
        fail(f"{error}; {error.remedy}" if error.remedy else str(error))


def publication_of(kind: str | None, status: str | None, scope: "NamespaceScope") -> "PlanPublication | None":
    """Where the plan is written; None for nowhere. Exits with status 2 if the ConfigMap is not named rightly."""
    if kind is None and status is None:
        return None
    from webhook.replica.published_plan import PlanPublication
    from webhook.replica.report_objects import ReportKind
    from webhook.replica.settings import ConfigMapPlace

    try:
        place = None if status is None else ConfigMapPlace.of("--publish-status", status)
    except ValueError as error:
        fail(str(error))
    return PlanPublication(None if kind is None else ReportKind(kind), place, scope)


def published(plan: "DriverPlan", kubeconfig: str | None, context: str | None, to: "PlanPublication") -> bool:
    """Write the plan into the cluster; returns whether all could be written, and prints what could not."""
    from webhook.replica.published_plan import publish_plan

    errors = publish_plan(plan, server_of(kubeconfig, context), to, datetime.now(UTC))
    for fault in errors:
        click.echo(fault, err=True)
    return not errors
