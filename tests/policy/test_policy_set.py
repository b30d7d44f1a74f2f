"""The immutable set: which policy a namespace gets, and hashes that follow the content."""

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
