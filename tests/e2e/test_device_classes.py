"""Where a DeviceClass gives an extended resource, no list of nodes says that a pod cannot run."""

from collections.abc import Callable
from typing import Any

from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import present
from tests.e2e.installation import Installation

DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu-by-class.example.com"},
    "spec": {"extendedResourceName": "nvidia.com/gpu"},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "by-class"},
    "spec": {
        "nodeSelector": {"example.com/no-such": "node"},
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/app:1",
                "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"}},
            }
        ],
    },
}


def test_schedulable_is_silent_while_a_device_class_gives_the_resource(
    installation: Installation, make_namespace: Callable[[str], str]
) -> None:
    plane = installation.plane
    namespace = make_namespace("strict")

    def status() -> int:
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        answer: tuple[int, dict[str, Any]] = plane.raw("POST", path, POD)
        return answer[0]

    with present(plane):
        installation.register()
        eventually(installation.is_asked)
        eventually(lambda: status() == 403)
        made, said = plane.raw("POST", DEVICE_CLASSES, CLASS)
        assert (made, said["spec"].get("extendedResourceName")) == (201, "nvidia.com/gpu"), said
        eventually(lambda: status() == 201)
        plane.raw("DELETE", f"{DEVICE_CLASSES}/gpu-by-class.example.com")
        eventually(lambda: status() == 403)
        installation.unregister()
