"""Pods claim devices only of the classes that their namespace may use."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, any_of, requesting
from tests.rules.samples import Cluster, container, pod, settings_of, violations
from webhook.model.claims import CLAIM, TEMPLATE, TOO_LARGE, ClaimObject, Devices, requested_classes, requests_of
from webhook.rules.resource_claims import RULE

GPU, MIG, OTHER = "gpu.nvidia.com", "mig.nvidia.com", "h200.example.com"
ONE = ((Devices(GPU),),)
MONITOR = ((Devices(GPU, None, True),),)
EITHER = ((Devices(GPU), Devices(OTHER)),)
UNREADABLE = ((),)
ONLY_NVIDIA = {"deviceClasses": {"allowed": ["*.nvidia.com"]}}
WITHOUT_OTHER = {"deviceClasses": {"denied": ["*.example.com"]}}


def claiming(name="one", key="resourceClaimTemplateName", namespace="team"):
    raw = pod(container(resources={"claims": [{"name": "gpu"}]}), resourceClaims=[{"name": "gpu", key: name}])
    return {**raw, "metadata": {"name": "p", "namespace": namespace}}


def found(raw, values, **known):
    claims = {(TEMPLATE, name): requests for name, requests in known.items()}
    return [str(violation) for violation in violations(RULE, raw, values, Cluster(claims=claims))]


@each(
    "requests, values",
    {
        "no class is named in the policy": (ONE, {}),
        "a class that is allowed": (ONE, ONLY_NVIDIA),
        "a class that is not denied": (ONE, WITHOUT_OTHER),
        "adminAccess in a namespace that may have it": (MONITOR, {"adminAccess": ["te*"]}),
        "requests that nobody can read": (UNREADABLE, ONLY_NVIDIA),
    },
)
def test_nothing_is_said_of_claims_that_the_policy_allows(requests, values):
    assert found(claiming(), values, one=requests) == []


def test_nothing_is_said_of_a_template_that_does_not_exist_yet():
    assert found(claiming("later"), ONLY_NVIDIA, one=ONE) == []


@each(
    "values, why",
    {
        "not among those allowed": (ONLY_NVIDIA, "the policy allows only *.nvidia.com"),
        "denied": (WITHOUT_OTHER, "the policy denies *.example.com"),
        "both": ({"deviceClasses": {"allowed": ["*"], "denied": [OTHER]}}, f"the policy denies {OTHER}"),
    },
)
@each("requests", {"one class": ((Devices(OTHER, 8),),), "an alternative": EITHER[:1]})
def test_a_claim_of_a_class_that_the_namespace_may_not_use_is_a_violation(requests, values, why):
    said = [one for one in found(claiming(), values, one=requests) if OTHER in one]
    expected = f"spec.resourceClaims[gpu]: ResourceClaimTemplate one requests devices of class {OTHER}; {why}. "
    assert said == [expected + "Request another class, or ask the platform team."]


def test_what_is_too_large_to_be_checked_is_a_violation(says):
    (said,) = found(claiming(), {}, one=TOO_LARGE)
    says([said])
    named = [{"name": f"c{number}", "resourceClaimTemplateName": "later"} for number in range(129)]
    (said,) = found(pod(container(), resourceClaims=named), {})
    assert said == "spec.resourceClaims: has 129 resource claims; at most 128 are checked. Use fewer claims."


def test_the_classes_of_a_claim_are_told_together():
    several = tuple((Devices(f"c{number}.example.com"),) for number in range(9))
    (said,) = found(claiming(), WITHOUT_OTHER, one=several)
    assert "requests devices of classes c0.example.com, c1.example.com, c2.example.com and 6 more; " in said


def test_one_class_in_several_requests_is_told_once():
    assert len(found(claiming(), WITHOUT_OTHER, one=((Devices(OTHER),), (Devices(OTHER),)))) == 1


def test_a_claim_that_a_pod_names_itself_is_read_as_a_template_is():
    cluster = Cluster(claims={(CLAIM, "shared"): ((Devices(OTHER),),)})
    (said,) = violations(RULE, claiming("shared", "resourceClaimName"), WITHOUT_OTHER, cluster)
    assert said.found == f"ResourceClaim shared requests devices of class {OTHER}"


@each(
    "values, namespaces",
    {
        "nobody may": ({}, "no namespace"),
        "others may": ({"adminAccess": ["gpu-monitoring", "kube-*"]}, "gpu-monitoring and kube-*"),
    },
)
def test_admin_access_elsewhere_is_a_violation(values, namespaces):
    (said,) = found(claiming(), values, one=MONITOR)
    assert said == (
        "spec.resourceClaims[gpu]: ResourceClaimTemplate one requests gpu.nvidia.com with adminAccess; that reaches "
        f"devices which other pods use, and the policy allows it in {namespaces}. Remove adminAccess from the "
        "ResourceClaimTemplate, or ask the platform team."
    )


def test_admin_access_is_not_held_against_a_pod_whose_namespace_nobody_knows_if_some_may_have_it():
    raw = claiming(namespace="")
    assert found(raw, {"adminAccess": ["kube-*"]}, one=MONITOR) == []
    assert len(found(raw, {}, one=MONITOR)) == 1


@each("amount, is_refused", {"one": ("1", True), "none": ("0", False), "no number": ("x", False)})
def test_a_device_class_as_an_extended_resource_is_judged_alike(amount, is_refused):
    raw = requesting(pod(container()), f"deviceclass.resource.kubernetes.io/{OTHER}", amount)
    expected = "spec.containers[trainer].resources: requests deviceclass.resource.kubernetes.io/h200.example.com; the "
    expected += "policy denies *.example.com. Request another class, or ask the platform team."
    assert found(raw, WITHOUT_OTHER) == [expected] * is_refused
    assert found(raw, {}) == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"adminAccess": ["Kube_System"]}, "is not a namespace or a glob; write lower-case letters"),
        ({"adminAccess": ["a" * 64]}, "is not a namespace or a glob"),
        ({"deviceClasses": {"allowed": ["GPU"]}}, "is not the name of an object or a glob"),
        ({"deviceClasses": {"allow": [GPU]}}, "allow"),
        ({"tolerations": ["a b"]}, "is not a key or a glob of keys"),
    ],
    ids=["capitals", "long", "a class in capitals", "an unknown key", "a key with a space"],
)
def test_settings_without_sense_are_refused(values, told):
    with pytest.raises(ValidationError, match=told):
        settings_of(RULE, values)


BROKEN, KEPT = "gpu.example.com/broken", "example.com/kept"


@each(
    "tolerated, values, why",
    {
        "any by default": ((KEPT,), {}, ""),
        "all by default": (("",), {}, ""),
        "a key that is allowed": ((KEPT,), {"tolerations": ["example.com/*"]}, ""),
        "another one": (
            (KEPT, BROKEN),
            {"tolerations": ["example.com/*"]},
            f"ResourceClaimTemplate one tolerates the device taint {BROKEN}; the policy allows example.com/*",
        ),
        "all": (
            ("",),
            {"tolerations": ["example.com/*"]},
            "tolerates all device taints; the policy allows example.com/*",
        ),
        "none": ((KEPT,), {"tolerations": []}, "the policy allows no toleration of device taints"),
    },
)
def test_claims_tolerate_only_device_taints_that_the_namespace_may(tolerated, values, why):
    told = found(claiming(), values, one=((Devices(GPU, tolerated=tolerated),),))
    assert len(told) == bool(why)
    assert all(why in one for one in told)


def test_a_template_is_judged_for_its_tolerations_when_it_is_applied():
    request = {"deviceClassName": GPU, "tolerations": [{"key": BROKEN, "operator": "Exists"}, {"key": KEPT}]}
    spec = {"devices": {"requests": [{"name": "a", "firstAvailable": [{"name": "b", **request}]}]}}
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": TEMPLATE, "metadata": {"name": "t"}, "spec": {"spec": spec}}
    classes = tuple(requested_classes(TEMPLATE, raw))
    applied = ClaimObject("team", "spec", requests_of(TEMPLATE, raw), classes)
    (told,) = RULE.validate_claim(applied, settings_of(RULE, {"tolerations": [KEPT]}), Cluster())
    assert told.where == "spec.spec.devices.requests[0].firstAvailable[0].tolerations"
    assert BROKEN in told.found
    assert KEPT not in told.found


def _of_another_class(raw):
    return requesting(raw, f"deviceclass.resource.kubernetes.io/{OTHER}", "1")


_CLASSES = st.lists(st.sampled_from((GPU, "*.nvidia.com", "*.example.com", "*")), max_size=2)

CASE = RuleCase(
    pods=lambda raw: RulePods(breaks=_of_another_class(raw), keeps=raw),
    values=any_of(
        adminAccess=st.lists(st.sampled_from(("kube-*", "monitoring", "*")), max_size=2),
        deviceClasses=any_of(allowed=_CLASSES, denied=_CLASSES),
    ),
    enforced=WITHOUT_OTHER,
    fuzzed={"adminAccess": [], "deviceClasses": {"allowed": [], "denied": ["*.example.com"]}},
)
