"""Claims are read in every version of resource.k8s.io, and what cannot be read is never taken for a number."""

from typing import Any

import pytest

from tests.golden import each, golden
from webhook.model.accelerators import BUILT_IN, Accelerators, Declared, Vendor
from webhook.model.claims import CLAIM, TEMPLATE, Devices, PodResourceClaim, ResourceClaim, claim_from, claims_of

GPUS = Devices("gpu.nvidia.com", 2)


def claim(version: str, *requests: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests)}}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": CLAIM, "metadata": {"name": "gpus"}, "spec": spec}


def template(version: str, *requests: Any) -> dict[str, Any]:
    return {**claim(version), "kind": TEMPLATE, "spec": {"spec": claim(version, *requests)["spec"]}}


def asked(**fields: Any) -> dict[str, Any]:
    return {"deviceClassName": "gpu.nvidia.com", **fields}


@pytest.mark.parametrize("make", [claim, template], ids=["claim", "template"])
@each(
    "version, request_, devices",
    {
        "v1alpha3": ("v1alpha3", asked(name="gpu", count=2), (GPUS,)),
        "v1beta1": ("v1beta1", asked(name="gpu", count=2, allocationMode="ExactCount"), (GPUS,)),
        "v1beta2": ("v1beta2", {"name": "gpu", "exactly": asked(count=2)}, (GPUS,)),
        "v1": ("v1", {"name": "gpu", "exactly": asked(count=2)}, (GPUS,)),
        "one by default": ("v1", {"name": "gpu", "exactly": asked()}, (Devices("gpu.nvidia.com", 1),)),
        "all that match": (
            "v1",
            {"name": "gpu", "exactly": asked(allocationMode="All")},
            (Devices("gpu.nvidia.com", None),),
        ),
        "administrative": (
            "v1beta1",
            asked(name="gpu", allocationMode="All", adminAccess=True),
            (Devices("gpu.nvidia.com", None, is_administrative=True),),
        ),
        "alternatives": (
            "v1",
            {"name": "gpu", "firstAvailable": [asked(name="two", count=2), {"deviceClassName": "b", "name": "b"}]},
            (GPUS, Devices("b", 1)),
        ),
    },
)
def test_a_request_is_read_as_its_version_has_it(make: Any, version: str, request_: Any, devices: Any) -> None:
    found = claim_from(make(version, request_))
    assert found is not None
    assert ("gpus", (devices,)) == (found.name, found.requests)
    assert found.kind == make(version)["kind"]


def _shared(strategy: str, driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    return {"opaque": {"driver": driver, "parameters": {"kind": "GpuConfig", "sharing": {"strategy": strategy}}}}


@pytest.mark.parametrize("make", [claim, template], ids=["claim", "template"])
@each(
    "config, by_mps",
    {
        "MPS": ([_shared("MPS")], True),
        "among others": ([_shared("TimeSlicing"), _shared("MPS")], True),
        "time-slicing": ([_shared("TimeSlicing")], False),
        "another driver": ([_shared("MPS", "gpu.example.com")], False),
        "unreadable": ([{"opaque": None}, None, "MPS"], False),
        "null": (None, False),
    },
)
def test_parameters_say_whether_gpus_are_shared_by_mps(make: Any, config: Any, by_mps: bool) -> None:
    raw = make("v1", {"name": "gpu", "exactly": asked(count=2)})
    spec = raw["spec"].get("spec", raw["spec"])
    spec["devices"]["config"] = config
    found = claim_from(raw)
    assert found is not None
    assert found.requests == ((GPUS._replace(by_mps=by_mps),),)


@each(
    "request_",
    {
        "nothing": None,
        "no class": {"name": "gpu"},
        "a text for a count": asked(count="2"),
        "a boolean for a count": asked(count=True),
        "fewer than none": asked(count=-1),
        "a mode of the future": asked(allocationMode="Some"),
        "an alternative without a class": {"firstAvailable": [asked(), {"name": "b"}]},
    },
)
def test_a_request_that_cannot_be_read_says_nothing(request_: Any) -> None:
    assert claim_from(claim("v1", request_)) == ResourceClaim(CLAIM, "gpus", ((),))


def test_a_compute_domain_leads_to_a_template_with_one_channel() -> None:
    channel = {"resourceClaimTemplate": {"name": "channel"}}
    raw = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "spec": {"channel": channel}}
    devices = Devices("compute-domain-default-channel.nvidia.com", 1)
    assert claim_from(raw) == ResourceClaim(TEMPLATE, "channel", ((devices,),))
    assert not devices.may_be_gpus(BUILT_IN)


@each(
    "raw",
    {
        "another group": {"apiVersion": "v1", "kind": CLAIM, "metadata": {"name": "a"}},
        "kind": {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "a"}},
        "no name": {"apiVersion": "resource.k8s.io/v1", "kind": CLAIM, "metadata": {"name": 1}},
        "no channel": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain"},
    },
)
def test_other_objects_are_no_claims(raw: dict[str, Any]) -> None:
    assert claim_from(raw) is None


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"name": "gpu", "resourceClaimName": "mine"}, PodResourceClaim("gpu", CLAIM, "mine")),
        ({"name": "gpu", "resourceClaimTemplateName": "t"}, PodResourceClaim("gpu", TEMPLATE, "t")),
        ({"name": "gpu", "source": {"resourceClaimTemplateName": "t"}}, PodResourceClaim("gpu", TEMPLATE, "t")),
        ({"name": "gpu"}, PodResourceClaim("gpu")),
        ("gpu", PodResourceClaim("")),
    ],
    ids=["by claim", "by template", "before 1.31", "by neither", "nonsense"],
)
def test_a_pod_names_its_claims(entry: Any, found: PodResourceClaim) -> None:
    assert list(claims_of([entry])) == [found]


@golden
def test_whether_devices_are_gpus_follows_from_what_is_known_of_their_class(name: str, are: bool, may_be: bool) -> None:
    devices = Devices(name)
    assert (are, may_be) == (devices.are_gpus(BUILT_IN), devices.may_be_gpus(BUILT_IN))


def test_a_policy_may_say_what_a_class_is() -> None:
    own = "deviceclass.resource.kubernetes.io/gpu.example.com"
    assert Devices("gpu.example.com").are_gpus(Accelerators((Declared(own, Vendor.NVIDIA),)))
    assert not Devices("gpu.example.com").may_be_gpus(Accelerators((Declared(own, share=None),)))
