"""The alerts: each fires when it should and stays silent when it should not, and says where to read on."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.counted import counted, labels_by_name
from tests.monitoring.promql import (
    OF_THE_API_SERVER,
    RULE_FILES,
    TARGET_LABELS,
    alerts,
    grouping,
    made,
    promtool,
    recorded,
    rules,
    selections,
)
from webhook.admission.metrics import LATENCY_BUCKETS

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*.yaml"))
ALERTS = [pytest.param(rule, id=f"{rule['alert']}-{rule['labels']['severity']}") for rule in alerts()]
RULES = [
    pytest.param(rule, id=f"{rule.get('alert') or rule['record']}-{number}") for number, rule in enumerate(rules())
]
METRICS = labels_by_name(counted().page()) | OF_THE_API_SERVER | recorded()


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    found = re.findall(r"(\d+) rules found", promtool("check", "rules", *RULE_FILES))
    assert sum(map(int, found)) == len(rules())


@pytest.mark.parametrize("cases", [pytest.param(path, id=path.stem) for path in CASES])
def test_alerts_fire_when_they_should_and_only_then(cases: Path) -> None:
    promtool("test", "rules", cases)


def expectations() -> dict[str, set[bool]]:
    """Whether some case expects an alert to fire, and whether some expects it to stay silent."""
    found: dict[str, set[bool]] = {}
    for path in CASES:
        for case in yaml.safe_load(path.read_text())["tests"]:
            for check in case.get("alert_rule_test", []):
                found.setdefault(check["alertname"], set()).add(bool(check["exp_alerts"]))
    return found


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    assert expectations() == {str(rule["alert"]): {True, False} for rule in alerts()}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_looks_only_at_metrics_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    allowed = set(TARGET_LABELS) | made(rule["expr"])
    found = list(selections(rule["expr"]))
    assert found
    for metric, labels in found:
        assert metric in METRICS
        assert labels <= METRICS[metric]
        allowed |= METRICS[metric]
    assert grouping(rule["expr"]) <= allowed


@pytest.mark.parametrize("rule", ALERTS)
def test_an_alert_says_how_bad_it_is_what_happened_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("rule", ALERTS)
def test_a_text_names_only_labels_that_the_alert_has(rule: dict[str, Any]) -> None:
    texts = rule["annotations"]["summary"] + rule["annotations"]["description"]
    named = set(re.findall(r"\$labels\.(\w+)", texts))
    groups = grouping(rule["expr"])
    of_series = set().union(TARGET_LABELS, *(METRICS[metric] for metric, _ in selections(rule["expr"])))
    assert named <= (groups or of_series)


def test_the_objectives_of_latency_are_buckets_of_the_histogram() -> None:
    """A bound that is no bucket selects nothing, and every review would be late."""
    asked = {bound for rule in rules() for bound in re.findall(r'le="([\d.]+)"', rule["expr"])}
    assert asked == {"0.05", "0.5"}
    assert {float(bound) for bound in asked} <= set(LATENCY_BUCKETS)
