"""What holds in a namespace, for people."""

import yaml

from webhook.policy.show import effective_policy, explain

DEFAULT = """
tolerations: {mode: enforce}
sharedMemory: {mode: enforce, memoryFraction: 0.25}
gpuLimits: {mode: enforce, maxPerPod: 8}
"""
OWN = """
sharedMemory: {size: 16Gi}
gpuLimits: {mode: disabled}
ncclEnv: {mode: warn, env: {NCCL_DEBUG: "", X: "1"}}
"""


def test_each_rule_says_from_which_files_its_settings_are(policies) -> None:
    policies.policy("_default", DEFAULT)
    policies.policy("vision", OWN, '["vision-*"]')
    loaded = policies.load()
    text = explain(loaded, "vision-1")
    lines = text.splitlines()
    short = loaded.for_namespace("vision-1").short_hash
    assert lines[0] == f"# namespace vision-1: policy vision ({short}), vision.yaml over _default.yaml"
    origins = "# from _default.yaml: mode; from vision.yaml: size"
    assert f"    {origins}\n    sharedMemory:\n      mode: enforce\n      ifMissing: warn" in text
    assert "    # from vision.yaml\n    ncclEnv:\n      mode: warn" in text
    assert "    # from _default.yaml\n    tolerations:" in text
    assert "    # disabled, or named in no file\n    gpuLimits:\n      mode: disabled" in text


def test_sizes_and_empty_values_are_shown_as_people_write_them(policies) -> None:
    policies.policy("_default", DEFAULT)
    policies.policy("a", OWN)
    rules = yaml.safe_load(explain(policies.load(), "a"))["spec"]["rules"]
    assert rules["sharedMemory"] == {"mode": "enforce", "ifMissing": "warn", "minGpus": 1, "size": "16Gi"}
    assert rules["ncclEnv"]["env"] == {"NCCL_DEBUG": "", "X": "1"}
    assert rules["tolerations"]["add"][1] == {
        "key": "amd.com/gpu",
        "operator": "Exists",
        "effect": "NoSchedule",
        "resources": ["amd.com/*", "deviceclass.resource.kubernetes.io/*.amd.com"],
    }


def test_what_is_shown_is_a_policy_file_that_says_the_same(policies) -> None:
    policies.policy("_default", DEFAULT)
    policies.policy("a", OWN)
    before = policies.load()
    text = explain(before, "a")
    policies.write("a.yaml", text)
    after = policies.load()
    assert effective_policy(after, "a") == effective_policy(before, "a")
    assert [(bound.rule.key, bound.mode, bound.settings.model_dump()) for bound in after.for_namespace("a").rules] == [
        (bound.rule.key, bound.mode, bound.settings.model_dump()) for bound in before.for_namespace("a").rules
    ]


def test_a_namespace_without_any_policy_is_shown_as_such(policies) -> None:
    policies.policy("a", "gpuLimits: {mode: warn}")
    text = explain(policies.load(), "other")
    assert text.splitlines()[0].endswith(", no file")
    assert all(rule == {"mode": "disabled"} for rule in yaml.safe_load(text)["spec"]["rules"].values())


QUOTAS = """
- {name: b, namespaces: [team, "team-*"], gpus: 16, mode: warn}
- {name: a, namespaces: [team], byModel: {H100: 4}}
- {name: other, namespaces: [x], gpus: 1}
"""


def test_every_quota_of_the_namespace_is_named_with_its_limits_mode_and_file(policies) -> None:
    policies.policy("team", 'gpuQuota: {mode: audit, gpus: 8, byResource: {"nvidia.com/mig-1g.10gb": 14}}')
    policies.shared_quotas(QUOTAS)
    lines = explain(policies.load(), "team").splitlines()
    assert lines[lines.index("# quotas, all of which hold:") :] == [
        "# quotas, all of which hold:",
        "#   namespace team: GPUs 8, nvidia.com/mig-1g.10gb 14 (audit, from team.yaml)",
        "#   shared quota a of team: H100 4 (enforce, from _quotas.yaml)",
        "#   shared quota b of team, team-*: GPUs 16 (warn, from _quotas.yaml)",
    ]


def test_a_namespace_without_quotas_is_shown_as_such(policies) -> None:
    policies.policy("team", "gpuQuota: {mode: enforce}")
    policies.shared_quotas(QUOTAS)
    assert explain(policies.load(), "elsewhere").splitlines()[-1] == "# quotas: none"


def test_what_is_shown_of_a_quota_is_a_policy_file_that_says_the_same(policies) -> None:
    policies.policy(
        "team",
        """
        gpuQuota:
          mode: enforce
          gpus: 8
          byModel: {H100: 4}
          byResource: {"nvidia.com/mig-1g.10gb": 14}
          unspecifiedModel: deny
          weights: {nvidia.com/gpu.shared: "1/4"}
          onLedgerFailure: allow
        """,
    )
    before = policies.load()
    policies.write("team.yaml", explain(before, "team"))
    assert policies.load().quotas_for("team") == before.quotas_for("team")
