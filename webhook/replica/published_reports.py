"""Publishes what an audit found as policy reports in the cluster: only what has changed is written, and reports that
are wanted no more go away. Nothing that others have made is ever touched.
"""

from dataclasses import dataclass

import orjson

from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.report import AuditReport, Level
from webhook.audit.reports.policy_results import NAME, Format, Naming, objects
from webhook.kubernetes.api_errors import RefusedError, UnreachableError
from webhook.kubernetes.api_server import ApiServer
from webhook.replica.quota_objects import labels_of
from webhook.replica.report_objects import FORMATS, Kinds, place_of, served
from webhook.replica.report_writer import Wanted, Writer
from webhook.replica.settings import ConfigMapPlace

LEVELS = (Level.REFUSE, Level.WARN, Level.AUDIT)
"""What is published. Pods that are completed are as they should be, and there are as many as GPU pods."""


@dataclass(frozen=True, slots=True)
class PublishedReports:
    """What became of the reports: the `kind` that there is now, empty where the cluster knows none, how many objects,
    their bytes of JSON, and how many were written, or removed. `errors` say what could not be done.
    """

    kind: str = ""
    objects: int = 0
    size: int = 0
    written: int = 0
    removed: int = 0
    errors: tuple[str, ...] = ()


def publish(
    report: AuditReport,
    server: ApiServer,
    kinds: Kinds,
    place: ConfigMapPlace | None = None,
    scope: NamespaceScope | None = None,
) -> PublishedReports:
    """Bring the reports of the namespaces that were audited in line with what was found.

    `place` is where the installation keeps the status of its audits: its reports are called after it, and told from
    those of other installations by its namespace. Never raises for what the API server says, but see
    `PublishedReports.errors`.
    """
    try:
        known = served(server)
    except (RefusedError, UnreachableError, ValueError) as error:
        return PublishedReports(errors=(f"what reports the cluster knows cannot be learned: {error}",))
    chosen = next(iter(known), None) if kinds is Kinds.AUTO else kinds
    if chosen is not None and chosen not in known:
        form = FORMATS[chosen]
        fault = f"the cluster does not know {form.plural} of {form.api}; install their definitions, or publish auto"
        return PublishedReports(errors=(fault,))
    scope = scope or NamespaceScope()
    name, namespace = (NAME, "") if place is None else (place.name, place.namespace)
    naming = Naming(name, labels_of(namespace))
    wanted = {} if chosen is None else _wanted(report, FORMATS[chosen], naming)
    keeps = _is_partial(report)
    writers = {kind: Writer(server, form, naming, scope, keeps=keeps) for kind, form in known.items()}
    for kind, writer in writers.items():
        writer.make(wanted if kind is chosen else {})
    return PublishedReports(
        "" if chosen is None else FORMATS[chosen].kind,
        len(wanted),
        sum(len(orjson.dumps(raw)) for raw in wanted.values()),
        sum(len(writer.written) for writer in writers.values()),
        sum(len(writer.removed) for writer in writers.values()),
        tuple(error for writer in writers.values() for error in writer.errors),
    )


def _wanted(report: AuditReport, form: Format, naming: Naming) -> Wanted:
    return {place_of(raw): raw for raw in objects(report, form, LEVELS, naming=naming)}


def _is_partial(report: AuditReport) -> bool:
    """Whether some kind of object could not be listed at all, so that what was not found may be there all the same."""
    return any(error.number == 0 for error in report.errors)
