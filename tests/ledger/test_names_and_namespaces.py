"""Pods with a taken name, and pods of namespaces that do not exist, neither create a ledger nor fill one."""

import pytest

from tests.ledger.bookkeeping import Replica, demand, of_namespace, uid
from tests.ledger.of_shared_quota import SHARED_QUOTA, TIMING, enter, only_this, store
from webhook.ledger.context import ReconcileIntervals
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.reconciler import Reconciler
from webhook.ledger.verdicts import AlreadyStored, Granted, QuotaRequest, Unanswered


@pytest.fixture
def replica():
    return Replica(timing=TIMING, is_bounded=True)


# Names that are taken


def test_a_create_whose_name_exists_is_not_entered(replica):
    assert enter(replica, 1, 1) == Granted()
    store(replica, 1, 1)
    replica.view.catch_up()
    claims = [QuotaRequest(SHARED_QUOTA, demand(1))]
    again = replica.ledgers.reserve(uid(2), claims, replica.clock() + 5, name="pod-1")
    assert (again, replica.entered(SHARED_QUOTA)) == ((AlreadyStored("pod-1"),), {1})


def test_a_name_that_was_given_up_a_moment_ago_may_be_used_again(replica):
    """A StatefulSet makes its pods again under the same names, and no watch is as quick."""
    enter(replica, 1, 1)
    store(replica, 1, 1)
    replica.view.catch_up()
    replica.truth.delete(uid(1))
    verdict = replica.ledgers.reserve(
        uid(2), [QuotaRequest(SHARED_QUOTA, demand(1))], replica.clock() + 5, name="pod-1"
    )
    assert verdict == (Granted(),)


def test_a_pod_that_is_asked_about_again_is_not_in_its_own_way(replica):
    enter(replica, 1, 16)
    store(replica, 1, 16)
    replica.view.catch_up()
    assert enter(replica, 1, 16) == Granted()


# Namespaces


def test_no_ledger_is_begun_for_a_namespace_that_is_not_there(replica):
    replica.truth.no_namespaces = {f"made-up-{number}" for number in range(400)}
    for name in replica.truth.no_namespaces:
        verdict = replica.ledgers.reserve(
            uid(1), [QuotaRequest(of_namespace(4, name), demand(1, name))], replica.clock() + 5
        )
        assert verdict == (Unanswered(f"there is no namespace {name}", 500),)
    assert (replica.store.calls, dict(replica.ledgers.known)) == ([], {})


def test_a_namespace_of_which_nobody_knows_whether_it_is_there_is_an_error(replica, monkeypatch):
    def away(*_):
        raise LedgerError("the API server is away")

    monkeypatch.setattr(replica.view, "has_namespace", away)
    assert enter(replica, 1, 1) == Unanswered("the API server is away")


def test_why_a_namespace_cannot_be_looked_up_is_for_administrators(replica, monkeypatch, caplog):
    """The text has a path of the API server and a command of the platform."""

    def forbidden(*_):
        raise LedgerError("GET /api/v1/namespaces/vision: 403; install the RBAC objects again", "it cannot be read")

    monkeypatch.setattr(replica.view, "has_namespace", forbidden)
    assert enter(replica, 1, 1) == Unanswered("it cannot be read")
    assert "install the RBAC objects" in caplog.text


def test_a_namespace_that_was_there_is_taken_to_be_there_while_nobody_can_be_asked(replica, monkeypatch):
    enter(replica, 1, 1)
    replica.clock.now += 601
    waited = []

    def away(_, seconds):
        waited.append(seconds)
        raise LedgerError("the API server is away")

    monkeypatch.setattr(replica.view, "has_namespace", away)
    assert enter(replica, 1, 1) == Granted()
    assert enter(replica, 2, 1, "speech") == Unanswered("the API server is away")
    assert waited == [5.0, replica.timing.wait_after_fault]


def test_a_namespace_is_looked_up_once_in_a_while(replica, monkeypatch):
    asked = []
    monkeypatch.setattr(replica.view, "has_namespace", lambda name, _: asked.append(name) or True)
    for number in range(1, 9):
        enter(replica, number, 1)
    assert asked == ["vision"]
    replica.clock.now += 601
    enter(replica, 10, 1)
    assert asked == ["vision", "vision"]


def test_ledgers_that_cannot_be_written_are_forgotten(replica):
    reconciler = Reconciler(replica.ledgers, only_this(), intervals=ReconcileIntervals())
    replica.store.before = lambda call: replica.store.faults.append(LedgerError("422")) if "create" in call else None
    for number in range(20):
        name = f"team-{number}"
        replica.ledgers.reserve(uid(1), [QuotaRequest(of_namespace(4, name), demand(1, name))], replica.clock() + 5)
    replica.store.before = lambda _: None
    assert len(replica.ledgers.known) == 20
    replica.clock.now += 601
    reconciler.reconcile()
    assert set(replica.ledgers.known) == {SHARED_QUOTA.key}
