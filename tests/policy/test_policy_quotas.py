"""Which quotas a namespace has: its own and shared ones, found by one look-up and kept where nothing changed."""

import json
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from webhook.model.globs import matcher
from webhook.policy.directory import read_directory
from webhook.policy.loader import build
from webhook.quota.quotas import QuotaScope
from webhook.rules.rule_settings import Mode

OWN = "gpuQuota: {{mode: enforce, gpus: {}}}"
SHARED_QUOTA = "- {{name: {}, namespaces: {}, gpus: {}}}\n"


def names(loaded, namespace: str) -> list[str]:
    return [bound.quota.key for bound in loaded.quotas_for(namespace)]


def gpus(bound) -> Fraction:
    (limit,) = bound.quota.limits
    return limit.hard


# The quota of one namespace.


def test_the_quota_of_a_namespace_has_its_name_and_covers_it_alone(policies) -> None:
    policies.policy("team-a", OWN.format(8))
    (bound,) = policies.load().quotas_for("team-a")
    assert (bound.quota.scope, bound.quota.name, bound.quota.patterns) == (QuotaScope.NAMESPACE, "team-a", ("team-a",))
    assert (gpus(bound), bound.mode, bound.origin) == (8, Mode.ENFORCE, "team-a.yaml")


def test_a_file_with_globs_gives_each_namespace_a_quota_of_its_own(policies) -> None:
    policies.policy("team-a", OWN.format(8), '[team-a, "team-a-*"]')
    loaded = policies.load()
    assert [names(loaded, each) for each in ("team-a", "team-a-1", "team-a-2", "team-b")] == [
        ["namespace.team-a"],
        ["namespace.team-a-1"],
        ["namespace.team-a-2"],
        [],
    ]


@each(
    "rules",
    {
        "no rule": "{}",
        "no limit": "gpuQuota: {mode: enforce}",
        "empty limits": "gpuQuota: {mode: enforce, byModel: {}, byResource: {}}",
        "disabled": "gpuQuota: {mode: disabled, gpus: 1}",
    },
)
def test_without_limits_or_disabled_there_is_no_quota(policies, rules) -> None:
    policies.policy("a", rules)
    assert policies.load().quotas_for("a") == ()


# With quotas.


def test_the_own_quota_comes_first_and_shared_quotas_follow_by_name(policies) -> None:
    policies.policy("m", OWN.format(1))
    policies.shared_quotas(
        SHARED_QUOTA.format("z", "[m]", 1)
        + SHARED_QUOTA.format("a", '["*"]', 1)
        + SHARED_QUOTA.format("other", "[n]", 1)
    )
    loaded = policies.load()
    assert names(loaded, "m") == ["namespace.m", "shared.a", "shared.z"]
    assert names(loaded, "n") == ["shared.a", "shared.other"]
    assert names(loaded, "o") == ["shared.a"]
    assert [bound.quota.name for bound in loaded.shared_quotas] == ["a", "other", "z"]


words = st.text("ab-", min_size=1, max_size=4).filter(lambda text: text.strip("-") == text)
patterns = st.text("ab*?", min_size=1, max_size=4)


@given(st.lists(st.lists(words | patterns, min_size=1, max_size=3), max_size=5), words)
def test_a_namespace_is_in_exactly_the_shared_quotas_of_which_a_name_or_glob_matches(
    tmp_path_factory, shared_quotas, namespace
) -> None:
    directory = tmp_path_factory.mktemp("quotas")
    entries = [{"name": f"p{index}", "namespaces": each, "gpus": 1} for index, each in enumerate(shared_quotas)]
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUSharedQuotas", "metadata": {"name": "_quotas"}}
    (directory / "_quotas.yaml").write_text(json.dumps({**head, "spec": {"quotas": entries}}))
    expected = [
        f"shared.p{i}" for i, each in enumerate(shared_quotas) if any(matcher(p).fullmatch(namespace) for p in each)
    ]
    loaded = build(read_directory(directory))
    assert names(loaded, namespace) == expected
    assert [bound.quota.key for bound in loaded.shared_quotas if bound.quota.covers(namespace)] == expected


# As values.


def test_the_quotas_of_one_policy_share_their_limits_and_how_they_count(policies) -> None:
    policies.policy("_default", "gpuQuota: {mode: enforce, gpus: 1, weights: {nvidia.com/gpu.shared: 1/4}}")
    loaded = policies.load()
    (one,), (other,) = loaded.quotas_for("a"), loaded.quotas_for("b")
    assert one.quota.limits is other.quota.limits
    assert one.quota.counting is other.quota.counting


# Hashes and reloads.


def test_a_change_of_how_the_default_counts_changes_the_hash_through_shared_quotas_alone(policies) -> None:
    policies.policy("_default", "gpuQuota: {mode: disabled, unspecifiedModel: count}")
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}")
    one = policies.load().hash
    policies.policy("_default", "gpuQuota: {mode: disabled, unspecifiedModel: deny}")
    assert one != policies.load().hash
