"""GPUs under other names than those of device plugins, on a real API server, as a tenant under the shipped example."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.claimed import claim, path_of, requests
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation

TENANTS = Path(__file__).parents[2] / "policies" / "examples" / "tenants.yaml"
CLASS = "deviceclass.resource.kubernetes.io/"
LIMITS = {"memory": "1Gi"}


def asking(resources: dict[str, Any]) -> dict[str, Any]:
    """A pod of a tenant that keeps every other rule."""
    merged = {
        "requests": {"cpu": "1", **LIMITS, **resources.get("requests", {})},
        "limits": {**LIMITS, **resources.get("limits", {})},
    }
    image = f"registry.example.com/app@sha256:{'0' * 64}"
    containers = [{"name": "main", "image": image, "resources": merged}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "by-another-name"},
        "spec": {"containers": containers, "restartPolicy": "Never"},
    }


@pytest.fixture(scope="module")
def tenants(installation: Installation) -> Iterator[Installation]:
    """The installation with the policy of tenants, and without what the cluster of tests has not."""
    spec = yaml.safe_load(TENANTS.read_text())["spec"]
    rules = spec["rules"]
    kept = {key: rules[key] for key in ("gpuQuota", "gpuLimits", "visibleDevices")}
    installation.write_policy("tenants", yaml.safe_dump({"spec": {"namespaces": spec["namespaces"], "rules": kept}}))
    yield installation
    (installation.policies / "tenants.yaml").unlink()


def refused(webhook: Installation, namespace: str, body: dict[str, Any]) -> str:
    """What the API server says to a pod or claim, empty where it takes it."""
    status, answer = webhook.plane.raw("POST", f"{path_of(namespace, body)}?dryRun=All", body)
    assert status in (201, 403), answer
    return "" if status == 201 else str(answer["message"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(
            asking({"limits": {f"{CLASS}gpu.nvidia.com": "64"}}),
            "requests 64 GPUs; the GPU quota allows 4 GPUs in all",
            id="64 of a device class",
        ),
        pytest.param(
            asking({"requests": {f"{CLASS}gpu.nvidia.com": "64"}}),
            "requests 64 GPUs; the GPU quota allows 4 GPUs in all",
            id="64 of a device class in requests alone",
        ),
        pytest.param(
            asking({"requests": {f"{CLASS}h100": "1"}}),
            "the GPU quota allows only what it can count",
            id="a device class that nobody knows",
        ),
        pytest.param(
            asking({"limits": {"gpu.intel.com/i915_monitoring": "1"}}),
            "which gives access to all GPUs of a node",
            id="all Intel GPUs of a node",
        ),
        pytest.param(
            claim("one", requests(64)),
            "requests 64 GPUs; the policy allows at most 4",
            id="a resource claim",
        ),
    ],
)
def test_a_tenant_gets_no_gpus_past_its_quota_by_another_name(
    tenants: Installation, webhook: Installation, make_namespace: Callable[[str], str], body: dict[str, Any], said: str
) -> None:
    namespace = make_namespace("tenant")
    eventually(lambda: said in refused(webhook, namespace, body))
