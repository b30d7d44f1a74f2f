"""What people see who run `kubectl apply` of resource claims, and of templates of claims."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.applying import apply, kubectl_apply
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

    def applied(self, kind: str, *requests: Raw, by: Callable[..., tuple[int, str]] = apply) -> tuple[int, str]:
        raw = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "gpus"}}
        spec = devices(*requests)
        return by(self.plane, self.name, {**raw, "spec": {"spec": spec} if kind == TEMPLATE else spec})


@pytest.fixture
def team(webhook: Installation, make_namespace: Callable[[str], str]) -> Team:
    if webhook.plane.version < (1, 34):
        pytest.skip(f"resource.k8s.io/v1 came with Kubernetes 1.34; this is {webhook.plane.version}")
    return Team(webhook, make_namespace("claimed"))


def test_A50_administrative_access_in_a_template_is_refused_with_its_place(team: Team) -> None:
    """Kubernetes itself allows it in this namespace."""
    status, said = team.plane.raw("PATCH", f"/api/v1/namespaces/{team.name}", ADMIN)
    assert status == 200, said
    code, told = team.applied(TEMPLATE, exactly("gpu.nvidia.com", adminAccess=True), by=kubectl_apply)
    assert code == 1
    assert "resourceClaims: spec.spec.devices.requests[0].exactly.adminAccess: requests gpu.nvidia.com with" in told


def test_a_template_is_refused_for_what_all_its_pods_would_be_refused_for(team: Team) -> None:
    code, told = team.applied(TEMPLATE, exactly("gpu.nvidia.com", count=9))
    assert (code, "gpuLimits: spec.spec.devices.requests: requests 9 GPUs; the policy allows" in told) == (1, True)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_template_of_any_version_is_judged_as_it_was_written(team: Team, version: str) -> None:
    if team.plane.raw("GET", f"/apis/resource.k8s.io/{version}")[0] != 200:
        pytest.skip(f"the API server does not serve {version}")
    request = {"name": "gpu", "deviceClassName": "h200.example.com"}
    request = request if version == "v1beta1" else {"name": "gpu", "exactly": {"deviceClassName": "h200.example.com"}}
    raw = {"apiVersion": f"resource.k8s.io/{version}", "kind": TEMPLATE, "metadata": {"name": "gpus"}}
    code, told = apply(team.plane, team.name, {**raw, "spec": {"spec": {"devices": {"requests": [request]}}}})
    place = "requests[0].deviceClassName" if version == "v1beta1" else "requests[0].exactly.deviceClassName"
    assert code == 1
    assert f"spec.spec.devices.{place}: requests devices of class h200.example.com; the policy denies" in told


def test_a_deployment_is_applied_with_its_template_in_the_same_file(team: Team) -> None:
    done = team.plane.kubectl("apply", "-f", "-", input=TRAINING, namespace=team.name)
    assert done.stderr == ""
    path = f"/apis/apps/v1/namespaces/{team.name}/deployments/training"
    assert team.plane.raw("GET", path)[0] == 200
