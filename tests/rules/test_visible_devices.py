"""Nobody gets a GPU without asking for one, and nobody more than that: what a pod does to get at others is refused."""

import pytest
from hypothesis import strategies as st

from tests.golden import each, golden
from tests.rules.rule_case import RuleCase, RulePods, any_of, container_with, spec_with
from tests.rules.samples import container, is_left_alone, messages, mutated, pod
from tests.rules.visible_devices_samples import IMAGES_MAY, PRIVILEGED, VOID, device, told
from webhook.rules.visible_devices import RULE

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
FROM_FIELD = {"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['gpus']"}}}


def setting(value):
    return [{"name": VARIABLE, "value": value}]


@pytest.mark.parametrize("env", [{}, {"env": None}, {"env": []}], ids=["absent", "null", "empty"])
def test_the_containers_of_a_gpu_pod_that_ask_for_none_get_void(env):
    raw = pod(
        container(gpus=1),
        container("proxy", **env),
        initContainers=[container("fetch"), container("mesh", restartPolicy="Always")],
    )
    spec = mutated(RULE, raw)["spec"]
    assert "env" not in spec["containers"][0]
    assert [c["env"] for c in (spec["containers"][1], *spec["initContainers"])] == [[VOID], [VOID], [VOID]]
    assert messages(RULE, {"spec": spec}) == []


@pytest.mark.parametrize("gpus", [0, "0", None], ids=repr)
def test_zero_gpus_are_none(gpus):
    raw = pod(container(gpus=1), container("proxy", resources={"limits": {"nvidia.com/gpu": gpus}}))
    assert mutated(RULE, raw)["spec"]["containers"][1]["env"] == [VOID]


def test_void_is_also_set_beside_env_from_because_it_wins_over_it():
    raw = pod(container(gpus=1), container("proxy", envFrom=[{"configMapRef": {"name": "devices"}}]))
    assert mutated(RULE, raw)["spec"]["containers"][1]["env"] == [VOID]


@each(
    "raw",
    {
        "a pod without GPUs": pod(container()),
        "only containers with GPUs": pod(container(gpus=1), container("b", 2)),
        "the user sets it": pod(container(gpus=1), container("b", env=setting("all"))),
        "the user sets it from a field": pod(container(gpus=1), container("b", env=[FROM_FIELD])),
        "a claim": pod(container(gpus=1), container("b", resources={"claims": [{"name": "gpu"}]})),
        "memory of a GPU, which another webhook turns into one": pod(
            container(gpus=1), container("b", resources={"limits": {"nvidia.com/gpumem": 1000}})
        ),
        "AMD": pod(container(gpus=1, resource="amd.com/gpu"), container("b")),
        "Intel": pod(container(gpus=1, resource="gpu.intel.com/xe"), container("b")),
        "passthrough": pod(container(gpus=1, resource="nvidia.com/pgpu"), container("b")),
        "an ephemeral container": pod(container(gpus=1), ephemeralContainers=[container("debug")]),
    },
)
def test_other_containers_are_left_alone(raw):
    assert is_left_alone(RULE, raw)


@each(
    "entry, shown",
    {
        "all": ({"value": "all"}, '"all"'),
        "void, which hides the GPUs that it asks for": ({"value": "void"}, '"void"'),
        "an index": ({"value": "0"}, '"0"'),
        "nothing": ({}, '""'),
        "valueFrom": ({"valueFrom": FROM_FIELD["valueFrom"]}, "set by valueFrom"),
        "a long text": ({"value": "GPU-" + "f" * 80}, '"GPU-' + "f" * 53 + '..."'),
    },
)
def test_a_container_that_asks_for_gpus_must_not_set_it(entry, shown):
    raw = pod(container(gpus=1, env=[{"name": VARIABLE, **entry}]))
    assert messages(RULE, raw) == [
        f"spec.containers[trainer].env[NVIDIA_VISIBLE_DEVICES]: is {shown} in a container that requests GPUs; "
        "the device plugin sets it, and a value in the pod beats the plugin's. Remove the variable."
    ]


@pytest.mark.parametrize("harmless", ["void", "none", "", None], ids=repr)
def test_a_container_without_gpus_may_say_that_it_wants_none(harmless):
    assert messages(RULE, pod(container(env=setting(harmless)))) == []
    assert messages(RULE, pod(container(gpus=1), container("launcher", env=setting(harmless)))) == []
    assert messages(RULE, pod(container(gpus=1, resource="amd.com/gpu", env=setting(harmless)))) == []


@each(
    "env, shown",
    {
        "all": (setting("all"), '"all"'),
        "indexes": (setting("0,1"), '"0,1"'),
        "void and all": (setting("void,all"), '"void,all"'),
        "a blank before": (setting(" void"), '" void"'),
        "capitals": (setting("VOID"), '"VOID"'),
        "a reference": (setting("$(DEVICES)"), '"$(DEVICES)"'),
        "a number": (setting(0), '"0"'),
        "valueFrom": ([FROM_FIELD], "set by valueFrom"),
        "void, then all": ([VOID, *setting("all")], '"all"'),
        "all, then void": ([*setting("all"), VOID], '"all"'),
    },
)
@pytest.mark.parametrize("list_name", ["containers", "initContainers", "ephemeralContainers"])
def test_a_container_without_gpus_must_not_obtain_them_through_it(list_name, env, shown):
    raw = pod(container("a"))
    raw["spec"][list_name] = [container("b", env=env)]
    expected = (
        f"spec.{list_name}[b].env[NVIDIA_VISIBLE_DEVICES]: is {shown} in a container without NVIDIA GPUs in its "
        "limits; it may only be void, none or empty there. Request a GPU in resources.limits, or set it to void."
    )
    assert messages(RULE, raw) == [expected]
    raw["spec"].setdefault("containers", []).append(container("trainer", 1))
    assert messages(RULE, raw) == [expected]


def test_a_container_with_gpus_of_another_vendor_must_not_either():
    raw = pod(container(gpus=1, resource="amd.com/gpu", env=setting("all")))
    (message,) = messages(RULE, raw)
    assert 'is "all" in a container without NVIDIA GPUs' in message


@golden
def test_a_pod_without_gpus_must_not_mount_device_files(path):
    raw = pod(container(), volumes=[device(path)])
    assert messages(RULE, raw) == [
        f"spec.volumes[dev].hostPath: mounts {path} in a pod that requests no GPU; "
        "GPU device files come with a GPU in resources.limits. "
        "Remove the volume, and request a GPU where the pod needs one."
    ]


@each(
    "resources",
    {
        "a claim of anything": {"claims": [{"name": "nic"}]},
        "no memory of a GPU": {"limits": {"nvidia.com/gpumem": "0"}},
        "memory of a GPU": {"limits": {"nvidia.com/gpumem": "10"}},
        "no GPU": {"limits": {"nvidia.com/gpu": "0"}},
    },
)
def test_what_only_looks_like_a_gpu_opens_no_device(resources):
    """A name that costs nothing to write must not switch the rule off."""
    raw = pod(container(resources=resources, securityContext={"privileged": True}), volumes=[device("/dev/nvidia0")])
    raw["spec"]["runtimeClassName"] = "nvidia"
    assert len(messages(RULE, raw, IMAGES_MAY)) == 2


@each(
    "raw",
    {
        "another device": pod(container(), volumes=[device("/dev/shm")]),
        "the folder of all devices": pod(container(), volumes=[device("/dev")]),
        "a name that starts alike": pod(container(), volumes=[device("/dev/driver")]),
        "another folder": pod(container(), volumes=[device("/opt/nvidia0")]),
        "null": pod(container(), volumes=[{"name": "dev", "hostPath": None}]),
        "another folder of the operator": pod(container(), volumes=[device("/run/nvidia/toolkit")]),
        "the folder of links to devices": pod(container(), volumes=[device("/dev/char")]),
        "somebody's own folder": pod(container(), volumes=[device("/data/dev/nvidia-models")]),
        "libraries in a pod with GPUs": pod(container(gpus=1), volumes=[device("/usr/local/nvidia")]),
    },
)
def test_other_volumes_are_nobodys_business(raw):
    assert messages(RULE, raw) == []


@pytest.mark.parametrize("name", ["nvidia", "nvidia-cdi", "nvidia-legacy"])
def test_a_pod_without_gpus_must_not_be_privileged_under_the_toolkit(name):
    raw = pod(container(**PRIVILEGED), container("b"), runtimeClassName=name)
    assert messages(RULE, raw, IMAGES_MAY) == [
        f"spec.containers[trainer].securityContext.privileged: is privileged under runtimeClassName {name} and "
        "requests no GPU; such a container sees every GPU of its node. Drop privileged or runtimeClassName."
    ]


@each(
    "raw",
    {
        "no runtime class": pod(container(**PRIVILEGED)),
        "an empty runtime class": pod(container(**PRIVILEGED), runtimeClassName=""),
        "another runtime class": pod(container(**PRIVILEGED), runtimeClassName="kata"),
        "not privileged": pod(container(), runtimeClassName="nvidia"),
        "privileged: false": pod(container(securityContext={"privileged": False}), runtimeClassName="nvidia"),
    },
)
def test_privileges_alone_or_the_runtime_class_alone_are_allowed(raw):
    assert messages(RULE, raw, IMAGES_MAY) == []


def test_the_runtime_classes_of_the_toolkit_are_a_setting():
    raw = pod(container(**PRIVILEGED), runtimeClassName="gpu-runtime")
    assert messages(RULE, raw) == []
    assert len(messages(RULE, raw, {"runtimeClasses": ["gpu-*"], **IMAGES_MAY})) == 1


def test_everything_is_told_at_once():
    raw = pod(
        container("a", env=setting("all"), **PRIVILEGED),
        container("b", env=[FROM_FIELD]),
        volumes=[device("/dev/nvidia0")],
        runtimeClassName="nvidia",
    )
    assert len(messages(RULE, raw)) == 4


def test_a_gpu_of_another_vendor_opens_no_nvidia_device(says):
    """The pod has a GPU, but not the one that it reaches for."""
    raw = pod(
        container(resources={"limits": {"amd.com/gpu": 1}}, securityContext={"privileged": True}),
        volumes=[device("/dev/nvidia0"), {"name": "dri", "hostPath": {"path": "/dev/dri"}}],
    )
    raw["spec"]["runtimeClassName"] = "nvidia"
    says([message.partition(":")[0] for message in messages(RULE, raw, IMAGES_MAY)])


def _with_a_sidecar(raw):
    return spec_with(raw, "containers", [{"name": "upload", "image": "registry.example.com/upload:1"}])


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


CASE = RuleCase(
    pods=lambda raw: RulePods(
        lacks=_with_a_sidecar(raw), breaks=container_with(raw, "env", [{"name": VARIABLE, "value": "all"}])
    ),
    values=any_of(wholeNodes=st.sampled_from(("deny", "warn", "allow"))),
    enforced={},
    injecting={},
    fuzzed={"wholeNodes": "deny"},
)
