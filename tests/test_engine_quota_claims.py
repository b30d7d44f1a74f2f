"""What a pod claims of the quotas of its namespace, and which ledgers are asked about it."""

from typing import Any

import pytest

from tests.bound_quotas import TEAM, own, shared_quota
from tests.build import FACTS, container, pod
from tests.ledger.small_cluster import raw_pod
from tests.quota.claim_samples import exactly, first_of
from webhook.engine.quota_claims import NO_CLAIMS, claims_of
from webhook.facts.facts import ClusterFacts
from webhook.facts.gpu_pods import stored_from_raw
from webhook.facts.snapshot import Snapshot
from webhook.ledger.verdicts import Claim
from webhook.model.shape import ShapeError
from webhook.policy.policy_quotas import BoundQuota
from webhook.quota.demand import demand_of
from webhook.quota.quotas import Demand

# What is claimed.


def test_a_pod_claims_the_same_of_every_quota_that_counts_alike() -> None:
    first, second = own(gpus=8), shared_quota(gpus=16, mode="warn")
    found = claims_of(pod(1, 2), TEAM, [first, second], FACTS)
    demand = Demand(TEAM, (("nvidia.com/gpu", 3),))
    assert [(one.claim, one.bound) for one in found.claims] == [
        (Claim(first.quota, demand, enforced=True), first),
        (Claim(second.quota, demand, enforced=False), second),
    ]
    assert found.findings == ()


def test_a_model_that_only_one_quota_knows_is_claimed_of_that_one() -> None:
    known = own(models={"X9": {"example.com/gpu": ["x9"]}}, byModel={"X9": 4})
    found = claims_of(
        pod(1, spec={"nodeSelector": {"example.com/gpu": "x9"}}), TEAM, [known, shared_quota(gpus=4)], FACTS
    )
    assert [one.claim.demand.models for one in found.claims] == [("X9",), None]


@pytest.mark.parametrize(
    ("raw", "bound"),
    [
        pytest.param(pod(0), [own(gpus=0)], id="no GPUs"),
        pytest.param(pod(spec={"containers": [container("c")]}), [own(gpus=0)], id="none mentioned"),
        pytest.param(
            pod(spec={"containers": [container("c", limits={"nvidia.com/gpumem": 9})]}), [own(gpus=0)], id="attributes"
        ),
        pytest.param(pod(9), [], id="no quota"),
    ],
)
def test_nothing_is_claimed_without_gpus_or_quotas(raw: dict[str, Any], bound: list[BoundQuota]) -> None:
    assert claims_of(raw, TEAM, bound, FACTS) is NO_CLAIMS


def test_a_malformed_pod_is_an_error_where_there_are_quotas() -> None:
    with pytest.raises(ShapeError):
        claims_of({"spec": {"containers": 7}}, TEAM, [own(gpus=1)], FACTS)


def test_what_a_shared_quota_never_allows_is_found_without_its_ledger_and_of_the_namespace_the_rule_says_it() -> None:
    found = claims_of(pod(9), TEAM, [own(gpus=8), shared_quota(gpus=8)], FACTS)
    assert [str(finding) for finding in found.findings] == [
        "gpuQuota: spec: requests 9 GPUs; GPU quota 'research' allows 8 GPUs in all. Request 8 or fewer."
    ]


def test_a_pod_that_does_not_say_its_model_is_told_which_selector_to_add_where_the_shared_quota_must_know() -> None:
    found = claims_of(pod(1), TEAM, [shared_quota(byModel={"H100": 4}, unspecifiedModel="deny")], FACTS)
    assert [str(finding) for finding in found.findings] == [
        "gpuQuota: spec: does not select a GPU model; GPU quota 'research' limits H100, so a pod has to select one. "
        "Add a nodeSelector for the model, such as nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3 for H100."
    ]


def test_a_pod_that_says_too_much_about_its_nodes_is_counted_now_as_it_will_be_when_it_is_stored() -> None:
    """Otherwise it would be admitted as one model, and count against every model a moment later."""
    bound = shared_quota(byModel={"H100": 2, "T4": 20})
    spec = {"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}}
    assert [one.claim.demand.models for one in claims_of(raw_pod(4, **spec), TEAM, [bound], FACTS).claims] == [("T4",)]
    spec["nodeSelector"] |= {f"label-{number}": "x" * 60 for number in range(200)}
    raw = raw_pod(4, **spec)
    stored = stored_from_raw(raw | {"metadata": {"name": "p", "uid": "705ab4f5-6393-11e8-b7cc-42010a800001"}}).gpu_pod
    assert stored is not None
    claimed = claims_of(raw, TEAM, [bound], FACTS)
    assert [one.claim.demand for one in claimed.claims] == [demand_of(stored.pod, TEAM, bound.quota.counting)]
    assert [(finding.refuses, finding.message) for finding in claimed.findings] == [
        (True, "requests 4 H100; GPU quota 'research' allows 2 H100 in all")
    ]


# What pods bring for the claims that are made for them.


def known(name: str, *requests: dict[str, Any]) -> ClusterFacts:
    """A cluster with a template of this name."""
    named = [{"name": f"r{at}", **one} for at, one in enumerate(requests)]
    spec = {"spec": {"devices": {"requests": named}}}
    raw = {"metadata": {"name": name, "namespace": TEAM}, "spec": spec}
    return ClusterFacts(Snapshot.of(templates=[raw]))


def claiming(count: int, **named: str) -> dict[str, Any]:
    """A pod with so many claims, which all name the same."""
    raw = pod(0)
    raw["metadata"]["namespace"] = TEAM
    raw["spec"]["resourceClaims"] = [{"name": f"c{at}", **named} for at in range(count)]
    return raw


def test_a_pod_claims_room_for_each_claim_from_a_template_and_none_for_others() -> None:
    facts = known("two", exactly(2))
    (found,) = claims_of(claiming(2, resourceClaimTemplateName="two"), TEAM, [own(gpus=8)], facts).claims
    assert found.claim.own is None
    assert [name for name, _ in found.claim.reserved] == ["c0", "c1"]
    devices = [one for (one,) in found.claim.demand.requests]
    assert sum(one.number for one in devices) == 4
    assert {one.resource for one in devices} == {"deviceclass.resource.kubernetes.io/gpu.nvidia.com"}
    assert claims_of(claiming(1, resourceClaimName="two"), TEAM, [own(gpus=8)], facts) == NO_CLAIMS
    assert claims_of(claiming(1, resourceClaimTemplateName="none"), TEAM, [own(gpus=8)], facts) == NO_CLAIMS


def test_a_pod_whose_claims_never_fit_together_is_refused() -> None:
    found = claims_of(
        claiming(2, resourceClaimTemplateName="two"), TEAM, [shared_quota(gpus=3)], known("two", exactly(2))
    )
    assert [finding.message for finding in found.findings] == [
        "requests 4 GPUs; GPU quota 'research' allows 3 GPUs in all"
    ]


def test_a_pod_with_claims_in_very_many_alternatives_is_refused_without_counting_them() -> None:
    either = first_of(exactly(1), exactly(2, "mig.nvidia.com"))
    facts = known("many", *[either] * 8)
    found = claims_of(claiming(4, resourceClaimTemplateName="many"), TEAM, [own(gpus=99)], facts)
    assert [len(one.claim.reserved) for one in found.claims] == [4]
    found = claims_of(claiming(5, resourceClaimTemplateName="many"), TEAM, [own(gpus=99)], facts)
    assert not found.claims
    (finding,) = found.findings
    assert finding.refuses
    assert "in more than 64 alternatives" in finding.message
