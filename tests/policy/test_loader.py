"""Directory -> set of policies: what is accepted, and every error with file, line and key."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import golden
from tests.strategies import examples
from webhook.policy.directory import Contents
from webhook.policy.loader import build, load
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.file_errors import FileErrors

DEFAULT = """
sharedMemory: {mode: enforce, memoryFraction: 0.25}
gpuLimits: {mode: enforce, maxPerPod: 8}
ncclEnv:
  mode: warn
  env: {NCCL_DEBUG: WARN, NCCL_SOCKET_IFNAME: eth0}
tolerations:
  mode: enforce
  add:
  - {key: nvidia.com/gpu, operator: Exists}
"""


def rule(policy, key):
    return next(bound for bound in policy.rules if bound.rule.key == key)


def test_a_file_is_merged_over_the_default_and_says_where_each_rule_comes_from(policies) -> None:
    policies.policy("_default", DEFAULT)
    policies.policy(
        "team-vision",
        """
        sharedMemory: {size: 16Gi}
        ncclEnv: {env: {NCCL_DEBUG: INFO}}
        tolerations: {add: [{key: spot, operator: Exists}]}
        """,
    )
    policy = policies.load().for_namespace("team-vision")
    assert policy.files == ("_default.yaml", "team-vision.yaml")
    memory = rule(policy, "sharedMemory")
    assert (memory.mode, memory.settings.size, memory.origin) == (Mode.ENFORCE, 16 * 1024**3, "team-vision.yaml")
    assert rule(policy, "ncclEnv").settings.env == {"NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "eth0"}
    assert [entry.key for entry in rule(policy, "tolerations").settings.add] == ["spot"]
    limits = rule(policy, "gpuLimits")
    assert (limits.settings.max_per_pod, limits.origin) == (8, "_default.yaml")


def test_a_disabled_rule_and_one_that_no_file_names_are_left_out(policies) -> None:
    policies.policy("_default", "gpuLimits: {mode: enforce}")
    policies.policy("team-a", "gpuLimits: {mode: disabled}")
    assert policies.load().for_namespace("team-a").rules == ()


def test_without_a_default_only_named_namespaces_have_rules_and_a_notice_says_so(policies) -> None:
    policies.policy("team-a", "gpuLimits: {mode: enforce}")
    loaded = policies.load()
    (notice,) = loaded.notices
    assert notice.endswith("no such file, so namespaces without a file of their own have no rules")
    assert loaded.for_namespace("team-a").files == ("team-a.yaml",)
    assert (loaded.for_namespace("other").rules, loaded.for_namespace("other").files) == ((), ())


def test_a_rule_whose_settings_do_nothing_is_noted_where_it_is_written(policies) -> None:
    policies.policy("_default", "priorityClass: {mode: disabled}")
    policies.policy("team-a", "priorityClass: {mode: enforce}")
    policies.policy("team-b", "priorityClass: {mode: enforce, name: training}")
    policies.policy("team-c", "priorityClass: {whenMissing: warn}")
    expected = "does nothing in mode enforce; write name, allowed or both, or disable the rule"
    assert policies.load().notices == (f"{policies.path}/team-a.yaml:6: spec.rules.priorityClass: {expected}",)


def test_a_promise_that_no_webhook_keeps_is_noted_with_the_setting_that_does(policies) -> None:
    policies.policy("_default", "visibleDevices: {mode: enforce}")
    policies.policy("team-a", "visibleDevices: {nvidiaIsDefaultRuntime: true}")
    policies.policy("team-b", "visibleDevices: {nvidiaIsDefaultRuntime: true, images: allow, envFrom: allow}")
    policies.policy("team-c", "visibleDevices: {runtimeClasses: [nvidia, gpu-runtime]}")
    notices = policies.load().notices
    for file, notice in zip(("team-a.yaml", "team-c.yaml"), notices, strict=True):
        assert notice.startswith(
            f"{policies.path}/{file}:6: spec.rules.visibleDevices: images and envFrom cannot reach"
        )
        assert "accept-nvidia-visible-devices-envvar-when-unprivileged = false" in notice


def test_limits_of_models_that_the_same_policy_never_allows_are_noted(policies) -> None:
    policies.policy("_default", "gpuQuota: {mode: enforce, byModel: {H100: 4}}\ngpuTypes: {mode: enforce}")
    policies.policy("team-a", "gpuTypes: {allowed: [T4]}\ngpuQuota: {byModel: {H100: 4, T4: 2}}")
    policies.policy("team-b", "gpuTypes: {denied: [A100]}\ngpuQuota: {byModel: {A100: 1, L4: 1, H100: 1}}")
    policies.policy("team-c", "gpuTypes: {allowed: [T4]}")  # the limit is everybody's
    policies.policy("team-d", "gpuTypes: {allowed: ['amd.com/*']}\ngpuQuota: {byModel: {MI300X: 1}}")
    policies.policy("team-e", "gpuTypes: {allowed: [1g.10gb]}\ngpuQuota: {byModel: {H100: 1}}")
    policies.policy("team-f", "gpuTypes: {mode: warn, allowed: [T4]}\ngpuQuota: {byModel: {H100: 1}}")
    place, said = "spec.rules.gpuQuota.byModel", "which gpuTypes never allows; change one of the two"
    assert policies.load().notices == (
        f"{policies.path}/team-a.yaml:7: {place}: limits H100, {said}",
        f"{policies.path}/team-b.yaml:7: {place}: limits A100, {said}",
    )


def test_other_files_are_ignored(policies) -> None:
    policies.policy("_default")
    policies.write("README.md", "# Policies")
    policies.write(".hidden.yaml", "not: a policy")
    (policies.path / "examples").mkdir()
    (policies.path / "examples" / "bad.yaml").write_text("bad")
    assert [policy.name for policy in policies.load().policies] == ["_default"]


def test_a_fault_in_merged_settings_is_blamed_on_the_file_that_wrote_it(policies) -> None:
    policies.policy("_default", "gpuLimits: {mode: enforce}\nncclEnv:\n  mode: warn\n  minGpus: 0\n")
    policies.policy("team-a", "ncclEnv: {env: {A: b}}\ngpuLimits:\n  mode: enforce\n  maxPerPod: x\n")
    assert policies.errors() == [
        "_default.yaml:9: spec.rules.ncclEnv.minGpus: 0 is out of range; write a whole number of at least 1",
        'team-a.yaml:9: spec.rules.gpuLimits.maxPerPod: "x" is a string; write a whole number of at least 0',
    ]


def test_all_errors_of_all_files_come_at_once_sorted_by_file_and_line(policies) -> None:
    policies.policy("b", "gpuLimits: {mode: off, maxPerPod: -1}\nnope: {}\n")
    policies.write("a.yaml", "x: [\n")
    policies.write("_quota.yaml", "")
    policies.write("c.yml", "")
    policies.policy("_default", "tolerations: {}")
    errors = policies.errors()
    assert [error.split(": ")[0] for error in errors] == [
        "_default.yaml:6",
        "_quota.yaml",
        "a.yaml:2",
        "b.yaml:6",
        "b.yaml:6",
        "b.yaml:7",
        "c.yml",
    ]


def test_a_broken_default_does_not_add_noise_to_files_that_inherit_from_it(policies) -> None:
    policies.write("_default.yaml", "x: [\n")
    policies.policy("team-a", "gpuLimits: {maxPerPod: 8}")
    assert [error.split(":")[0] for error in policies.errors()] == ["_default.yaml"]


@golden
def test_a_file_that_looks_like_a_policy_is_never_ignored(policies, file, expected) -> None:
    policies.policy("_default")
    policies.write(file, "")
    assert [f"{file}: {expected}"] == policies.errors()


def test_a_file_name_that_is_not_utf8_is_an_error_that_can_be_printed(policies) -> None:
    policies.policy("_default")
    (policies.path / b"t\xffm.yaml".decode("utf-8", "surrogateescape")).write_text("")
    (error,) = policies.errors()
    assert error.encode() == b"t\\udcffm.yaml: the file's name is not UTF-8; rename it"


def test_what_cannot_be_read_is_an_error(policies) -> None:
    policies.policy("_default")
    (policies.path / "gone.yaml").symlink_to("nowhere")
    (policies.path / "loop.yaml").symlink_to("loop.yaml")
    (policies.path / "map.yaml").mkdir()
    assert policies.errors() == [
        "gone.yaml: cannot be read: No such file or directory",
        "loop.yaml: cannot be read: Too many levels of symbolic links",
        "map.yaml: cannot be read: not a file",
    ]


def test_a_directory_without_policies_is_an_error(policies) -> None:
    policies.write("README.md", "")
    with pytest.raises(FileErrors, match=r"holds no policy file; write _default.yaml or <namespace>.yaml"):
        policies.load()


def test_a_missing_directory_is_an_error(tmp_path) -> None:
    with pytest.raises(FileErrors, match="cannot be read as a directory of policies: No such file or directory"):
        load(tmp_path / "missing")


PIECES = (
    *(b"&a ", b"*a", b"<<: ", b"null", b"-1", b"1e999", b"1/0", b"[", b"]", b"{", b"}"),
    *(b"off", b"\n", b"  ", b"- ", b"? ", b"!!int "),
)


@st.composite
def damaged(draw: st.DrawFn, text: bytes) -> bytes:
    """A file of YAML with a few pieces cut out or put in."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.sampled_from(PIECES) | st.binary(max_size=4)) + text[end:]
    return text


VALID = (
    b"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: a}\nspec:\n  namespaces: [a, 'b-*']\n"
    b"  rules:\n    gpuLimits: {mode: enforce, maxPerPod: 8}\n    ncclEnv: {mode: warn, env: {A: b}}\n"
    b"    nodeAffinity: {mode: audit, required: [{key: a, operator: In, values: [b]}]}\n"
)

VALID_SHARED_QUOTAS = (
    b"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\nspec:\n  quotas:\n"
    b"    - {name: a, namespaces: [x, 'y-*'], gpus: 1, byModel: {T4: 2}, weights: {nvidia.com/gpu.shared: '1/4'}}\n"
    b"    - {name: b, namespaces: ['*'], byResource: {amd.com/gpu: 2}, mode: warn, onLedgerFailure: allow}\n"
)


@settings(max_examples=examples(500))
@given(
    damaged(VALID) | damaged(VALID_SHARED_QUOTAS) | st.binary(max_size=100),
    st.sampled_from(["a.yaml", "_default.yaml", "_quotas.yaml"]),
)
def test_whatever_a_file_holds_the_only_exception_is_policy_errors(source: bytes, file: str) -> None:
    contents = Contents(Path("policies"), ((file, source), ("z.yaml", VALID.replace(b"a}", b"z}"))), (), "")
    try:
        build(contents)
        errors = ()
    except FileErrors as caught:
        errors = caught.errors
    assert all(error.path.startswith("policies/") and "Input should" not in error.message for error in errors)
