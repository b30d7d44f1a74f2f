"""A plan is kept in the cluster: findings as policy reports, totals of a bounded size beside those of audits."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.audit.sample_report import HOSTILE
from tests.e2e.control_plane import ControlPlane
from tests.upgrades.sample_plan import CREATED, large_plan, only_matrix, sample_plan
from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.report import Level
from webhook.audit.reports.policy_results import POLICY_REPORTS, objects
from webhook.kubernetes.api_server import ApiServer
from webhook.outcome import printable
from webhook.replica.audit_status import KEY, STALE_KEY
from webhook.replica.published_plan import PLAN_KEY, PlanPublication, as_report, plan_status, publish_plan
from webhook.replica.published_reports import LEVELS, PublishedReports
from webhook.replica.report_objects import content_of
from webhook.replica.settings import ConfigMapPlace
from webhook.upgrades.driver_plan import DriverPlan, WorkloadChange

FINISHED = CREATED + timedelta(seconds=7)


def status(plan: DriverPlan, *errors: str) -> Any:
    return json.loads(plan_status(plan, PublishedReports("PolicyReport", 3, 900, 2, 1, errors), FINISHED))


def test_the_status_has_the_totals_the_worst_and_what_could_not_be_done() -> None:
    found = status(sample_plan(), "refused")
    assert (found["finished"], found["seconds"]) == ("2026-11-26T06:30:22Z", 7.0)
    assert found["counts"]["breaks"] == {"workloads": 2, "gpus": 106}
    assert found["breaks"][1] == "Job team-1/train-1, 7 GPUs"
    assert found["pools"][0]["undrivenGpus"] == 16
    assert (found["errors"], found["firstErrors"][-1]) == (3, "refused")
    assert [one["newest"] for one in status(only_matrix())["newest"]] == [row.newest for row in _rows(only_matrix())]


def _rows(plan: DriverPlan) -> Any:
    assert plan.matrix is not None
    return plan.matrix.rows


def test_the_status_of_a_large_plan_with_long_texts_fits_into_a_config_map() -> None:
    plan = large_plan(10_000, 2_000)
    assert len(plan_status(plan, PublishedReports(), FINISHED)) < 64 * 1024


def test_reports_say_what_workloads_lose_and_nothing_of_what_they_gain() -> None:
    plan = sample_plan()
    results = [one for raw in objects(as_report(plan), POLICY_REPORTS, LEVELS) for one in raw["results"]]
    levels = [one.level for one in as_report(plan).findings]
    assert levels == [Level.REFUSE] * 2 + [Level.WARN] * 3
    by_name = {one["resources"][0]["name"]: one for one in results if "resources" in one}
    assert set(by_name) == {printable(HOSTILE)[:253], "train-1", "train-2", "train-3", "train-4"}
    assert by_name["train-1"]["result"] == "fail"
    assert by_name["train-1"]["message"].startswith(
        "planned drivers: breaks, 2 of 2 nodes -> 0 of 2 nodes: nvidia/cuda"
    )
    assert {one["rule"] for one in results if one["result"] != "error"} == {"driverPlan"}


def test_a_plan_with_equal_results_changes_no_report() -> None:
    later = DriverPlan(datetime.now(UTC), large_plan(50).workloads, ())
    first, second = (
        [content_of(raw) for raw in objects(as_report(plan), POLICY_REPORTS)] for plan in (large_plan(50), later)
    )
    assert first == second


def test_a_plan_is_written_beside_the_status_of_audits(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("planned")
    raw = {"metadata": {"name": "gpu-policy-audit"}, "data": {STALE_KEY: "43200", KEY: "{}"}}
    control_plane.raw("POST", f"/api/v1/namespaces/{namespace}/configmaps", raw)
    place = ConfigMapPlace(namespace, "gpu-policy-audit")
    to = PlanPublication(None, place, NamespaceScope())
    assert publish_plan(sample_plan(), ApiServer(control_plane.kubeconfig), to, FINISHED) == ()
    _, found = control_plane.raw("GET", place.path)
    assert found["data"][KEY] == "{}"
    assert found["data"][STALE_KEY] == "43200"
    assert json.loads(found["data"][PLAN_KEY])["counts"][WorkloadChange.SAME]["workloads"] == 1


def test_a_config_map_that_is_missing_is_told_and_not_raised(control_plane: ControlPlane) -> None:
    to = PlanPublication(None, ConfigMapPlace("default", "nowhere"), NamespaceScope())
    (fault,) = publish_plan(sample_plan(), ApiServer(control_plane.kubeconfig), to, FINISHED)
    assert "there is no ConfigMap default/nowhere" in fault
