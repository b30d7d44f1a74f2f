"""What is told of a pod that only taints keep away, and what its RuntimeClass adds to it."""

import yaml

from tests.facts.samples import GPU_TAINT, runtime_class
from tests.rules.gpu_cluster import A100, BIG, PLAIN, POOL, SMALL, TEAM, asking, gpu_node, told
from tests.rules.samples import container, each, pod
from webhook.facts.facts import ClusterFacts


@each(
    "taints, message",
    {
        "one": (
            [[GPU_TAINT]],
            "spec.tolerations: does not tolerate nvidia.com/gpu=present:NoSchedule; every node that fits has this "
            "taint. Add the toleration {key: nvidia.com/gpu, operator: Equal, value: present, effect: NoSchedule} "
            "if those nodes are for this pod.",
        ),
        "one without a value": (
            [[{"key": "dedicated", "effect": "NoExecute"}]],
            "spec.tolerations: does not tolerate dedicated:NoExecute; every node that fits has this taint. "
            "Add the toleration {key: dedicated, operator: Exists, effect: NoExecute} if those nodes are for this pod.",
        ),
        "two": (
            [[GPU_TAINT, TEAM]],
            "spec.tolerations: does not tolerate nvidia.com/gpu=present:NoSchedule and team=vision:NoSchedule; every "
            "node that fits has these taints. Add tolerations for them if those nodes are for this pod.",
        ),
        "the fewest, and of those the most frequent": (
            [[GPU_TAINT, TEAM], [TEAM], [GPU_TAINT], [GPU_TAINT]],
            "spec.tolerations: does not tolerate nvidia.com/gpu=present:NoSchedule; every node that fits has this "
            "taint, or others. Add the toleration {key: nvidia.com/gpu, operator: Equal, value: present, effect: "
            "NoSchedule} if those nodes are for this pod.",
        ),
    },
)
def test_a_missing_toleration_is_told_where_nothing_else_is_in_the_way(taints, message):
    nodes = [gpu_node(f"n{at}", A100, {"nvidia.com/gpu": "8"}, "1Ti", some) for at, some in enumerate(taints)]
    assert told(pod(container(gpus=8)), ClusterFacts.of([*nodes, PLAIN])) == [message]


@each(
    "value, written",
    {
        "a text": ("vision", "vision"),
        "a text of all that values may have": ("v1.2_x-y", "v1.2_x-y"),
        "a text that begins like a boolean": ("truest", "truest"),
        "a boolean": ("true", '"true"'),
        "a boolean of YAML 1.1": ("No", '"No"'),
        "null": ("null", '"null"'),
        "a number": ("1", '"1"'),
        "a number with an exponent": ("1e3", '"1e3"'),
        "what would be a map": ("x: y", '"x: y"'),
    },
)
def test_the_toleration_can_be_copied_into_a_manifest(value, written):
    taint = {"key": "spot", "value": value, "effect": "NoSchedule"}
    (message,) = told(asking(1), ClusterFacts.of([gpu_node("n", A100, {"nvidia.com/gpu": "8"}, "1Ti", [taint])]))
    toleration = f"{{key: spot, operator: Equal, value: {written}, effect: NoSchedule}}"
    assert toleration in message
    assert yaml.safe_load(toleration)["value"] == value


def test_what_is_tolerated_already_is_not_named():
    facts = ClusterFacts.of([gpu_node("n", A100, {"nvidia.com/gpu": "8"}, "1Ti", [GPU_TAINT, TEAM])])
    (message,) = told(asking(1), facts)
    assert message.startswith("spec.tolerations: does not tolerate team=vision:NoSchedule; ")


def test_cordons_and_conditions_of_nodes_are_no_reason():
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert told(asking(8), ClusterFacts.of([gpu_node("n", A100, {"nvidia.com/gpu": "8"}, "1Ti", [cordoned])])) == []


def test_what_a_runtime_class_adds_counts():
    scheduling = {"nodeSelector": {POOL: "serving"}, "tolerations": [{"key": "team", "operator": "Exists"}]}
    facts = ClusterFacts.of([BIG, SMALL], [runtime_class("kata", scheduling=scheduling)])
    assert told(asking(1, runtimeClassName="kata"), facts) == []
    assert told(asking(8, runtimeClassName="kata"), facts) == [
        "spec.containers[trainer].resources: requests 8 nvidia.com/gpu; the largest node with the labels of "
        "RuntimeClass kata has 1. Request 1 or fewer in one pod, or choose other nodes."
    ]
    tainted = gpu_node("n", A100, {"nvidia.com/gpu": "8"}, "1Ti", [TEAM], **{POOL: "serving"})
    classes = [runtime_class("kata", scheduling=scheduling)]
    assert told(asking(8, runtimeClassName="kata", tolerations=[]), ClusterFacts.of([tainted], classes)) == []


def test_a_runtime_class_for_nodes_that_do_not_exist_is_named_once():
    facts = ClusterFacts.of([BIG], [runtime_class("kata", scheduling={"nodeSelector": {POOL: "vm"}})])
    assert told(asking(1, runtimeClassName="kata"), facts) == [
        "spec.runtimeClassName: no node has the labels of RuntimeClass kata; they are example.com/pool=vm. "
        "Choose another RuntimeClass, or tell the platform team."
    ]
    (merged,) = told(asking(1, runtimeClassName="kata", nodeSelector={POOL: "vm"}), facts)
    assert merged.startswith("spec.nodeSelector[example.com/pool]: no node has the value vm; ")
