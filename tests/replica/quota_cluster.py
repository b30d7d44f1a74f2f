"""Fixtures: an API server with the custom resource of quotas, and what publishers have written there."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from webhook.engine.quota_usage import Place, Status, statuses
from webhook.kubernetes.api_server import ApiServer
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Limit, Measure, OnLedgerFailure, Quota, QuotaScope
from webhook.replica.status_objects import QuotaStatus, StatusTiming
from webhook.rules.rule_settings import Mode

GROUP = "/apis/gpupolicy.dev/v1alpha1"
DEFINITIONS = yaml.safe_dump_all(shipped().of("CustomResourceDefinition"))

GPUS = Limit(Measure.GPUS, "", Fraction(8))

AT_ONCE = StatusTiming(round=3600.0, spread=0.0, settle=0.0, rest=0.0)
"""Differences are written in the next round, which tests start."""


class Clock:
    """A monotonic clock that moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now


@pytest.fixture
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The session's API server with the custom resource."""
    control_plane.kubectl("apply", "-f", "-", input=DEFINITIONS)
    eventually(lambda: control_plane.raw("GET", f"{GROUP}/gpuquotas")[0] == 200)
    return control_plane


@pytest.fixture
def namespaces(plane: ControlPlane, request: pytest.FixtureRequest) -> Callable[[int], list[str]]:
    """Makes namespaces that no other test uses."""
    prefix = f"seen-{abs(hash(request.node.nodeid)) % 10**8}"
    return lambda count: [plane.namespace(f"{prefix}-{number}") for number in range(count)]


@pytest.fixture
def publisher(plane: ControlPlane) -> Iterator[Callable[..., QuotaStatus]]:
    """Starts publishers that follow the server, and ends them. Those of one test are of one installation."""
    started: list[QuotaStatus] = []

    def start(
        timing: StatusTiming = AT_ONCE,
        *,
        installation: str = "gpu-policy",
        kubeconfig: Path | None = None,
        clock: Callable[[], float] | None = None,
    ) -> QuotaStatus:
        server = ApiServer(kubeconfig or plane.kubeconfig)
        one = QuotaStatus(server, installation, timing=timing, clock=clock or Clock())
        one.start()
        started.append(one)
        eventually(lambda: one.known is not None)
        return one

    yield start
    for one in started:
        one.close()
    for raw in objects(plane):
        path = f"{GROUP}/namespaces/{raw['metadata']['namespace']}/gpuquotas/{raw['metadata']['name']}"
        plane.raw("DELETE", path)


def objects(plane: ControlPlane) -> list[dict[str, Any]]:
    """Every GPUQuota."""
    status, answer = plane.raw("GET", f"{GROUP}/gpuquotas")
    return list(answer["items"]) if status == 200 else []


def used(plane: ControlPlane) -> dict[tuple[str, str], str]:
    """The usage that each GPUQuota shows; empty where its status is not written yet."""
    return {
        (raw["metadata"]["namespace"], raw["metadata"]["name"]): raw.get("status", {}).get("gpus", {}).get("used", "")
        for raw in objects(plane)
    }


def shared_quota(*namespaces: str, used: int, version: int = 1) -> dict[Place, Status]:
    """What namespaces see of the shared quota `research`."""
    return status_of(Quota(QuotaScope.SHARED, "research", namespaces, (GPUS,)), {GPUS: Fraction(used)}, version)


def status_of(
    quota: Quota, used: dict[Limit, Fraction], version: int, mode: Mode = Mode.ENFORCE
) -> dict[Place, Status]:
    """What namespaces see of a quota of which so much is used."""
    none = dict.fromkeys(quota.limits, Fraction(0))
    usage = Usage(quota, none | used, none, int(used.get(GPUS, 0)), 1, frozenset(), str(version))
    return statuses([(ConfiguredQuota(quota, mode, OnLedgerFailure.DENY, "file.yaml"), usage)])
