"""visibleDevices in pods that ask for no GPU, or for a made-up one."""

import pytest

from tests.golden import each, golden
from tests.rules.samples import Cluster, container, messages, mutated, pod, violations
from tests.rules.visible_devices_samples import IMAGES_MAY, PRIVILEGED, VOID, device, told
from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.claims import CLAIM, TEMPLATE, Devices
from webhook.model.node import NodeClass, RuntimeClass
from webhook.rules.visible_devices import RULE

MODERN = {"name": "NVIDIA_REQUIRE_CUDA", "value": "cuda>=12.4"}


def legacy(*more, value="11.8"):
    return container(env=[{"name": "CUDA_VERSION", "value": value}, *more])


def test_cuda_version_alone_makes_an_old_image_that_gets_all_gpus(says):
    says(messages(RULE, pod(legacy(), runtimeClassName="nvidia")))
    assert len(messages(RULE, pod(legacy()), {"nvidiaIsDefaultRuntime": True})) == 1


@each(
    "raw",
    {
        "another runtime": pod(legacy()),
        "void": pod(legacy(VOID), runtimeClassName="nvidia"),
        "set and empty": pod(legacy({**VOID, "value": ""}), runtimeClassName="nvidia"),
        "not an old image": pod(legacy(MODERN), runtimeClassName="nvidia"),
        "no version": pod(legacy(value=""), runtimeClassName="nvidia"),
        "a GPU of its own": pod(container(gpus=1, env=[{"name": "CUDA_VERSION", "value": "1"}])),
    },
)
def test_cuda_version_is_harmless_elsewhere(raw):
    assert messages(RULE, raw, IMAGES_MAY) == []


def test_a_requirement_that_is_taken_back_makes_an_old_image_too():
    raw = pod(legacy(MODERN, {"name": "NVIDIA_REQUIRE_CUDA", "value": ""}), runtimeClassName="nvidia")
    assert len(messages(RULE, raw)) == 1


@each(
    "empty",
    {
        "made of another variable": {"value": "$(EMPTY)"},
        "from elsewhere": {"valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}},
    },
)
def test_a_requirement_that_may_be_empty_makes_an_old_image_too(empty):
    raw = pod(legacy({"name": "NVIDIA_REQUIRE_CUDA", **empty}))
    assert len(messages(RULE, raw, {"nvidiaIsDefaultRuntime": True})) == 1


def test_an_image_may_decide_only_where_the_policy_lets_it():
    raw = pod(container(), runtimeClassName="nvidia")
    (message,) = messages(RULE, raw)
    assert message.endswith("Request a GPU in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void.")
    assert told(raw, {"images": "warn"}) == [message]
    assert messages(RULE, raw, {"images": "allow"}) == told(raw, {"images": "allow"}) == []
    assert messages(RULE, pod(container(env=[VOID]), runtimeClassName="nvidia")) == []


def test_gpus_of_other_vendors_are_on_nodes_that_have_no_default_runtime_of_nvidia():
    raw = pod(container(gpus=1, resource="amd.com/gpu"), container("b"))
    assert messages(RULE, raw, {"nvidiaIsDefaultRuntime": True}) == []


def test_a_container_with_a_gpu_of_another_vendor_gets_void_beside_one_of_nvidia():
    beside = pod(container(gpus=1), container("b", gpus=1, resource="gpu.intel.com/xe"), runtimeClassName="nvidia")
    assert messages(RULE, beside) == []
    assert mutated(RULE, beside)["spec"]["containers"][1]["env"] == [VOID]


def test_a_config_map_gives_no_gpu_to_a_container_without_any_unless_the_policy_lets_images_decide():
    raw = pod(container(envFrom=[{"configMapRef": {"name": "settings"}}]), runtimeClassName="nvidia")
    (message,) = messages(RULE, raw, {"envFrom": "allow"})
    assert message.startswith(
        "spec.containers[trainer].env: has no NVIDIA_VISIBLE_DEVICES under runtimeClassName nvidia"
    )
    assert messages(RULE, raw, {"envFrom": "allow", **IMAGES_MAY}) == []
    raw["spec"]["containers"][0]["env"] = [VOID]
    assert messages(RULE, raw) == []


@golden
@pytest.mark.parametrize("gpus", [1, None], ids=["beside a GPU", "without any"])
@pytest.mark.parametrize("list_name", ["containers", "initContainers", "ephemeralContainers"])
def test_nothing_is_mounted_on_the_device_list_of_the_toolkit(list_name, gpus, path):
    """Whatever the volume is: a claim of a volume may be /dev/null as well."""
    one = container("b", volumeMounts=[{"name": "any", "mountPath": path, "subPath": "a"}])
    raw = pod(container("a", gpus))
    raw["spec"][list_name] = [*raw["spec"].get(list_name, []), one]
    assert messages(RULE, raw) == [
        f"spec.{list_name}[b].volumeMounts[any]: mounts a volume at {path}; the container toolkit takes files there "
        "for a list of GPUs, which only the device plugin may write. "
        "Request GPUs in resources.limits, and remove the mount."
    ]


@pytest.mark.parametrize(
    "path", ["/data/nvidia-container-devices", "/var/run/nvidia", "/var/run/other-container-devices"]
)
def test_other_mounts_are_nobodys_business(path):
    assert messages(RULE, pod(container(volumeMounts=[{"name": "v", "mountPath": path}]))) == []


@golden
@pytest.mark.parametrize("gpus", [1, None], ids=["beside a GPU", "without any"])
def test_annotations_ask_no_container_runtime_for_gpus(gpus, key, value):
    raw = pod(container(gpus=gpus))
    raw["metadata"]["annotations"] = {"team": "a", key: value}
    remedy = "Remove the annotation, and request a GPU where the pod needs one."
    if gpus and key.startswith("devices.gke.io"):
        remedy = "Request all GPUs of the node, or remove the annotation."
    assert messages(RULE, raw) == [
        f"metadata.annotations[{key}]: is {value}, which asks the container runtime for devices; GPUs come with a GPU "
        f"in resources.limits. {remedy}"
    ]


@golden
def test_other_annotations_are_nobodys_business(key, value):
    raw = pod(container())
    raw["metadata"]["annotations"] = {key: value}
    assert messages(RULE, raw) == []


def test_privileged_pods_are_judged_where_the_toolkit_is_the_default_runtime(says):
    raw = pod(container(**PRIVILEGED))
    says(messages(RULE, raw, {"nvidiaIsDefaultRuntime": True}))
    assert (
        messages(RULE, {**raw, "spec": {**raw["spec"], "runtimeClassName": "kata"}}, {"nvidiaIsDefaultRuntime": True})
        == []
    )


def test_a_runtime_class_of_another_name_is_known_by_its_handler():
    raw = pod(container(**PRIVILEGED), runtimeClassName="fast")
    facts = Cluster(runtime_classes={"fast": RuntimeClass("fast", "nvidia")})
    assert [one.where for one in violations(RULE, raw, IMAGES_MAY, facts)] == [
        "spec.containers[trainer].securityContext.privileged"
    ]
    assert violations(RULE, raw, facts=Cluster(runtime_classes={"fast": RuntimeClass("fast", "runc")})) == []


GPU_NODE = Cluster(nodes=[NodeClass(labels={}, gpu_resources=frozenset({"nvidia.com/gpu"}))])


def test_a_made_up_resource_on_a_node_by_name_is_no_gpu(says):
    """Its kubelet drops what the node does not have, and starts the containers that then count as asking for GPUs."""
    raw = pod(container(gpus=1, resource="nvidia.com/X"), nodeName="gpu-1")
    says([str(one) for one in violations(RULE, raw, facts=GPU_NODE)])


@pytest.mark.parametrize("resource", [DEVICE_CLASSES + "gpu.nvidia.com", "intel.com/gpu"])
def test_what_dra_gives_is_not_given_on_a_node_by_name(resource):
    """Nobody but the scheduler makes the claim; under the NVIDIA runtime the image then decides on all GPUs."""
    raw = pod(container(gpus=1, resource=resource), nodeName="gpu-1")
    assert [one.where for one in violations(RULE, raw, facts=GPU_NODE)] == ["spec.nodeName"]
    assert violations(RULE, pod(container(gpus=1, resource=resource)), facts=GPU_NODE) == []


@each(
    "raw, facts",
    {
        "the node has it": (pod(container(gpus=1), nodeName="gpu-1"), GPU_NODE),
        "the scheduler finds the node": (pod(container(gpus=1, resource="nvidia.com/X")), GPU_NODE),
        "no GPU": (pod(container(), nodeName="gpu-1"), GPU_NODE),
        "no node is known": (pod(container(gpus=1, resource="nvidia.com/X"), nodeName="a"), Cluster()),
        "nobody knows this node": (
            pod(container(gpus=1, resource="nvidia.com/X"), nodeName="other"),
            Cluster(nodes=GPU_NODE.nodes, selects=lambda pod: pod.node_name != "other"),
        ),
        "a pod that runs": (
            {**pod(container(gpus=1, resource="nvidia.com/X"), nodeName="gpu-1"), "status": {"startTime": "now"}},
            GPU_NODE,
        ),
    },
)
def test_a_node_by_name_is_no_fault_otherwise(raw, facts):
    assert violations(RULE, raw, facts=facts) == []


def with_owner(raw, kind):
    raw["metadata"]["ownerReferences"] = [{"kind": kind, "name": "a", "controller": True}]
    return raw


ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
ON_PURPOSE = "If it sees every GPU on purpose, exempt its namespace or image (visibleDevices.exempt)."


@each(
    "raw",
    {
        "of a DaemonSet": with_owner(pod(container(env=[ALL])), "DaemonSet"),
        "by its image": pod(container(env=[ALL], image="nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1")),
        "no compute": pod(container(env=[ALL, {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}])),
        "mounts device files": with_owner(pod(container(), volumes=[device("/dev/nvidia0")]), "DaemonSet"),
    },
)
def test_an_agent_is_told_how_to_be_exempted(raw):
    (message,) = messages(RULE, raw)
    assert message.endswith(f". {ON_PURPOSE}")


def test_a_pod_with_gpus_is_no_agent_whatever_makes_it():
    (message,) = messages(RULE, with_owner(pod(container(gpus=1), container("b", env=[ALL])), "DaemonSet"))
    assert ON_PURPOSE not in message


EXPORTER = "nvcr.io/nvidia/k8s/dcgm-exporter"


@pytest.mark.parametrize(
    ("exempt", "image", "is_told"),
    [
        ({"images": [EXPORTER]}, EXPORTER, False),
        ({"images": [EXPORTER]}, f"{EXPORTER}:4.4.1", False),
        ({"images": [EXPORTER]}, f"{EXPORTER}:4.4.1@sha256:{'0' * 64}", False),
        ({"images": [f"{EXPORTER}:4.*"]}, f"{EXPORTER}:4.4.1", False),
        ({"images": ["localhost:5000/*"]}, "localhost:5000/agent", False),
        ({"images": [EXPORTER]}, f"evil.example.com/{EXPORTER}", True),
        ({"images": ["registry.corp/*/exporter"]}, "registry.corp/gpu/exporter:1", False),
        ({"images": ["registry.corp/*/exporter"]}, "registry.corp/team-a/evil/exporter:1", True),
        ({"images": ["registry.corp/**"]}, "registry.corp/gpu/exporter:1", False),
        ({"images": [EXPORTER]}, f"{EXPORTER}-evil:1", True),
        ({"namespaces": ["mon*"]}, "any", False),
        ({"namespaces": ["other"]}, "any", True),
    ],
)
def test_what_is_exempt_is_left_alone_whatever_it_does(exempt, image, is_told):
    raw = pod(container(env=[ALL], image=image, securityContext={"privileged": True}), runtimeClassName="nvidia")
    raw["metadata"]["namespace"] = "monitoring"
    assert bool(messages(RULE, raw, {"exempt": exempt})) == is_told


def test_beside_an_exempt_container_others_are_judged_and_only_they_get_void():
    exempt = {"exempt": {"images": ["agent"]}}
    (message,) = messages(RULE, pod(container("a", env=[ALL], image="agent"), container("b", env=[ALL])), exempt)
    assert message.startswith("spec.containers[b]")
    beside = pod(container(gpus=1), container("a", image="agent"), container("b"))
    assert [one.get("env") for one in mutated(RULE, beside, exempt)["spec"]["containers"]] == [None, None, [VOID]]


CLAIMED = {"resources": {"claims": [{"name": "gpu"}]}}
BY_CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}], "runtimeClassName": "nvidia"}


@pytest.mark.parametrize(
    ("device_class", "is_told"), [("gpu.nvidia.com", False), (None, False), ("nic.example.com", True)]
)
def test_a_claim_asks_for_gpus_unless_it_is_known_to_be_for_something_else(device_class, is_told):
    claims = {("ResourceClaimTemplate", "one"): ((Devices(device_class),),)} if device_class else {}
    facts = Cluster(claims=claims)
    assert bool(violations(RULE, pod(container(**CLAIMED), **BY_CLAIM), facts=facts)) == is_told
    assert len(violations(RULE, pod(container(**CLAIMED), container("b"), **BY_CLAIM), facts=facts)) == 1 + is_told


@pytest.mark.parametrize(
    ("source", "is_known", "gets_void"),
    [
        ({"resourceClaimTemplateName": "one"}, False, True),
        ({"resourceClaimTemplateName": "one"}, True, False),
        ({"resourceClaimName": "one"}, False, True),
        ({"resourceClaimName": "one"}, True, True),
    ],
    ids=str,
)
def test_a_container_gets_no_gpu_by_its_image_if_its_claim_is_another_one_when_it_starts(source, is_known, gets_void):
    """A claim may be made after its pod, and made again with other devices, or with none."""
    known = ((Devices("gpu.nvidia.com"),),)
    facts = Cluster(claims={(kind, "one"): known for kind in (CLAIM, TEMPLATE)} if is_known else {})
    raw = pod(container(**CLAIMED), runtimeClassName="nvidia", resourceClaims=[{"name": "gpu", **source}])
    assert mutated(RULE, raw, facts=facts)["spec"]["containers"][0].get("env") == ([VOID] if gets_void else None)
    elsewhere = {**raw, "spec": {**raw["spec"], "runtimeClassName": "gvisor"}}
    assert mutated(RULE, elsewhere, facts=facts) == elsewhere


def test_a_container_with_a_claim_that_sets_the_variable_is_told_to_remove_it():
    (message,) = messages(RULE, pod(container(env=[ALL], **CLAIMED), **BY_CLAIM))
    assert "in a container without NVIDIA GPUs in its limits, which gets GPUs by a claim;" in message
    assert message.endswith(" Remove the variable.")
