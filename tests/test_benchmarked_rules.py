"""The benchmark of single rules measures what it says: pods that a rule completes, objects to, and passes."""

import json

import pytest

from tests.benchmarks.cluster import nodes
from tests.benchmarks.engine import REVIEW
from tests.benchmarks.rule_pods import PRIORITY_CLASS, rule_pods
from webhook.facts.inventory import load_inventory
from webhook.model.pod_reader import pod_from_raw
from webhook.rules import RULES
from webhook.rules.rule import Advice, Violation

PODS = rule_pods(json.loads(REVIEW.read_text())["request"]["object"])
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    file = tmp_path_factory.mktemp("cluster") / "inventory.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [PRIORITY_CLASS, *nodes(10)]}))
    return load_inventory(file)


def edits(rule, raw, facts):
    values = rule.mutate(pod_from_raw(raw), PODS[rule.key].completing(rule), facts)
    return [value for value in values if not isinstance(value, Advice)]


def objections(rule, raw, facts):
    """Violations; the advice of a rule that has no more than that to say."""
    pod, settings = pod_from_raw(raw), PODS[rule.key].judging(rule)
    values = rule.validate(pod, settings, facts) if rule.validate else rule.judge_replicas(pod, 3, settings, facts)
    return [value for value in values if isinstance(value, Advice if rule.only_advises else Violation)]


def test_the_benchmark_has_pods_for_every_rule() -> None:
    assert list(PODS) == [rule.key for rule in RULES]


@EACH
def test_a_rule_has_pods_for_each_of_its_functions(rule) -> None:
    pods = PODS[rule.key]
    assert (pods.lacks is not None) == (rule.mutate is not None)
    assert (pods.breaks is not None) == (rule.validate is not None or rule.judge_replicas is not None)


@EACH
def test_the_pods_of_a_rule_are_what_they_are_called(rule, facts) -> None:
    pods = PODS[rule.key]
    kept = pods.kept(rule, facts)
    if pods.lacks is not None:
        assert edits(rule, pods.lacks, facts) != []
        assert edits(rule, kept, facts) == []
    if pods.breaks is not None:
        assert objections(rule, pods.breaks, facts) != []
        assert objections(rule, kept, facts) == []
