"""Pods whose containers load the libcuda of cuda-compat are warned, or refused, where CUDA fails with it."""

from typing import Any

import pytest

from tests.build import policies
from tests.golden import each
from tests.rules.samples import container, pod, settings_of
from tests.rules.test_cuda_driver import DRIVER, cluster, excluded, gpu_pod, told
from tests.rules.test_driver_changes import changing
from tests.upgrades.test_changes import nodes, plan_for
from tests.upgrades.test_changes import pod as planned_pod
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.cuda_driver import RULE
from webhook.rules.rule import Advice, Violation
from webhook.upgrades.driver_plan import WorkloadChange

PRODUCT = "nvidia.com/gpu.product"
VLLM, MENDED = "vllm/vllm-openai:v0.15.0", "vllm/vllm-openai:v0.17.0"
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", DRIVER: "570.195.03", "nvidia.com/cuda.driver-version.major": "570"}
NEW = {PRODUCT: "NVIDIA-H100-80GB-HBM3", DRIVER: "580.95.05", "nvidia.com/cuda.driver-version.major": "580"}
GEFORCE = {PRODUCT: "NVIDIA-GeForce-RTX-4090", DRIVER: "570.211.01"}
COMPAT = "/usr/local/cuda/compat"


def with_env(image: str, **more: Any) -> dict[str, Any]:
    """A pod with one GPU; `more` are other fields of its container."""
    return pod({**container("c0", gpus=1, image=image), **more})


@each("labels, error", {"newer": (NEW, "803"), "older": (GEFORCE, "804")})
def test_the_author_is_told_the_error_its_reason_and_the_way_out(labels: dict[str, str], error: str) -> None:
    (advice,) = told(gpu_pod(VLLM), cluster(labels))
    assert isinstance(advice, Advice)
    assert advice.where == "spec.containers[c0].image"
    assert f"CUDA fails with error {error}" in advice.found
    assert "its cuda-compat library (driver branch 575) is loaded before the driver's" in advice.found
    assert advice.remedy.startswith("Use release 0.17.0 or newer of the image, or set env LD_LIBRARY_PATH=/usr/local/")
    assert told(gpu_pod(MENDED), cluster(NEW)) == []


def test_a_policy_can_refuse_it_or_say_nothing() -> None:
    (violation,) = told(gpu_pod(VLLM), cluster(NEW), forcedCompat="deny")
    assert isinstance(violation, Violation)
    assert "error 803" in violation.found
    assert violation.remedy.startswith("Use release 0.17.0 or newer of the image")
    assert told(gpu_pod(VLLM), cluster(NEW), forcedCompat="allow", unknown="deny") == []


def test_only_a_policy_that_refuses_it_keeps_pods_off_such_nodes() -> None:
    facts = cluster(H100, NEW)
    assert excluded(gpu_pod(VLLM), facts) == []
    (advice,) = told(gpu_pod(VLLM), facts)
    assert "on 1 node with NVIDIA-H100-80GB-HBM3, driver 580.95.05: " in str(advice)
    (expression,) = excluded(gpu_pod(VLLM), facts, forcedCompat="deny")
    assert expression["values"] == ["580"]


def test_the_pod_decides_with_its_own_path_and_switch() -> None:
    forced = with_env(MENDED, env=[{"name": "VLLM_ENABLE_CUDA_COMPATIBILITY", "value": "1"}])
    (advice,) = told(forced, cluster({**NEW, DRIVER: "595.58.03"}))
    assert "error 803" in str(advice)
    assert str(advice).endswith("Remove env VLLM_ENABLE_CUDA_COMPATIBILITY.")
    path = "/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu:/usr/local/cuda/lib64"
    assert told(with_env(VLLM, env=[{"name": "LD_LIBRARY_PATH", "value": path}]), cluster(NEW)) == []


@each(
    "more",
    {
        "variables": {"env": [{"name": "LD_LIBRARY_PATH", "value": f"{COMPAT}:$(MORE)"}]},
        "another source": {"env": [{"name": "LD_LIBRARY_PATH", "valueFrom": {"fieldRef": {}}}]},
        "envFrom": {"envFrom": [{"configMapRef": {"name": "x"}}]},
        "a command that may mend it": {"command": ["sh", "-c", "ldconfig /usr/lib && exec vllm"]},
        "arguments that may mend it": {"args": ["bash", "-c", "rm -r /usr/local/cuda/compat"]},
    },
)
def test_what_may_be_otherwise_is_never_refused(more: dict[str, Any]) -> None:
    found = told(with_env(VLLM, **more), cluster(NEW), forcedCompat="deny")
    assert not any(isinstance(one, Violation) for one in found)


def test_a_config_map_that_may_set_the_path_does_not_silence_the_warning() -> None:
    (advice,) = told(with_env(VLLM, envFrom=[{"configMapRef": {"name": "x"}}]), cluster(NEW))
    assert "error 803 (system driver mismatch), unless envFrom sets LD_LIBRARY_PATH" in str(advice)
    assert (
        str(told(with_env(VLLM, envFrom=[{"prefix": "APP_", "configMapRef": {"name": "x"}}]), cluster(NEW))[0]).count(
            "unless"
        )
        == 0
    )


def test_the_same_branch_is_unknown_and_what_the_policy_says_of_unknown_counts() -> None:
    facts = cluster({**NEW, DRIVER: "575.57.08", "nvidia.com/cuda.driver-version.major": "575"})
    assert told(gpu_pod(VLLM), facts) == []
    (advice,) = told(gpu_pod(VLLM), facts, unknown="warn")
    assert "error 803 if the driver (575.57.08) is newer, which is not known" in str(advice)


def test_a_pod_is_told_before_a_pool_gets_a_driver_with_which_it_fails() -> None:
    own = {**H100, "pool": "old"}
    facts = cluster(own).with_pools((changing("580.95.05", labels=H100),))
    (advice,) = list(RULE.validate(pod_from_raw(gpu_pod(VLLM)), settings_of(RULE, {}), facts))
    assert "will not run there" in str(advice)
    assert "error 803" in str(advice)
    assert list(RULE.validate(pod_from_raw(gpu_pod(MENDED)), settings_of(RULE, {}), facts)) == []


@pytest.mark.parametrize("setting", ["warn", "deny"])
def test_a_plan_counts_it_as_breaking_with_the_way_out(setting: str) -> None:
    facts = ClusterFacts.of(nodes(2, "NVIDIA-H100-80GB-HBM3", "570.195.03", "a"))
    using = policies({"cudaDriver": {"forcedCompat": setting}})
    found = plan_for(planned_pod("x", VLLM), facts, "pool=a=580.95.05", using=using)
    assert found.change is WorkloadChange.BREAKS
    assert "error 803" in found.reason
    assert "0.17.0" in found.remedy
    assert plan_for(planned_pod("x", MENDED), facts, "pool=a=580.95.05", using=using).change is WorkloadChange.SAME


def test_a_plan_counts_nothing_that_the_platform_allows() -> None:
    facts = ClusterFacts.of(nodes(2, "NVIDIA-H100-80GB-HBM3", "570.195.03", "a"))
    using = policies({"cudaDriver": {"forcedCompat": "allow"}})
    assert plan_for(planned_pod("x", VLLM), facts, "pool=a=580.95.05", using=using).change is WorkloadChange.SAME


@pytest.mark.parametrize("requirement", ["cuda>=12.0,arch>=8.0", "arch>8.6", "arch>=9.0,brand=tesla arch>=8.0"])
def test_a_requirement_of_another_gpu_makes_it_unknown_because_only_some_toolkits_check_it(requirement: str) -> None:
    env = [{"name": "NVIDIA_REQUIRE_CUDA", "value": requirement}, {"name": "CUDA_VERSION", "value": "12.4.1"}]
    raw = with_env("registry.example.com/app:1", env=env)
    t4 = cluster({PRODUCT: "Tesla-T4", DRIVER: "580.95.05"})
    (violation,) = told(raw, t4, unknown="deny")
    assert "NVIDIA_REQUIRE_CUDA asks for another compute capability (arch); Tesla-T4 has 7.5" in str(violation)
    (advice,) = told(raw, t4)
    assert "does not start it. " in str(advice)
    assert told(raw, cluster(NEW), unknown="deny") == []
    disabled = [*env, {"name": "NVIDIA_DISABLE_REQUIRE", "value": "true"}]
    assert told(with_env("registry.example.com/app:1", env=disabled), t4, unknown="deny") == []
