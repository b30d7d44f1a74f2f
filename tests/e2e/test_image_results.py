"""Replicas that share what they know of images, in a ConfigMap of a real API server, with the rights of replicas."""

import contextlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import needs_helm, rendered
from tests.deploy.value_sets import LOOKING_UP
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import NODES, TAINT, add_node, labels, remove_node
from tests.e2e.kept_certificates import KeptSite
from tests.e2e.objects import gpu_pod
from tests.images import docker_registry, images
from webhook.images.shared_results import unpack

pytestmark = [pytest.mark.e2e, needs_helm]

NAME = "gpu-policy-images"
NUMBERS = count(1)


class Site(KeptSite):
    """An installation that looks images up, and its ConfigMap."""

    @property
    def results(self) -> str:
        """The API path of the ConfigMap."""
        return f"/api/v1/namespaces/{self.name}/configmaps/{NAME}"

    def shared(self) -> set[str]:
        """The references in the ConfigMap."""
        return set(unpack(self.plane.raw("GET", self.results)[1]))


WITHOUT_QUOTAS = {"quota": {"enabled": False}}
"""Replicas that keep the books of quotas may write ConfigMaps of any name."""


@contextlib.contextmanager
def installed(plane: ControlPlane, directory: Path, *arguments: str) -> Iterator[Site]:
    directory.mkdir(exist_ok=True)
    name = f"images-{next(NUMBERS)}"
    arguments = tuple(argument.replace("NAMESPACE", name) for argument in arguments)
    site = Site(
        plane, name, directory, manifest=rendered(LOOKING_UP | WITHOUT_QUOTAS, version="1.28.0"), arguments=arguments
    )
    try:
        yield site
    finally:
        site.remove()


# Whole replicas, and a real registry

POLICY = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: judged}
spec:
  namespaces: ["judged-*"]
  rules:
    tolerations: {mode: disabled}
    nodeAffinity: {mode: disabled}
    runtimeClass: {mode: disabled}
    sharedMemory: {mode: disabled}
    ncclEnv: {mode: disabled}
    cudaDriver: {mode: enforce, unknown: deny}
"""
NODE = "images-v100"


def review(image: str, namespace: str) -> dict[str, Any]:
    """A pod with this image that fits on one node only, as the API server sends it."""
    pod = gpu_pod(
        "trainer", 1, nodeSelector={"kubernetes.io/hostname": NODE}, tolerations=[TAINT | {"operator": "Equal"}]
    )
    pod["spec"]["containers"][0]["image"] = image
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "name": "trainer",
        "operation": "CREATE",
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.mark.skipif(docker_registry.PROGRAM is None, reason="no docker-registry here; .ci/tools installs it")
def test_what_one_replica_looked_up_another_decides_by_without_the_registry(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The image's name says nothing; its configuration wants CUDA 12.8, and the node's driver is of 2021."""
    found = images.config({"CUDA_VERSION": "12.8.1"})
    add_node(control_plane, NODE, labels(*NODES["v100"]))
    try:
        with docker_registry.running(tmp_path, tmp_path / "storage") as registry:
            registry.push("team/image", "1", found, images.manifest(found))
            file = tmp_path / "registries.yaml"
            listed = {"host": f"127.0.0.1:{registry.port}", "plainHTTP": True}
            spec = {"registries": [listed]}
            file.write_text(
                yaml.safe_dump({"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "Registries", "spec": spec})
            )
            arguments = [f"--registries={file}", f"--image-results=NAMESPACE/{NAME}"]
            image = f"127.0.0.1:{registry.port}/team/image:1"
            with installed(control_plane, tmp_path / "site", *arguments) as site:
                _decide(site, image, registry)
    finally:
        remove_node(control_plane, NODE)


def _decide(site: Site, image: str, registry: docker_registry.DockerRegistry) -> None:
    first, second = site.replicas
    for replica in (first, second):
        replica.policies.replace({"judged.yaml": POLICY})
    asked = review(image, site.judged)
    first.start()
    assert first.ask("/validate", asked)["allowed"] is True, "the registry has not answered yet"
    eventually(lambda: first.metric("gpu_policy_images_known") == 1)
    refused = first.ask("/validate", asked)
    assert refused["allowed"] is False
    assert "CUDA 12.8" in refused["status"]["message"]
    eventually(site.shared)
    registry.stop()
    second.start()
    eventually(lambda: second.metric("gpu_policy_images_known") == 1)
    assert second.ask("/validate", asked) == refused
    assert second.metric("gpu_policy_image_lookups_total") == 0
    first.kill_worker()
    eventually(lambda: first.is_ready() and first.metric("gpu_policy_images_known") == 1)
    assert first.ask("/validate", asked) == refused
