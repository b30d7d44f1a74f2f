"""visibleDevices in pods that ask for all GPUs of their node: side containers may see them, by nobody's name."""

import pytest

from tests.golden import each
from tests.rules.samples import Cluster, container, messages, mutated, pod, settings_of
from tests.rules.visible_devices_samples import PRIVILEGED, VOID, device, told
from webhook.model.node import NodeClass
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.rule import Violation
from webhook.rules.visible_devices import RULE

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
ALL = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
DAEMON = "devices.gke.io/container.tcpxo-daemon"


def nodes(*amounts):
    """A cluster with a node of each of these amounts, by resource."""
    classes = [NodeClass({}, (), frozenset(one)) for one in amounts]
    return Cluster(nodes=classes, amounts=[dict(one) for one in amounts])


EIGHT = nodes({GPU: 8})
BY_CLASS = Cluster(nodes=[NodeClass({}, (), frozenset({GPU}), by_claim=True)], amounts=[{GPU: 8}])


def refused(raw, facts=EIGHT, values=None):
    found = RULE.validate(pod_from_raw(raw), settings_of(RULE, values or {}), facts)
    return [one.where for one in found if isinstance(one, Violation)]


def with_a_check(gpus, **parts):
    return pod(container(gpus=gpus), container("health", **{**ALL, **parts}))


def with_a_daemon(gpus, named=8, **parts):
    """As Google's manifests have it, whose daemon is called like this."""
    paths = [f"/dev/nvidia{number}" for number in range(named)] + ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    raw = pod(container(gpus=gpus), container("tcpxo-daemon", **parts))
    raw["metadata"]["annotations"] = {DAEMON: "".join(f"- path: {path}\n" for path in paths)}
    return raw


CHECK = "spec.containers[health].env[NVIDIA_VISIBLE_DEVICES]"
ANNOTATION = f"metadata.annotations[{DAEMON}]"


@each(
    "gpus, facts, found",
    {
        "all of the node": (8, EIGHT, []),
        "half of the node": (4, EIGHT, [CHECK]),
        "a smaller node is too small": (8, nodes({GPU: 8}, {GPU: 4}), []),
        "it may land on a larger node": (8, nodes({GPU: 8}, {GPU: 16}), [CHECK]),
        "the node has slices besides": (8, nodes({GPU: 8, SLICE: 7}), [CHECK]),
        "nobody knows how many": (8, nodes({GPU: None}), [CHECK]),
        "no node is known": (8, nodes(), [CHECK]),
        "a DeviceClass gives them, and nobody knows on which nodes": (8, BY_CLASS, [CHECK]),
    },
)
def test_a_side_container_may_see_the_gpus_of_a_node_that_are_all_the_pods_own(gpus, facts, found):
    assert refused(with_a_check(gpus), facts) == found


def test_a_pod_without_gpus_has_no_node_of_its_own():
    assert refused(pod(container("health", **ALL)), nodes({"cpu": 8000})) == [CHECK]


@each(
    "gpus, named, facts, found",
    {
        "all of the node": (8, 8, EIGHT, []),
        "one is no key to eight": (1, 8, EIGHT, [ANNOTATION]),
        "as many as it asks for, but whose": (4, 4, EIGHT, [ANNOTATION]),
        "no node is known, and it names no more than it asks for": (8, 8, nodes(), []),
        "no node is known, and it names more": (4, 8, nodes(), [ANNOTATION]),
        "no GPU": (None, 8, EIGHT, [ANNOTATION]),
        "no GPU, and it names none": (None, 0, nodes(), [ANNOTATION]),
    },
)
def test_gkes_device_injector_gives_gpus_to_pods_that_have_them_all(gpus, named, facts, found):
    assert refused(with_a_daemon(gpus, named), facts) == found


def test_who_is_refused_for_the_annotation_hears_what_to_do(says):
    raw = with_a_daemon(4)
    raw["metadata"]["annotations"][DAEMON] = "[{path: /dev/nvidia7}]"
    (found,) = RULE.validate(pod_from_raw(raw), settings_of(RULE, {}), EIGHT)
    says([str(found)])


def test_a_gpu_of_a_device_class_is_no_whole_node():
    raw = pod(
        container(gpus=8, resource="deviceclass.resource.kubernetes.io/gpu.nvidia.com"), container("health", **ALL)
    )
    assert refused(raw, nodes({"cpu": 8000})) == [CHECK]


@pytest.mark.parametrize("image", ["us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.21", "x"])
def test_no_image_is_trusted_by_its_name(image):
    assert refused(with_a_daemon(1, image=image)) == [ANNOTATION]
    assert refused(with_a_check(1, image=image)) == [CHECK]


@pytest.mark.parametrize("gpus", [1, 8])
def test_privileges_and_device_files_are_judged_in_every_pod(gpus):
    raw = with_a_daemon(gpus, **PRIVILEGED)
    raw["spec"]["volumes"] = [device("/dev/nvidia0")]
    places = ["spec.volumes[dev].hostPath", "spec.containers[tcpxo-daemon].securityContext.privileged"]
    assert [where for where in refused(raw) if where != ANNOTATION] == places


@each(
    "parts, found",
    {
        "all, which it has anyway": (ALL, []),
        "none of them": ({"env": [VOID]}, ["spec.containers[trainer].env[NVIDIA_VISIBLE_DEVICES]"]),
    },
)
def test_a_container_with_gpus_may_say_all_and_nothing_else(parts, found):
    assert refused(pod(container(gpus=8, **parts))) == found


@pytest.mark.parametrize("key", ["cdi.k8s.io/gpu", "devices.nri.io/container.trainer"])
def test_other_annotations_are_judged_in_every_pod(key):
    raw = pod(container(gpus=8))
    raw["metadata"]["annotations"] = {key: "nvidia.com/gpu=all"}
    assert refused(raw) == [f"metadata.annotations[{key}]"]


def test_debug_containers_and_config_maps_show_no_gpu_of_others():
    raw = pod(
        container(gpus=8, envFrom=[{"configMapRef": {"name": "c"}}]),
        runtimeClassName="nvidia",
        ephemeralContainers=[container("debugger")],
    )
    strict = {"envFrom": "deny", "debugContainers": "deny"}
    assert refused(raw, EIGHT, strict) == []
    assert len(refused(raw, nodes({GPU: 16}), strict)) == 2


@pytest.mark.parametrize(
    ("reaction", "refusals", "warnings"),
    [("allow", 0, 0), ("warn", 0, 2), ("deny", 2, 0)],
    ids=["allow", "warn", "deny"],
)
def test_the_policy_says_what_becomes_of_whole_nodes(reaction, refusals, warnings):
    raw = with_a_daemon(8, **ALL)
    values = {"wholeNodes": reaction}
    assert (refusals, warnings) == (len(refused(raw, EIGHT, values)), len(told(raw, values, EIGHT)))


def test_side_containers_get_void_all_the_same_unless_they_say_otherwise():
    """What is injected does not depend on the nodes of the moment."""
    spec = mutated(RULE, with_a_daemon(8), facts=EIGHT)["spec"]
    assert spec["containers"][1]["env"] == [VOID]
    assert mutated(RULE, with_a_check(8), facts=EIGHT) == with_a_check(8)


def test_audits_without_an_inventory_have_nothing_against_googles_manifests():
    assert messages(RULE, with_a_daemon(8)) == []
