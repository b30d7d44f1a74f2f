"""Certificates rotate while pods are created: the serving certificate, and the authority that signs it."""

import time
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from tests.certificate_files import issued_by
from tests.e2e.eventually import eventually
from tests.e2e.installation import HOST, NAMESPACE
from tests.e2e.objects import gpu_pod
from tests.lab.soak.site import SECONDS, Site

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/gpu-policy-tls"
REGISTRATION = "webhooks.yaml"
SETTLE_SECONDS = 5
IDLE_SECONDS = 3
"""After so long replicas end connections that nobody uses, which the API server itself keeps for 90 s. A proxy that
ended them would lose the requests that cross with it; replicas answer those."""
BURST, BURSTS = 60, 10
"""Pods at once: more than there are connections, mostly, so that some of them begin with a handshake. How many a busy
machine sends at the same time is its own affair, so it is tried several times."""


class RotatingSite(Site):
    """Replicas that keep their certificates in a Secret, and the caBundle of both configurations."""

    def certificate_arguments(self) -> list[str]:
        return [
            f"--certificate-secret={NAMESPACE}/gpu-policy-tls",
            "--certificate-dir={directory}/tls",
            f"--certificate-name={HOST}",
            f"--certificate-settle-seconds={SETTLE_SECONDS}",
            f"--registration={self.directory / REGISTRATION}",
            f"--idle-seconds={IDLE_SECONDS}",
        ]

    def configurations(self) -> list[dict[str, Any]]:
        documents = super().configurations()
        for document in documents:
            for webhook in document["webhooks"]:
                webhook["clientConfig"].pop("caBundle", None)
        return documents

    def __enter__(self) -> "RotatingSite":
        (self.directory / REGISTRATION).write_text(yaml.safe_dump_all(self.configurations()))
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.plane.raw("DELETE", SECRET)

    def rotate(self, what: str) -> None:
        """Ask for a rotation as an administrator does."""
        status, answer = self.plane.raw("PATCH", SECRET, {"metadata": {"annotations": {"gpupolicy.dev/rotate": what}}})
        assert status == 200, answer

    def served(self) -> set[bytes]:
        """The certificates that the replicas present."""
        return {replica.certificate() for replica in self.replicas.running}

    def authority(self) -> bytes:
        """The certificate of the newest authority."""
        return b64decode(self.plane.raw("GET", SECRET)[1]["data"]["ca.crt"])


@pytest.fixture
def kept(open_site: Callable[..., RotatingSite]) -> RotatingSite:
    return open_site(RotatingSite)


def burst(site: Site, name: str) -> None:
    """Create many pods at once, again once idle connections have ended if those were enough for all of them."""
    before = site.balancer.connections()
    path = f"/api/v1/namespaces/{site.namespace}/pods"
    for attempt in range(BURSTS):
        names = [f"{name}-{attempt}-{number}" for number in range(BURST)]
        with ThreadPoolExecutor(BURST) as pool:
            answers = list(pool.map(lambda pod: site.plane.raw("POST", path, gpu_pod(pod)), names))
        assert [answer for status, answer in answers if status != 201] == []
        if site.balancer.connections() > before:
            return
        time.sleep(IDLE_SECONDS + 1)
    pytest.fail(f"{BURSTS} times {BURST} pods needed no new connection")


@pytest.mark.parametrize("what", ["serving", "authority"])
def test_certificates_rotate_without_a_lost_create(kept: RotatingSite, what: str) -> None:
    """Again and again, each time until all replicas present the new one; new connections are made all the time."""
    rotations = 0
    with kept.under_load(f"certificates rotate: {what}") as account:
        while not account.load.lasted(SECONDS):
            before, authority = kept.served(), kept.authority()
            kept.rotate(what)
            eventually(lambda old=before: len(kept.served()) == 1 and not kept.served() & old)
            assert (kept.authority() != authority) is (what == "authority")
            (presented,) = kept.served()
            assert issued_by(presented, kept.authority())
            rotations += 1
            burst(kept, f"burst-{rotations}")
    account.remark = f", {rotations} times"
    account.demand_no_gap()
