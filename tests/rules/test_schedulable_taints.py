"""What is told of a pod that only taints keep away, and what its RuntimeClass adds to it."""

import yaml

from tests.facts.samples import GPU_TAINT, runtime_class
from tests.rules.gpu_cluster import A100, BIG, PLAIN, POOL, SMALL, TEAM, asking, gpu_node, told
from tests.rules.samples import container, each, pod
from webhook.facts.facts import ClusterFacts


@each(
    "taints",
    {
        "one": [[GPU_TAINT]],
        "one without a value": [[{"key": "dedicated", "effect": "NoExecute"}]],
        "two": [[GPU_TAINT, TEAM]],
        "the fewest, and of those the most frequent": [[GPU_TAINT, TEAM], [TEAM], [GPU_TAINT], [GPU_TAINT]],
    },
)
def test_a_missing_toleration_is_told_where_nothing_else_is_in_the_way(taints, says):
    nodes = [gpu_node(f"n{at}", A100, {"nvidia.com/gpu": "8"}, "1Ti", some) for at, some in enumerate(taints)]
    says(told(pod(container(gpus=8)), ClusterFacts.of([*nodes, PLAIN])))


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


def test_what_a_runtime_class_adds_counts(says):
    scheduling = {"nodeSelector": {POOL: "serving"}, "tolerations": [{"key": "team", "operator": "Exists"}]}
    facts = ClusterFacts.of([BIG, SMALL], [runtime_class("kata", scheduling=scheduling)])
    assert told(asking(1, runtimeClassName="kata"), facts) == []
    says(told(asking(8, runtimeClassName="kata"), facts))
    tainted = gpu_node("n", A100, {"nvidia.com/gpu": "8"}, "1Ti", [TEAM], **{POOL: "serving"})
    classes = [runtime_class("kata", scheduling=scheduling)]
    assert told(asking(8, runtimeClassName="kata", tolerations=[]), ClusterFacts.of([tainted], classes)) == []


def test_a_runtime_class_for_nodes_that_do_not_exist_is_named_once(says):
    facts = ClusterFacts.of([BIG], [runtime_class("kata", scheduling={"nodeSelector": {POOL: "vm"}})])
    says(told(asking(1, runtimeClassName="kata"), facts))
    (merged,) = told(asking(1, runtimeClassName="kata", nodeSelector={POOL: "vm"}), facts)
    assert merged.startswith("spec.nodeSelector[example.com/pool]: no node has the value vm; ")
