"""`_quotas.yaml`: what is read of it, and every mistake in it with file, line, key and remedy."""

from fractions import Fraction

from webhook.quota.quotas import Limit, Measure, OnLedgerFailure, QuotaScope, UnspecifiedModel
from webhook.rules.rule_settings import Mode

RESEARCH = """
- name: research
  namespaces: [physics, "research-*"]
  gpus: 16
  byModel: {H100: 4, T4: 16}
  byResource: {"nvidia.com/mig-1g.10gb": 14}
"""
SHARED = "nvidia.com/gpu.shared"


def the_shared_quota(policies):
    (shared_quota,) = policies.load().shared_quotas
    return shared_quota


def test_a_shared_quota_is_a_quota_of_its_namespaces_with_the_limits_that_it_names(policies) -> None:
    policies.shared_quotas(RESEARCH)
    shared_quota = the_shared_quota(policies)
    assert (shared_quota.quota.scope, shared_quota.quota.name, shared_quota.quota.key) == (
        QuotaScope.SHARED,
        "research",
        "shared.research",
    )
    assert shared_quota.quota.patterns == ("physics", "research-*")
    assert set(shared_quota.quota.limits) == {
        Limit(Measure.GPUS, "", Fraction(16)),
        Limit(Measure.MODEL, "H100", Fraction(4)),
        Limit(Measure.MODEL, "T4", Fraction(16)),
        Limit(Measure.RESOURCE, "nvidia.com/mig-1g.10gb", Fraction(14)),
    }


def test_a_shared_quota_is_enforced_and_refuses_without_its_ledger_unless_it_says_otherwise(policies) -> None:
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}\n- {name: b, namespaces: [x], gpus: 1, mode: warn}")
    modes = {
        shared_quota.quota.name: (shared_quota.mode, shared_quota.on_ledger_failure, shared_quota.origin)
        for shared_quota in policies.load().shared_quotas
    }
    assert modes == {
        "a": (Mode.ENFORCE, OnLedgerFailure.DENY, "_quotas.yaml"),
        "b": (Mode.WARN, OnLedgerFailure.DENY, "_quotas.yaml"),
    }


# What a shared quota takes over.

COUNTING = """
gpuQuota:
  mode: warn
  gpus: 3
  byModel: {T4: 1}
  unspecifiedModel: deny
  onLedgerFailure: allow
  weights: {nvidia.com/gpu.shared: "1/4"}
"""


def test_how_to_count_comes_from_the_default_and_limits_and_mode_do_not(policies) -> None:
    policies.policy("_default", COUNTING)
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}")
    shared_quota = the_shared_quota(policies)
    assert shared_quota.quota.limits == (Limit(Measure.GPUS, "", Fraction(1)),)
    assert (shared_quota.mode, shared_quota.on_ledger_failure) == (Mode.ENFORCE, OnLedgerFailure.ALLOW)
    assert shared_quota.quota.counting.unspecified_model is UnspecifiedModel.DENY
    assert shared_quota.quota.counting.weights == {SHARED: Fraction(1, 4)}


def test_what_a_shared_quota_writes_itself_is_merged_over_what_the_default_says(policies) -> None:
    policies.policy("_default", COUNTING)
    policies.shared_quotas(
        """
        - name: a
          namespaces: [x]
          gpus: 1
          unspecifiedModel: count
          onLedgerFailure: deny
          weights: {amd.com/gpu: "1/2"}
        """
    )
    shared_quota = the_shared_quota(policies)
    assert (shared_quota.on_ledger_failure, shared_quota.quota.counting.unspecified_model) == (
        OnLedgerFailure.DENY,
        UnspecifiedModel.COUNT,
    )
    assert shared_quota.quota.counting.weights == {SHARED: Fraction(1, 4), "amd.com/gpu": Fraction(1, 2)}


def test_the_file_of_a_namespace_does_not_change_how_a_shared_quota_counts(policies) -> None:
    policies.policy("x", "gpuQuota: {mode: enforce, gpus: 1, unspecifiedModel: deny}")
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}")
    own, shared_quota = policies.load().quotas_for("x")
    assert own.quota.counting.unspecified_model is UnspecifiedModel.DENY
    assert shared_quota.quota.counting.unspecified_model is UnspecifiedModel.COUNT


# Mistakes.


def test_all_mistakes_come_at_once_with_those_of_other_files(policies) -> None:
    policies.policy("_default", "gpuLimits: {mode: off}")
    policies.policy("a", "gpuQuota: {mode: enforce, gpus: many}")
    policies.shared_quotas("- {name: a, namespaces: [X], gpus: 1}\n- name: b\n  namespaces: []\n  gpuz: 1\n")
    assert [": ".join(error.split(": ")[:2]) for error in policies.errors()] == [
        "_default.yaml:6: spec.rules.gpuLimits.mode",
        "_quotas.yaml:6: spec.quotas[0].namespaces[0]",
        "_quotas.yaml:8: spec.quotas[1].namespaces",
        "_quotas.yaml:9: spec.quotas[1].gpuz",
        "a.yaml:6: spec.rules.gpuQuota.gpus",
    ]


def test_a_mistake_that_a_shared_quota_takes_over_is_told_once_where_it_stands(policies) -> None:
    policies.policy("_default", "gpuQuota:\n  mode: enforce\n  unspecifiedModel: maybe\n  onLedgerFailure: perhaps")
    policies.shared_quotas(
        "- {name: a, namespaces: [x], gpus: 1}\n- {name: b, namespaces: [x], gpus: 1, onLedgerFailure: deny}"
    )
    assert policies.errors() == [
        '_default.yaml:8: spec.rules.gpuQuota.unspecifiedModel: "maybe" is not allowed; write one of count, deny',
        '_default.yaml:9: spec.rules.gpuQuota.onLedgerFailure: "perhaps" is not allowed; write one of deny, allow',
    ]


HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\n"


def test_the_names_of_the_release_before_are_read_with_a_remark(policies) -> None:
    policies.write(
        "_quotas.yaml",
        HEAD.replace("SharedQuotas", "QuotaPots") + "spec:\n  pots: [{name: a, namespaces: [x], gpus: 1}]\n",
    )
    loaded = policies.load()
    assert [one.quota.name for one in loaded.shared_quotas] == ["a"]
    remarks = [one for one in loaded.notices if "_quotas.yaml" in one]
    assert [one.partition("_quotas.yaml")[2] for one in remarks] == [
        ":2: kind: write GPUSharedQuotas with spec.quotas; the next release no longer reads GPUQuotaPots and spec.pots"
    ]
    policies.write("_quotas.yaml", HEAD + "spec: {pots: [], quotas: []}\n")
    assert policies.errors() == ["_quotas.yaml:4: spec.pots: unknown key; known keys are quotas; did you mean quotas?"]
