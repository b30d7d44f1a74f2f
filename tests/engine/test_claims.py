"""Resource claims, and templates of claims, are judged when they are applied, as pods with such claims would be."""

from dataclasses import replace
from typing import Any

import pytest

from tests.build import FACTS, NAMESPACE, policy
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.accelerators import DEVICE_CLASSES, Accelerators, Declared, Vendor
from webhook.model.claims import CLAIM, TEMPLATE
from webhook.outcome import Outcome

GPU, OTHER = "gpu.nvidia.com", "h200.example.com"
RULES = {
    "gpuLimits": {"maxPerPod": 8},
    "resourceClaims": {"deviceClasses": {"denied": ["*.example.com"]}, "adminAccess": ["gpu-monitoring"]},
}
STRICT = policy(RULES, workloads="enforce")


def exactly(device_class: str = GPU, **fields: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": device_class, **fields}}


def first(*alternatives: dict[str, Any]) -> dict[str, Any]:
    """A request that one of these alternatives satisfies."""
    return {"name": "r", "firstAvailable": list(alternatives)}


def claim(*requests: Any, kind: str = CLAIM, version: str = "v1") -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests)}}
    raw = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"generateName": "gpus-"}}
    return {**raw, "spec": {"spec": spec} if kind == TEMPLATE else spec}


def judged(raw: dict[str, Any], namespace: str = NAMESPACE, facts: ClusterFacts = FACTS, **rules: Any) -> Outcome:
    return engine.validate_claim(raw, namespace, policy(rules) if rules else STRICT, facts)


def found(raw: dict[str, Any], **more: Any) -> list[str]:
    return [str(finding) for finding in judged(raw, **more).findings]


def test_administrative_access_is_refused_at_its_place_in_the_object() -> None:
    outcome = judged(claim(exactly(), exactly(adminAccess=True, allocationMode="All")))
    assert outcome.refusal == (
        "resourceClaims: spec.devices.requests[1].exactly.adminAccess: requests gpu.nvidia.com with adminAccess; that "
        "reaches devices which other pods use, and the policy allows it in gpu-monitoring. Remove adminAccess, or ask "
        "the platform team."
    )
    assert not judged(claim(exactly(adminAccess=True)), "gpu-monitoring").findings


@pytest.mark.parametrize(
    ("requests", "number"),
    [
        pytest.param([exactly(count=9)], 9, id="one request"),
        pytest.param([exactly(count=5), exactly("mig.nvidia.com", count=4)], 9, id="two requests together"),
        pytest.param([first({"deviceClassName": GPU}, {"deviceClassName": GPU, "count": 10})], 10, id="an alternative"),
    ],
)
def test_more_gpus_than_a_pod_may_have_are_refused(requests: list[Any], number: int) -> None:
    (said,) = found(claim(*requests, kind=TEMPLATE))
    assert said == (
        f"gpuLimits: spec.spec.devices.requests: requests {number} GPUs; the policy allows at most 8 per pod. "
        "Request 8 or fewer."
    )


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([exactly(count=8)], id="as many as a pod may have"),
        pytest.param([exactly("mrdma.google.com", count=9)], id="devices that are no GPUs"),
        pytest.param([exactly(allocationMode="All")], id="all GPUs of a node, which may be few"),
        pytest.param([], id="nothing"),
        pytest.param([7, None, [], {"exactly": 7}, {"firstAvailable": [7]}, {"name": 7}], id="what is malformed"),
    ],
)
def test_nothing_is_said_of_claims_with_which_pods_may_be_admitted(requests: list[Any]) -> None:
    assert found(claim(*requests)) == []


@pytest.mark.parametrize("spec", [None, 7, [], {"devices": 7}, {"devices": {"requests": {"a": 1}}}, {"spec": None}])
@pytest.mark.parametrize("kind", [CLAIM, TEMPLATE])
def test_malformed_objects_are_left_to_the_api_server(kind: str, spec: Any) -> None:
    assert found({"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": spec}) == []


def test_the_policy_says_which_other_classes_are_gpus() -> None:
    raw = claim(exactly("big.example.org", count=9))
    assert found(raw) == []
    declared = replace(
        STRICT, accelerators=Accelerators((Declared(f"{DEVICE_CLASSES}big.example.org", Vendor.NVIDIA),))
    )
    assert engine.validate_claim(raw, NAMESPACE, declared, FACTS).refusal.startswith("gpuLimits: ")


def test_a_namespace_without_gpus_may_have_no_claim_of_them() -> None:
    (said,) = found(claim(exactly()), gpuLimits={"maxPerPod": 0})
    expected = (
        "gpuLimits: spec.devices.requests: requests GPUs; GPUs are not enabled in namespace team. Ask the platform "
    )
    assert said == expected + "team to enable them."
    assert found(claim(exactly("mrdma.google.com")), gpuLimits={"maxPerPod": 0}) == []


def test_a_claim_that_is_too_large_to_be_kept_is_refused_by_every_rule_that_would_have_to_know_it() -> None:
    raw = claim(*(exactly(f"c{number}.example.com") for number in range(32)), exactly())
    raw["spec"]["devices"]["requests"][0] = first(*({"deviceClassName": f"a{number}"} for number in range(2)))
    told = [said.partition(". ")[0] for said in found(raw)]
    too_large = "spec.devices.requests: has too many alternatives or too long names of device classes"
    assert told == [
        f"gpuLimits: {too_large}; its GPUs cannot be counted",
        f"resourceClaims: {too_large}; it cannot be checked which devices it requests",
    ]
    assert found(raw, gpuLimits={}) == []


def test_findings_have_the_mode_of_their_rule() -> None:
    outcome = judged(claim(exactly(OTHER)), resourceClaims={**RULES["resourceClaims"], "mode": "warn"})
    assert (outcome.refusal, len(outcome.warnings)) == ("", 1)
    assert not judged(claim(exactly(OTHER)), resourceClaims={**RULES["resourceClaims"], "mode": "audit"}).warnings


def test_only_claims_and_their_templates_are_judged() -> None:
    bad = claim(exactly(OTHER))
    assert found({**bad, "apiVersion": "resource.example.com/v1"}) == found({**bad, "kind": "DeviceClass"}) == []
    assert found({**bad, "apiVersion": "resource.k8s.io/v3"})


def test_a_template_is_judged_in_the_mode_for_workloads() -> None:
    raw = claim(exactly(OTHER), kind=TEMPLATE)
    assert engine.validate_workload(raw, NAMESPACE, STRICT, FACTS).refusals
    warned = engine.validate_workload(raw, NAMESPACE, policy(RULES), FACTS)
    assert (warned.refusals, len(warned.warnings)) == ((), 1)
    assert not engine.validate_workload(raw, NAMESPACE, policy(RULES, workloads="disabled"), FACTS).findings


CLASSES = ClusterFacts.of(device_classes=[{"metadata": {"name": name}} for name in (GPU, "mig.nvidia.com")])
MISSING = "but the cluster has no DeviceClass of this name; pods with the claim wait until it has one."


def test_a_class_that_the_cluster_does_not_have_is_told_with_the_name_that_is_probably_meant() -> None:
    outcome = judged(
        claim(exactly("gpu.nvidia.con"), exactly(), exactly("gpu.nvidia.con")), facts=CLASSES, schedulable={}
    )
    assert outcome.refusals == ()
    (said,) = map(str, outcome.findings)
    where = "schedulable: spec.devices.requests[0].exactly.deviceClassName"
    expected = f"{where}: requests DeviceClass gpu.nvidia.con, {MISSING} Did you mean gpu.nvidia.com? Correct the name."
    assert said == expected


@pytest.mark.parametrize(
    ("name", "facts", "number"),
    [
        pytest.param(GPU, CLASSES, 0, id="a class that is there"),
        pytest.param("later.example.com", CLASSES, 1, id="a class that is not there"),
        pytest.param("mrdma.google.com", CLASSES, 0, id="a class of no GPUs"),
        pytest.param("later.example.com", ClusterFacts(), 0, id="where no class is known"),
    ],
)
def test_nothing_is_said_of_classes_where_it_is_not_certain(name: str, facts: ClusterFacts, number: int) -> None:
    assert len(found(claim(exactly(name)), facts=facts, schedulable={})) == number
