"""What quotas count of claims is what the real scheduler allocates, device by device."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.claimed import Raw, claim, claiming, requests, template
from tests.e2e.control_plane import ControlPlane
from tests.e2e.device_nodes import ONLY, offered
from tests.e2e.eventually import eventually
from tests.e2e.objects import pod
from tests.e2e.quota_site import QuotaSite
from tests.e2e.test_claim_quotas import Team

GPU = "gpu.nvidia.com"
THERE = {"nodeSelector": {"kubernetes.io/hostname": "dra-large"}, "tolerations": [{"operator": "Equal", **ONLY}]}
"""On the node with 4 devices; another one has 2."""
EVERY = {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": GPU, "allocationMode": "All"}}]}}
EITHER = {
    "devices": {
        "requests": [
            {
                "name": "gpus",
                "firstAvailable": [
                    {"name": "a", "deviceClassName": GPU, "count": 3},
                    {"name": "b", "deviceClassName": GPU, "count": 1},
                ],
            }
        ]
    }
}
BY_TEMPLATE = claiming("p", resourceClaimTemplateName="t")
BY_NAME = [claiming(name, resourceClaimName="c") for name in ("p", "q")]


@pytest.fixture
def team(quotas: QuotaSite, cluster: ControlPlane, make_namespace: Callable[[str], str]) -> Iterator[Team]:
    """A namespace with a quota of 4 GPUs, and a node that offers 4."""
    cluster.start_scheduler()
    with offered(cluster):
        yield Team(quotas, make_namespace("few"))


@pytest.mark.parametrize(
    ("objects", "devices"),
    [
        pytest.param([template("t", requests(3)), BY_TEMPLATE], 3, id="a claim by template"),
        pytest.param([claim("c", requests(3)), *BY_NAME], 3, id="a claim that two pods share"),
        pytest.param([claim("c", EITHER), BY_NAME[0]], 3, id="firstAvailable"),
        pytest.param([claim("c", EVERY), BY_NAME[0]], 4, id="all devices of a node"),
        pytest.param(
            [pod("p", {"limits": {f"deviceclass.resource.kubernetes.io/{GPU}": "2"}})], 2, id="a class as a resource"
        ),
    ],
)
def test_the_ledger_has_as_many_devices_as_were_allocated(team: Team, objects: list[Raw], devices: int) -> None:
    pods = 0
    for raw in objects:
        made = raw
        if raw["kind"] == "Pod":
            pods += 1
            made = {**raw, "spec": {**raw["spec"], **THERE}}
        eventually(lambda made=made: team.tried(made)[0] in {201, 409})

    def bound() -> int:
        found = team.plane.raw("GET", f"/api/v1/namespaces/{team.name}/pods")[1]["items"]
        return sum(bool(one["spec"].get("nodeName")) for one in found)

    eventually(lambda: bound() == pods)
    results = [
        device
        for one in team.claims()
        for device in one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]
    assert len(results) == devices
    assert team.used() == devices
