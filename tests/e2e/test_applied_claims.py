"""What people see who run `kubectl apply` of resource claims, and of templates of claims."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.applying import apply, kubectl_apply
from tests.e2e.claimed import claiming
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.test_claims import ADMIN, devices, exactly

Raw = dict[str, Any]
TEMPLATE, CLAIM = "ResourceClaimTemplate", "ResourceClaim"

TRAINING = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: four}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 4}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: training}
spec:
  replicas: 1
  selector: {matchLabels: {app: training}}
  template:
    metadata: {labels: {app: training}}
    spec:
      resourceClaims: [{name: gpus, resourceClaimTemplateName: four}]
      containers:
        - name: main
          image: registry.example.com/train:1
          resources: {limits: {memory: 1Gi}, requests: {cpu: "1"}, claims: [{name: gpus}]}
"""


class Team:
    """A namespace whose policy refuses, and what becomes of claims in it."""

    def __init__(self, webhook: Installation, name: str) -> None:
        self.plane, self.name = webhook.plane, name

    def applied(
        self, kind: str, *requests: Raw, by: Callable[..., tuple[int, str]] = apply, **metadata: Any
    ) -> tuple[int, str]:
        """Exit status and standard error of `kubectl apply` of a claim or template."""
        raw = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "gpus", **metadata}}
        spec = devices(*requests)
        return by(self.plane, self.name, {**raw, "spec": {"spec": spec} if kind == TEMPLATE else spec})


@pytest.fixture
def team(webhook: Installation, make_namespace: Callable[[str], str]) -> Team:
    return Team(webhook, make_namespace("claimed"))


def test_administrative_access_in_a_template_is_refused_with_its_place(team: Team) -> None:
    """Kubernetes itself allows it in this namespace."""
    status, said = team.plane.raw("PATCH", f"/api/v1/namespaces/{team.name}", ADMIN)
    assert status == 200, said
    code, told = team.applied(TEMPLATE, exactly("gpu.nvidia.com", adminAccess=True), by=kubectl_apply)
    assert code == 1
    assert "resourceClaims: spec.spec.devices.requests[0].exactly.adminAccess: requests gpu.nvidia.com with" in told


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_template_of_any_version_is_judged_as_it_was_written(team: Team, version: str) -> None:
    request = {"name": "gpu", "deviceClassName": "h200.example.com"}
    request = request if version == "v1beta1" else {"name": "gpu", "exactly": {"deviceClassName": "h200.example.com"}}
    raw = {"apiVersion": f"resource.k8s.io/{version}", "kind": TEMPLATE, "metadata": {"name": "gpus"}}
    code, told = apply(team.plane, team.name, {**raw, "spec": {"spec": {"devices": {"requests": [request]}}}})
    place = "requests[0].deviceClassName" if version == "v1beta1" else "requests[0].exactly.deviceClassName"
    assert code == 1
    assert f"spec.spec.devices.{place}: requests devices of class h200.example.com; the policy denies" in told


def test_a_template_that_nobody_judged_is_caught_at_the_claim_that_is_made_of_it(
    team: Team, cluster: ControlPlane
) -> None:
    """The pod comes before its template, and a template that calls the pod its controller is not sent."""
    code, said = apply(team.plane, team.name, claiming("early", resourceClaimTemplateName="gpus"))
    assert code == 0, said
    early = cluster.raw("GET", f"/api/v1/namespaces/{team.name}/pods/early")[1]["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "early", "uid": early["uid"], "controller": True}
    assert team.applied(TEMPLATE, exactly("h200.example.com"), ownerReferences=[owner]) == (0, "")

    def events() -> str:
        found = cluster.raw("GET", f"/api/v1/namespaces/{team.name}/events")[1]["items"]
        return " ".join(one["message"] for one in found)

    eventually(lambda: "resourceClaims: spec.devices.requests[0].exactly.deviceClassName" in events())
    assert cluster.raw("GET", f"/apis/resource.k8s.io/v1/namespaces/{team.name}/resourceclaims")[1]["items"] == []


def test_a_deployment_is_applied_with_its_template_in_the_same_file(team: Team) -> None:
    done = team.plane.kubectl("apply", "-f", "-", input=TRAINING, namespace=team.name)
    assert done.stderr == ""
    path = f"/apis/apps/v1/namespaces/{team.name}/deployments/training"
    assert team.plane.raw("GET", path)[0] == 200
