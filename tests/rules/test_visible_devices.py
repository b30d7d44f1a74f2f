"""Nobody gets a GPU without asking for one, and nobody more than that: what a pod does to get at others is refused."""

import pytest
from hypothesis import strategies as st

from tests.lab.fuzz.oracles import devices
from tests.rules.rule_case import RuleCase, RulePods, any_of, container_with, spec_with
from tests.rules.samples import container, is_left_alone, messages, mutated, pod
from tests.rules.visible_devices_samples import IMAGES_MAY, PRIVILEGED, VOID, device
from webhook.rules.visible_devices import RULE

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
FROM_FIELD = {"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['gpus']"}}}


def setting(value):
    return [{"name": VARIABLE, "value": value}]


@pytest.mark.parametrize("env", [{}, {"env": None}, {"env": []}], ids=["absent", "null", "empty"])
def test_A31_the_containers_of_a_gpu_pod_that_ask_for_none_get_void(env):
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


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pod(container()), id="a pod without GPUs"),
        pytest.param(pod(container(gpus=1), container("b", 2)), id="only containers with GPUs"),
        pytest.param(pod(container(gpus=1), container("b", env=setting("all"))), id="the user sets it"),
        pytest.param(pod(container(gpus=1), container("b", env=[FROM_FIELD])), id="the user sets it from a field"),
        pytest.param(pod(container(gpus=1), container("b", resources={"claims": [{"name": "gpu"}]})), id="a claim"),
        pytest.param(
            pod(container(gpus=1), container("b", resources={"limits": {"nvidia.com/gpumem": 1000}})),
            id="memory of a GPU, which another webhook turns into one",
        ),
        pytest.param(pod(container(gpus=1, resource="amd.com/gpu"), container("b")), id="AMD"),
        pytest.param(pod(container(gpus=1, resource="gpu.intel.com/xe"), container("b")), id="Intel"),
        pytest.param(pod(container(gpus=1, resource="nvidia.com/pgpu"), container("b")), id="passthrough"),
        pytest.param(pod(container(gpus=1), ephemeralContainers=[container("debug")]), id="an ephemeral container"),
    ],
)
def test_other_containers_are_left_alone(raw):
    assert is_left_alone(RULE, raw)


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        pytest.param({"value": "all"}, '"all"', id="all"),
        pytest.param({"value": "void"}, '"void"', id="void, which hides the GPUs that it asks for"),
        pytest.param({"value": "0"}, '"0"', id="an index"),
        pytest.param({}, '""', id="nothing"),
        pytest.param({"valueFrom": FROM_FIELD["valueFrom"]}, "set by valueFrom", id="valueFrom"),
        pytest.param({"value": "GPU-" + "f" * 80}, '"GPU-' + "f" * 53 + '..."', id="a long text"),
    ],
)
def test_a_container_that_asks_for_gpus_must_not_set_it(entry, shown):
    raw = pod(container(gpus=1, env=[{"name": VARIABLE, **entry}]))
    assert messages(RULE, raw) == [
        f"spec.containers[trainer].env[NVIDIA_VISIBLE_DEVICES]: is {shown} in a container that requests GPUs; "
        "the device plugin sets it, and a value in the pod beats the plugin's. Remove the variable."
    ]


@pytest.mark.parametrize("harmless", ["void", "none", "", None], ids=repr)
def test_A31_a_container_without_gpus_may_say_that_it_wants_none(harmless):
    assert messages(RULE, pod(container(env=setting(harmless)))) == []
    assert messages(RULE, pod(container(gpus=1), container("launcher", env=setting(harmless)))) == []
    assert messages(RULE, pod(container(gpus=1, resource="amd.com/gpu", env=setting(harmless)))) == []


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        pytest.param(setting("all"), '"all"', id="all"),
        pytest.param(setting("0,1"), '"0,1"', id="indexes"),
        pytest.param(setting("void,all"), '"void,all"', id="void and all"),
        pytest.param(setting(" void"), '" void"', id="a blank before"),
        pytest.param(setting("VOID"), '"VOID"', id="capitals"),
        pytest.param(setting("$(DEVICES)"), '"$(DEVICES)"', id="a reference"),
        pytest.param(setting(0), '"0"', id="a number"),
        pytest.param([FROM_FIELD], "set by valueFrom", id="valueFrom"),
        pytest.param([VOID, *setting("all")], '"all"', id="void, then all"),
        pytest.param([*setting("all"), VOID], '"all"', id="all, then void"),
    ],
)
@pytest.mark.parametrize("list_name", ["containers", "initContainers", "ephemeralContainers"])
def test_A31_a_container_without_gpus_must_not_obtain_them_through_it(list_name, env, shown):
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


@pytest.mark.parametrize(
    "path",
    [
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-caps/nvidia-cap1",
        "/dev/dri",
        "/dev/dri/",
        "/dev/dri/renderD128",
        "/dev/kfd",
        "//dev//nvidia0",
        "/dev/./nvidia0",
        "dev/nvidia0",
        "/dev/x/../nvidia0",
        "/proc/1/root/dev/nvidia0",
        "/dev/char/195:*",
        "/dev/char/195:0",
        "/dev/char/226:128",
        "//dev/char//195:255",
        "/run/nvidia/driver",
        "/run/nvidia/driver/dev",
        "/var/run/nvidia/driver/",
        "/run/nvidia",
        "/proc/driver/nvidia/capabilities/gpu0/mig",
    ],
)
def test_A31_a_pod_without_gpus_must_not_mount_device_files(path):
    raw = pod(container(), volumes=[device(path)])
    assert messages(RULE, raw) == [
        f"spec.volumes[dev].hostPath: mounts {path} in a pod that requests no GPU; "
        "GPU device files come with a GPU in resources.limits. "
        "Remove the volume, and request a GPU where the pod needs one."
    ]


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({"claims": [{"name": "nic"}]}, id="a claim of anything"),
        pytest.param({"limits": {"nvidia.com/gpumem": "0"}}, id="no memory of a GPU"),
        pytest.param({"limits": {"nvidia.com/gpumem": "10"}}, id="memory of a GPU"),
        pytest.param({"limits": {"nvidia.com/gpu": "0"}}, id="no GPU"),
    ],
)
def test_A32_what_only_looks_like_a_gpu_opens_no_device(resources):
    """A name that costs nothing to write must not switch the rule off."""
    raw = pod(container(resources=resources, securityContext={"privileged": True}), volumes=[device("/dev/nvidia0")])
    raw["spec"]["runtimeClassName"] = "nvidia"
    assert len(messages(RULE, raw, IMAGES_MAY)) == 2


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pod(container(), volumes=[device("/dev/shm")]), id="another device"),
        pytest.param(pod(container(), volumes=[device("/dev")]), id="the folder of all devices"),
        pytest.param(pod(container(), volumes=[device("/dev/driver")]), id="a name that starts alike"),
        pytest.param(pod(container(), volumes=[device("/opt/nvidia0")]), id="another folder"),
        pytest.param(pod(container(), volumes=[{"name": "dev", "hostPath": None}]), id="null"),
        pytest.param(pod(container(), volumes=[device("/run/nvidia/toolkit")]), id="another folder of the operator"),
        pytest.param(pod(container(), volumes=[device("/dev/char")]), id="the folder of links to devices"),
        pytest.param(pod(container(), volumes=[device("/data/dev/nvidia-models")]), id="somebody's own folder"),
        pytest.param(pod(container(gpus=1), volumes=[device("/usr/local/nvidia")]), id="libraries in a pod with GPUs"),
    ],
)
def test_other_volumes_are_nobodys_business(raw):
    assert messages(RULE, raw) == []


@pytest.mark.parametrize("name", ["nvidia", "nvidia-cdi", "nvidia-legacy"])
def test_A31_a_pod_without_gpus_must_not_be_privileged_under_the_toolkit(name):
    raw = pod(container(**PRIVILEGED), container("b"), runtimeClassName=name)
    assert messages(RULE, raw, IMAGES_MAY) == [
        f"spec.containers[trainer].securityContext.privileged: is privileged under runtimeClassName {name} and "
        "requests no GPU; such a container sees every GPU of its node. Drop privileged or runtimeClassName."
    ]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pod(container(**PRIVILEGED)), id="no runtime class"),
        pytest.param(pod(container(**PRIVILEGED), runtimeClassName=""), id="an empty runtime class"),
        pytest.param(pod(container(**PRIVILEGED), runtimeClassName="kata"), id="another runtime class"),
        pytest.param(pod(container(), runtimeClassName="nvidia"), id="not privileged"),
        pytest.param(
            pod(container(securityContext={"privileged": False}), runtimeClassName="nvidia"), id="privileged: false"
        ),
    ],
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


def test_a_gpu_of_another_vendor_opens_no_nvidia_device():
    """The pod has a GPU, but not the one that it reaches for."""
    raw = pod(
        container(resources={"limits": {"amd.com/gpu": 1}}, securityContext={"privileged": True}),
        volumes=[device("/dev/nvidia0"), {"name": "dri", "hostPath": {"path": "/dev/dri"}}],
    )
    raw["spec"]["runtimeClassName"] = "nvidia"
    assert [message.partition(":")[0] for message in messages(RULE, raw, IMAGES_MAY)] == [
        "spec.volumes[dev].hostPath",
        "spec.volumes[dri].hostPath",
        "spec.containers[trainer].securityContext.privileged",
    ]


def _with_a_sidecar(raw):
    return spec_with(raw, "containers", [{"name": "upload", "image": "registry.example.com/upload:1"}])


CASE = RuleCase(
    pods=lambda raw: RulePods(
        lacks=_with_a_sidecar(raw), breaks=container_with(raw, "env", [{"name": VARIABLE, "value": "all"}])
    ),
    values=any_of(wholeNodes=st.sampled_from(("deny", "warn", "allow"))),
    enforced={},
    injecting={},
    fuzzed={"wholeNodes": "deny"},
    oracle=devices.visible_devices,
)
