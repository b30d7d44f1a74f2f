"""The pods of each rule's case are what they are called: completed, objected to, passed."""

import json

import pytest

from tests.lab.benchmarks.cluster import PRIORITY_CLASS, nodes
from tests.lab.benchmarks.engine import REVIEW
from tests.rules.every_rule import CASES
from tests.rules.samples import mutations
from webhook.ledger.inventory import load_inventory
from webhook.model.pod_reader import pod_from_raw
from webhook.rules import RULES
from webhook.rules.rule import Advice, Violation

POD = json.loads(REVIEW.read_text())["request"]["object"]
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    file = tmp_path_factory.mktemp("cluster") / "inventory.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [PRIORITY_CLASS, *nodes(10)]}))
    return load_inventory(file)


def edits(rule, raw, facts):
    case = CASES[rule.key]
    values = mutations(rule, pod_from_raw(raw), case.completing(rule, case.pods(POD)), facts)
    return [value for value in values if not isinstance(value, Advice)]


def objections(rule, raw, facts):
    """Violations; the advice of a rule that has no more than that to say."""
    case = CASES[rule.key]
    pod, settings = pod_from_raw(raw), case.judging(rule, case.pods(POD))
    values = rule.validate(pod, settings, facts) if rule.validate else rule.validate_replicas(pod, 3, settings, facts)
    return [value for value in values if isinstance(value, Advice if rule.only_advises else Violation)]


@EACH
def test_a_rule_has_pods_for_each_of_its_functions(rule) -> None:
    pods = CASES[rule.key].pods(POD)
    assert (pods.lacks is not None) == (rule.injects)
    assert (pods.breaks is not None) == (rule.validate is not None or rule.validate_replicas is not None)


@EACH
def test_a_rule_that_injects_says_under_which_settings(rule) -> None:
    assert (CASES[rule.key].injecting is not None) == (rule.injects)


@EACH
def test_the_pods_of_a_rule_are_what_they_are_called(rule, facts) -> None:
    case = CASES[rule.key]
    pods = case.pods(POD)
    kept = case.kept(rule, pods, facts)
    if pods.lacks is not None:
        assert edits(rule, pods.lacks, facts) != []
        assert edits(rule, kept, facts) == []
    if pods.breaks is not None:
        assert objections(rule, pods.breaks, facts) != []
        assert objections(rule, kept, facts) == []
