"""The real scheduler agrees with `schedulable` about claims: what it calls impossible stays Pending, the rest is bound.

DeviceClasses, ResourceSlices and Nodes are written by hand; the claims of a pod go with it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.device_nodes import API, ONLY, offered
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.scheduling_cases import each
from tests.e2e.test_claims import devices, exactly
from tests.e2e.test_scheduler_agrees import bound_to, remove, said, why_pending
from tests.rules.samples import container

Raw = dict[str, Any]
GPU, MIG, VFIO, LARGE = "gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com", "large.example.com"
IMPLICIT = "deviceclass.resource.kubernetes.io/"


Templates = tuple[Raw, ...]
Resources = dict[str, int]


def first(*alternatives: tuple[str, int]) -> Raw:
    names = [{"name": f"a{n}", "deviceClassName": name, "count": count} for n, (name, count) in enumerate(alternatives)]
    return {"firstAvailable": names}


def every(device_class: str) -> Raw:
    return exactly(device_class, allocationMode="All")


UNALLOCATABLE = "cannot allocate all claims"
FIVE = "requests 5 devices of DeviceClass gpu.nvidia.com; no node offers more than 4"
BOUND: dict[str, Templates | Resources] = {
    "as many as a node offers": (devices(exactly(GPU, count=4)),),
    "by two claims": (devices(exactly(GPU, count=2)), devices(exactly(GPU, count=2))),
    "of two classes": (devices(exactly(GPU, count=2), exactly(MIG, count=3)),),
    "all": (devices(every(GPU)),),
    "the second alternative": (devices(first((GPU, 5), (GPU, 2))),),
    "another class": (devices(first((MIG, 4), (GPU, 3))),),
    "a narrower class": (devices(exactly(LARGE, count=4)),),
    "a class as a resource": {IMPLICIT + GPU: 4},
    "a class by the usual name of its devices": {"nvidia.com/gpu": 4},
}
"""Requests of a pod's claims, one template for each, or what it requests as a resource."""
PENDING: dict[str, tuple[Templates | Resources, str, str]] = {
    "more than any node offers": ((devices(exactly(GPU, count=5)),), FIVE, UNALLOCATABLE),
    "by two claims": ((devices(exactly(GPU, count=2)), devices(exactly(GPU, count=3))), FIVE, UNALLOCATABLE),
    "all, and more": ((devices(every(GPU), exactly(GPU, count=4)),), FIVE, UNALLOCATABLE),
    "no alternative fits": ((devices(first((GPU, 5), (MIG, 4))),), "whichever alternative is taken", UNALLOCATABLE),
    "every number of one class is too large": (
        (devices(first((MIG, 8), (MIG, 4))),),
        "requests 4 devices of DeviceClass mig.nvidia.com; no node offers more than 3",
        UNALLOCATABLE,
    ),
    "none anywhere": ((devices(exactly(VFIO)),), "no node offers any at the moment", UNALLOCATABLE),
    "more than a claim may have": (
        (devices(exactly(LARGE, count=33)),),
        "the scheduler allocates at most 32 for a claim",
        "exceeds the claim limit of 32|" + UNALLOCATABLE,
    ),
    "a class that does not exist": (
        (devices(first((GPU, 1), ("gpu.example.com", 1))),),
        "requests DeviceClass gpu.example.com; the cluster has no DeviceClass of this name",
        "device class gpu.example.com does not exist",
    ),
    "a class as a resource": ({IMPLICIT + GPU: 5}, FIVE, f"Insufficient {IMPLICIT}{GPU}|{UNALLOCATABLE}"),
    "a class by the usual name of its devices": (
        {"nvidia.com/gpu": 5},
        "requests 5 nvidia.com/gpu; no node offers more than 4",
        f"Insufficient nvidia.com/gpu|{UNALLOCATABLE}",
    ),
    "a class as a resource that does not exist": (
        {f"{IMPLICIT}gpu.nvidia.con": 1},
        "requests DeviceClass gpu.nvidia.con; the cluster has no DeviceClass of this name",
        f"Insufficient {IMPLICIT}gpu.nvidia.con",
    ),
}
"""The same with what the webhook warns of, and what the scheduler says."""


def spec_of(requested: Templates | Resources) -> Raw:
    """The spec of a pod that names the templates t0, t1 and so on, or requests resources."""
    claims = [{"name": f"c{number}"} for number in range(len(requested))] if isinstance(requested, tuple) else []
    amounts = {name: str(number) for name, number in requested.items()} if isinstance(requested, dict) else {}
    resources = {"limits": {**amounts, "memory": "1Gi"}, "requests": {**amounts, "cpu": "1"}, "claims": claims}
    named = [{**claim, "resourceClaimTemplateName": f"t{number}"} for number, claim in enumerate(claims)]
    tolerations = [{"operator": "Equal", **ONLY}]
    return {"containers": [container("main", resources=resources)], "resourceClaims": named, "tolerations": tolerations}


@pytest.fixture(scope="module")
def site(installation: Installation) -> Iterator[Installation]:
    """The webhook, registered, which knows the classes and slices, a scheduler, and what makes claims of templates."""
    plane = installation.plane
    plane.start_scheduler()
    plane.start_controller_manager()
    with offered(plane):
        installation.register()
        eventually(installation.is_asked)
        yield installation
        installation.unregister()


@pytest.fixture
def namespace(site: Installation, make_namespace: Callable[[str], str]) -> Iterator[str]:
    """A namespace of the policy whose pod is gone afterwards, and its claims with it."""
    name = make_namespace("allocated")
    yield name
    remove(site.plane, name)
    path = f"{API}/namespaces/{name}/resourceclaims"
    eventually(lambda: site.plane.raw("GET", path)[1]["items"] == [])


def prepare(plane: ControlPlane, namespace: str, requested: Templates | Resources, name: str = "t") -> None:
    for number, spec in enumerate(requested if isinstance(requested, tuple) else ()):
        metadata = {"name": f"{name}{number}"}
        raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata}
        path = f"{API}/namespaces/{namespace}/resourceclaimtemplates"
        status, answer = plane.raw("POST", path, {**raw, "spec": {"spec": spec}})
        assert status == 201, answer.get("message", answer)


def warned(site: Installation, namespace: str, requested: Templates | Resources) -> str:
    """What is said of the pod once the webhook knows its templates."""
    probe = (devices(exactly(LARGE, count=33)),)
    prepare(site.plane, namespace, probe, "probe")
    spec = spec_of(probe)
    spec["resourceClaims"][0]["resourceClaimTemplateName"] = "probe0"  # made after the others, and known after them
    eventually(lambda: "at most 32" in said(site.plane, namespace, spec, dry_run=True))
    return said(site.plane, namespace, spec_of(requested))


@pytest.mark.parametrize("requested", each(BOUND))
def test_a_pod_with_claims_of_which_nothing_is_said_is_bound(
    site: Installation, namespace: str, requested: Templates | Resources
) -> None:
    prepare(site.plane, namespace, requested)
    assert warned(site, namespace, requested) == ""
    assert eventually(lambda: bound_to(site.plane, namespace))


@pytest.mark.parametrize("case", each(PENDING))
def test_a_pod_whose_claims_are_called_impossible_stays_pending_for_that_reason(
    site: Installation, namespace: str, case: tuple[Templates | Resources, str, str]
) -> None:
    requested, told, why = case
    prepare(site.plane, namespace, requested)
    assert told in warned(site, namespace, requested)
    eventually(lambda: re.search(why, why_pending(site.plane, namespace)))
    assert bound_to(site.plane, namespace) == ""


SMALL = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: small}
spec:
  namespaces: ["small-*"]
  rules: {gpuTypes: {mode: enforce, allowed: [T4, L4]}}
"""


@pytest.fixture
def small(site: Installation, make_namespace: Callable[[str], str]) -> Iterator[str]:
    """A namespace whose pods may use no H100."""
    (site.policies / "small.yaml").write_text(SMALL)
    name = make_namespace("small")
    yield name
    (site.policies / "small.yaml").unlink()
    remove(site.plane, name)


@pytest.mark.parametrize(
    ("requested", "node"),
    [
        pytest.param((devices(exactly(LARGE)),), "", id="a class of H100"),
        pytest.param((devices(exactly(GPU)),), "dra-large", id="any, by its node"),
        pytest.param({IMPLICIT + GPU: 1}, "dra-large", id="a class as a resource"),
    ],
)
def test_a_pod_whose_claims_can_give_only_what_is_not_allowed_is_refused(
    site: Installation, small: str, requested: Templates | Resources, node: str
) -> None:
    prepare(site.plane, small, requested)

    def answer(node: str) -> tuple[int, str]:
        spec = {**spec_of(requested), "nodeSelector": {"kubernetes.io/hostname": node} if node else {}}
        raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
        status, told = site.plane.raw("POST", f"/api/v1/namespaces/{small}/pods?dryRun=All", raw)
        return status, str(told.get("message", ""))

    eventually(lambda: answer(node)[0] == 403)
    assert "can give only H100; the policy allows only T4 and L4" in answer(node)[1]
    assert not node or answer("dra-small") == (201, "")
