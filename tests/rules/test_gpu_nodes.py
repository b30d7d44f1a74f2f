"""Pods without GPUs that open GPU nodes to themselves by name are told so, and nobody else."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.facts.samples import GPU_TAINT, node, runtime_class
from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, any_of, container_with, spec_with, tolerating_gpu_nodes
from tests.rules.samples import NOTHING_KNOWN, container, pod, settings_of, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.node import NodePool, Taint
from webhook.rules.gpu_nodes import RULE

GPUS = {"nvidia.com/gpu": "8"}
SKU = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
BIG = node("big", labels={"pool": "a"}, taints=[GPU_TAINT], capacity=GPUS)
BOTH = node("both", labels={"pool": "b"}, taints=[GPU_TAINT, SKU], capacity=GPUS)
TEAM = node("team", taints=[{"key": "team", "value": "x", "effect": "NoExecute"}], capacity=GPUS)
OPEN = node("open", capacity=GPUS)
PLAIN = node("plain", taints=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}])
CLUSTER = ClusterFacts.of([BIG, BOTH, TEAM, OPEN, PLAIN])

NAMED = {"key": "nvidia.com/gpu", "operator": "Exists"}
SKU_NAMED = {"key": "sku", "value": "gpu"}
EVERYTHING = {"operator": "Exists"}


def told(raw, values=None, facts=CLUSTER):
    return [str(violation) for violation in violations(RULE, raw, values, facts)]


def tolerating(*tolerations, resources=None, **spec):
    return pod(container(resources=resources or {}), tolerations=list(tolerations), **spec)


def message(nodes, tolerated, remedy="Remove the toleration"):
    return (
        f"spec.tolerations: lets a pod without GPUs onto {nodes} by tolerating {tolerated}; "
        f"their cpu and memory are for GPU pods. {remedy}."
    )


@each(
    "raw, expected",
    {
        "by its key": (tolerating(NAMED), message("1 GPU node", "nvidia.com/gpu")),
        "by its key and value": (
            tolerating({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}),
            message("1 GPU node", "nvidia.com/gpu=present"),
        ),
        "several taints": (
            tolerating(NAMED, SKU_NAMED),
            message("2 GPU nodes", "nvidia.com/gpu and sku=gpu", "Remove the tolerations"),
        ),
        "only those of which it is for": (
            tolerating(NAMED, SKU_NAMED, nodeSelector={"pool": "a"}),
            message("1 GPU node", "nvidia.com/gpu", "Remove the toleration, and choose other nodes"),
        ),
        "beside a taint that marks no GPU node": (
            tolerating(NAMED, {"key": "team", "operator": "Exists"}),
            message("1 GPU node", "nvidia.com/gpu"),
        ),
        "a launcher or a Ray head": (
            tolerating(NAMED, resources={"requests": {"cpu": "8", "memory": "64Gi"}}),
            message("1 GPU node", "nvidia.com/gpu"),
        ),
        "zero GPUs": (
            tolerating(NAMED, resources={"limits": {"nvidia.com/gpu": 0}}),
            message(
                "1 GPU node",
                "nvidia.com/gpu",
                "Remove the toleration, and the request for 0 GPUs in container trainer, for which GKE adds the "
                "toleration",
            ),
        ),
        "nothing of what else GPU nodes have": (
            tolerating(NAMED, resources={"limits": {"nvidia.com/rdma": "0", "nvidia.com/gpumem": 0}}),
            message("1 GPU node", "nvidia.com/gpu"),
        ),
    },
)
def test_a_pod_without_gpus_is_told_which_tolerations_let_it_onto_how_many_gpu_nodes(raw, expected):
    assert told(raw) == [expected]


@each(
    "raw",
    {
        "no tolerations": pod(container()),
        "another taint": tolerating({"key": "team", "operator": "Exists"}),
        "one taint of two": tolerating(SKU_NAMED),
        "nodes without GPUs": tolerating({"key": "dedicated", "value": "gpu"}),
        "another value": tolerating({"key": "nvidia.com/gpu", "value": "absent"}),
        "another effect": tolerating({**NAMED, "effect": "NoExecute"}),
        "nodes that do not exist": tolerating(NAMED, nodeSelector={"pool": "c"}),
        "everything": tolerating(EVERYTHING),
        "everything beside": tolerating(NAMED, EVERYTHING),
        "everything of one effect": tolerating(NAMED, {**EVERYTHING, "effect": "NoSchedule"}),
        "a GPU": tolerating(NAMED, resources={"limits": {"nvidia.com/gpu": 1}}),
        "a slice": tolerating(NAMED, resources={"limits": {"nvidia.com/mig-1g.5gb": 1}}),
        "a share": tolerating(NAMED, resources={"limits": {"nvidia.com/gpumem": 1000}}),
        "a network card": tolerating(NAMED, resources={"limits": {"nvidia.com/rdma-vf": 1}}),
        "a claim of a container": tolerating(NAMED, resources={"claims": [{"name": "gpu"}]}),
        "a claim": tolerating(NAMED, resourceClaims=[{"name": "gpu"}]),
    },
)
def test_other_pods_are_left_alone(raw):
    assert told(raw) == []


@each(
    "raw, expected",
    {
        "everything": (tolerating(EVERYTHING), message("2 GPU nodes", "every taint")),
        "everything, and GPU nodes by name": (
            tolerating(NAMED, EVERYTHING),
            message("2 GPU nodes", "every taint and nvidia.com/gpu", "Remove the tolerations"),
        ),
        "of an effect": (tolerating({**EVERYTHING, "effect": "NoSchedule"}), message("2 GPU nodes", "every taint")),
        "of an effect that no GPU node has": (tolerating({**EVERYTHING, "effect": "NoExecute"}), None),
        "a GPU": (tolerating(EVERYTHING, resources={"limits": {"nvidia.com/gpu": 1}}), None),
        "on other nodes": (tolerating(EVERYTHING, nodeSelector={"pool": "c"}), None),
    },
)
def test_pods_that_tolerate_every_taint_are_kept_off_gpu_nodes_on_demand(raw, expected):
    assert told(raw) == []
    assert told(raw, {"tolerateAll": "deny"}) == ([expected] if expected else [])


def test_pods_of_daemon_sets_may_tolerate_every_taint():
    raw = tolerating(EVERYTHING)
    raw["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "a", "controller": True}]
    assert told(raw, {"tolerateAll": "deny"}) == []


@pytest.mark.parametrize("annotation", ["gpu-fraction", "gpu-memory"])
def test_a_pod_that_gets_a_part_of_a_gpu_from_its_scheduler_is_a_gpu_pod(annotation):
    raw = tolerating(NAMED)
    raw["metadata"]["annotations"] = {annotation: "0.5"}
    assert told(raw) == []


def test_an_init_container_with_a_gpu_makes_a_gpu_pod():
    assert told(tolerating(NAMED, initContainers=[container("check", gpus=1)])) == []


def test_pods_of_daemon_sets_are_left_alone():
    raw = tolerating(NAMED)
    raw["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "a", "controller": True}]
    assert told(raw) == []
    raw["metadata"]["ownerReferences"][0]["controller"] = False
    assert len(told(raw)) == 1


def test_nothing_is_said_where_no_node_is_known():
    assert told(tolerating(NAMED), facts=NOTHING_KNOWN) == []
    assert told(tolerating(NAMED), facts=ClusterFacts.of([OPEN, PLAIN])) == []


@each(
    "taints, is_told",
    {
        "any value": ([{"key": "team"}], True),
        "its value": ([{"key": "team", "value": "x"}], True),
        "another value": ([{"key": "team", "value": "y"}], False),
    },
)
def test_the_taints_that_mark_gpu_nodes_are_a_setting(taints, is_told):
    raw = tolerating({"key": "team", "operator": "Exists"})
    assert bool(told(raw, {"taints": taints})) == is_told


@pytest.mark.parametrize("taint", [{}, {"key": ""}, {"key": "a b"}, {"key": "a", "effect": "NoSchedule"}], ids=repr)
def test_a_taint_in_settings_needs_a_key_and_takes_a_value(taint):
    with pytest.raises(ValidationError):
        settings_of(RULE, {"taints": [taint]})


def test_a_list_without_taints_is_refused_because_it_would_disable_the_rule_without_a_word():
    with pytest.raises(ValidationError, match="names no taint; write at least one, or disable the rule"):
        settings_of(RULE, {"taints": []})


def test_a_pool_that_scales_from_zero_counts():
    pool = NodePool("gpus", (), (Taint("nvidia.com/gpu", "", "NoSchedule"),), frozenset({"nvidia.com/gpu"}), 8)
    empty = ClusterFacts.of([PLAIN]).with_pools((pool,))
    assert told(tolerating(NAMED), facts=empty) == [message("nodes of a GPU pool", "nvidia.com/gpu")]


def test_a_runtime_class_may_choose_the_nodes():
    chosen = runtime_class("a", scheduling={"nodeSelector": {"pool": "a"}})
    facts = ClusterFacts.of([BIG, BOTH], [chosen])
    raw = tolerating(NAMED, SKU_NAMED, runtimeClassName="a")
    remedy = "Remove the toleration, and choose other nodes"
    assert told(raw, facts=facts) == [message("1 GPU node", "nvidia.com/gpu", remedy)]


def test_only_nodes_that_the_pod_fits_on_count():
    resources = {"requests": {"cpu": "30", "memory": "100Gi"}}
    small = node("small", taints=[GPU_TAINT], capacity={"cpu": "16", "memory": "60Gi", "nvidia.com/gpu": "1"})
    large = node("large", taints=[GPU_TAINT], capacity={"cpu": "96", "memory": "960Gi", "nvidia.com/gpu": "8"})
    plain = node("plain", capacity={"cpu": "64", "memory": "250Gi"})
    assert told(tolerating(NAMED, resources=resources), facts=ClusterFacts.of([small, plain])) == []
    expected = [message("1 GPU node", "nvidia.com/gpu")]
    assert told(tolerating(NAMED, resources=resources), facts=ClusterFacts.of([small, large, plain])) == expected


@pytest.mark.parametrize(
    ("others", "is_told"), [({}, False), ({"rdma/hca": "4"}, True)], ids=["only there", "elsewhere"]
)
def test_a_pod_for_devices_that_only_gpu_nodes_have_is_left_alone(others, is_told):
    gpu_node = node("a", labels={"pool": "a"}, taints=[GPU_TAINT], capacity={**GPUS, "rdma/hca": "4"})
    facts = ClusterFacts.of([gpu_node, node("b", capacity={"cpu": "8", **others})])
    raw = tolerating(NAMED, resources={"limits": {"rdma/hca": 1}}, nodeSelector={"pool": "a"})
    assert bool(told(raw, facts=facts)) is is_told


def _without_gpus(raw):
    """Both tolerate the taint of GPU nodes; the one that passes can land on none of them."""
    pod = container_with(tolerating_gpu_nodes(raw), "resources", {"requests": {"cpu": "1", "memory": "1Gi"}})
    return RulePods(breaks=pod, keeps=spec_with(pod, "nodeSelector", {"kubernetes.io/arch": "arm64"}))


_TAINT = st.fixed_dictionaries({"key": st.sampled_from(("nvidia.com/gpu", "sku"))})

CASE = RuleCase(
    pods=_without_gpus,
    values=any_of(taints=st.lists(_TAINT, min_size=1)),
    enforced={},
    fuzzed={"taints": [{"key": "nvidia.com/gpu"}, {"key": "sku", "value": "gpu"}]},
)
