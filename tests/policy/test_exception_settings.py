"""Settings of exceptions are tried under every policy that a namespace of the exception may have."""

import re
from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.policy.exception_file import policies_of
from webhook.policy.policy_set import Policy, PolicySet

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


GLOBS = st.text("ab?*-", min_size=1, max_size=4).filter(lambda text: re.fullmatch(r"[ab?*](.*[ab?*])?", text))
NAMES = ["".join(name) for length in range(1, 6) for name in product("abx-", repeat=length)]


@given(st.dictionaries(GLOBS, st.sampled_from(["one", "two"]), max_size=4), st.lists(GLOBS, min_size=1, max_size=2))
def test_the_policy_of_every_namespace_is_among_those_that_are_tried(claims, patterns) -> None:
    named = {name: Policy(name, (), name, ()) for name in ("one", "two")}
    policies = PolicySet.of(Policy("_default", (), "", ()), {claim: named[name] for claim, name in claims.items()})
    tried = {policy.name for policy in policies_of(patterns, policies)}
    meant = [name for name in NAMES if any(fnmatchcase(name, pattern) for pattern in patterns)]
    assert {policies.for_namespace(name).name for name in meant} <= tried
