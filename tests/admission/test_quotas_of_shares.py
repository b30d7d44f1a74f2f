"""What a review claims of quotas where nodes share GPUs, and which pods a refusal names."""

import uuid
from fractions import Fraction
from pathlib import Path

import yaml

from tests.build import pod, request
from tests.golden import each
from tests.quota.quotas import TEAM, own
from tests.quota.test_unit_parts import FOUR, WHOLE, node
from webhook.admission import phases
from webhook.engine.quota_requests import finding_for
from webhook.facts.facts import ClusterFacts
from webhook.ledger.gpu_pods import placed, stored_from_raw
from webhook.ledger.ledger_store import GpuPod
from webhook.ledger.verdicts import Exceeded
from webhook.policy.loader import load
from webhook.quota.quotas import Demand, Excess

HEAD = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy"}
POOL = {"name": "h100", "product": "NVIDIA-H100-80GB-HBM3", "gpus": 8, "labels": {"pool": "h100"}}


@each(
    "pools, entered",
    {
        "nodes with shares alone": ([], "nvidia.com/gpu@1/4"),
        "a pool with whole GPUs, which has no node now": ([POOL], "nvidia.com/gpu"),
    },
)
def test_a_pool_of_the_policy_counts_as_a_node_that_a_pod_could_get(
    tmp_path: Path, pools: list[object], entered: str
) -> None:
    default = {**HEAD, "metadata": {"name": "_default"}, "spec": {"rules": {}}}
    team = {"nodePools": pools, "rules": {"gpuQuota": {"mode": "enforce", "gpus": 8}}}
    (tmp_path / "_default.yaml").write_text(yaml.safe_dump(default))
    (tmp_path / "team.yaml").write_text(yaml.safe_dump({**HEAD, "metadata": {"name": "team"}, "spec": team}))
    decision = phases.validate(request(pod(8)), load(tmp_path), ClusterFacts.of([node("four", FOUR)]))
    assert [one.demand.gpus for _, one in decision.requests.requests] == [((entered, 8),)]


def test_a_refusal_names_pods_that_are_alike_with_what_each_has_on_its_node() -> None:
    bound = own(gpus=4)

    def stored(number: int, name: str) -> GpuPod:
        raw = pod(4, namespace=TEAM, name=name, uid=str(uuid.UUID(int=number)), spec={"nodeName": name})
        found = stored_from_raw(raw).gpu_pod
        assert found is not None
        return found

    cluster = ClusterFacts.of([node("shares", FOUR), node("whole", WHOLE)])
    pods = list(placed([stored(1, "shares"), stored(2, "whole")], cluster))
    verdict = Exceeded((Excess(bound.quota.limits[0], Fraction(1), Fraction(5)),))
    for seen in (pods, pods[::-1]):
        message = finding_for(bound, Demand(TEAM, (("nvidia.com/gpu", 1),)), verdict, seen).message
        assert "largest: whole 4, shares 1" in message
