"""The status of the last audit, on a real API server: its size is bounded, and all replicas show one status."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from certs.cluster import ClusterError
from tests.audit.sample_report import CREATED, TRAINER, empty, sample
from tests.counted import samples
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.golden import each
from webhook.admission.metrics import Metrics
from webhook.audit.documents import DocumentError
from webhook.audit.report import AuditFinding, AuditReport, Level, ObjectReference
from webhook.kubernetes.api_server import ApiServer
from webhook.replica.audit_status import (
    KEY,
    MOST_NAMESPACES,
    STALE_KEY,
    AuditStatus,
    AuditWatch,
    status_in,
    store,
    written,
)
from webhook.replica.kubernetes_cluster import KubernetesCluster
from webhook.replica.published_reports import PublishedReports
from webhook.replica.settings import ConfigMapPlace

FINISHED = CREATED.replace(microsecond=0) + timedelta(seconds=42)
PUBLISHED = PublishedReports("PolicyReport", 3, 4096, 2, 1, ("team-a: the API server answered 403: no",))

Shown = dict[tuple[str, ...], float]


def kept(report: AuditReport, published: PublishedReports = PUBLISHED) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written(report, published, FINISHED))
    return found


def status_of(report: AuditReport) -> AuditStatus:
    found = status_in({"data": {KEY: written(report, PUBLISHED, FINISHED)}})
    assert found is not None
    return found


def findings(*namespaces: str, level: Level = Level.REFUSE, count: int = 1) -> tuple[AuditFinding, ...]:
    """A report with so many findings in each of these namespaces."""
    (one,) = [finding for finding in sample().findings if finding.object == TRAINER][:1]
    owners = [ObjectReference(name, "Pod", f"pod-{number}", "v1") for name in namespaces for number in range(count)]
    return tuple(replace(one, level=level, object=owner, owner=owner) for owner in owners)


# What is kept


def test_people_find_counts_times_and_the_first_errors_in_it() -> None:
    errors = (DocumentError("", 0, None, "cannot list pytorchjobs"),)
    report = replace(sample(), findings=findings("team-a", "team-b", count=2), errors=errors)
    assert kept(report) == {
        "version": 1,
        "finished": "2026-03-09T06:30:47Z",
        "seconds": 41.8,
        "policies": report.hash,
        "objects": {"pods": 1200, "workloads": 340, "others": 7},
        "findings": [{"rule": report.findings[0].rule, "refuse": 4, "warn": 0, "skip": 0, "audit": 0, "complete": 0}],
        "namespaces": [
            {"namespace": "team-a", "refuse": 2, "warn": 0, "skip": 0, "audit": 0, "complete": 0},
            {"namespace": "team-b", "refuse": 2, "warn": 0, "skip": 0, "audit": 0, "complete": 0},
        ],
        "reports": {"kind": "PolicyReport", "objects": 3, "bytes": 4096, "written": 2, "removed": 1},
        "errors": 2,
        "firstErrors": ["cannot list pytorchjobs", "team-a: the API server answered 403: no"],
    }


def test_the_worst_namespaces_are_kept_by_name_and_the_others_together() -> None:
    many = [f"team-{number:04}" for number in range(1000)]
    report = replace(
        empty(), findings=(*findings(*many, level=Level.WARN), *findings("team-0999"), *findings("team-0500", count=2))
    )
    rows = kept(report)["namespaces"]
    assert len(rows) == MOST_NAMESPACES + 1
    assert [row["namespace"] for row in rows[:3]] == ["team-0500", "team-0999", "team-0000"]
    assert rows[-1] == {"namespace": "_other", "refuse": 0, "warn": 800, "skip": 0, "audit": 0, "complete": 0}


def test_what_is_kept_is_small_whatever_was_found() -> None:
    many = [f"{'n' * 50}-{number:05}" for number in range(5000)]
    errors = tuple(DocumentError("", number, None, "x" * 100_000) for number in range(500))
    assert len(written(replace(empty(), findings=findings(*many), errors=errors), PUBLISHED, FINISHED)) < 100_000


@each("text", {"nothing": "", "a number for a time": '{"finished": 7}', "prose": "not JSON"})
def test_what_is_no_status_is_said(text: str) -> None:
    with pytest.raises(ClusterError, match=r"audit\.json is not the status of an audit"):
        status_in({"data": {KEY: text}})


# Where it is kept


@pytest.fixture
def place(control_plane: ControlPlane, request: pytest.FixtureRequest) -> ConfigMapPlace:
    """A ConfigMap as the chart makes it."""
    namespace = control_plane.namespace(f"status-{abs(hash(request.node.nodeid)) % 10**8}")
    raw = {"metadata": {"name": "gpu-policy-audit", "labels": {"a": "b"}}, "data": {STALE_KEY: "43200"}}
    control_plane.raw("POST", f"/api/v1/namespaces/{namespace}/configmaps", raw)
    return ConfigMapPlace(namespace, "gpu-policy-audit")


def stored(plane: ControlPlane, place: ConfigMapPlace, report: AuditReport) -> None:
    store(KubernetesCluster(ApiServer(plane.kubeconfig)), place, written(report, PUBLISHED, FINISHED))


def test_what_the_chart_has_put_there_stays(control_plane: ControlPlane, place: ConfigMapPlace) -> None:
    for _ in range(2):
        stored(control_plane, place, sample())
    _, raw = control_plane.raw("GET", place.path)
    assert raw["metadata"]["labels"] == {"a": "b"}
    assert (set(raw["data"]), raw["data"][STALE_KEY]) == ({KEY, STALE_KEY}, "43200")


def test_a_config_map_that_is_missing_is_said_with_its_remedy(control_plane: ControlPlane) -> None:
    place = ConfigMapPlace("default", "nowhere")
    with pytest.raises(ClusterError, match="there is no ConfigMap default/nowhere; apply the release again"):
        stored(control_plane, place, sample())


# What replicas show


@pytest.fixture
def replica(control_plane: ControlPlane, place: ConfigMapPlace) -> Iterator[Callable[..., tuple[AuditWatch, Metrics]]]:
    """Makes watches of the status, which look when a test says so."""
    made: list[AuditWatch] = []

    def make(namespace_series: int = 200) -> tuple[AuditWatch, Metrics]:
        watch, metrics = AuditWatch(place, namespace_series, control_plane.kubeconfig), Metrics()
        made.append(watch)
        watch.start(metrics)
        return watch, metrics

    yield make
    for watch in made:
        watch.close()


def shown(metrics: Metrics, name: str) -> Shown:
    """Label values -> value of a series of the metric, without series that are 0."""
    found = {
        tuple(value for _, value in sorted(one.labels.items())): one.value
        for one in samples(metrics.page())
        if one.name == name
    }
    return {labels: value for labels, value in found.items() if value}


def test_before_the_first_audit_nothing_is_shown_but_when_it_is_due(replica: Callable[..., Any]) -> None:
    watch, metrics = replica()
    watch.look()
    names = {one.name for one in samples(metrics.page()) if one.name.startswith("gpu_policy_audit")}
    assert names == {"gpu_policy_audit_stale_after_seconds"}
    assert shown(metrics, "gpu_policy_audit_stale_after_seconds") == {(): 43200.0}


def test_every_replica_shows_the_same_of_an_audit(
    control_plane: ControlPlane, place: ConfigMapPlace, replica: Callable[..., Any]
) -> None:
    report = replace(empty(), counts=sample().counts, findings=(*findings("team-a", count=3), *findings("team-b")))
    stored(control_plane, place, report)
    pages = []
    for _ in range(3):
        watch, metrics = replica()
        watch.look()
        pages.append({str(one) for one in samples(metrics.page()) if one.name.startswith("gpu_policy_audit")})
        assert shown(metrics, "gpu_policy_audit_timestamp_seconds") == {(): FINISHED.timestamp()}
        assert shown(metrics, "gpu_policy_audit_duration_seconds") == {(): 41.8}
        assert shown(metrics, "gpu_policy_audit_errors") == {(): 1.0}
        assert shown(metrics, "gpu_policy_audit_objects") == {
            ("pods",): 1200.0,
            ("workloads",): 340.0,
            ("others",): 7.0,
        }
        assert shown(metrics, "gpu_policy_audit_findings") == {("refuse", report.findings[0].rule): 4.0}
        by_namespace = shown(metrics, "gpu_policy_audit_namespace_findings")
        assert by_namespace == {("refuse", "team-a"): 3.0, ("refuse", "team-b"): 1.0}
    assert pages[0] == pages[1] == pages[2]


@each(
    "series, expected",
    {
        "one by name": (1, {("refuse", "team-a"): 3.0, ("refuse", "_other"): 1.0}),
        "none by name": (0, {("refuse", "_other"): 4.0}),
    },
)
def test_namespaces_are_bounded(
    control_plane: ControlPlane, place: ConfigMapPlace, replica: Callable[..., Any], series: int, expected: Shown
) -> None:
    stored(control_plane, place, replace(empty(), findings=(*findings("team-a", count=3), *findings("team-b"))))
    watch, metrics = replica(series)
    watch.look()
    assert shown(metrics, "gpu_policy_audit_namespace_findings") == expected


def test_a_replica_looks_by_itself(
    control_plane: ControlPlane, place: ConfigMapPlace, replica: Callable[..., Any]
) -> None:
    stored(control_plane, place, sample())
    _, metrics = replica()
    eventually(lambda: shown(metrics, "gpu_policy_audit_timestamp_seconds") == {(): FINISHED.timestamp()})


def test_a_status_that_cannot_be_read_leaves_what_was_shown_and_one_that_is_gone_does_not(
    control_plane: ControlPlane, place: ConfigMapPlace, replica: Callable[..., Any]
) -> None:
    stored(control_plane, place, sample())
    watch, metrics = replica()
    watch.look()
    control_plane.raw("PATCH", place.path, {"data": {KEY: "broken"}})
    with pytest.raises(ClusterError):
        watch.look()
    assert shown(metrics, "gpu_policy_audit_timestamp_seconds") == {(): FINISHED.timestamp()}
    control_plane.raw("DELETE", place.path)
    with pytest.raises(ClusterError):
        watch.look()
    assert shown(metrics, "gpu_policy_audit_timestamp_seconds") == {}
