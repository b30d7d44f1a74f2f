"""The real scheduler: where it puts pods that the webhook steered, and whether it agrees on where pods could land."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import NODES, TAINT, change, cuda_pod, present
from tests.e2e.installation import Installation
from tests.e2e.scheduler import decided_pods, wait_until_known
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw

Namespaces = Callable[[str], str]

TEAM = {"key": "team", "value": "a", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def nodes(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with a scheduler and the six nodes."""
    control_plane.start_scheduler()
    with present(control_plane):
        wait_until_known(control_plane, NODES)
        yield control_plane


def nodes_of_pods(plane: ControlPlane, namespace: str) -> dict[str, str | None]:
    """The node of each pod by the pod's name, after the scheduler has decided; the pods are deleted."""
    chosen = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in decided_pods(plane, namespace)}
    plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    return chosen


def create(plane: ControlPlane, namespace: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod as it was stored."""
    status, stored = plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)
    assert status == 201, stored
    return dict(stored)


def test_the_scheduler_fills_the_nodes_that_fit_and_leaves_the_others_alone(
    nodes: ControlPlane, webhook: Installation, make_namespace: Namespaces
) -> None:
    """Seventeen pods for sixteen GPUs on which the image runs, beside thirty-two on which it would fail."""
    probe, namespace = make_namespace("steered"), make_namespace("steered")
    image = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
    dry = f"/api/v1/namespaces/{probe}/pods?dryRun=All"
    unfit = ("v100", "t4", "a100", "l4")
    eventually(lambda: all(nodes.raw("POST", dry, cuda_pod("probe", image, at))[0] == 403 for at in unfit))
    for number in range(17):
        stored = create(nodes, namespace, cuda_pod(f"p{number}", image))
        terms = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = terms["nodeSelectorTerms"]
        assert {entry["operator"] for entry in term["matchExpressions"]} == {"NotIn"}
    assert Counter(nodes_of_pods(nodes, namespace).values()) == {"h100": 8, "b200": 8, None: 1}


def asked_for(chance: random.Random) -> dict[str, Any]:
    """Some of what decides where a pod can go."""
    key, value = chance.choice((("pool", "a"), ("pool", "b"), ("nvidia.com/gpu.compute.major", "8"), ("rack", "007")))
    expressions = [
        {"key": key, "operator": "In", "values": [value, "x"]},
        {"key": key, "operator": "NotIn", "values": [value]},
        {"key": key, "operator": "Exists"},
        {"key": key, "operator": "DoesNotExist"},
        {"key": "nvidia.com/cuda.driver-version.major", "operator": "Gt", "values": ["535"]},
        {"key": "nvidia.com/gpu.compute.minor", "operator": "Lt", "values": ["5"]},
        {"key": "rack", "operator": "Gt", "values": ["6"]},
    ]
    names = [
        {"key": "metadata.name", "operator": chance.choice(("In", "NotIn")), "values": [chance.choice(list(NODES))]}
    ]
    terms: list[dict[str, Any]] = [
        {"matchExpressions": chance.sample(expressions, chance.randint(1, 2))} for _ in range(chance.randint(1, 2))
    ]
    terms += chance.choice(([], [], [{"matchFields": names}], [{}]))
    tolerations: list[dict[str, Any]] = [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "value": "present"},
        {"operator": "Exists"},
        {"key": "team", "value": "b"},
        {"key": "team", "operator": "Exists", "effect": "NoExecute"},
        {"key": "team", "value": "a", "effect": "NoSchedule"},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {
        "tolerations": chance.sample(tolerations, chance.randint(0, 3)),
        "nodeSelector": chance.choice(({}, {}, {key: value})),
        **chance.choice(({}, {"affinity": {"nodeAffinity": required}}, {"affinity": {"nodeAffinity": required}})),
    }


def test_the_scheduler_binds_pods_to_candidates_only_and_leaves_waiting_those_that_have_none(
    nodes: ControlPlane, make_namespace: Namespaces
) -> None:
    """Sixty pods that want nodes in sixty ways: where they can go is read from the nodes as the webhook reads them."""
    plenty = {"nvidia.com/gpu": "100"}
    for name, node_labels, taints in (
        ("v100", {"pool": "a", "rack": "007"}, []),
        ("t4", {"pool": "b"}, [TAINT, {**TEAM, "effect": "PreferNoSchedule"}]),
        ("a100", {"rack": "six"}, [TEAM]),
        ("l4", {"pool": "", "rack": "5"}, [TAINT, {**TEAM, "effect": "NoExecute"}]),
        ("h100", {}, [TAINT]),
        ("b200", {}, [TAINT]),
    ):
        change(nodes, name, {"status": {"capacity": plenty, "allocatable": plenty}}, subresource="/status")
        labels = {**node_labels, "gpus": "plenty"}
        change(nodes, name, {"metadata": {"labels": labels}, "spec": {"taints": taints}})
    wait_until_known(nodes, NODES)
    facts = ClusterFacts.of(nodes.raw("GET", "/api/v1/nodes")[1]["items"])
    chance, namespace = random.Random(36), make_namespace("open")
    stored = [create(nodes, namespace, cuda_pod(f"p{at}", "busybox", **asked_for(chance))) for at in range(60)]
    node_by_pod = nodes_of_pods(nodes, namespace)
    for raw in stored:
        pod, chosen = pod_from_raw(raw), node_by_pod[raw["metadata"]["name"]]
        assert bool(facts.matching_nodes(pod)) == (chosen is not None), raw["spec"]
        others = facts if chosen is None else ClusterFacts(facts.cluster.without_node(chosen))
        counts = [sum(kind.count for kind in one.matching_nodes(pod)) for one in (facts, others)]
        assert counts[0] - counts[1] == (chosen is not None), raw["spec"]
    assert 5 < list(node_by_pod.values()).count(None) < 55
