"""A rule that a policy leaves out, because its settings do nothing, would have said nothing."""

import pytest
from hypothesis import Phase, given, note, settings

from tests.rules.every_rule import ALL_VALUES
from tests.rules.samples import mutations, settings_of
from tests.strategies import checked, clusters, examples, gpu_pods
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.policy_set import ConfiguredRule, Policy
from webhook.rules import RULES
from webhook.rules.rule_settings import Mode

RULE = {rule.key: rule for rule in RULES}
WITHOUT_INJECTIONS = {
    "nodeAffinity": {},
    "replicaSpread": {"inject": "none"},
    "priorityClass": {"allowed": ["training"]},
    "ncclEnv": {"env": {}},
    "gpuLimits": {"requestsOnly": "deny"},
    "cudaDriver": {"steer": False},
}
WITHOUT_OBJECTIONS = {
    "nodeAffinity": {"preferred": [{"key": "example.com/pool", "operator": "Exists"}]},
    "priorityClass": {"name": "training"},
    "gpuQuota": {},
}


def policy_of(key, values, mode=Mode.ENFORCE):
    return Policy("test", (), "0" * 64, (ConfiguredRule(RULE[key], mode, settings_of(RULE[key], values), "test.yaml"),))


@settings(checked, max_examples=examples(150), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(gpu_pods(), clusters(), ALL_VALUES)
def test_what_can_never_inject_or_object_does_not(raw, facts, values):
    """A failure names its rule; to look for a smaller one takes minutes with the settings of all rules."""
    pod = pod_from_raw(raw)
    for rule in RULES:
        note(rule.key)
        of_rule = settings_of(rule, values[rule.key])
        assert rule.can_mutate(of_rule) or not rule.injects or mutations(rule, pod, of_rule, facts) == []
        assert rule.can_validate(of_rule) or not rule.validate or list(rule.validate(pod, of_rule, facts)) == []


@pytest.mark.parametrize("key", WITHOUT_INJECTIONS)
def test_a_rule_that_never_injects_under_its_settings_is_not_asked_to_complete(key):
    policy = policy_of(key, WITHOUT_INJECTIONS[key])
    assert [rule for stage in policy.mutators for rule in stage] == []
    assert policy.injectors == ()
    assert policy.is_enforcing, "a stamp that somebody made up is still taken away"


@pytest.mark.parametrize("key", WITHOUT_OBJECTIONS)
def test_a_rule_that_never_objects_under_its_settings_is_not_asked_to_judge(key):
    assert policy_of(key, WITHOUT_OBJECTIONS[key]).validators == ()
