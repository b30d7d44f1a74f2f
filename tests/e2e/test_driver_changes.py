"""What people see at `kubectl apply` of a driver for nodes: by client and server, in dry runs, and pods afterwards."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.applying import apply, kubectl_apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import cuda_pod, present
from tests.e2e.installation import Installation
from tests.upgrades.test_driver_changes import cluster_policy, nvidia_driver

V100 = {"kubernetes.io/hostname": "v100"}
OLD, NEW = "nvidia/cuda:11.4.3-base-ubuntu20.04", "595.71.05"


def definition(kind: str, plural: str, version: str) -> dict[str, Any]:
    """A kind whose objects may say anything."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    versions = [{"name": version, "served": True, "storage": True, "schema": anything}]
    spec = {"group": "nvidia.com", "names": names, "scope": "Cluster", "versions": versions}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": f"{plural}.nvidia.com"}, "spec": spec}


DEFINITIONS = [
    definition("ClusterPolicy", "clusterpolicies", "v1"),
    definition("NVIDIADriver", "nvidiadrivers", "v1alpha1"),
]


@pytest.fixture(scope="module")
def site(installation: Installation) -> Iterator[ControlPlane]:
    """The webhook, registered, which knows the nodes; the kinds come when it runs already."""
    plane = installation.plane
    with present(plane):
        plane.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": DEFINITIONS}))
        eventually(lambda: plane.raw("GET", "/apis/nvidia.com/v1alpha1/nvidiadrivers")[0] == 200)
        installation.register()
        eventually(installation.is_asked)
        yield plane
        installation.unregister()
        plane.kubectl("delete", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": DEFINITIONS}))


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (nvidia_driver(NEW, "volta", nodeSelector=V100), "spec.version: 470.82.01 -> 595.71.05 on 1 node"),
        (cluster_policy(NEW), "and 1 more -> 595.71.05 on 6 nodes"),
    ],
    ids=["NVIDIADriver", "ClusterPolicy"],
)
def test_whoever_applies_a_driver_is_told_what_it_breaks(
    site: ControlPlane, make_namespace: Callable[[str], str], raw: dict[str, Any], where: str
) -> None:
    """Once for each change, also in a dry run of the server; then authors of pods are, until the nodes have it."""
    namespace = make_namespace("driven")
    assert apply(site, namespace, cuda_pod("train", OLD, "v100"))[0] == 0
    told = f"{where}: 1 workload of {namespace} breaks, "
    server = ("--server-side", "--dry-run=server")
    eventually(lambda: told in kubectl_apply(site, "", raw, *server)[1])
    for flags in (["--dry-run=server"], ["--server-side"]):
        status, said = kubectl_apply(site, "", raw, *flags)
        assert (status, told in said, f"Pod {namespace}/train: breaks: " in said) == (0, True, True), said
    assert "Warning: drivers" not in kubectl_apply(site, "", raw, *server)[1]
    coming = f"{raw['kind']} {raw['metadata']['name']} is about to install driver {NEW} on nodes; {OLD} needs CUDA"
    eventually(lambda: coming in apply(site, namespace, cuda_pod("next", OLD, "v100"), dry_run=True)[1])
    site.kubectl("delete", raw["kind"], raw["metadata"]["name"])
    eventually(lambda: coming not in apply(site, namespace, cuda_pod("next", OLD, "v100"), dry_run=True)[1])
    site.kubectl("delete", "pod", "train", "--force", namespace=namespace)
