"""Publishes the findings of an audit as policy reports in the cluster.

Only changed reports are written, and reports that are no longer wanted are removed. Objects of other tools are never
touched.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

import orjson

from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.report import AuditReport, Level
from webhook.audit.reports.policy_results import NAME, OPEN_REPORTS, POLICY_REPORTS, Format, Naming, objects
from webhook.kubernetes.api_errors import ApiServerError, RefusedError, UnreachableError
from webhook.kubernetes.api_paths import delete_options, path_of
from webhook.kubernetes.api_server import METADATA_LIST, ApiServer
from webhook.kubernetes.paged_list import Listed, PagedList
from webhook.replica.settings import ConfigMapPlace
from webhook.replica.status_objects import labels_of

CONTENT = "gpupolicy.dev/content"
"""The annotation with a hash of the object without its times, by which objects are compared."""

_ANSWER_SECONDS = 30.0
_PAGE = 500
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
_WITH_AUDIT = ", with audit.enabled"
_CONFLICT = "another audit writes it now, or another tool has created it; run one audit at a time, or delete the object"

Place = tuple[str, str]
"""Namespace, empty for none, and name."""


class ReportKind(StrEnum):
    """Which reports are published."""

    AUTO = "auto"
    """PolicyReports if the cluster has them, else OpenReports. Never both: UIs would show every result twice."""
    POLICY_REPORTS = "policyreports"
    OPEN_REPORTS = "openreports"


FORMATS: Mapping[ReportKind, Format] = {
    ReportKind.POLICY_REPORTS: POLICY_REPORTS,
    ReportKind.OPEN_REPORTS: OPEN_REPORTS,
}


@dataclass(frozen=True, slots=True)
class _Stored:
    """A report of this installation in the cluster."""

    uid: str
    version: str
    content: str


class _Writer:
    """Writes the reports of one kind, in the namespaces of an audit. With `keeps`, no report is removed."""

    def __init__(self, server: ApiServer, form: Format, naming: Naming, scope: NamespaceScope, *, keeps: bool) -> None:
        self._server = server
        self._form = form
        self._naming = naming
        self._scope = scope
        self._keeps = keeps
        self.written: set[Place] = set()
        self.removed: set[Place] = set()
        self.errors: list[str] = []
        """What could not be done, and why."""

    def make(self, wanted: Mapping[Place, Mapping[str, Any]]) -> None:
        contents = {place: content_of(raw) for place, raw in wanted.items()}
        for _ in range(_ATTEMPTS):
            self.errors, pause = [], _PAUSE_SECONDS
            try:
                if self._attempt(wanted, contents):
                    return
            except (ApiServerError, ValueError, KeyError, TypeError, AttributeError) as error:
                remedy = error.remedy(_WITH_AUDIT) if isinstance(error, ApiServerError) else ""
                self.errors.append(f"{self._form.kind} objects cannot be listed or written: {error}{remedy}")
                if isinstance(error, RefusedError) and (error.status in (410, 429) or error.status >= 500):
                    pause = min(max(error.retry_after, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
                elif not isinstance(error, UnreachableError):
                    return
            time.sleep(pause)

    def _attempt(self, wanted: Mapping[Place, Mapping[str, Any]], contents: Mapping[Place, str]) -> bool:
        """Write the differences once; returns whether no further attempt is needed."""
        named = self._scope.namespaces
        try:
            found = dict(one for namespace in (named or (None, "")) for one in self._ours(namespace))
        except RefusedError as error:
            if error.status == 404:  # the CRDs were removed just now
                return True
            raise
        is_over = True
        for place in sorted(found.keys() | wanted.keys()):
            namespace = place[0]
            if (named and namespace not in named) or not self._scope.holds(namespace):
                continue
            stored, raw = found.get(place), wanted.get(place)
            if self._keeps if raw is None else stored is not None and stored.content == contents[place]:
                continue
            try:
                self._send(place, raw, contents.get(place, ""), stored)
            except RefusedError as error:
                if error.status in (401, 429) or error.status >= 500:
                    raise
                if error.status == 404 and stored is not None:  # somebody else has removed it
                    is_over &= raw is None
                elif error.status == 409 or not error.is_about_ending(namespace):
                    is_over &= error.status != 409
                    why = _CONFLICT if error.status == 409 else f"{error}{error.remedy(_WITH_AUDIT)}"
                    self.errors.append(f"{self._form.kind} {'/'.join(filter(None, place))}: {why}")
            else:
                (self.removed if raw is None else self.written).add(place)
        return is_over

    def _ours(self, namespace: str | None) -> Iterable[tuple[Place, _Stored]]:
        """The reports of this installation: they have its labels, and its name with a dot and a number."""
        selector = ",".join(f"{key}={value}" for key, value in self._naming.labels.items())
        listed = Listed(path(self._form, namespace), _PAGE, accept=METADATA_LIST, labels=selector)
        for raw in PagedList(self._server, listed, lambda: _ANSWER_SECONDS):
            metadata = raw["metadata"]
            front, point, number = metadata["name"].rpartition(".")
            if (front, point) == (self._naming.name, ".") and number.isdecimal():
                content = (metadata.get("annotations") or {}).get(CONTENT, "")
                place = metadata.get("namespace", ""), metadata["name"]
                yield place, _Stored(metadata["uid"], metadata["resourceVersion"], content)

    def _send(self, place: Place, raw: Mapping[str, Any] | None, content: str, stored: _Stored | None) -> None:
        if raw is None:
            if stored is not None:
                options = delete_options(stored.version, stored.uid)
                self._server.send("DELETE", path(self._form, *place), options, _ANSWER_SECONDS)
            return
        metadata = {**raw["metadata"], "annotations": {CONTENT: content}}
        if stored is None:
            self._server.send("POST", path(self._form, place[0]), {**raw, "metadata": metadata}, _ANSWER_SECONDS)
        else:
            metadata["resourceVersion"] = stored.version
            self._server.send("PUT", path(self._form, *place), {**raw, "metadata": metadata}, _ANSWER_SECONDS)


def content_of(raw: Mapping[str, Any]) -> str:
    """The hash of an object without its times: an audit with equal findings changes nothing."""
    results = [{key: value for key, value in result.items() if key != "timestamp"} for result in raw["results"]]
    return sha256(orjson.dumps({**raw, "results": results}, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def path(form: Format, namespace: str | None, name: str = "") -> str:
    """The path of the objects of a namespace, of cluster-scoped objects (empty), of all (None), or of one object."""
    plural = form.plural(is_of_cluster=namespace == "")
    return path_of(f"/apis/{form.api}", plural, namespace=namespace or None, name=name)


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
        known = {kind: form for kind, form in FORMATS.items() if _is_served(server, form)}
    except ApiServerError as error:
        return PublishedReports(errors=(f"the kinds of reports in the cluster cannot be listed: {error}",))
    chosen = next(iter(known), None) if kind is ReportKind.AUTO else kind
    if chosen is not None and chosen not in known:
        form = FORMATS[chosen]
        fault = f"the cluster does not know {form.plural()} of {form.api}; install their CRDs, or use --publish auto"
        return PublishedReports(errors=(fault,))
    name, namespace = (NAME, "") if place is None else (place.name, place.namespace)
    naming = Naming(name, labels_of(namespace))
    made = () if chosen is None else objects(report, FORMATS[chosen], LEVELS, naming=naming)
    wanted = {(raw["metadata"].get("namespace", ""), raw["metadata"]["name"]): raw for raw in made}
    keeps = any(error.number == 0 for error in report.errors)  # a kind of object could not be listed
    writers = {
        one: _Writer(server, form, naming, scope or NamespaceScope(), keeps=keeps) for one, form in known.items()
    }
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


def _is_served(server: ApiServer, form: Format) -> bool:
    try:
        resources = server.get(f"/apis/{form.api}", {}, _ANSWER_SECONDS).get("resources")
    except RefusedError as error:
        if error.status == 404:
            return False
        raise
    names = {one.get("name") for one in resources if isinstance(one, dict)} if isinstance(resources, list) else set()
    return {form.plural(), form.plural(is_of_cluster=True)} <= names
