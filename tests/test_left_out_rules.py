"""A rule that a policy leaves out, because its settings do nothing, would have said nothing."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.rules.every_rule import CASES
from tests.rules.samples import settings_of
from tests.strategies import checked_on_pods, clusters, pods, requests_only, service_pods
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.policy_set import BoundRule, Policy
from webhook.rules import RULES
from webhook.rules.rule_settings import Mode

GPU_PODS = st.one_of(pods(), service_pods(), requests_only())
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


def policy_of(key, settings, mode=Mode.ENFORCE):
    return Policy("test", (), "0" * 64, (BoundRule(RULE[key], mode, settings_of(RULE[key], settings), "test.yaml"),))


@pytest.mark.parametrize("key", RULE)
@checked_on_pods
@given(st.data())
def test_what_can_never_inject_or_object_does_not(key, data):
    rule = RULE[key]
    settings = settings_of(rule, data.draw(CASES[key].values))
    leaves_out = [not rule.can_inject(settings), not rule.can_object(settings)]
    assume(any(leaves_out) or {key} - {*WITHOUT_INJECTIONS, *WITHOUT_OBJECTIONS})
    pod, facts = pod_from_raw(data.draw(GPU_PODS)), data.draw(clusters())
    for left_out, ask in zip(leaves_out, (rule.mutate, rule.validate), strict=True):
        assert not (left_out and ask and list(ask(pod, settings, facts)))


@pytest.mark.parametrize("key", WITHOUT_INJECTIONS)
def test_a_rule_that_never_injects_under_its_settings_is_not_asked_to_complete(key):
    policy = policy_of(key, WITHOUT_INJECTIONS[key])
    assert [rule for stage in policy.mutators for rule in stage] == []
    assert policy.injectors == ()
    assert policy.is_injecting, "a stamp that somebody made up is still taken away"


@pytest.mark.parametrize("key", WITHOUT_OBJECTIONS)
def test_a_rule_that_never_objects_under_its_settings_is_not_asked_to_judge(key):
    assert policy_of(key, WITHOUT_OBJECTIONS[key]).validators == ()


def test_a_policy_that_only_warns_injects_nothing():
    assert not policy_of("tolerations", {}, Mode.WARN).is_injecting
