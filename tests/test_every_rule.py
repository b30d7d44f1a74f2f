"""What every rule must keep, whatever it is about: demanded of each entry of RULES on generated pods and settings."""

import ast
import copy
import inspect
import json
from dataclasses import fields
from functools import partial
from pathlib import Path

import jsonpatch
import pytest
import yaml
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.rules.every_rule import ALL_VALUES, CASES
from tests.rules.samples import Cluster, asked, settings_of
from tests.rules.validity import faults, lost_beyond, names_set_twice
from tests.strategies import broken_pods, checked, checked_on_pods, clusters, examples, gpu_pods, json_values, pods
from webhook import engine
from webhook.model.edits import apply
from webhook.model.pod_reader import pod_from_raw
from webhook.model.quantity import parse_quantity
from webhook.model.shape import ShapeError
from webhook.outcome import FindingKind
from webhook.policy.policy_set import ConfiguredRule, Policy
from webhook.rules import RULES
from webhook.rules.rule import Advice, Rule, Stage, Violation
from webhook.rules.rule_settings import Mode

DEFAULT = Path(__file__).parents[1] / "policies" / "_default.yaml"
MUTATORS = [rule for rule in RULES if rule.injects]
EACH = pytest.mark.parametrize("rule", RULES, ids=[rule.key for rule in RULES])
ADVISERS = [rule for rule in RULES if rule.only_advises]

checked_for_all = settings(checked, max_examples=examples(50))
"""For what is demanded of every rule by itself: each is asked about the same pods, since making one takes longer than
asking all rules about it.
"""


def policy_of(values, order=RULES, modes=None):
    """A policy of all rules with these settings, each enforced unless `modes` says otherwise."""
    bound = [
        ConfiguredRule(
            rule, (modes or {}).get(rule.key, Mode.ENFORCE), settings_of(rule, values[rule.key]), "test.yaml"
        )
        for rule in order
    ]
    return Policy("test", ("test.yaml",), "0" * 64, tuple(bound))


def mutated(rule, raw, values, facts):
    return apply(raw, asked(rule, raw, values, facts)[0])


def unordered(value):
    """A JSON value with its lists as sets."""
    if isinstance(value, dict):
        return {key: unordered(part) for key, part in value.items()}
    if isinstance(value, list):
        return sorted((unordered(part) for part in value), key=lambda part: json.dumps(part, sort_keys=True))
    return value


@EACH
def test_the_default_policy_speaks_of_every_rule(rule):
    rules = yaml.safe_load(DEFAULT.read_text())["spec"]["rules"]
    assert rule.key in rules
    rule.settings.model_validate_json(json.dumps(rules[rule.key]))


@EACH
def test_a_rule_is_said_in_one_sentence_and_has_its_tests(rule):
    module = rule.settings.__module__.rpartition(".")[2]
    assert rule.promise.endswith(".")
    assert rule.mutate or rule.validate
    assert (Path(__file__).parent / "rules" / f"test_{module}.py").is_file()
    written = rule.settings.model_json_schema()["properties"]
    undocumented = [key for key, part in written.items() if not part.get("description")]
    assert undocumented == []


OF_ANOTHER_TYPE = {
    "integer": ("2", 2.0, 2.5, True),
    "number": ("0.5", True, float("nan")),
    "boolean": ("true", 1),
    "array": ({}, "a"),
    "object": ([], "a"),
    "string": (True, 7, [], "Of no sense"),
    "choice": (True, False, "off", "of no sense"),
}
"""What YAML makes of a value that somebody meant otherwise, by type of the setting."""


@EACH
def test_a_setting_of_another_type_and_one_that_is_not_there_are_refused(rule):
    settings_of(rule, {})
    refused = [("ofNoRule", 1)]
    for key, part in rule.settings.model_json_schema()["properties"].items():
        kind = "choice" if "$ref" in part or "enum" in part else part.get("type")
        refused += [(key, value) for value in OF_ANOTHER_TYPE.get(kind, ())]
    for key, value in refused:
        with pytest.raises(ValidationError):
            settings_of(rule, {key: value})


def test_every_key_is_used_once():
    assert len({rule.key for rule in RULES}) == len(RULES)


@checked_for_all
@given(gpu_pods(), ALL_VALUES, clusters())
def test_a_completed_pod_is_complete(raw, values, facts):
    for rule in MUTATORS:
        note(rule.key)
        once = mutated(rule, raw, values[rule.key], facts).object
        assert asked(rule, once, values[rule.key], facts)[0] == []


@checked_for_all
@given(gpu_pods(), ALL_VALUES, clusters())
def test_a_completed_pod_keeps_what_was_written_and_stays_valid(raw, values, facts):
    before = copy.deepcopy(raw)
    for rule in MUTATORS:
        note(rule.key)
        edits = asked(rule, raw, values[rule.key], facts)[0]
        draft = apply(raw, edits)
        assert raw == before
        assert lost_beyond(edits, raw, draft.object, facts.priority_classes()) == []
        assert names_set_twice(raw, draft.object) == []
        assert faults(draft.object) <= faults(raw)
        assert jsonpatch.apply_patch(before, draft.patch) == draft.object


@checked_for_all
@given(pods(with_gpus=False), ALL_VALUES, clusters())
def test_a_pod_without_gpus_is_untouched(raw, values, facts):
    for rule in MUTATORS:
        note(rule.key)
        assert asked(rule, raw, values[rule.key], facts) == ([], [])


@settings(checked, max_examples=examples(300))
@given(st.data())
def test_no_json_makes_a_rule_fail(data):
    try:
        pod = pod_from_raw(data.draw(broken_pods()))
    except ShapeError:
        return
    values, facts = data.draw(ALL_VALUES), data.draw(clusters())
    for rule in RULES:
        note(rule.key)
        given_settings = settings_of(rule, values[rule.key])
        of_two = rule.validate_replicas and partial(as_two, rule)
        for function in (rule.mutate, rule.validate, of_two):
            for value in function(pod, given_settings, facts) if function else ():
                assert str(value)
                if isinstance(value, Violation | Advice):
                    assert str(value).startswith(("spec", "metadata"))
                    assert len(value.found) + len(value.remedy) < 2000


def as_two(rule, pod, *others):
    """What a rule says of two pods alike."""
    return rule.validate_replicas(pod, 2, *others)


@checked_for_all
@given(pods(), ALL_VALUES, clusters())
def test_a_rule_that_only_advises_refuses_nothing(raw, values, facts):
    pod = pod_from_raw(raw)
    for rule in ADVISERS:
        note(rule.key)
        told = rule.validate(pod, settings_of(rule, values[rule.key]), facts)
        assert [value for value in told if not isinstance(value, Advice)] == []


@checked_on_pods
@given(gpu_pods(), ALL_VALUES, clusters(), st.lists(st.permutations(MUTATORS), max_size=8))
def test_the_order_of_mutators_in_a_stage_makes_no_difference(raw, values, facts, orders):
    """Each two of them in both orders, and all of them in some: they are too many for every order of all."""
    for stage in Stage:
        edits = {rule.key: asked(rule, raw, values[rule.key], facts)[0] for rule in MUTATORS if rule.stage is stage}
        results = {
            json.dumps(unordered(apply(raw, [edit for key in order for edit in edits[key]]).object), sort_keys=True)
            for order in (
                edits,
                reversed(edits),
                *([rule.key for rule in order if rule.key in edits] for order in orders),
            )
        }
        assert len(results) == 1


@checked_on_pods
@given(gpu_pods(), ALL_VALUES, clusters(), st.permutations([r for r in MUTATORS if r.stage is Stage.COMPLETION]))
def test_a_mutator_that_sees_what_another_one_did_does_the_same(raw, values, facts, order):
    together = apply(raw, [edit for rule in order for edit in asked(rule, raw, values[rule.key], facts)[0]]).object
    one_by_one = raw
    for rule in order:
        one_by_one = mutated(rule, one_by_one, values[rule.key], facts).object
    assert unordered(one_by_one) == unordered(together)


@checked_on_pods
@given(gpu_pods(), ALL_VALUES, clusters())
def test_all_rules_together_complete_a_pod_once_and_find_nothing_missing(raw, values, facts):
    policy = policy_of(values)
    before = copy.deepcopy(raw)
    outcome = engine.mutate(raw, policy, facts)
    assert raw == before
    assert jsonpatch.apply_patch(before, outcome.patch) == outcome.object
    edits = [edit for injection in outcome.injections for edit in injection.edits]
    assert lost_beyond(edits, raw, outcome.object, facts.priority_classes()) == []
    assert names_set_twice(raw, outcome.object) == []
    assert faults(outcome.object) <= faults(raw)
    if not outcome.refusals:
        again = engine.mutate(outcome.object, policy, facts)
        assert (again.patch, again.refusals) == ((), ())
        assert [
            f for f in engine.validate(outcome.object, policy, facts).findings if f.kind is FindingKind.MISSING
        ] == []


@checked_on_pods
@given(gpu_pods(), ALL_VALUES, clusters(), st.permutations(RULES))
def test_the_order_of_rules_changes_neither_pod_nor_verdict(raw, values, facts, order):
    def verdict(policy):
        outcome = engine.mutate(raw, policy, facts)
        pod = unordered({**outcome.object, "metadata": None})
        return pod, {str(finding) for finding in outcome.findings}, outcome.refusals == ()

    assert verdict(policy_of(values, order)) == verdict(policy_of(values))


@checked_on_pods
@given(pods(with_gpus=False), ALL_VALUES, clusters())
def test_a_pod_without_gpus_passes_all_rules_untouched(raw, values, facts):
    outcome = engine.mutate(raw, policy_of(values), facts)
    assert (outcome.patch, outcome.findings, outcome.object) == ((), (), raw)


@checked_on_pods
@given(gpu_pods(), ALL_VALUES, clusters(), st.sampled_from([Mode.WARN, Mode.AUDIT]))
def test_only_enforced_rules_change_or_refuse(raw, values, facts, mode):
    policy = policy_of(values, modes={rule.key: mode for rule in RULES})
    outcome = engine.mutate(raw, policy, facts)
    assert (outcome.injections, outcome.refusals) == ((), ())
    assert outcome.object["spec"] == raw["spec"]
    assert engine.validate(raw, policy, facts).refusals == ()


@checked_on_pods
@given((broken_pods() | json_values(20)).filter(lambda raw: isinstance(raw, dict)), ALL_VALUES, clusters())
def test_no_json_makes_the_engine_fail(raw, values, facts):
    policy = policy_of(values)
    try:
        outcome = engine.mutate(raw, policy, facts)
        engine.validate(outcome.object, policy, facts)
        engine.validate(outcome.object, policy, facts, old=raw)
    except ShapeError:
        return
    assert jsonpatch.apply_patch(copy.deepcopy(raw), outcome.patch) == outcome.object


@checked_on_pods
@given(pods(), CASES["sharedMemory"].values)
def test_shared_memory_never_exceeds_the_largest_limit(raw, values):
    (rule,) = (rule for rule in RULES if rule.key == "sharedMemory")
    pod = pod_from_raw(raw)
    least = settings_of(rule, values).min_gpus
    limits = [c.memory_limit for c in pod.containers if c.gpu_count >= least and c.memory_limit is not None]
    for volume in mutated(rule, raw, values, Cluster()).object["spec"].get("volumes") or ():
        if volume["name"].startswith("gpu-policy-shm") and volume not in (raw["spec"].get("volumes") or ()):
            size = parse_quantity(volume["emptyDir"]["sizeLimit"])
            assert size > 0
            assert not limits or size <= max(limits)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)
def test_a_rule_that_refuses_what_api_validation_refuses_says_so(rule: Rule) -> None:
    """Its source names `fails_validation` exactly where the rule announces it, or `/mutate` would not ask it."""
    source = inspect.getsource(inspect.getmodule(rule.validate or rule.mutate))
    assert ("fails_validation=" in source) == rule.may_fail_api_validation


def source_of(rule: Rule) -> list[ast.stmt]:
    module = inspect.getmodule(rule.mutate or rule.validate)
    assert module is not None
    return ast.parse(inspect.getsource(module)).body


@EACH
def test_rules_say_what_they_are_in_one_order(rule: Rule) -> None:
    """That of the fields of `Rule`: who has read one file knows where to look in every other."""
    last = source_of(rule)[-1]
    assert isinstance(last, ast.Assign)
    assert ast.unparse(last.targets[0]) == "RULE"
    assert isinstance(last.value, ast.Call)
    said = [keyword.arg for keyword in last.value.keywords]
    assert said == [field.name for field in fields(Rule) if field.name in said]


@EACH
def test_the_parts_of_every_rule_stand_in_one_order(rule: Rule) -> None:
    """Settings, then what mutates and validates, then what they use, then what else the rule says of its settings."""
    names = [node.name for node in source_of(rule) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    functions = ("mutate", "validate", "validate_replicas", "validate_claim")
    first = ["Settings", *(name for name in functions if name in names)]
    last = [name for name in ("why_no_effect", "out_of_reach", "labels", "references") if name in names]
    start = names.index("Settings")
    assert names[start : start + len(first)] == first
    assert names[len(names) - len(last) :] == last
