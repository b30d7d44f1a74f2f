"""Every part that files may say has its own hash, is shown, and is loaded from what is shown."""

import pytest
import yaml

from tests.policy.conftest import PolicyDirectory
from webhook.policy.show import effective_policy, explain

SPECS = {
    "contact": "contact: '#a' | contact: '#b'",
    "workloads": "workloads: {mode: warn} | workloads: {mode: enforce} | workloads: {mode: disabled}",
    "deviceClasses": "deviceClasses: {a.b: {model: T4}} | deviceClasses: {a.b: {weight: '1/7'}}",
    "nodePools": "nodePools: [{name: a, driver: '550'}] | nodePools: [{name: a, driver: '570'}]",
    "transientTaints": "transientTaints: [a.b/c] | transientTaints: [a.b/d]",
    "accelerators": "accelerators: {extra: [{name: a.b/c, vendor: amd}]} | accelerators: {extra: [{name: a.b/c, "
    "vendor: intel}]}",
    "rules": "rules: {gpuLimits: {mode: warn}} | rules: {gpuLimits: {mode: enforce}}",
    "exceptions": "exceptions: {maxDays: 5} | exceptions: {maxDays: 6}",
}
OF_THE_SET = {"exceptions"}
"""Parts without a say in any policy."""
WHO = "source: me, date: unknown"
EXCEPTION = "[{name: a, namespaces: [x], match: {all: true}, rules: [gpuLimits], until: 2027-01-15, reason: %s}]"
OTHER_FILES = {
    "_quotas.yaml": [
        *(f"quotas: [{{name: {name}, namespaces: [x], gpus: 1}}]" for name in "ab"),
        "quotas: [{name: a, namespaces: [y], gpus: 1}]",
        "quotas: [{name: a, namespaces: [x], gpus: 2}]",
        "quotas: [{name: a, namespaces: [x], gpus: 1, mode: warn}]",
    ],
    "_cuda.yaml": [f"drivers: [{{branch: 650, cuda: '{cuda}', {WHO}}}]" for cuda in ("14.0", "14.1")],
    "_exceptions.yaml": [f"exceptions: {EXCEPTION % reason}" for reason in ("a", "b")],
    "x.yaml": ["namespaces: [x]\n  rules: {}", "namespaces: [y]\n  rules: {}"],
}
KINDS = {"_quotas": "GPUSharedQuotas", "_cuda": "GPUCudaTables", "_exceptions": "GPUPolicyExceptions"}


def write(policies: PolicyDirectory, file: str, spec: str) -> None:
    name = file.removesuffix(".yaml")
    head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: {KINDS.get(name, 'GPUPolicy')}\nmetadata: {{name: {name}}}\n"
    policies.write(file, f"{head}spec:\n  {spec}\n")


@pytest.mark.parametrize("part", SPECS)
def test_each_content_of_a_part_of_the_default_has_a_hash_of_its_own(policies: PolicyDirectory, part: str) -> None:
    write(policies, "_default.yaml", "rules: {}")
    exceptions = f"exceptions: {EXCEPTION % 'a'}" if part in OF_THE_SET else "exceptions: []"
    write(policies, "_exceptions.yaml", exceptions)
    sets = [policies.load()]
    contents = SPECS[part].split(" | ")
    for said in contents:
        write(policies, "_default.yaml", said if part == "rules" else f"{said}\n  rules: {{}}")
        sets.append(policies.load())
    assert len({one.hash for one in sets}) == len(sets)
    assert len({one.default.hash for one in sets}) == (1 if part in OF_THE_SET else len(sets))


@pytest.mark.parametrize("file", OTHER_FILES)
def test_each_content_of_another_file_has_a_hash_of_its_own(policies: PolicyDirectory, file: str) -> None:
    write(policies, "_default.yaml", "rules: {gpuLimits: {mode: warn}}")
    hashes = [policies.load().hash]
    for said in OTHER_FILES[file]:
        write(policies, file, said)
        hashes.append(policies.load().hash)
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("spec", ["quotas: []", "quotas: [{name: a, namespaces: [x], gpus: 1, mode: disabled}]"])
def test_shared_quotas_that_do_nothing_leave_the_hash_as_it_is(policies: PolicyDirectory, spec: str) -> None:
    write(policies, "_default.yaml", "rules: {}")
    without = policies.load().hash
    write(policies, "_quotas.yaml", spec)
    write(policies, "_cuda.yaml", "toolkits: []")
    write(policies, "_exceptions.yaml", "exceptions: []")
    assert policies.load().hash == without


def test_each_part_is_shown_with_its_file_and_what_is_shown_is_a_policy_file_that_says_the_same(
    policies: PolicyDirectory,
) -> None:
    shown = [SPECS[part].split(" | ")[1] for part in ("contact", "workloads", "nodePools", "transientTaints")]
    said = "\n  ".join([*shown, "deviceClasses: {a.b: {model: T4, weight: '1/7'}}"])
    write(policies, "_default.yaml", f"{SPECS['accelerators'].split(' | ')[0]}\n  {said}\n  rules: {{}}")
    policies.policy("team", "timeLimit: {mode: warn, max: 90m}")
    before = policies.load()
    text = explain(before, "team")
    assert "#   a.b/c: amd, whole\n" in text
    assert "  # from _default.yaml, with the labels that follow from what it says\n  nodePools:\n" in text
    assert "  # from _default.yaml\n  workloads:\n    mode: enforce\n" in text
    spec = yaml.safe_load(text)["spec"]
    assert (spec["contact"], spec["transientTaints"], spec["rules"]["timeLimit"]["max"]) == ("#b", ["a.b/d"], "1h30m")
    assert spec["deviceClasses"] == {"a.b": {"model": "T4", "weight": "1/7"}}
    assert spec["nodePools"][0]["labels"] == dict(before.default.node_pools[0].labels)
    policies.write("team.yaml", text)
    assert effective_policy(policies.load(), "team") == effective_policy(before, "team")
