"""visibleDevices in pods with GPUs: one of them is no key to the others."""

import pytest

from tests.rules.samples import container, messages, mutated, pod
from tests.rules.visible_devices_samples import IMAGES_MAY, PRIVILEGED, VOID, device, told
from webhook.rules.visible_devices import RULE


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu", "gpu.intel.com/xe"])
@pytest.mark.parametrize("spec", [{}, {"runtimeClassName": "nvidia"}, {"runtimeClassName": "kata"}], ids=str)
def test_a_privileged_container_in_a_pod_with_a_gpu_is_refused(resource, spec):
    raw = pod(container(gpus=1, resource=resource), container("shell", **PRIVILEGED), **spec)
    assert messages(RULE, raw, IMAGES_MAY) == [
        "spec.containers[shell].securityContext.privileged: is privileged in a pod that requests GPUs; "
        "such a container sees every GPU of its node. Drop privileged."
    ]


def test_kubectl_debug_with_the_profile_sysadmin_is_refused(says):
    raw = pod(container(gpus=1), ephemeralContainers=[container("debugger-x2k", **PRIVILEGED)])
    says(messages(RULE, raw))


@pytest.mark.parametrize("path", ["/dev/nvidia7", "/dev/dri", "/dev/char/195:7", "/run/nvidia/driver"])
def test_a_pod_with_a_gpu_must_not_mount_the_device_files_of_others(path):
    raw = pod(container(gpus=1), volumes=[device(path)])
    assert messages(RULE, raw) == [
        f"spec.volumes[dev].hostPath: mounts {path} in a pod that requests GPUs; a container gets the device files of "
        "its own GPUs, and no others, without any volume. Remove the volume."
    ]


def env_from(*prefixes):
    return {"envFrom": [{"configMapRef": {"name": "c"}, **({"prefix": one} if one else {})} for one in prefixes]}


@pytest.mark.parametrize("prefixes", [("",), ("N",), ("NVIDIA_",), ("APP_", "")], ids=str)
def test_a_config_map_that_may_set_the_variable_of_a_gpu_is_refused_where_the_policy_says_so(prefixes):
    raw = pod(container(gpus=1, **env_from(*prefixes)))
    expected = (
        "spec.containers[trainer].envFrom: may set NVIDIA_VISIBLE_DEVICES, which the ConfigMap or Secret decides; "
        "nobody can see here which GPUs the container gets. Take single keys with env.valueFrom, or set a prefix that "
        "NVIDIA_VISIBLE_DEVICES does not begin with."
    )
    assert messages(RULE, raw, {"envFrom": "deny"}) == [expected]
    assert told(raw, {"envFrom": "warn"}) == told(raw) == [expected]
    assert messages(RULE, raw, {"envFrom": "allow"}) == told(raw, {"envFrom": "allow"}) == []


@pytest.mark.parametrize("prefixes", [("APP_",), ("nvidia_",), ("NVIDIA_VISIBLE_DEVICES_",), ("CUDA_",)], ids=str)
def test_a_prefix_that_cannot_make_the_variable_is_harmless(prefixes):
    raw = pod(container(gpus=1, **env_from(*prefixes)))
    assert messages(RULE, raw, {"envFrom": "deny"}) == []


@pytest.mark.parametrize("prefix", ["", "CUDA_"])
def test_the_same_holds_without_gpus_under_the_toolkit_until_env_says_void(prefix):
    raw = pod(container(**env_from(prefix)), runtimeClassName="nvidia")
    (message,) = messages(RULE, raw, {"envFrom": "deny", "images": "allow"})
    assert message.endswith("Set NVIDIA_VISIBLE_DEVICES to void in env, which beats envFrom.")
    raw["spec"]["containers"][0]["env"] = [VOID]
    assert messages(RULE, raw, {"envFrom": "deny"}) == []
    assert messages(RULE, pod(container(**env_from(prefix))), {"envFrom": "deny"}) == []


def test_what_gets_void_injected_is_not_told_of_its_config_map_or_image():
    raw = pod(container(gpus=1), container("proxy", **env_from("")), runtimeClassName="nvidia")
    strict = {"envFrom": "deny", "images": "deny"}
    assert messages(RULE, raw, strict) == []
    assert messages(RULE, mutated(RULE, raw), strict) == []


DEBUGGED = {"ephemeralContainers": [container("debugger", image="nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04")]}


@pytest.mark.parametrize("gpus", [1, None], ids=["beside a GPU", "without any"])
def test_a_debug_container_under_the_toolkit_says_that_it_wants_no_gpu(gpus):
    raw = pod(container(gpus=gpus, env=[] if gpus else [VOID]), runtimeClassName="nvidia", **DEBUGGED)
    assert messages(RULE, raw) == [
        "spec.ephemeralContainers[debugger].env: has no NVIDIA_VISIBLE_DEVICES under runtimeClassName nvidia, and the "
        "container requests no NVIDIA GPU; its image may set the variable, as CUDA images do, and then the container "
        "sees every GPU of its node. Use kubectl debug --env=NVIDIA_VISIBLE_DEVICES=void."
    ]
    assert len(told(raw, {"debugContainers": "warn"})) == 1
    assert messages(RULE, raw, {"debugContainers": "allow"}) == []
    raw["spec"]["ephemeralContainers"] = [{**DEBUGGED["ephemeralContainers"][0], "env": [VOID]}]
    assert messages(RULE, raw) == []


def test_a_debug_container_under_another_runtime_says_nothing_of_gpus():
    assert messages(RULE, pod(container(gpus=1), **DEBUGGED)) == []
    assert len(messages(RULE, pod(container(gpus=1), **DEBUGGED), {"nvidiaIsDefaultRuntime": True})) == 1


@pytest.mark.parametrize("setting_name", ["privileged", "deviceFiles", "annotations"])
def test_what_a_platform_allows_is_a_setting(setting_name):
    raw = pod(container(gpus=1, **PRIVILEGED), volumes=[device("/dev/nvidia7")])
    raw["metadata"]["annotations"] = {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}
    assert len(messages(RULE, raw)) == 3
    assert len(messages(RULE, raw, {setting_name: "allow"})) == 2
    assert len(told(raw, {setting_name: "warn"})) == 1
