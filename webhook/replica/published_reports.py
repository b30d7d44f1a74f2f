"""Publishes the findings of an audit as policy reports in the cluster.

Only changed reports are written, and reports that are no longer wanted are removed. Objects of other tools are never
touched.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.report import AuditReport, Level
from webhook.audit.reports.policy_results import NAME, Format, Naming, objects
from webhook.kubernetes.api_errors import ApiServerError, RefusedError, UnreachableError
from webhook.kubernetes.api_paths import delete_options
from webhook.kubernetes.api_server import ApiServer
from webhook.replica.report_objects import (
    ANSWER_SECONDS,
    FORMATS,
    Place,
    ReportKind,
    StoredReport,
    body,
    content_of,
    ours,
    path,
    place_of,
    served,
)
from webhook.replica.settings import ConfigMapPlace
from webhook.replica.status_objects import labels_of

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0

Wanted = Mapping[Place, Mapping[str, Any]]
"""Place -> the report that should be there."""


class _StopError(Exception):
    """Nothing more can be written. `pause` is the seconds before the next attempt; None for no further attempt."""

    def __init__(self, why: object, pause: float | None = None) -> None:
        super().__init__(str(why))
        self.pause = pause


class ReportWriter:
    """Writes the reports of one kind, in the namespaces of an audit. With `keeps`, no report is removed.

    `written` and `removed` are the places of reports, `errors` what could not be done.
    """

    def __init__(self, server: ApiServer, form: Format, naming: Naming, scope: NamespaceScope, *, keeps: bool) -> None:
        self._server = server
        self._form = form
        self._naming = naming
        self._scope = scope
        self._keeps = keeps
        self.written: set[Place] = set()
        self.removed: set[Place] = set()
        self._errors: dict[Place, str] = {}
        self._stopped = ""

    @property
    def errors(self) -> tuple[str, ...]:
        return (*filter(None, [self._stopped]), *self._errors.values())

    def make(self, wanted: Wanted) -> None:
        """Write and remove reports until they are as wanted, in a few attempts."""
        contents = {place: content_of(raw) for place, raw in wanted.items()}
        for _ in range(_ATTEMPTS):
            self._stopped, pause = "", _PAUSE_SECONDS
            try:
                if self._attempt(wanted, contents):
                    return
            except _StopError as stop:
                self._stopped = str(stop)
                if stop.pause is None:
                    return
                pause = stop.pause
            time.sleep(pause)

    def _attempt(self, wanted: Wanted, contents: Mapping[Place, str]) -> bool:
        """Write the differences once; returns whether no further attempt is needed."""
        found = self._found()
        self._errors.clear()
        is_over = True
        for place in sorted(found.keys() | wanted.keys()):
            if not self._is_audited(place[0]) or self._is_as(place, contents, found):
                continue
            try:
                is_over &= self._write(place, wanted.get(place), contents.get(place, ""), found.get(place))
            except RefusedError as error:
                if not error.is_about_ending(place[0]):
                    self._errors[place] = (
                        f"{self._form.kind} {'/'.join(filter(None, place))}: {error}{error.remedy(_WITH_AUDIT)}"
                    )
        return is_over

    def _is_as(self, place: Place, contents: Mapping[Place, str], found: Mapping[Place, StoredReport]) -> bool:
        if place not in contents:
            return self._keeps
        return place in found and found[place].content == contents[place]

    def _is_audited(self, namespace: str) -> bool:
        named = self._scope.namespaces
        return (not named or namespace in named) and self._scope.holds(namespace)

    # What there is

    def _found(self) -> dict[Place, StoredReport]:
        """The reports of this installation in the namespaces of the audit. Raises _StopError."""
        places: Iterable[str | None] = self._scope.namespaces or (None, "")
        try:
            return dict(one for place in places for one in self._ours(place))
        except (ApiServerError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, RefusedError) and error.status == 404:
                raise _StopError("") from error  # the CRDs were removed just now
            raise _explained(error, f"{self._form.kind} objects cannot be listed: ") from error

    def _ours(self, namespace: str | None) -> Iterator[tuple[Place, StoredReport]]:
        return ours(self._server, self._form, self._naming.labels, self._naming.name, namespace)

    # Writing

    def _write(self, place: Place, raw: Mapping[str, Any] | None, content: str, found: StoredReport | None) -> bool:
        """Create, replace or delete one object; returns False where another writer was faster.

        Raises RefusedError where only this object cannot be written, _StopError where none can.
        """
        try:
            self._send(place, raw, content, found)
        except RefusedError as error:
            if error.status == 409:
                self._errors[place] = f"{self._form.kind} {'/'.join(filter(None, place))}: {_CONFLICT}"
                return False
            if error.status == 404 and found is not None:
                return raw is None
            if error.status in (401, 429) or error.status >= 500:
                raise _explained(error) from error
            raise
        except ApiServerError as error:
            raise _explained(error) from error
        (self.removed if raw is None else self.written).add(place)
        return True

    def _send(self, place: Place, raw: Mapping[str, Any] | None, content: str, found: StoredReport | None) -> None:
        if raw is not None and found is None:
            self._server.send("POST", path(self._form, place[0]), body(raw, content, None), ANSWER_SECONDS)
        elif raw is not None:
            self._server.send("PUT", path(self._form, *place), body(raw, content, found), ANSWER_SECONDS)
        elif found is not None:
            self._server.send(
                "DELETE", path(self._form, *place), delete_options(found.version, found.uid), ANSWER_SECONDS
            )


_WITH_AUDIT = ", with audit.enabled"
_CONFLICT = "another audit writes it now, or another tool has created it; run one audit at a time, or delete the object"


def _explained(error: Exception, what: str = "") -> _StopError:
    """The error that ends an attempt; with a pause where the API server may answer better soon."""
    if isinstance(error, RefusedError):
        is_passing = error.status in (410, 429) or error.status >= 500
        pause = min(max(error.retry_after, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS) if is_passing else None
        return _StopError(f"{what}{error}{error.remedy(_WITH_AUDIT)}", pause)
    return _StopError(f"{what}{error}", _PAUSE_SECONDS if isinstance(error, UnreachableError) else None)


LEVELS = (Level.REFUSE, Level.WARN, Level.SKIP, Level.AUDIT)
"""The levels that are published. A report of completed pods would list every GPU pod, and no fault."""


@dataclass(frozen=True, slots=True)
class PublishedReports:
    """The result of publishing: the `kind` of the reports, the number of objects, their bytes of JSON, and how many
    were written or removed.

    `kind` is empty where the cluster has no reports. `errors` say what could not be done.
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
    kind: ReportKind,
    place: ConfigMapPlace | None = None,
    scope: NamespaceScope | None = None,
) -> PublishedReports:
    """Write the reports of the audited namespaces, and remove reports that are no longer wanted.

    `place` is the ConfigMap with the status of audits: reports are named after it, and its namespace distinguishes the
    reports of different installations. Errors of the API server are in `PublishedReports.errors` and not raised.
    """
    try:
        known = served(server)
    except ApiServerError as error:
        return PublishedReports(errors=(f"the kinds of reports in the cluster cannot be listed: {error}",))
    chosen = next(iter(known), None) if kind is ReportKind.AUTO else kind
    if chosen is not None and chosen not in known:
        form = FORMATS[chosen]
        fault = f"the cluster does not know {form.plural} of {form.api}; install their CRDs, or use --publish auto"
        return PublishedReports(errors=(fault,))
    scope = scope or NamespaceScope()
    name, namespace = (NAME, "") if place is None else (place.name, place.namespace)
    naming = Naming(name, labels_of(namespace))
    wanted = {} if chosen is None else _wanted(report, FORMATS[chosen], naming)
    keeps = _is_partial(report)
    writers = {one: ReportWriter(server, form, naming, scope, keeps=keeps) for one, form in known.items()}
    for one, writer in writers.items():
        writer.make(wanted if one is chosen else {})
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
    """Whether a kind of object could not be listed, so that missing findings may still be true."""
    return any(error.number == 0 for error in report.errors)
