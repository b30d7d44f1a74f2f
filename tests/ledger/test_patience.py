"""Deadlines of pods that wait for an entry, and the time that a list of pods may take."""

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, SECONDS, demand, exceeded, of_namespace, shared_quota
from tests.ledger.small_cluster import seen_pod
from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.verdicts import Exceeded, Granted, QuotaRequest, Unanswered

VISION = of_namespace(4)


@pytest.fixture
def full(replica):
    """A replica whose quota is used up by a stored pod."""
    replica.enter(1, VISION, 4)
    replica.truth.store(seen_pod(1, "vision", 4))
    replica.view.catch_up()
    return replica


def test_who_has_gone_by_the_time_of_the_write_is_not_entered(replica):
    replica.enter(1, VISION)
    impatient, patient = replica.pending(2, VISION), replica.pending(3, VISION)
    impatient.deadline = replica.clock() + 1
    write = replica.store.replace

    def second(*_):
        replica.clock.now += 2
        replica.store.replace = write
        raise ConflictError

    replica.store.replace = second
    replica.ledgers.of(VISION.key).settle([impatient, patient])
    assert isinstance(impatient.verdict, Unanswered)
    assert patient.verdict == Granted()
    assert replica.entered(VISION) == {1, 3}


def test_a_list_that_takes_all_its_time_leaves_enough_to_refuse(full):
    """Otherwise `onLedgerFailure: allow` would let pass whoever asks a slow cluster for too much."""

    def slow():
        full.clock.now += full.view.seconds[-1]
        raise LedgerError("pods: not all in time")

    full.view.before_list = slow
    assert full.enter(2, VISION) == exceeded(1, 4)


def test_a_list_that_took_long_is_not_made_again_at_once(full):
    def slow():
        full.clock.now += 2

    full.view.before_list = slow
    lists = []
    for seconds in (0, 2, 4, 3):
        full.clock.now += seconds
        assert full.enter(2, VISION) == exceeded(1, 4)
        lists.append(full.view.lists.count("live vision"))
    assert lists == [1, 1, 1, 2]


def test_of_very_many_namespaces_some_are_listed_and_those_that_ask_among_them(replica):
    wide = shared_quota(100, "team-*")
    for number in range(100):
        replica.truth.store(seen_pod(number, f"team-{number}", 1))
    replica.view.catch_up()
    listed = set()
    for number in range(200, 230):
        replica.clock.now += 10
        claim = QuotaRequest(wide, demand(1, "team-7"))
        assert isinstance(replica.ask(number, claim)[0], Exceeded)
        listed |= (names := set(replica.view.lists[-1].removeprefix("live ").split(",")))
        assert len(names) == 32
        assert "team-7" in names
    assert len(listed) > 64


def test_a_dry_run_begins_no_ledger_and_is_judged_by_the_pods_that_are_there(replica):
    replica.truth.store(seen_pod(1, "vision", 3))
    claims = [QuotaRequest(VISION, demand(count)) for count in (1, 2)]
    assert [replica.ask(2, claim, is_dry_run=True) for claim in claims] == [(Granted(),), (exceeded(2, 3),)]
    assert replica.store.read_all(SECONDS) == {}


def test_a_dry_run_counts_what_a_shared_quota_has_gained_and_leaves_that_to_others(replica):
    replica.enter(1, shared_quota(8, "vision"), 2)
    replica.truth.store(seen_pod(2, "speech", 5))
    before = replica.store.read_all(SECONDS)
    wider = shared_quota(8, "vision", "spee*")
    assert isinstance(replica.ask(3, QuotaRequest(wider, demand(2)), is_dry_run=True)[0], Exceeded)
    assert replica.ask(3, QuotaRequest(wider, demand(1)), is_dry_run=True) == (Granted(),)
    assert replica.store.read_all(SECONDS) == before


def test_a_dry_run_removes_nobody(replica):
    replica.enter(1, VISION, 4)
    replica.clock.now += IN_FLIGHT + 1
    assert replica.ask(2, QuotaRequest(VISION, demand()), is_dry_run=True) == (Granted(),)
    assert replica.entered(VISION) == {1}
