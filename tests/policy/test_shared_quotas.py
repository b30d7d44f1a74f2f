"""`_quotas.yaml`: what is read of it, and every mistake in it with file, line, key and remedy."""

from fractions import Fraction

import pytest

from webhook.policy.policy_quotas import INHERITED, SharedQuotaSettings
from webhook.quota.quotas import Limit, Measure, OnLedgerFailure, QuotaScope, UnspecifiedModel
from webhook.rules.rule_settings import Mode

RESEARCH = """
- name: research
  namespaces: [physics, "research-*"]
  gpus: 16
  byModel: {H100: 4, T4: 16}
  byResource: {"nvidia.com/mig-1g.10gb": 14}
"""
KNOWN = "byModel, byResource, claims, gpus, mode, models, name, namespaces, onLedgerFailure, unspecifiedModel, weights"
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


def test_a_limit_of_nothing_is_a_limit(policies) -> None:
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 0}")
    assert [limit.hard for limit in the_shared_quota(policies).quota.limits] == [0]


def test_a_namespace_that_is_named_twice_is_in_the_shared_quota_once(policies) -> None:
    policies.shared_quotas("- {name: a, namespaces: [y, x, y], gpus: 1}")
    assert the_shared_quota(policies).quota.patterns == ("y", "x")


def test_a_disabled_shared_quota_is_left_out(policies) -> None:
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1, mode: disabled}")
    loaded = policies.load()
    assert (loaded.shared_quotas, loaded.quotas_for("x")) == ((), ())


def test_shared_quotas_alone_are_a_directory_of_policies(policies) -> None:
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}")
    loaded = policies.load()
    assert [shared_quota.quota.name for shared_quota in loaded.quotas_for("x")] == ["a"]
    assert (loaded.quotas_for("y"), loaded.for_namespace("x").rules) == ((), ())
    assert len(loaded.notices) == 1


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


def test_a_disabled_rule_of_the_default_still_says_how_shared_quotas_count(policies) -> None:
    policies.policy("_default", "gpuQuota: {mode: disabled, unspecifiedModel: deny}")
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}")
    assert the_shared_quota(policies).quota.counting.unspecified_model is UnspecifiedModel.DENY


def test_the_file_of_a_namespace_does_not_change_how_a_shared_quota_counts(policies) -> None:
    policies.policy("x", "gpuQuota: {mode: enforce, gpus: 1, unspecifiedModel: deny}")
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}")
    own, shared_quota = policies.load().quotas_for("x")
    assert own.quota.counting.unspecified_model is UnspecifiedModel.DENY
    assert shared_quota.quota.counting.unspecified_model is UnspecifiedModel.COUNT


def test_what_a_shared_quota_takes_over_are_keys_of_shared_quotas() -> None:
    assert set(INHERITED) < {field.alias for field in SharedQuotaSettings.model_fields.values()}


# Mistakes.


@pytest.mark.parametrize(
    ("shared_quota", "expected"),
    [
        pytest.param(
            "{name: a, namespaces: [x], gpu: 1}",
            f".gpu: unknown key; known keys are {KNOWN}; did you mean gpus?",
            id="unknown key",
        ),
        pytest.param(
            "{name: a, namespaces: [x]}",
            ": limits nothing; write at least one of gpus, byModel and byResource",
            id="no limit",
        ),
        pytest.param(
            "{name: a, namespaces: [x], byModel: {}, byResource: {}}",
            ": limits nothing; write at least one of gpus, byModel and byResource",
            id="empty limits",
        ),
        pytest.param("{namespaces: [x], gpus: 1}", ".name: missing; write a string such as research", id="no name"),
        pytest.param("{name: a, gpus: 1}", ".namespaces: missing; write a list of strings", id="no namespaces"),
        pytest.param(
            "{name: a, namespaces: [], gpus: 1}",
            ".namespaces: names no namespace; write at least one name or glob",
            id="empty namespaces",
        ),
        pytest.param(
            '{name: a, namespaces: [ok, "[ab]*"], gpus: 1}',
            '.namespaces[1]: "[ab]*" cannot be a namespace; names have up to 63 lower-case letters, digits and inner '
            "dashes, and the only wildcards are * and ?",
            id="a character class",
        ),
        pytest.param(
            "{name: Research, namespaces: [x], gpus: 1}",
            '.name: "Research" cannot be the name of a shared quota; write up to 63 lower-case letters, digits and '
            "inner dashes, such as research",
            id="capitals",
        ),
        pytest.param(
            "{name: a.b, namespaces: [x], gpus: 1}",
            '.name: "a.b" cannot be the name of a shared quota; write up to 63 lower-case letters, digits and '
            "inner dashes, such as research",
            id="a dot",
        ),
        pytest.param(
            "{name: a, namespaces: [x], gpus: 1, unspecifiedModel: ~}",
            ".unspecifiedModel: is empty; write a value, or remove the line to inherit it from gpuQuota of "
            "_default.yaml",
            id="empty, and could be inherited",
        ),
        pytest.param(
            "{name: a, namespaces: [x], byModel: {T4: 1}, gpus: ~}",
            ".gpus: is empty; write a value, or remove the line",
            id="empty, and could not",
        ),
        pytest.param("~", ": is empty; write a value, or remove the entry", id="nothing"),
    ],
)
def test_a_faulty_shared_quota_is_told_with_line_key_fault_and_remedy(policies, shared_quota, expected) -> None:
    policies.shared_quotas(f"- {{name: good, namespaces: [x], gpus: 1}}\n- {shared_quota}")
    assert [f"_quotas.yaml:7: spec.quotas[1]{expected}"] == policies.errors()


def test_a_shared_quota_after_an_empty_one_keeps_its_place(policies) -> None:
    policies.shared_quotas("-\n- {name: a, namespaces: [~, X], gpus: 1}")
    assert [error.partition(": ")[2].split(": ")[0] for error in policies.errors()] == [
        "spec.quotas[0]",
        "spec.quotas[1].namespaces[0]",
        "spec.quotas[1].namespaces[1]",
    ]


@pytest.mark.parametrize("name", ["a" * 63, "0", "a--b"], ids=["63 characters", "a digit", "two dashes"])
def test_every_label_of_dns_is_a_name_for_a_shared_quota(policies, name) -> None:
    policies.shared_quotas(f'- {{name: "{name}", namespaces: [x], gpus: 1}}')
    assert the_shared_quota(policies).quota.name == name


@pytest.mark.parametrize(
    "name", ["a" * 64, "-a", "a-", "a_b", "ä", "a\\n", " "], ids=["long", "dash", "end", "_", "ä", "line", "blank"]
)
def test_nothing_else_is(policies, name) -> None:
    policies.shared_quotas(f'- {{name: "{name}", namespaces: [x], gpus: 1}}')
    (error,) = policies.errors()
    assert error.startswith("_quotas.yaml:6: spec.quotas[0].name: ")
    assert "cannot be the name of a shared quota" in error


def test_two_shared_quotas_of_one_name_are_an_error_that_names_both(policies) -> None:
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}\n- {name: b, namespaces: [x], gpus: 1}\n" * 2)
    assert policies.errors() == [
        '_quotas.yaml:8: spec.quotas[2].name: "a" is the name of spec.quotas[0] too; rename one of them',
        '_quotas.yaml:9: spec.quotas[3].name: "b" is the name of spec.quotas[1] too; rename one of them',
    ]


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


def test_a_broken_default_adds_no_noise_to_shared_quotas(policies) -> None:
    policies.write("_default.yaml", "x: [\n")
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}")
    assert [error.split(":")[0] for error in policies.errors()] == ["_default.yaml"]


HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [":1: the file is empty; write a GPUSharedQuotas, or remove the file"], id="empty"),
        pytest.param(
            "- a\n", [":1: not a map; a GPUSharedQuotas starts with apiVersion, kind, metadata and spec"], id="a list"
        ),
        pytest.param(
            HEAD.replace("SharedQuotas", "Policy") + "spec: {quotas: []}\n",
            [':2: kind: "GPUPolicy" is not allowed; write GPUSharedQuotas'],
            id="kind",
        ),
        pytest.param(
            HEAD.replace("_quotas", "quotas") + "spec: {quotas: []}\n",
            [':3: metadata.name: "quotas" is not allowed; write _quotas'],
            id="name",
        ),
        pytest.param(
            HEAD + "spec: {quota: []}\n",
            [
                ":4: spec.quota: unknown key; known keys are quotas; did you mean quotas?",
                ":4: spec.quotas: missing; write a list of maps",
            ],
            id="no shared quotas",
        ),
        pytest.param(
            HEAD + "spec:\n  quotas:\n",
            [":5: spec.quotas: is empty; write a list, or [] for no shared quotas"],
            id="empty shared quotas",
        ),
        pytest.param(
            HEAD + "spec:\n  quotas: {research: {gpus: ~}}\n",
            [
                ":5: spec.quotas: found a map; write a list of maps",
                ":5: spec.quotas.research.gpus: is empty; write a value, or remove the line",
            ],
            id="a map of shared quotas",
        ),
        pytest.param(
            "apiVersion: v1\nkind: GPUSharedQuotas\n",
            [
                ':1: apiVersion: "v1" is not allowed; write gpupolicy.dev/v1alpha1',
                ":1: metadata: missing; write a map",
                ":1: spec: missing; write a map",
            ],
            id="half a head",
        ),
    ],
)
def test_a_faulty_head_is_told(policies, text, expected) -> None:
    policies.write("_quotas.yaml", text)
    assert [f"_quotas.yaml{each}" for each in expected] == policies.errors()


@pytest.mark.parametrize("file", ["quotas", "_default"])
def test_shared_quotas_in_another_file_are_told_where_they_belong(policies, file) -> None:
    policies.write(f"{file}.yaml", HEAD + "spec: {quotas: []}\n")
    assert policies.errors() == [f"{file}.yaml:2: kind: GPUSharedQuotas stand in _quotas.yaml only; move them there"]


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
