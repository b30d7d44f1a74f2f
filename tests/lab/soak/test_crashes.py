"""Replicas end without a word: what they were answering is lost, and what a load balancer still sends to them."""

import time
from collections.abc import Callable
from itertools import cycle

import pytest

from tests.e2e.eventually import eventually
from tests.e2e.load_balancer import EAGER
from tests.e2e.steady_load import Create
from tests.lab.soak.site import SECONDS, Site

KILLS = 5


def killed(kill: Callable[[], None]) -> tuple[float, float]:
    """The moments just before and just after, in seconds of time.monotonic()."""
    before = time.monotonic()
    kill()
    return before, time.monotonic()


def in_flight(lost: list[Create], kills: list[tuple[float, float]]) -> list[Create]:
    """Those that were being answered when a replica was killed."""
    return [c for c in lost if any(c.due <= after and c.ended >= before for before, after in kills)]


@pytest.mark.parametrize(
    ("event", "extra"),
    [
        pytest.param("SIGKILL, noticed by probes every 2 s", "", id="noticed by probes"),
        pytest.param("SIGKILL, noticed at the first refused connection", EAGER, id="noticed when it refuses"),
    ],
)
def test_a_killed_replica_takes_only_what_was_in_flight_and_what_is_still_sent_to_it(
    open_site: Callable[..., Site], event: str, extra: str
) -> None:
    """Whatever was not lost in flight is a connection to a port at which nobody listens, counted by the load balancer.

    From the moment that the load balancer knows, every create succeeds, although the replica is still away.
    """
    site = open_site(extra=extra)
    kills, known = [], []
    with site.under_load(event) as account:
        for number, victim in zip(range(KILLS), cycle(site.replicas.running), strict=False):
            account.load.go_on_for(SECONDS * (number + 1) / (KILLS + 1))
            kills.append(killed(victim.kill))
            eventually(lambda port=victim.port: port not in site.balancer.members())
            known.append(time.monotonic())
            victim.start()
    lost = [create for create in account.creates if create.is_lost_by_us]
    others = [create for create in lost if create not in in_flight(lost, kills)]
    account.remark = f"; {len(lost) - len(others)} of the lost were in flight, {len(others)} sent to the dead port"
    assert len(others) <= site.balancer.refused()
    spans = [(before, end) for (before, _), end in zip(kills, known, strict=True)]
    assert all(any(before <= create.due <= end for before, end in spans) for create in others)
    account.demand_no_gap(replicas_killed=True)


def test_a_killed_worker_takes_only_what_was_in_flight(site: Site) -> None:
    """The process that holds the port lives on: connections wait there for the next worker."""
    kills = []
    with site.under_load("SIGKILL of a worker, replaced by its parent") as account:
        for number, victim in zip(range(KILLS), cycle(site.replicas.running), strict=False):
            account.load.go_on_for(SECONDS * (number + 1) / (KILLS + 1))
            kills.append(killed(victim.kill_worker))
    lost = [create for create in account.creates if create.is_lost_by_us]
    assert lost == in_flight(lost, kills)
    account.demand_no_gap(replicas_killed=True)
