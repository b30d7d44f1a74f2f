"""Every rule has a problem and examples, which show that very rule at work."""

import pytest
import yaml

from tests.rules.validity import faults
from webhook.rules import RULES
from webhook.rules_page.examples import try_out

MOST_LINES = 15
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.key}-{number}")
    for rule in RULES
    for number, example in enumerate(rule.examples, 1)
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)
def test_a_rule_says_in_one_sentence_what_goes_wrong_without_it(rule) -> None:
    assert rule.problem[:1].isupper()
    assert rule.problem.endswith(".")
    assert ". " not in rule.problem
    assert "\n" not in rule.problem
    assert rule.problem != rule.promise


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)
def test_a_rule_has_one_example_or_two(rule) -> None:
    assert len(rule.examples) in (1, 2)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_is_short_and_for_people(rule, example) -> None:
    for text in (example.manifest, example.beside):
        lines = text.strip("\n").splitlines()
        assert len(lines) <= MOST_LINES
        assert all(len(line) <= 100 for line in lines)
        assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_is_one_object_that_kubernetes_knows_and_takes_unless_the_rule_says_so(rule, example) -> None:
    (raw,) = yaml.safe_load_all(example.manifest)
    assert {"apiVersion", "kind", "metadata", "spec"} == set(raw)
    pod = raw if raw["kind"] == "Pod" else raw["spec"]["template"]
    is_refused_anyway = any(finding.fails_validation for finding in try_out(rule, example).findings)
    assert bool(faults(pod)) == is_refused_anyway


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_shows_its_rule_at_work(rule, example) -> None:
    trial = try_out(rule, example)
    assert trial.refusal or trial.added or trial.warnings
    assert {finding.rule for finding in trial.findings} <= {rule.key}


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_nothing_of_an_example_is_cut(rule, example) -> None:
    trial = try_out(rule, example)
    assert not any("..." in warning for warning in trial.warnings)
