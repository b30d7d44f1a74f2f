"""Fixtures and short words for the tests of quotas.

Replicas take out entries without a pod after IN_FLIGHT seconds instead of 90. That is honest here because every create
of these tests asks the API server to give it up after PATIENCE seconds, where it would do so after 60.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_cases import POLICIES
from tests.e2e.quota_site import QuotaSite, quota_policy

IN_FLIGHT, PATIENCE = 6, 4
FEW = {
    "few.yaml": quota_policy("few", "{mode: enforce, gpus: 4}"),
    "later.yaml": quota_policy("later", "{mode: disabled}"),
    "lenient.yaml": quota_policy("lenient", "{mode: enforce, gpus: 4, onLedgerFailure: allow}"),
    "capped.yaml": quota_policy("capped", "{mode: enforce, gpus: 2}")
    + "    gpuLimits: {mode: enforce, maxPerPod: 2}\n",
    "_exceptions.yaml": json.dumps(
        {
            "apiVersion": "gpupolicy.dev/v1alpha1",
            "kind": "GPUPolicyExceptions",
            "metadata": {"name": "_exceptions"},
            "spec": {
                "exceptions": [
                    {
                        "name": "large",
                        "namespaces": ["capped-*"],
                        "match": {"labels": {"size": "large"}},
                        "rules": ["gpuLimits", "gpuQuota"],
                        "until": (datetime.now(UTC) + timedelta(days=7)).date().isoformat(),
                        "reason": "a test",
                    }
                ]
            },
        }
    ),
}
"""Policies of namespaces for single pods; those of storms are in tests/e2e/quota_cases.py."""


@pytest.fixture(scope="module")
def quotas(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuotaSite]:
    """Three replicas that have quotas to keep, each behind a proxy of its own."""
    if HAPROXY is None:
        pytest.skip("no haproxy here; Debian's package is haproxy")
    directory = tmp_path_factory.mktemp("quota")
    with QuotaSite(installation, directory, POLICIES | FEW, in_flight_seconds=IN_FLIGHT) as site:
        yield site


def create(quotas: QuotaSite, namespace: str, manifest: dict[str, Any]) -> tuple[int, str]:
    """Try once; the HTTP status and what was said."""
    path = f"/api/v1/namespaces/{namespace}/pods?timeout={PATIENCE}s"
    status, answer = quotas.plane.raw("POST", path, manifest)
    return status, str(answer.get("message", ""))


def fill(quotas: QuotaSite, namespace: str, count: int = 4) -> None:
    """Create so many pods of one GPU."""
    for number in range(count):
        assert create(quotas, namespace, gpu_pod(f"one-{number}", 1)) == (201, "")


def pods(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    """Those that the API server has."""
    return list(plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"])


def uids(quotas: QuotaSite, namespace: str) -> set[str]:
    """The same by what a ledger knows of them."""
    return {pod["metadata"]["uid"] for pod in pods(quotas.plane, namespace)}


def is_even(quotas: QuotaSite, namespace: str) -> bool:
    """Whether the ledger of the namespace has an entry for each of its pods, and no other."""
    return quotas.entered(f"namespace.{namespace}") == uids(quotas, namespace)


def assert_full(quotas: QuotaSite, namespace: str) -> None:
    """AssertionError unless the next pod is refused by the quota of 4, in the words that tenants read."""
    status, said = create(quotas, namespace, gpu_pod("beyond", 1))
    assert (status, f"exceeded GPU quota '{namespace}': requested 1, used 4 of 4 (0 free)" in said) == (403, True), said
