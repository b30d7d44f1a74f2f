"""A page is made at most once a second, however many threads ask for it."""

import pytest

from tests.clock import Clock
from tests.replicas import Replica
from webhook.admission import app
from webhook.admission.app import SECONDS, CachedPage


class Maker:
    """Numbers the pages that it makes."""

    def __init__(self):
        self.made = 0

    def __call__(self):
        self.made += 1
        return b"%d" % self.made


def test_a_page_is_made_once_a_second():
    make, clock = Maker(), Clock()
    page = CachedPage(make, clock)
    assert [page.get() for _ in range(1000)] == [b"1"] * 1000
    clock.now += SECONDS
    assert [page.get() for _ in range(1000)] == [b"2"] * 1000
    assert make.made == 2


def test_the_second_begins_when_the_page_is_made_so_that_a_slow_one_takes_no_more_of_the_time():
    clock = Clock()

    def make():
        clock.now += 5
        return b"%f" % clock.now

    page = CachedPage(make, clock)
    assert page.get() == page.get()


def test_a_page_that_cannot_be_made_is_tried_again():
    clock = Clock()
    outcomes = iter([ValueError("no"), b"page"])

    def make():
        outcome = next(outcomes)
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    page = CachedPage(make, clock)
    with pytest.raises(ValueError, match="no"):
        page.get()
    assert page.get() == b"page"


def test_the_page_of_metrics_is_kept_and_a_replica_that_drains_says_so_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(app, "SECONDS", 1e9)
    replica = Replica(tmp_path / "policies")
    first = replica.client.get("/metrics").data
    replica.metrics.error("bug")
    assert first == replica.client.get("/metrics").data
    replica.service.is_draining = True
    assert b"\ngpu_policy_ready 0.0\n" in replica.client.get("/metrics").data
