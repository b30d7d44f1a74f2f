"""The corpus of manifests in clusters whose GPU nodes Karpenter has yet to make."""

import shutil
from pathlib import Path

import pytest

from tests.corpus import Manifest, judged, read_corpus
from tests.facts.samples import node
from tests.facts.test_made_pools import node_pool
from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_table import GPUS
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet

TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
NODE_POOLS = [
    node_pool(["instance-family In g4dn g5 g5g g6 g6e"], name="inference", spec={"taints": [TAINT]}),
    node_pool(["instance-family In p4d p4de p5 p5e p6-b200"], name="training", spec={"taints": [TAINT]}),
    node_pool(["instance-family In g4ad"], name="amd"),
]
TO_BE_MADE = ClusterFacts.of(node_pools=NODE_POOLS)
WHO_MAKES = ("karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass")
"""Labels that say that an autoscaler may make nodes of any kind."""
CPU = node("cpu", labels={"karpenter.sh/nodepool": "cpu", "kubernetes.io/arch": "amd64"}, capacity={"cpu": "8"})
BESIDE_A_NODE = ClusterFacts.of([CPU], node_pools=NODE_POOLS)


def made() -> ClusterFacts:
    """The cluster in which each pool has a node, with the vendor's label and much of everything that a pod may want."""
    nodes = []
    for pool in TO_BE_MADE.cluster.made:
        taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in pool.taints]
        much = {"cpu": "1000", "memory": "9Ti", "ephemeral-storage": "9Ti", "vpc.amazonaws.com/efa": "64"}
        gpus = dict.fromkeys(pool.gpu_resources, str(pool.gpus))
        labels = {key: value for key, value in pool.labels if key not in WHO_MAKES}
        labels |= dict(GPUS.examples[model] for model in pool.open.models if model in GPUS.examples)
        nodes.append(node(pool.name, labels=labels, capacity={**much, **gpus}, taints=taints))
    return ClusterFacts.of(nodes)


MADE = made()


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> PolicySet:
    """The default policy, with the rule that tells of pods which no node could run."""
    folder = tmp_path_factory.mktemp("policies")
    shutil.copy(Path(__file__).parents[2] / "policies/_default.yaml", folder)
    return load(folder)


@pytest.mark.parametrize("manifest", read_corpus(), ids=lambda manifest: manifest.name)
def test_no_pod_is_refused_for_nodes_that_would_take_it(manifest: Manifest, policies: PolicySet) -> None:
    """What is said of nodes to come is said of the same nodes once they are there."""
    after = judged(manifest, MADE, policies)
    for facts in (TO_BE_MADE, BESIDE_A_NODE):
        before = judged(manifest, facts, policies)
        impossible = [one for one in before.said if "schedulable" in one and "no node of today" not in one]
        assert before.verdict.refused <= after.verdict.refused, (before.said, after.said)
        assert not impossible or any("schedulable" in one for one in after.said), impossible
