"""What is told of a pod that no node could run, word for word."""

import yaml

from tests.facts.samples import GPU_TAINT, runtime_class
from tests.golden import each
from tests.rules.gpu_cluster import (
    A100,
    BIG,
    MIG,
    PLAIN,
    POOL,
    PRODUCT,
    SMALL,
    T4,
    TEAM,
    TOLERANT,
    asking,
    gpu_node,
    told,
)
from tests.rules.samples import container, pod, term, terms
from webhook.facts.facts import ClusterFacts


@each(
    "raw",
    {
        "a MIG profile that no node offers": asking(1, "nvidia.com/mig-9g.90gb"),
        "a vendor without nodes": asking(1, "amd.com/gpu"),
        "more GPUs than the largest node has": asking(16),
        "more memory than the largest node has, and less than the largest of those that have GPUs": asking(
            1, resources={"memory": "2049Gi"}
        ),
        "more cpu than the largest node has": asking(1, resources={"cpu": "192500m"}),
        "more of another extended resource": asking(1, resources={"rdma/hca": 5}),
        "an extended resource that no node has": asking(1, resources={"example.com/fpga": 1}),
        "a product that no node has": asking(1, nodeSelector={PRODUCT: "NVIDIA-A100-SXM-80GB"}),
        "a value that is like no other": asking(1, nodeSelector={POOL: "gold"}),
        "an empty value": asking(1, nodeSelector={POOL: ""}),
        "a label that no node has, and one that is like it": asking(1, nodeSelector={"nvidia.com/gpu-product": T4}),
        "a label that is like no other": asking(1, nodeSelector={"zone": "b"}),
        "a required expression": asking(1, affinity=terms(term((PRODUCT, "In", ["Tesla-V100", "tesla-t4"])))),
        "one of several required expressions": asking(
            1, affinity=terms(term((POOL, "NotIn", ["a"]), ("zone", "Exists", [])))
        ),
        "several required terms": asking(
            1, affinity=terms(term((PRODUCT, "In", ["H100"])), None, term(("zone", "In", ["a"])))
        ),
        "several terms, of which one only fails as a whole": asking(
            1,
            affinity=terms(
                term((PRODUCT, "In", [T4]), (POOL, "In", ["web"])), term((PRODUCT, "In", [T4]), (POOL, "In", ["?"]))
            ),
        ),
        "a term that says nothing": asking(1, affinity=terms({})),
    },
)
def test_what_no_node_has_is_named_with_what_nodes_have(raw, says):
    says(told(raw))


@each(
    "raw",
    {
        "GPUs and a product": asking(4, nodeSelector={PRODUCT: T4}),
        "GPUs and labels of nodes without any": asking(
            1, nodeSelector={POOL: "web", "kubernetes.io/hostname": "plain"}
        ),
        "GPUs and a required expression": asking(8, affinity=terms(term((POOL, "NotIn", ["training"])))),
        "GPUs and required terms": asking(
            8, affinity=terms(term((POOL, "In", ["web"])), term((POOL, "In", ["serving"])))
        ),
        "memory and GPUs": asking(1, MIG, {"memory": "501Gi"}),
        "GPUs of two kinds": asking(1, MIG, {"nvidia.com/gpu": 1}),
        "labels of different nodes": asking(
            1, nodeSelector={PRODUCT: T4, POOL: "training", "kubernetes.io/hostname": "small"}
        ),
        "expressions of different nodes": asking(
            1, affinity=terms(term((PRODUCT, "In", [T4]), (POOL, "In", ["training"])))
        ),
    },
)
def test_what_only_fails_together_is_named_without_the_rest(raw, says):
    says(told(raw))


def test_amounts_of_two_nodes_that_no_node_has_together(says):
    facts = ClusterFacts.of(
        [gpu_node("a", A100, {"nvidia.com/gpu": "8"}, "100Gi"), gpu_node("b", A100, {"nvidia.com/gpu": "4"}, "500Gi")]
    )
    says(told(asking(8, resources={"memory": "300Gi"}, nodeSelector={PRODUCT: A100}), facts))


@each(
    "containers, init",
    {
        "the sum of containers": ([container("a", 5), container("b", 4)], []),
        "what runs before them is not added": ([container("a", 5)], [container("b", 4)]),
        "a sidecar is": ([container("a", 5)], [container("b", 4, restartPolicy="Always")]),
        "one container that asks for as much as all": ([container("a", 9), container("b", 0)], [container("c", 1)]),
        "two, one after the other": ([container("a", 9)], [container("b", 9)]),
        "an init container alone": ([container("a")], [container("b", 9)]),
    },
)
def test_the_amount_is_what_the_scheduler_reserves(containers, init, says):
    found = told(pod(*containers, initContainers=init, **TOLERANT))
    says([one.partition(". ")[0] for one in found])


def test_resources_of_the_pod_as_a_whole_are_told_there():
    raw = asking(1, resources={"memory": "1Gi"})
    raw["spec"]["resources"] = {"limits": {"memory": "3Ti"}, "requests": {"memory": "3Ti"}}
    (message,) = told(raw)
    assert message.startswith("spec.resources: requests 3Ti of memory; the largest node with nvidia.com/gpu has 1000Gi")


def test_a_node_by_name_is_shown_with_the_rest_of_its_term(says):
    by_name = {"key": "metadata.name", "operator": "NotIn", "values": ["small"]}
    required = {**term((POOL, "In", ["serving"])), "matchFields": [by_name]}
    (message,) = told(asking(1, affinity=terms(required)))
    says([message])


def test_who_asks_for_gpus_where_there_are_slices_is_told_which(says):
    sliced = {"nvidia.com/gpu": "0", MIG: "7", "nvidia.com/mig-3g.40gb": "0"}
    facts = ClusterFacts.of([gpu_node("a", A100, sliced, "500Gi"), gpu_node("b", T4, {"nvidia.com/gpu": "1"}, "60Gi")])
    says(told(asking(1, nodeSelector={PRODUCT: A100}), facts))


def test_labels_that_every_node_has_are_unknown_where_none_is_known_to_have_them():
    assert told(asking(1, nodeSelector={"kubernetes.io/os": "linux"})) == []
    known = gpu_node("a", T4, {"nvidia.com/gpu": "1"}, "60Gi", **{"kubernetes.io/os": "linux"})
    (message,) = told(asking(1, nodeSelector={"kubernetes.io/os": "windows"}), ClusterFacts.of([known]))
    assert "no node has the value windows; nodes have linux." in message


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
