"""Storms of claims in every form, on three replicas that are killed and of which one hears late."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.claim_observer import ClaimObserver
from tests.e2e.claimed import API, claim, claiming, path_of, requests, template
from tests.e2e.control_plane import ControlPlane
from tests.e2e.device_nodes import DRIVER, device_class, selector
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import change, remove_node
from tests.e2e.installation import Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.objects import pod
from tests.e2e.quota_site import QuotaSite, quota_policy
from tests.e2e.quota_storm import Storm, Wish

IN_FLIGHT, PATIENCE = 15, 10
"""Seconds after which replicas take out entries without a pod, and after which the API server gives a create up."""
ROUNDS, WISHES = 10, 150
HARD = 37
LATE = 10.0
"""Seconds that one replica hears of pods late, at most."""
NODE = "claims-of-storms"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
SORTS: list[Callable[[str], dict[str, Any]]] = [
    lambda name: claiming(name, resourceClaimTemplateName="one"),
    lambda name: claiming(name, resourceClaimTemplateName="two"),
    lambda name: pod(name, {"limits": {"nvidia.com/gpu": "1"}}),
    lambda name: pod(name, {"limits": {IMPLICIT: "1"}}),
    lambda name: claim(name, requests(1)),
    lambda name: claim(name, requests(3)),
]
"""Pods by template, extended resources by both names, and claims of people."""


@contextmanager
def devices(plane: ControlPlane) -> Iterator[None]:
    """A node with 128 GPUs for claims, and the class that stands for nvidia.com/gpu as well."""
    raw = device_class("gpu.nvidia.com", selector("gpu"))
    raw["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    said = {"type": {"string": "gpu"}, "productName": {"string": "H100"}}
    spec = {
        "driver": DRIVER,
        "nodeName": NODE,
        "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{place}", "attributes": said} for place in range(128)],
    }
    piece = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": NODE}, "spec": spec}
    resources = {"pods": "500", "cpu": "640", "memory": "2560Gi"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    try:
        assert plane.raw("POST", f"{API}/deviceclasses", raw)[0] == 201
        assert plane.raw("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})[0] == 201
        state = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
        change(plane, NODE, {"status": state}, subresource="/status")
        change(plane, NODE, {"spec": {"taints": []}})
        assert plane.raw("POST", f"{API}/resourceslices", piece)[0] == 201
        yield
    finally:
        plane.raw("DELETE", f"{API}/deviceclasses/gpu.nvidia.com")
        plane.raw("DELETE", f"{API}/resourceslices/{NODE}")
        remove_node(plane, NODE)


class Rounds:
    """Storms in one namespace, watched from before the first one."""

    def __init__(self, site: QuotaSite, namespace: str) -> None:
        self.site, self.namespace = site, namespace
        self.said: list[str] = []

    def round(self, number: int, observer: ClaimObserver) -> None:
        every = [sort(f"r{number}-{at}-{place}") for at in range(WISHES // 6) for place, sort in enumerate(SORTS)]
        wishes = [Wish(self.namespace, raw) for raw in every]
        with Storm(self.site.plane, wishes, patience=PATIENCE, deletions=20) as storm:
            for _ in range(2):
                self._kill_one()
            eventually(lambda: not storm.untried)
            time.sleep(3)
            storm.calm()
            with suppress(AssertionError):  # what is missing is said below
                eventually(lambda: all(self._is_settled(observer) for _ in range(6)))
        found, entered = observer.counting(), self.site.entered(f"namespace.{self.namespace}")
        self.said.append(f"round {number}: {sum(found.values())} in use, peak {observer.peak()}: {storm.answers}")
        strangers = [f"entered and not in use: {uid}: {observer.history(uid)}" for uid in sorted(entered - set(found))]
        story = "\n".join([*self.said, *storm.strange, self.site.logs(), *strangers])
        assert observer.peak()[0] <= HARD, story
        assert sum(found.values()) == HARD, story
        assert entered == set(found), story
        assert storm.strange == [], story
        self._clear(observer)

    def _is_settled(self, observer: ClaimObserver) -> bool:
        """Whether the quota is full; asked several times, because claims of deleted pods still go."""
        time.sleep(0.5)
        found = observer.counting()
        return sum(found.values()) == HARD and self.site.entered(f"namespace.{self.namespace}") == set(found)

    def _kill_one(self) -> None:
        time.sleep(random.uniform(0.2, 1.5))
        victim = random.choice(self.site.replicas.running)
        victim.kill()
        time.sleep(random.uniform(0, 0.5))
        victim.begin()
        victim.wait_until_ready()

    def _clear(self, observer: ClaimObserver) -> None:
        for path in (f"/api/v1/namespaces/{self.namespace}/pods", f"{API}/namespaces/{self.namespace}/resourceclaims"):
            self.site.plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")
        eventually(lambda: observer.counting() == {})


@pytest.mark.skipif(HAPROXY is None, reason="no haproxy here; Debian's package is haproxy")
def test_claims_in_every_form_never_pass_a_quota_and_fill_it(
    installation: Installation, cluster: ControlPlane, make_namespace: Callable[[str], str], tmp_path: Path
) -> None:
    """150 wishes of 64 threads for a quota of 37, ten times: pods with templates, extended resources by both names, and
    claims of people, while replicas are killed and things deleted. Never more than 37 devices at any instant, 37 in the
    end, and the ledger has what the API server has, uid for uid.
    """
    plane = installation.plane
    assert cluster is plane
    plane.start_scheduler()
    policies = {"storms.yaml": quota_policy("storms", f"{{mode: enforce, gpus: {HARD}}}")}
    with devices(plane), QuotaSite(installation, tmp_path, policies, in_flight_seconds=IN_FLIGHT, proxied=1) as site:
        namespace = make_namespace("storms")
        for raw in (template("one", requests(1)), template("two", requests(2))):
            assert plane.raw("POST", path_of(namespace, raw), raw)[0] == 201
        site.proxies[0].watch_delay = LATE
        rounds = Rounds(site, namespace)
        with ClaimObserver(plane, namespace) as observer:
            for number in range(ROUNDS):
                rounds.round(number, observer)
        print("\n".join(rounds.said))
