"""The immutable set: which policy a namespace gets, and hashes that follow the content."""

import gc
import sys
from dataclasses import FrozenInstanceError

import pytest

from webhook.policy.policy_set import REMEMBERED
from webhook.rules.rule import Stage
from webhook.rules.rule_settings import Mode


def test_mutators_come_in_stages_and_validators_in_the_order_of_the_rules(policies) -> None:
    policies.policy(
        "_default",
        """
        visibleDevices: {mode: warn}
        gpuLimits: {mode: enforce, requestsOnly: repair}
        sharedMemory: {mode: audit}
        nodeAffinity: {mode: enforce, required: [{key: example.com/pool, operator: Exists}]}
        tolerations: {mode: enforce}
        """,
    )
    policy = policies.load().default
    keys = [[bound.rule.key for bound in stage] for stage in policy.mutators]
    assert len(Stage) == len(keys)
    assert keys == [["tolerations", "nodeAffinity"], ["sharedMemory", "gpuLimits", "visibleDevices"], []]
    assert [bound.rule.key for bound in policy.validators] == [
        "nodeAffinity",
        "sharedMemory",
        "gpuLimits",
        "visibleDevices",
    ]
    assert [bound.mode for bound in policy.validators] == [Mode.ENFORCE, Mode.AUDIT, Mode.ENFORCE, Mode.WARN]


def test_a_glob_gives_the_same_policy_object_every_time(policies) -> None:
    policies.policy("a", "gpuLimits: {mode: warn}", '["a-*"]')
    loaded = policies.load()
    assert loaded.for_namespace("a-1") is loaded.for_namespace("a-2") is loaded.policies[1]


def test_more_namespaces_than_are_remembered_still_get_their_policy(policies) -> None:
    policies.policy("_default")
    policies.policy("a", namespaces='["a-*"]')
    loaded = policies.load()
    for number in range(REMEMBERED + 10):
        loaded.for_namespace(f"b-{number}")
    assert loaded.for_namespace("a-1").name == "a"
    assert loaded.for_namespace("b-0").name == "_default"


def test_what_is_equal_has_one_hash_and_what_differs_has_another(policies) -> None:
    policies.policy("_default", "gpuLimits: {mode: warn, maxPerPod: 2}")
    first = policies.load()
    policies.policy("_default", "# a comment\ngpuLimits:\n  maxPerPod: 2\n  mode: warn\nncclEnv: {mode: disabled}")
    same = policies.load()
    policies.policy("_default", "gpuLimits: {mode: warn, maxPerPod: 3}")
    other = policies.load()
    assert (first.hash, first.default.hash) == (same.hash, same.default.hash)
    assert first.hash != other.hash
    assert first.default.hash != other.default.hash
    assert first.short_hash == first.hash[:12]


def test_the_hash_of_the_set_follows_the_namespaces_too(policies) -> None:
    policies.policy("a", "gpuLimits: {mode: warn}", "[x]")
    one = policies.load()
    policies.policy("a", "gpuLimits: {mode: warn}", "[y]")
    other = policies.load()
    assert one.hash != other.hash
    assert one.policies[1].hash == other.policies[1].hash


def test_an_added_empty_default_changes_the_hash_of_the_set(policies) -> None:
    policies.policy("a", "gpuLimits: {mode: warn}")
    without = policies.load()
    policies.policy("_default")
    assert without.hash != policies.load().hash


def test_policies_are_values(policies) -> None:
    policies.policy("_default", "gpuLimits: {mode: warn}")
    loaded = policies.load()
    for value, key in ((loaded, "hash"), (loaded.default, "name"), (loaded.default.rules[0], "mode")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, key, "other")
    assert loaded.default == policies.load().default


def test_a_thousand_files_that_say_the_same_share_their_settings(policies) -> None:
    policies.policy("_default", "gpuLimits: {mode: warn}")
    for number in range(1000):
        policies.policy(f"team-{number}", "sharedMemory: {mode: enforce, size: 16Gi}")
    loaded = policies.load()
    assert len(loaded.policies) == 1001
    assert len({id(bound.settings) for policy in loaded.policies for bound in policy.rules}) == 2
    gc.collect()
    own = sum(
        sys.getsizeof(part)
        for policy in loaded.policies
        for part in (policy, policy.rules, *policy.rules, policy.files)
    )
    assert own < 1024 * 1024
