"""What nodes say of the hour to come: which taints go away by themselves, and who makes nodes."""

import pytest

from tests.facts.samples import node
from tests.golden import golden
from tests.rules.samples import container, pod
from webhook.facts.facts import ClusterFacts
from webhook.facts.nodes import maker_of, node_from_raw, state_by
from webhook.model.node import NodeClassState
from webhook.model.pod_reader import pod_from_raw

GPU = "nvidia.com/gpu"
LASTING = [
    GPU,
    "amd.com/gpu",
    "sku",
    "dedicated",
    "team",
    "kubernetes.azure.com/scalesetpriority",
    "cloud.google.com/gke-spot",
    "cloud.google.com/compute-class",
    "node-role.kubernetes.io/control-plane",
    "node.lepton.ai/dedicated-node-group-id",
    "hub.jupyter.org/dedicated",
]


def asking(**spec):
    return pod_from_raw(pod(container(gpus=1), **spec))


def states(facts: ClusterFacts, **spec) -> list[NodeClassState]:
    return [one.state for one in facts.matching_nodes(asking(**spec))]


@pytest.mark.parametrize("key", LASTING)
def test_taints_that_mark_nodes_for_some_pods_are_not_transient(key) -> None:
    assert not state_by(key)


@pytest.mark.parametrize(
    ("labels", "taint", "expected"),
    [
        pytest.param({}, "cni.istio.io/not-ready", [NodeClassState.STARTING], id="a known taint"),
        pytest.param({}, "node.kubernetes.io/unschedulable", [NodeClassState.SERVING], id="a cordon"),
        pytest.param({}, "burn-in", [], id="a taint of its owner's choice"),
        pytest.param(
            {"karpenter.sh/registered": "true"}, "burn-in", [NodeClassState.STARTING, NodeClassState.MAKEABLE], id="new"
        ),
        pytest.param(
            {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"},
            "burn-in",
            [NodeClassState.MAKEABLE],
            id="initialized",
        ),
        pytest.param({"karpenter.sh/nodepool": "a"}, GPU, [NodeClassState.MAKEABLE], id="the taint of GPU nodes stays"),
    ],
)
def test_a_node_starts_while_only_transient_taints_keep_pods_away(labels, taint, expected) -> None:
    facts = ClusterFacts.of(
        [node("n0", labels=labels, capacity={GPU: "8"}, taints=[{"key": taint, "effect": "NoSchedule"}])]
    )
    assert states(facts) == expected


def test_a_policy_adds_taints_of_its_own_and_leaves_the_facts_of_others_alone() -> None:
    tainted = node("n0", capacity={GPU: "8"}, taints=[{"key": "example.com/burn-in", "effect": "NoSchedule"}])
    facts = ClusterFacts.of([tainted])
    own = ClusterFacts(facts.cluster, transient=("example.com/*",))
    assert (states(facts), states(own)) == ([], [NodeClassState.STARTING])
    assert own.table is own.cluster.table.without_taints(("example.com/*",))
    assert facts.cluster.table.without_taints(("other/*",)) is facts.cluster.table


@golden
def test_only_labels_that_an_autoscaler_alone_gives_say_that_it_makes_nodes(name, labels, maker) -> None:
    assert maker_of(name, labels) == maker


@golden
def test_no_node_is_made_for_a_pod_that_names_its_node(spec, is_possible) -> None:
    facts = ClusterFacts.of([node("n0", labels={"karpenter.sh/nodepool": "a"}, capacity={"cpu": "4"})])
    assert (NodeClassState.MAKEABLE in states(facts, **spec)) == is_possible


def test_amounts_of_feasible_nodes_are_those_of_now() -> None:
    facts = ClusterFacts.of([node("n0", capacity={GPU: "8", "memory": "64Gi"}), node("n1", capacity={"memory": "1Gi"})])
    assert facts.amounts_on(asking(), ("memory", GPU)) == {(64 * 2**30, 8)}
    larger = node_from_raw(node("n0", capacity={GPU: "8", "memory": "128Gi"}))
    assert larger is not None
    table = facts.table.with_node(larger)
    assert table.amounts_in(1, ("memory", GPU)) == {(128 * 2**30, 8)}
