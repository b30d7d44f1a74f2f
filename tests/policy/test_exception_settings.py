"""Settings of exceptions are tried under every policy that a namespace of the exception may have."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.policy.exception_settings import _may_be_about
from webhook.policy.namespaces import overlap
from webhook.policy.policy_set import Policy, PolicySet, policy_finder

NOW = 1_796_000_000.0
ENTRY = """\
- name: x
  namespaces: [{namespaces}]
  match: {{all: true}}
  {what}
  until: "2027-01-15"
  reason: a test
"""
MEMORY = "settings: {gpuTypes: {memory: {min: 40Gi}}}"


@pytest.fixture
def directory(policies):
    policies.policy("_default", "gpuTypes: {mode: enforce, memory: {max: 24Gi}}\ngpuLimits: {mode: enforce}")
    policies.policy("short", "gpuTypes: {memory: {max: 80Gi}}\ngpuLimits: {mode: disabled}", namespaces='["team-?"]')
    return policies


@pytest.mark.parametrize("pattern", ["team-nlp", '"team-*"', '"team-?*"', '"*"'])
def test_settings_are_tried_under_the_default_if_any_namespace_has_it(directory, pattern: str) -> None:
    directory.exceptions(ENTRY.format(namespaces=pattern, what=MEMORY))
    (error,) = directory.errors(NOW)
    assert error.startswith("_exceptions.yaml:9: spec.exceptions[0].settings.gpuTypes")
    assert "(together with policy _default)" in error


@pytest.mark.parametrize("pattern", ["team-a", '"team-?"'])
def test_the_default_counts_for_nothing_where_another_policy_claims_all(directory, pattern: str) -> None:
    directory.exceptions(ENTRY.format(namespaces=pattern, what=MEMORY))
    assert not directory.load(NOW).notices


def test_a_rule_is_not_called_disabled_that_the_default_enforces(directory) -> None:
    directory.exceptions(ENTRY.format(namespaces='"team-*"', what="rules: [gpuLimits]"))
    assert not directory.load(NOW).notices
    directory.exceptions(ENTRY.format(namespaces='"team-?"', what="rules: [gpuLimits]"))
    (notice,) = directory.load(NOW).notices
    assert "does nothing about gpuLimits" in notice


@pytest.mark.parametrize(
    ("policy", "told"), [("gpuQuota: {mode: enforce}", True), ("gpuQuota: {mode: enforce, gpus: 4}", False)]
)
def test_settings_of_a_quota_where_there_is_none_are_a_remark(directory, policy: str, told: bool) -> None:
    directory.policy("team-nlp", policy)
    directory.exceptions(ENTRY.format(namespaces="team-nlp", what="settings: {gpuQuota: {gpus: 24}}"))
    notices = directory.load(NOW).notices
    assert [one for one in notices if "none of its namespaces has a quota" in one] == list(notices)
    assert bool(notices) is told


GLOBS = st.text("ab?*-", min_size=1, max_size=5).filter(lambda text: re.fullmatch(r"[ab?*](.*[ab?*])?", text))


@given(st.dictionaries(GLOBS, st.sampled_from(["one", "two"]), max_size=4), st.lists(GLOBS, min_size=1, max_size=2))
def test_the_policy_of_every_namespace_is_among_those_that_are_tried(claims, patterns) -> None:
    """Asked for a shortest name that is in a pattern and in each glob beside it."""
    named = {name: Policy(name, (), name, ()) for name in ("one", "two")}
    claimed = {claim: named[name] for claim, name in claims.items()}
    default = Policy("_default", (), "", ())
    policies = PolicySet.of(default, claimed)
    tried = {policy.name for policy in _may_be_about(tuple(patterns), policies)}
    find = policy_finder(claimed, default)
    around = ["*", "a*", "*b", "??", "a?b*", "?-*", "*-a", "bbb*", *claims]
    for pattern in patterns:
        for glob in around:
            name = overlap(pattern, glob)
            if name is not None:
                assert find(name).name in tried, (name, patterns)
