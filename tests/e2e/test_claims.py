"""Pods whose GPUs come by resource claims are completed and limited as others are, as far as claims are known."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation

API = "/apis/resource.k8s.io/v1"
Raw = dict[str, Any]
NVIDIA = ["nvidia.com/gpu"]
ADMIN = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}


def exactly(device_class: str, **fields: Any) -> Raw:
    return {"exactly": {"deviceClassName": device_class, **fields}}


def devices(*requests: Raw, **more: Any) -> Raw:
    return {"devices": {"requests": [{"name": f"r{i}", **one} for i, one in enumerate(requests)], **more}}


def pod(**claim: str) -> Raw:
    """A pod that names one claim, which its container uses."""
    resources = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
    container = {"name": "main", "image": "registry.example.com/app:1", "resources": resources}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **claim}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claiming"}, "spec": spec}


def one(device_class: str) -> Raw:
    return {"name": device_class.partition(".")[2].partition(".")[0], "deviceClassName": device_class}


class Team:
    """A namespace, and what becomes of pods in it."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.plane, self.name = plane, name

    def make(self, name: str, spec: Raw, kind: str = "ResourceClaimTemplate") -> None:
        raw = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        raw["spec"] = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
        status, said = self.plane.raw("POST", self._path(kind), raw)
        assert status == 201, said

    def drop(self, name: str, kind: str = "ResourceClaimTemplate") -> None:
        status, said = self.plane.raw("DELETE", f"{self._path(kind)}/{name}")
        assert status == 200, said

    def tried(self, raw: Raw) -> tuple[int, Raw]:
        """What the API server answers to a pod that is created in a dry run."""
        return self.plane.raw("POST", f"/api/v1/namespaces/{self.name}/pods?dryRun=All", raw)

    def tolerated(self, raw: Raw) -> list[str]:
        """The keys of what a pod tolerates once it is created; those that every pod has are left out."""
        status, said = self.tried(raw)
        assert status == 201, said
        keys = [one["key"] for one in said["spec"].get("tolerations", ())]
        assert said["spec"].get("runtimeClassName") is None
        return [key for key in keys if not key.startswith("node.kubernetes.io/")]

    def by_template(self, name: str) -> list[str]:
        return self.tolerated(pod(resourceClaimTemplateName=name))

    def _path(self, kind: str) -> str:
        return f"{API}/namespaces/{self.name}/{kind.lower()}s"


@pytest.fixture
def team(webhook: Installation, make_namespace: Callable[[str], str]) -> Team:
    """A namespace whose pods are completed."""
    return Team(webhook.plane, make_namespace("claiming"))


def test_a_template_brings_its_pods_the_toleration_and_takes_it_with_it(team: Team) -> None:
    assert team.by_template("gpus") == []
    team.make("gpus", devices(exactly("gpu.nvidia.com", count=2), exactly("mrdma.google.com")))
    eventually(lambda: team.by_template("gpus") == NVIDIA)
    team.drop("gpus")
    eventually(lambda: team.by_template("gpus") == [])


def test_a_claim_by_name_counts_and_one_that_comes_after_the_pod_does_no_harm(team: Team) -> None:
    early = pod(resourceClaimName="shared")
    assert team.tolerated(early) == []
    team.make("shared", devices(exactly("gpu.amd.com")), kind="ResourceClaim")
    eventually(lambda: team.tolerated(early) == ["amd.com/gpu"])
    team.drop("shared", kind="ResourceClaim")


def test_a_device_class_says_what_it_gives(team: Team) -> None:
    team.make("own", devices(exactly("claims-h100.example.com")))
    path = f"{API}/deviceclasses"
    raw = {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "claims-h100.example.com"}}
    status, said = team.plane.raw("POST", path, {**raw, "spec": {"extendedResourceName": "nvidia.com/gpu"}})
    assert status == 201, said
    try:
        if "extendedResourceName" in said["spec"]:  # on by default from 1.36
            eventually(lambda: team.by_template("own") == NVIDIA)
        team.make("none", devices(exactly("mrdma.google.com")))
        team.make("gpus", devices(exactly("gpu.nvidia.com")))
        eventually(lambda: team.by_template("gpus") == NVIDIA)
        assert team.by_template("none") == []
    finally:
        team.plane.raw("DELETE", f"{path}/claims-h100.example.com")


def test_what_a_tenant_nests_too_deep_keeps_nothing_else_from_being_known(
    team: Team, installation: Installation
) -> None:
    """Events of it are read, and lists with it, by a replica that starts."""
    opaque = {"opaque": {"driver": "gpu.nvidia.com", "parameters": "DEEP"}}
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "deep"}}
    raw["spec"] = {"spec": devices(exactly("gpu.nvidia.com"), config=[opaque])}
    deep = '{"a":' * 1500 + "{}" + "}" * 1500
    body = json.dumps(raw).replace('"DEEP"', deep)
    team.plane.kubectl("create", "--raw", f"{API}/namespaces/{team.name}/resourceclaimtemplates", "-f", "-", input=body)
    team.make("gpus", devices(exactly("gpu.nvidia.com")))
    eventually(lambda: team.by_template("gpus") == NVIDIA)
    installation.stop()
    installation.start()
    eventually(lambda: team.by_template("gpus") == NVIDIA)
    assert team.by_template("deep") == NVIDIA
