"""Live facts as tests follow them, from a pretended API server."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.facts.fake_api_server import FakeApiServer
from webhook.facts.live import LiveFacts
from webhook.kubernetes.watch import WatchTiming

QUICK = WatchTiming(watch=(30, 30), margin=10, answer=5, first_retry=0.02, last_retry=0.1)


STATUS = {"kind": "Status", "message": "it is not to be"}


OTHERS_FOLLOWED = "; ".join(
    f"{name}: followed"
    for name in (
        "runtimeclasses",
        "priorityclasses",
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
        "nodepools",
        "ec2nodeclasses",
        "clusterpolicies",
        "nvidiadrivers",
    )
)


@contextmanager
def following(
    server: FakeApiServer, directory: Path, *, timing: WatchTiming = QUICK, clock: Callable[[], float] = time.monotonic
) -> Iterator[LiveFacts]:
    """Live facts that have been started and are closed afterwards."""
    facts = LiveFacts(server.kubeconfig(directory), timing=timing, clock=clock)
    facts.start()
    try:
        yield facts
    finally:
        facts.close()


def nodes(facts: LiveFacts) -> set[str] | None:
    """The names of the nodes known, None where facts are not loaded."""
    return None if facts.facts is None else set(facts.facts.cluster.nodes)


def watched(facts: LiveFacts) -> bool:
    """Whether all resources are being watched at this moment, and claims where the API server has them."""
    detail = facts.status(0).detail.replace("unknown to the API server, so there are none", "followed")
    return detail == f"nodes: followed; {OTHERS_FOLLOWED}" and "deviceclasses: followed" in facts.status(0).detail


EXPIRED_EVENT = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}\n'
