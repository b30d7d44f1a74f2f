"""A comparison says what a change of policies changes for the same objects, and nothing of what stays as it is."""

from typing import Any

import pytest

from tests.audit.audits import audited, audited_in_a_cluster, stored
from tests.build import NAMESPACE, pod, policies, policy, requests_only, workload
from tests.rules.every_rule import INJECTING
from webhook.audit.report import Comparison, PodGroup
from webhook.policy.policy_set import PolicySet


def compared(*objects: Any, using: PolicySet, against: PolicySet) -> Comparison:
    comparison = audited(*objects, using=using, against=against).comparison
    assert comparison is not None
    return comparison


def limits(**settings: Any) -> PolicySet:
    return policies({"gpuLimits": settings})


OBJECTS = (pod(5), pod(3, name="three"), requests_only(), workload("Deployment", pod(9)), workload("Job", pod(1)))


@pytest.mark.parametrize("rules", [INJECTING, {"gpuLimits": {"maxPerPod": 2}}, {}], ids=["all", "limits", "none"])
def test_the_same_policies_change_nothing(rules: Any) -> None:
    found = compared(*OBJECTS, using=policies(rules), against=policies(rules))
    assert (found.newly_refused, found.no_longer_refused, found.changed_injections) == ((), (), ())


def test_a_lower_limit_refuses_anew_and_a_higher_one_no_longer() -> None:
    strict, lax = limits(maxPerPod=2), limits(maxPerPod=4)
    found = compared(*OBJECTS, using=strict, against=lax)
    assert [(one.owner.name, one.rule, one.field) for one in found.newly_refused] == [("three", "gpuLimits", "spec")]
    assert found.no_longer_refused == ()
    back = compared(*OBJECTS, using=lax, against=strict)
    assert ([one.owner.name for one in back.no_longer_refused], back.newly_refused) == (["three"], ())


def test_a_refusal_with_other_numbers_is_the_same_refusal() -> None:
    found = compared(pod(9), using=limits(maxPerPod=2), against=limits(maxPerPod=4))
    assert (found.newly_refused, found.no_longer_refused) == ((), ())


def test_a_rule_that_refuses_beside_another_is_new() -> None:
    exposed = pod(9)
    exposed["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    both = policies({"gpuLimits": {"maxPerPod": 4}, "visibleDevices": {}})
    found = compared(exposed, using=both, against=limits(maxPerPod=4))
    assert [one.rule for one in found.newly_refused] == ["visibleDevices"]


def test_a_rule_that_begins_to_be_enforced_refuses_anew() -> None:
    warns = policies({"gpuLimits": {"maxPerPod": 4}}, mode="warn")
    found = compared(pod(9), using=limits(maxPerPod=4), against=warns)
    assert ([one.rule for one in found.newly_refused], found.no_longer_refused) == (["gpuLimits"], ())


def test_several_refusals_in_one_place_are_counted() -> None:
    one, both = limits(maxPerPod=4), limits(maxPerPod=4, maxPerContainer=3)
    found = compared(pod(3, 3), using=limits(maxPerPod=4, maxPerContainer=2), against=one)
    assert [(new.field, new.rule) for new in found.newly_refused] == [
        ("spec.containers[c0].resources", "gpuLimits"),
        ("spec.containers[c1].resources", "gpuLimits"),
    ]
    assert compared(pod(3, 3), using=both, against=one).newly_refused == ()


def test_what_is_injected_otherwise_is_listed_with_both_sides() -> None:
    before, after = policies({"tolerations": {}}), policies({"tolerations": {}, "runtimeClass": {}})
    toleration, runtime_class = "toleration nvidia.com/gpu Exists:NoSchedule", "runtimeClassName nvidia"
    found = compared(pod(1), workload("Job", pod(2)), pod(0, name="none"), using=after, against=before)
    assert [(one.object.title, one.pod_group, one.before, one.after) for one in found.changed_injections] == [
        (f"Job {NAMESPACE}/w", PodGroup("", 1, 2), (toleration,), (runtime_class, toleration)),
        (f"Pod {NAMESPACE}/trainer", None, (toleration,), (runtime_class, toleration)),
    ]


def test_what_gets_nothing_any_more_is_listed_too() -> None:
    found = compared(pod(1), using=policies({}), against=policies({"runtimeClass": {}}))
    (changed,) = found.changed_injections
    assert (changed.before, changed.after) == (("runtimeClassName nvidia",), ())


def test_what_is_refused_anew_is_not_listed_as_completed_otherwise() -> None:
    after = policies({"tolerations": {}, "gpuLimits": {"maxPerPod": 4}})
    found = compared(pod(9), using=after, against=policies({"tolerations": {}}))
    assert ([one.rule for one in found.newly_refused], found.changed_injections) == (["gpuLimits"], ())


def test_the_pods_of_a_deployment_change_with_it_and_once() -> None:
    owner = stored(workload("Deployment", pod(5)), 1)
    pods = [stored(pod(5, name=f"p{i}"), 2 + i, owner) for i in range(5)]
    report = audited_in_a_cluster(owner, *pods, using=limits(maxPerPod=4), against=limits(maxPerPod=8))
    assert report.comparison is not None
    (new,) = report.comparison.newly_refused
    assert (new.owner.title, new.running and new.running.count) == (f"Deployment {NAMESPACE}/w", 5)


def test_pods_of_one_file_are_added_up_for_each_side_on_its_own() -> None:
    def quota(gpus: int) -> PolicySet:
        return PolicySet.of(policy({}), {NAMESPACE: policy({"gpuQuota": {"gpus": gpus}}, name=NAMESPACE)})

    found = compared(pod(2, name="a"), pod(2, name="b"), using=quota(2), against=quota(4))
    assert [one.owner.name for one in found.newly_refused] == ["b"]
    assert found.directory == "in force"
