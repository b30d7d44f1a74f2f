"""An audit of files says what pods ask for by resource claims, as far as the claims are in the same input."""

from typing import Any

import pytest

from tests.audit.audits import audited, audited_in_a_cluster
from tests.facts.samples import device_class
from tests.reviews import NAMESPACE, pod, policies, workload
from webhook.audit.report import AuditFinding, Level
from webhook.facts.facts import ClusterFacts
from webhook.policy.policy_set import PolicySet

NO_RULES = policies({})
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}

DOUBT = "; quotas count only devices of classes that are known to be GPUs"


def template(name: str, *requests: Any, namespace: str = NAMESPACE) -> dict[str, Any]:
    spec = {"spec": {"devices": {"requests": [{"name": f"r{i}", **one} for i, one in enumerate(requests)]}}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def exactly(device_class: str = "gpu.nvidia.com", **fields: Any) -> dict[str, Any]:
    return {"exactly": {"deviceClassName": device_class, **fields}}


def asking(*templates: str, tolerations: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod whose only GPUs are by claim; it tolerates GPU nodes unless told otherwise."""
    claims = [{"name": f"c{i}", "resourceClaimTemplateName": name} for i, name in enumerate(templates)]
    own = {"tolerations": [TOLERATION] if tolerations is None else tolerations, "resourceClaims": claims, **spec}
    return pod(0, spec=own)


def told(*objects: Any, using: PolicySet = NO_RULES) -> list[AuditFinding]:
    return [one for one in audited(*objects, using=using).findings if one.field.endswith("resourceClaims")]


def said(*objects: Any, using: PolicySet = NO_RULES) -> str:
    (finding,) = told(*objects, using=using)
    return finding.message


def test_what_a_pod_asks_for_by_claim_is_recorded_and_fails_no_audit() -> None:
    report = audited(template("gpus", exactly(count=2)), asking("gpus"), using=NO_RULES)
    (finding,) = report.findings
    assert (finding.level, finding.rule, finding.field) == (Level.AUDIT, "resourceClaims", "spec.resourceClaims")
    assert finding.message == "requests 2 devices of gpu.nvidia.com by claim template gpus"
    assert (finding.remedy, report.exit_status()) == ("", 0)


@pytest.mark.parametrize(
    ("requests", "phrase"),
    [
        pytest.param([exactly()], "1 device of gpu.nvidia.com", id="one"),
        pytest.param([exactly(count=2), exactly()], "3 devices of gpu.nvidia.com", id="the same class is added up"),
        pytest.param(
            [exactly(count=8), exactly("mrdma.google.com", count=8)],
            "8 devices of gpu.nvidia.com and 8 devices of mrdma.google.com",
            id="classes apart, also those of no GPUs",
        ),
        pytest.param([exactly(allocationMode="All")], "all matching devices of gpu.nvidia.com", id="all"),
        pytest.param(
            [exactly(allocationMode="All", adminAccess=True)],
            "administrative access to all matching devices of gpu.nvidia.com",
            id="administrative",
        ),
        pytest.param(
            [{"firstAvailable": [exactly("a")["exactly"], exactly("b", count=2)["exactly"]]}],
            "one of 2 alternatives (1 device of a or 2 devices of b)",
            id="alternatives",
        ),
        pytest.param([exactly("gpu.example.com")], "1 device of gpu.example.com", id="a class that nobody knows"),
        pytest.param([{"exactly": {}}], "devices in a number that cannot be read", id="unreadable"),
        pytest.param(
            [exactly(one) for one in "abcde"],
            "1 device of a, 1 device of b, 1 device of c and 2 more requests",
            id="very many",
        ),
    ],
)
def test_the_devices_are_named_by_number_and_class(requests: list[Any], phrase: str) -> None:
    message = said(template("t", *requests), asking("t"))
    assert message.removesuffix(DOUBT) == f"requests {phrase} by claim template t"


def test_a_claim_that_is_not_in_the_input_is_named() -> None:
    found = said(template("t", exactly()), asking("t", "elsewhere"))
    there = "1 device of gpu.nvidia.com by claim template t"
    more = "devices by claim template elsewhere, which is not in the input"
    assert found == f"requests {there} and {more}{DOUBT}"


def test_a_claim_of_another_namespace_is_not_that_of_the_pod() -> None:
    found = said(template("t", exactly(), namespace="other"), asking("t"))
    assert found == f"requests devices by claim template t, which is not in the input{DOUBT}"


def test_the_claims_of_a_pod_that_names_many_are_not_all_spelled_out() -> None:
    found = said(asking(*"abcde"))
    assert found.endswith(f"by claim template c, which is not in the input and 2 more claims{DOUBT}")


def test_a_claim_that_the_pod_does_not_name_is_said_as_such() -> None:
    found = said(asking(resourceClaims=[{"name": "mine"}]))
    assert found == f"requests devices by claim mine, for which the pod names no claim and no template{DOUBT}"


def test_a_claim_may_stand_behind_the_pod_and_be_no_template() -> None:
    raw = template("shared", exactly())
    raw |= {"kind": "ResourceClaim", "spec": raw["spec"]["spec"]}
    user = asking(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    assert said(user, raw) == "requests 1 device of gpu.nvidia.com by claim shared"


def test_claims_of_what_is_certainly_no_gpu_are_not_worth_a_finding() -> None:
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "d", "namespace": NAMESPACE},
        "spec": {"channel": {"resourceClaimTemplate": {"name": "channel"}}},
    }
    assert told(template("nic", exactly("mrdma.google.com")), domain, asking("nic", "channel")) == []
    assert told(asking("channel")) != []


def test_the_templates_of_workloads_are_told_where_they_stand() -> None:
    (finding,) = told(template("t", exactly()), workload("Deployment", asking("t")))
    assert finding.field == "spec.template.spec.resourceClaims"
    assert finding.message == "requests 1 device of gpu.nvidia.com by claim template t"


@pytest.mark.parametrize("mode", ["warn", "deny"])
def test_where_a_quota_has_something_to_say_of_claims_it_is_said_once(mode: str) -> None:
    using = policies({"gpuQuota": {"gpus": 4, "claims": mode}})
    (finding,) = told(template("t", exactly("gpu.example.com", count=2)), asking("t"), using=using)
    assert (finding.rule, finding.level) == ("gpuQuota", Level.REFUSE if mode == "deny" else Level.WARN)
    devices, reason = finding.message.split("; ")
    assert devices == "requests 2 devices of gpu.example.com by claim template t"
    assert reason.startswith("the GPU quota")


def test_people_hear_that_nothing_tolerates_gpu_nodes_for_them() -> None:
    gpus = template("t", exactly())
    (finding,) = told(gpus, asking("t", tolerations=[]))
    assert finding.remedy == "Add the tolerations of GPU nodes to the pod; the policy adds none for these devices"


@pytest.mark.parametrize(
    ("device_class", "raw"),
    [
        pytest.param("gpu.nvidia.com", asking("t"), id="the pod has tolerations"),
        pytest.param("gpu.example.com", asking("t", tolerations=[]), id="nobody knows whether these are GPUs"),
        pytest.param(
            "gpu.nvidia.com",
            workload("Deployment", asking("t", tolerations=[], containers=pod(1)["spec"]["containers"])),
            id="other GPUs of the pod bring some",
        ),
    ],
)
def test_no_remedy_is_told_where_there_is_nothing_to_mend(device_class: str, raw: Any) -> None:
    (finding,) = told(template("t", exactly(device_class)), raw, using=policies({"tolerations": {}}))
    assert finding.remedy == ""


def test_a_device_class_in_the_input_is_no_class_that_the_cluster_does_not_have() -> None:
    using, facts = policies({"schedulable": {"mode": "warn"}}), ClusterFacts.of(device_classes=[device_class("other")])
    objects = [template("t", exactly("own.example.com")), asking("t")]
    assert "schedulable" in {one.rule for one in audited(*objects, using=using, facts=facts).findings}
    own = device_class("own.example.com")
    assert "schedulable" not in {one.rule for one in audited(*objects, own, using=using, facts=facts).findings}


def test_an_audit_of_a_cluster_says_nothing_of_claims_which_it_does_not_read() -> None:
    assert audited_in_a_cluster(asking("t"), using=NO_RULES).findings == ()
