"""Whatever people do to a pod after it was admitted, it never gets a GPU that the policy forbids."""

import pytest

from tests.build import policy
from tests.denied_gpus import GPU, LATER, NODES, RULES, attempts, is_forbidden
from tests.facts.samples import node
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw


def cluster(nodes: dict[str, tuple[dict[str, str], list[dict[str, str]]]]) -> ClusterFacts:
    return ClusterFacts.of(
        [
            node(
                name,
                labels={**labels, "kubernetes.io/hostname": name},
                taints=taints,
                capacity={GPU: "64"} if labels else {},
            )
            for name, (labels, taints) in nodes.items()
        ]
    )


def reached(pod: dict, facts: ClusterFacts) -> list[str]:
    """The names of the nodes that the scheduler may choose."""
    mask = facts.cluster.table.matching_nodes(pod_from_raw(pod), None)
    return [name for at, name in enumerate(facts.cluster.nodes) if mask >> at & 1]


@pytest.mark.parametrize(
    ("name", "comes"), [*((name, ("h100-2",)) for name in RULES), ("allowing", ()), ("allowing", ("h100-nvl",))]
)
def test_no_update_and_no_node_that_comes_gives_a_pod_what_its_policy_forbids(name, comes) -> None:
    """A policy that denies models knows the labels that some node has; one that allows some needs no more."""
    under, now = policy(RULES[name]), cluster(NODES)
    later = cluster(NODES | {one: LATER[one] for one in comes})
    admitted = steered = 0
    for attempt in attempts(seed=len(comes), number=150):
        created = engine.simulate(attempt.pod, under, now, namespace="team")
        if created.refusals:
            continue
        pod, admitted = created.object, admitted + 1
        steered += bool(created.patch)
        for at, update in enumerate(attempt.updates):
            wanted = attempt.after(pod, update)
            if not engine.validate(wanted, under, (now, later)[at % 2], old=pod, namespace="team").refusals:
                pod = wanted
        if not pod["spec"].get("schedulingGates"):
            forbidden = [one for one in reached(pod, later) if is_forbidden(name, one)]
            assert forbidden == [], pod
    assert admitted > 40
    assert steered > 20
