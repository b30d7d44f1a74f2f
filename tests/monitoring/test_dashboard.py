"""The dashboard: it can be imported as it is, and every query in it asks for something that exists."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.counted import counted, labels_by_name
from tests.monitoring.promql import (
    FILES,
    OF_THE_API_SERVER,
    TARGET_LABELS,
    grouping,
    made,
    promtool,
    recorded,
    selections,
)

DASHBOARD = json.loads((FILES / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    pytest.param(panel, target, id=f"{panel['title']}-{target['refId']}")
    for panel in PANELS
    for target in panel["targets"]
]
SCRAPED = labels_by_name(counted().page()) | OF_THE_API_SERVER
METRICS = SCRAPED | recorded()
OF_THE_CLUSTER = set(OF_THE_API_SERVER) | {name for name, labels in recorded().items() if "job" not in labels}
"""What is the same for all installations in a cluster."""
NOT_SHOWN = {
    "apiserver_admission_webhook_admission_duration_seconds_count",
    "gpu_policy_exception_end_timestamp_seconds",
    "gpu_policy_exceptions_used_total",
    "gpu_policy_quota_ledger_duration_seconds_count",
    "gpu_policy_quota_ledger_duration_seconds_sum",
    "gpu_policy_quota_ledger_repairs_total",
    "gpu_policy_quotas_removed_total",
    "gpu_policy_request_duration_seconds_count",
    "gpu_policy_request_duration_seconds_sum",
    "process_max_fds",
    "process_virtual_memory_bytes",
}


def expression(target: dict[str, Any]) -> str:
    """The query as Prometheus gets it."""
    return str(target["expr"]).replace("$__rate_interval", "5m").replace("$job", "gpu-policy")


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    """The cells of the grid that a panel covers."""
    at = panel["gridPos"]
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}


def test_data_source_and_installation_can_be_chosen() -> None:
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    (query,) = {variables["job"]["definition"], variables["job"]["query"]["query"]}
    assert query == "label_values(gpu_policy_policy_info, job)"


@pytest.mark.parametrize(("panel", "target"), QUERIES)
def test_a_query_asks_only_for_metrics_and_labels_that_there_are(panel: dict[str, Any], target: dict[str, Any]) -> None:
    allowed = set(TARGET_LABELS) | made(target["expr"])
    found = list(selections(expression(target)))
    assert found
    for metric, labels in found:
        assert metric in METRICS
        assert labels <= METRICS[metric] | {"job"}
        assert metric in OF_THE_CLUSTER or "job" in labels, "every installation would be shown"
        allowed |= METRICS[metric]
    assert grouping(target["expr"]) <= allowed


def test_every_metric_is_shown() -> None:
    shown = {metric for panel in PANELS for target in panel["targets"] for metric, _ in selections(expression(target))}
    assert shown & set(SCRAPED) == set(SCRAPED) - NOT_SHOWN


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    """Each as a recording rule, which is how promtool reads an expression."""
    rules = [
        {"record": f"query:{number}", "expr": expression(target.values[1])} for number, target in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", file)


def test_decisions_are_shown_by_the_pods_namespace_whatever_the_scrape_calls_it() -> None:
    """With the Prometheus operator `namespace` is where the replica runs, and the metric's own is renamed."""
    (query,) = (expression(t) for p in PANELS for t in p["targets"] if p["title"] == "Decisions by namespace")
    assert '"exported_namespace"' in query


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param('namespace="team"', id="the metric's own label"),
        pytest.param('namespace="gpu-policy", exported_namespace="team"', id="renamed by the scrape"),
    ],
)
def test_decisions_of_a_namespace_are_found_under_its_name(tmp_path: Path, labels: str) -> None:
    (query,) = (expression(t) for p in PANELS for t in p["targets"] if p["title"] == "Decisions by namespace")
    series = f'gpu_policy_namespace_decisions_total{{job="gpu-policy", result="patched", {labels}}}'
    case = {
        "interval": "1m",
        "input_series": [{"series": series, "values": "0+60x10"}],
        "promql_expr_test": [
            {"expr": query, "eval_time": "10m", "exp_samples": [{"labels": '{namespace="team"}', "value": 1}]}
        ],
    }
    file = tmp_path / "namespaces.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [case]}))
    promtool("test", "rules", file)
