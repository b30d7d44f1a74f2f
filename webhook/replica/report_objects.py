"""The policy reports of a cluster as objects: their kinds, the reports of this installation, and when they differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

import orjson

from webhook.audit.reports.policy_results import OPEN_REPORTS, POLICY_REPORTS, Format
from webhook.kubernetes.api_errors import RefusedError
from webhook.kubernetes.api_paths import path_of
from webhook.kubernetes.api_server import METADATA_LIST, ApiServer
from webhook.kubernetes.paged_list import Listed, PagedList

CONTENT = "gpupolicy.dev/content"
"""The annotation with a hash of the object without its times, by which objects are compared."""

ANSWER_SECONDS = 30.0
_PAGE = 500

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
class StoredReport:
    """A report of this installation in the cluster."""

    uid: str
    version: str
    content: str


def served(server: ApiServer) -> Mapping[ReportKind, Format]:
    """The kinds of reports that the cluster knows. Raises what `ApiServer.get` raises."""
    return {kind: form for kind, form in FORMATS.items() if _is_served(server, form)}


def _is_served(server: ApiServer, form: Format) -> bool:
    try:
        resources = server.get(f"/apis/{form.api}", {}, ANSWER_SECONDS).get("resources")
    except RefusedError as error:
        if error.status == 404:
            return False
        raise
    names = {one.get("name") for one in resources if isinstance(one, dict)} if isinstance(resources, list) else set()
    return {form.plural, form.cluster_plural} <= names


def ours(
    server: ApiServer, form: Format, labels: Mapping[str, str], name: str, namespace: str | None
) -> Iterator[tuple[Place, StoredReport]]:
    """The objects with these labels that are named `name`, a dot and a number.

    They are of one namespace, cluster-scoped (empty), or of all namespaces (None). Raises what `PagedList` raises.
    """
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    listed = Listed(path(form, namespace), _PAGE, accept=METADATA_LIST, labels=selector)
    for raw in PagedList(server, listed, lambda: ANSWER_SECONDS):
        metadata = raw["metadata"]
        front, point, number = metadata["name"].rpartition(".")
        if (front, point) == (name, ".") and number.isdecimal():
            content = (metadata.get("annotations") or {}).get(CONTENT, "")
            found = StoredReport(metadata["uid"], metadata["resourceVersion"], content)
            yield (metadata.get("namespace", ""), metadata["name"]), found


def place_of(raw: Mapping[str, Any]) -> Place:
    """The place of an object."""
    return raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


def content_of(raw: Mapping[str, Any]) -> str:
    """The hash of an object without its times: an audit with equal findings changes nothing."""
    results = [{key: value for key, value in result.items() if key != "timestamp"} for result in raw["results"]]
    return sha256(orjson.dumps({**raw, "results": results}, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def body(raw: Mapping[str, Any], content: str, over: StoredReport | None) -> dict[str, Any]:
    """The body that creates an object, or replaces the one that was found."""
    metadata = {**raw["metadata"], "annotations": {CONTENT: content}}
    if over is not None:
        metadata["resourceVersion"] = over.version
    return {**raw, "metadata": metadata}


def path(form: Format, namespace: str | None, name: str = "") -> str:
    """The path of the objects of a namespace, of cluster-scoped objects (empty), of all (None), or of one object."""
    plural = form.cluster_plural if namespace == "" else form.plural
    return path_of(f"/apis/{form.api}", plural, namespace=namespace or None, name=name)
