"""Nobody takes admission away: GPU pods of others come in while a tenant attacks, or whoever reaches the port."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.objects import POLICIES as OF_NAMESPACES
from tests.e2e.quota_site import QuotaSite, shared_quotas_text
from tests.lab.soak import attacks
from tests.lab.soak.attacks import Attack
from tests.lab.soak.siege import Siege

SECONDS = float(os.environ.get("ATTACK_SECONDS", "30"))
"""How long each attack lasts."""
IN_FLIGHT = 90.0
"""Seconds that a create without a pod may hold a quota, as they are shipped."""
SHARED_QUOTA = 16
"""GPUs that the namespaces shared-* share."""
POLICIES = {
    "_quotas.yaml": shared_quotas_text({"name": "shared", "namespaces": ["shared-*"], "gpus": SHARED_QUOTA}),
    "crowd.yaml": "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: crowd}\n"
    + OF_NAMESPACES["enforced"].replace("enforced-*", "crowd-*"),
}

Namespaces = Callable[[str], str]


@pytest.fixture
def site(installation: Installation, tmp_path: Path) -> Iterator[QuotaSite]:
    """Three replicas that are new for each attack, so that the memory of each is its own."""
    if HAPROXY is None:
        pytest.skip("no haproxy here; Debian's package is haproxy")
    with QuotaSite(installation, tmp_path, POLICIES, in_flight_seconds=IN_FLIGHT, proxied=0) as found:
        yield found


def besiege(site: QuotaSite, namespace: str, attack: Attack) -> None:
    siege = Siege(site.plane, namespace, site.replicas.running)
    with attack, siege.going_on(SECONDS):
        pass
    assert attack.sent > 0
    print(attack.sent, "attempts", dict(attack.said))
    siege.demand_that_nobody_noticed()


def ports(site: QuotaSite) -> list[int]:
    return [replica.port for replica in site.replicas.running]


def test_nothing_is_noticed_while_nobody_attacks(site: QuotaSite, make_namespace: Namespaces) -> None:
    """What the others are measured by."""
    siege = Siege(site.plane, make_namespace("crowd"), site.replicas.running)
    with siege.going_on(min(SECONDS, 10.0)):
        pass
    siege.demand_that_nobody_noticed()


def test_bodies_of_one_byte_a_chunk_are_noticed_by_nobody(site: QuotaSite, make_namespace: Namespaces) -> None:
    besiege(site, make_namespace("crowd"), attacks.one_chunk_a_byte(ports(site)))


def test_costly_node_selectors_are_noticed_by_nobody(site: QuotaSite, make_namespace: Namespaces) -> None:
    besiege(site, make_namespace("crowd"), attacks.costly_selectors(site.plane, make_namespace("enforced")))


def test_connections_that_pipeline_are_noticed_by_nobody(site: QuotaSite, make_namespace: Namespaces) -> None:
    besiege(site, make_namespace("crowd"), attacks.pipelined_metrics(ports(site)))


def test_pods_of_900_000_containers_are_noticed_by_nobody(site: QuotaSite, make_namespace: Namespaces) -> None:
    besiege(site, make_namespace("crowd"), attacks.empty_containers(ports(site)))


def test_creates_that_others_refuse_hold_nothing_that_others_need(site: QuotaSite, make_namespace: Namespaces) -> None:
    """A tenant of a shared quota asks for a GPU of it again and again, and never gets a pod."""
    besiege(site, make_namespace("shared"), attacks.creates_that_others_refuse(site.plane, make_namespace("shared")))
