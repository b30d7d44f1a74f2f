"""The real scheduler agrees with `schedulable` about claims: what it calls impossible stays Pending, the rest is bound.

DeviceClasses, ResourceSlices and Nodes are written by hand; the claims of a pod go with it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.device_nodes import API, ONLY, offered
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.test_claims import devices, exactly
from tests.e2e.test_scheduler_agrees import bound_to, remove, said, why_pending
from tests.rules.samples import container

Raw = dict[str, Any]
GPU, MIG, VFIO, LARGE = "gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com", "large.example.com"
IMPLICIT = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True)
class Case:
    """The requests of a pod's claims, one template for each, and what becomes of the pod.

    `said` is what the webhook warns of, `why` what the scheduler says; none: the pod is bound. `resources` are
    requested beside the claims.
    """

    id: str
    templates: tuple[Raw, ...]
    said: str = ""
    why: str = ""
    resources: tuple[tuple[str, int], ...] = ()


def first(*alternatives: tuple[str, int]) -> Raw:
    names = [{"name": f"a{n}", "deviceClassName": name, "count": count} for n, (name, count) in enumerate(alternatives)]
    return {"firstAvailable": names}


def every(device_class: str) -> Raw:
    return exactly(device_class, allocationMode="All")


UNALLOCATABLE = "cannot allocate all claims"
BOUND = (
    Case("as many as a node offers", (devices(exactly(GPU, count=4)),)),
    Case("by two claims", (devices(exactly(GPU, count=2)), devices(exactly(GPU, count=2)))),
    Case("of two classes", (devices(exactly(GPU, count=2), exactly(MIG, count=3)),)),
    Case("all", (devices(every(GPU)),)),
    Case("the second alternative", (devices(first((GPU, 5), (GPU, 2))),)),
    Case("another class", (devices(first((MIG, 4), (GPU, 3))),)),
    Case("a narrower class", (devices(exactly(LARGE, count=4)),)),
    Case("a class as a resource", (), resources=((IMPLICIT + GPU, 4),)),
    Case("a class by the usual name of its devices", (), resources=(("nvidia.com/gpu", 4),)),
)
PENDING = (
    Case(
        "more than any node offers",
        (devices(exactly(GPU, count=5)),),
        "requests 5 devices of DeviceClass gpu.nvidia.com; no node offers more than 4",
        UNALLOCATABLE,
    ),
    Case(
        "by two claims",
        (devices(exactly(GPU, count=2)), devices(exactly(GPU, count=3))),
        "requests 5 devices of DeviceClass gpu.nvidia.com; no node offers more than 4",
        UNALLOCATABLE,
    ),
    Case(
        "all, and more",
        (devices(every(GPU), exactly(GPU, count=4)),),
        "requests 5 devices of DeviceClass gpu.nvidia.com; no node offers more than 4",
        UNALLOCATABLE,
    ),
    Case(
        "no alternative fits",
        (devices(first((GPU, 5), (MIG, 4))),),
        "requests more devices than any node offers, whichever alternative is taken",
        UNALLOCATABLE,
    ),
    Case(
        "every number of one class is too large",
        (devices(first((MIG, 8), (MIG, 4))),),
        "requests 4 devices of DeviceClass mig.nvidia.com; no node offers more than 3",
        UNALLOCATABLE,
    ),
    Case("none anywhere", (devices(exactly(VFIO)),), "no node offers any at the moment", UNALLOCATABLE),
    Case(
        "more than the narrower class could have",
        (devices(exactly(LARGE, count=5)),),
        "requests 5 devices of DeviceClass large.example.com; no node offers more than 4",
        UNALLOCATABLE,
    ),
    Case(
        "more than a claim may have",
        (devices(exactly(LARGE, count=33)),),
        "requests at least 33 devices; the scheduler allocates at most 32 for a claim",
        "exceeds the claim limit of 32|" + UNALLOCATABLE,
    ),
    Case(
        "a class that does not exist",
        (devices(exactly("gpu.nvidia.con")),),
        "requests DeviceClass gpu.nvidia.con; the cluster has no DeviceClass of this name. Did you mean gpu.nvidia.com",
        "device class gpu.nvidia.con does not exist",
    ),
    Case(
        "an alternative of a class that does not exist",
        (devices(first((GPU, 1), ("gpu.example.com", 1))),),
        "requests DeviceClass gpu.example.com; the cluster has no DeviceClass of this name",
        "device class gpu.example.com does not exist",
    ),
    Case(
        "a class as a resource",
        (),
        "requests 5 devices of DeviceClass gpu.nvidia.com; no node offers more than 4",
        f"Insufficient {IMPLICIT}{GPU}|{UNALLOCATABLE}",
        resources=((IMPLICIT + GPU, 5),),
    ),
    Case(
        "a class by the usual name of its devices",
        (),
        "requests 5 nvidia.com/gpu; no node offers more than 4 for the DeviceClass that gives it",
        f"Insufficient nvidia.com/gpu|{UNALLOCATABLE}",
        resources=(("nvidia.com/gpu", 5),),
    ),
    Case(
        "a class as a resource that does not exist",
        (),
        "requests DeviceClass gpu.nvidia.con; the cluster has no DeviceClass of this name",
        f"Insufficient {IMPLICIT}gpu.nvidia.con",
        resources=((f"{IMPLICIT}gpu.nvidia.con", 1),),
    ),
    Case(
        "a class as a resource, and a claim",
        (devices(exactly(GPU, count=3)),),
        "requests 5 devices of DeviceClass gpu.nvidia.com; no node offers more than 4",
        f"Insufficient {IMPLICIT}{GPU}|{UNALLOCATABLE}",
        resources=((IMPLICIT + GPU, 2),),
    ),
)


def spec_of(case: Case) -> Raw:
    """The spec of a pod that names the templates t0, t1 and so on."""
    claims = [{"name": f"c{number}"} for number in range(len(case.templates))]
    amounts = {name: str(number) for name, number in case.resources}
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


def prepare(plane: ControlPlane, namespace: str, case: Case) -> None:
    for number, spec in enumerate(case.templates):
        raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": f"t{number}"}}
        path = f"{API}/namespaces/{namespace}/resourceclaimtemplates"
        status, answer = plane.raw("POST", path, {**raw, "spec": {"spec": spec}})
        assert status == 201, answer.get("message", answer)


def warned(site: Installation, namespace: str, case: Case) -> str:
    """What is said of the pod once the webhook knows its templates."""
    probe = Case("probe", (devices(exactly(LARGE, count=33)),))
    known = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "probe"}}
    path = f"{API}/namespaces/{namespace}/resourceclaimtemplates"
    status, answer = site.plane.raw("POST", path, {**known, "spec": {"spec": probe.templates[0]}})
    assert status == 201, answer.get("message", answer)
    spec = spec_of(probe)
    spec["resourceClaims"][0]["resourceClaimTemplateName"] = "probe"  # made after the others, and known after them
    eventually(lambda: "at most 32" in said(site.plane, namespace, spec, dry_run=True))
    return said(site.plane, namespace, spec_of(case))


@pytest.mark.parametrize("case", BOUND, ids=lambda case: case.id)
def test_a_pod_with_claims_of_which_nothing_is_said_is_bound(site: Installation, namespace: str, case: Case) -> None:
    prepare(site.plane, namespace, case)
    assert warned(site, namespace, case) == ""
    assert eventually(lambda: bound_to(site.plane, namespace))


@pytest.mark.parametrize("case", PENDING, ids=lambda case: case.id)
def test_a_pod_whose_claims_are_called_impossible_stays_pending_for_that_reason(
    site: Installation, namespace: str, case: Case
) -> None:
    prepare(site.plane, namespace, case)
    assert case.said in warned(site, namespace, case)

    def is_told() -> bool:
        return re.search(case.why, why_pending(site.plane, namespace)) is not None

    eventually(is_told)
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
    ("case", "selector"),
    [
        pytest.param(Case("a class of H100", (devices(exactly(LARGE)),)), {}, id="a class of H100"),
        pytest.param(Case("any", (devices(exactly(GPU)),)), {"kubernetes.io/hostname": "dra-large"}, id="by its node"),
        pytest.param(
            Case("as a resource", (), resources=((IMPLICIT + GPU, 1),)),
            {"kubernetes.io/hostname": "dra-large"},
            id="a class as a resource",
        ),
    ],
)
def test_a_pod_whose_claims_can_give_only_what_is_not_allowed_is_refused(
    site: Installation, small: str, case: Case, selector: dict[str, str]
) -> None:
    prepare(site.plane, small, case)
    spec = {**spec_of(case), "nodeSelector": selector}

    def answer() -> tuple[int, str]:
        raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
        status, said_of = site.plane.raw("POST", f"/api/v1/namespaces/{small}/pods?dryRun=All", raw)
        return status, str(said_of.get("message", ""))

    eventually(lambda: answer()[0] == 403)
    assert "can give only H100; the policy allows only T4 and L4" in answer()[1]
    if selector:
        spec["nodeSelector"] = {"kubernetes.io/hostname": "dra-small"}
        assert answer() == (201, "")
