"""The dashboards: they can be imported as they are, and every query in them asks for something that exists."""

import json
from collections import Counter
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

BOARDS = {name: json.loads((FILES / f"dashboard-{name}.json").read_text()) for name in ("teams", "webhook")}
QUERIES = [
    pytest.param(panel, target, id=f"{name}-{panel['title']}-{target['refId']}")
    for name, board in BOARDS.items()
    for panel in board["panels"]
    for target in panel["targets"]
]
SCRAPED = labels_by_name(counted().page()) | OF_THE_API_SERVER
METRICS = SCRAPED | recorded()
OF_THE_CLUSTER = set(OF_THE_API_SERVER) | {name for name, labels in recorded().items() if "job" not in labels}
"""What is the same for all installations in a cluster."""


def expression(target: dict[str, Any]) -> str:
    """The query as Prometheus gets it."""
    expression = str(target["expr"]).replace("$__rate_interval", "5m")
    return expression.replace("$job", "gpu-policy").replace("$quota", ".+")


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    """The cells of the grid that a panel covers."""
    at = panel["gridPos"]
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_data_source_and_installation_can_be_chosen_and_no_panel_covers_another(board: dict[str, Any]) -> None:
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert variables["job"]["query"]["query"] == "label_values(gpu_policy_policy_info, job)"
    covered = Counter(cell for panel in board["panels"] for cell in cells(panel))
    assert set(covered.values()) == {1}
    assert {x for x, _ in covered} == set(range(24))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) <= 24


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


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    """Each as a recording rule, which is how promtool reads an expression."""
    rules = [
        {"record": f"query:{number}", "expr": expression(target.values[1])} for number, target in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", file)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param('namespace="team"', id="the metric's own label"),
        pytest.param('namespace="gpu-policy", exported_namespace="team"', id="renamed by the scrape"),
    ],
)
def test_refusals_of_a_namespace_are_found_under_its_name(tmp_path: Path, labels: str) -> None:
    """With the Prometheus operator `namespace` is where the replica runs, and the metric's own is renamed."""
    (query,) = (expression(one.values[1]) for one in QUERIES if str(one.id).startswith("teams-Reviews refused"))
    series = f'gpu_policy_namespace_decisions_total{{job="gpu-policy", result="refused", {labels}}}'
    case = {
        "interval": "1m",
        "input_series": [{"series": series, "values": "0+60x10"}],
        "promql_expr_test": [
            {"expr": query, "eval_time": "10m", "exp_samples": [{"labels": '{namespace="team"}', "value": 300}]}
        ],
    }
    file = tmp_path / "namespaces.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [case]}))
    promtool("test", "rules", file)
