"""`gpu-policy policy`: policies are checked, shown and documented."""

from pathlib import Path

import pytest
import yaml

from tests.command_line import gpu_policy

ROOT = Path(__file__).parents[2]


def test_good_policies_are_counted(here: Path) -> None:
    result = gpu_policy("policy", "check")
    assert (result.exit_code, result.stdout.startswith("policies: 1 policy, hash ")) == (0, True)


def test_show_prints_what_applies_to_a_namespace_as_a_policy_file(here: Path) -> None:
    result = gpu_policy("policy", "show", "team")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["spec"]["rules"]["gpuLimits"]["maxPerPod"] == 4


def test_shared_quotas_are_counted_and_shown_with_the_namespaces_they_limit(here: Path) -> None:
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\n"
    shared_quotas = "spec: {quotas: [{name: a, namespaces: [team], gpus: 3}]}\n"
    (here / "policies" / "_quotas.yaml").write_text(head + shared_quotas)
    assert "policies: 1 policy, 1 shared quota, hash " in gpu_policy("policy", "check").stdout
    assert "shared quota a of team: GPUs 3 (enforce, from _quotas.yaml)" in gpu_policy("policy", "show", "team").stdout
    assert "shared quota a" not in gpu_policy("policy", "show", "other").stdout


def test_a_mistake_in_shared_quotas_is_told_with_file_line_and_key(here: Path) -> None:
    (here / "policies" / "_quotas.yaml").write_text("kind: GPUSharedQuotas\n")
    result = gpu_policy("policy", "check")
    assert result.exit_code == 2
    assert "policies/_quotas.yaml:1: spec: missing; write a map" in result.stderr


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("schema", "docs/policy-schema.json"),
        ("schema --kind GPUSharedQuotas", "docs/quotas-schema.json"),
        ("schema --kind GPUCudaTables", "docs/cuda-tables-schema.json"),
        ("schema --kind GPUPolicyExceptions", "docs/exceptions-schema.json"),
        ("schema --kind GPUPolicyTest", "docs/policy-test-schema.json"),
        ("docs", "docs/rules.md"),
    ],
)
def test_generated_documents_are_up_to_date(command: str, file: str) -> None:
    """`make docs` writes them."""
    assert gpu_policy("policy", *command.split()).stdout == (ROOT / file).read_text(encoding="utf-8")
