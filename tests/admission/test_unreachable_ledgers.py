"""Replicas without ledgers, ledgers out of reach, and who waits for a ledger."""

import threading
from pathlib import Path

import pytest

from tests.admission.quota_desk import KEY, UNKEPT, Site
from tests.build import FACTS, pod, request
from tests.ledger.bookkeeping import eventually
from webhook.admission.watchdog import TimeBudget
from webhook.ledger.ledger_store import LedgerError

# Replicas without ledgers, and ledgers out of reach.


def test_a_replica_that_keeps_no_ledgers_refuses_and_says_which_option_it_lacks(tmp_path: Path) -> None:
    site = Site(tmp_path, has_ledgers=False)
    assert site.validate(1) == UNKEPT
    assert site.validate(0) == ""


def test_a_replica_that_keeps_no_ledgers_admits_with_a_warning_where_the_policy_would_rather(tmp_path: Path) -> None:
    site = Site(tmp_path, has_ledgers=False, onLedgerFailure="allow")
    response = site.ask("/validate", pod(1))
    (warning,) = response["warnings"]
    assert response["allowed"]
    assert warning == UNKEPT


@pytest.mark.parametrize(("failure", "is_allowed"), [("deny", False), ("allow", True)])
def test_a_ledger_out_of_reach_is_said_and_counted(tmp_path: Path, failure: str, is_allowed: bool) -> None:
    site = Site(tmp_path, onLedgerFailure=failure)
    site.store.faults = [LedgerError("GET /api: timed out")] * 3
    response = site.ask("/validate", pod(1))
    said = response["warnings"][0] if is_allowed else response["status"]["message"]
    assert response["allowed"] is is_allowed
    assert "so it is not known what is free: GET /api: timed out. Try again in a moment" in said
    assert site.value("ledger_failures_total", quota=KEY) == 1
    assert site.validate(1, 2) == ""


# Waiting.


def test_others_are_let_by_before_the_ledger_is_asked(site: Site) -> None:
    told: list[int] = []
    budget = TimeBudget(1.0, lambda: told.append(len(site.store.calls)))
    assert site.service.validate(request(pod(1)), FACTS, budget).result == "allowed"
    assert set(told) == {0}


def test_pods_of_namespaces_without_a_quota_hold_up_nobody(site: Site) -> None:
    told: list[int] = []
    site.service.validate(request(pod(1), namespace="without"), FACTS, TimeBudget(1.0, lambda: told.append(1)))
    assert told == []


def test_the_answer_comes_before_the_sender_gives_up(site: Site) -> None:
    """The one that waits for the ledger is told so while somebody else's write hangs."""
    site.validate(1, 1)
    go_on = threading.Event()
    site.store.before = lambda call: call.startswith("replace") and go_on.wait(10)
    before = len(site.store.calls)
    first = threading.Thread(target=lambda: site.validate(1, 2), daemon=True)
    first.start()
    eventually(lambda: len(site.store.calls) > before)
    decision = site.service.validate(request(pod(1)), FACTS, TimeBudget(0.05))
    assert "it is not known what is free: the ledger did not answer in time. Try again" in decision.answer.message
    go_on.set()
    first.join(10)
    assert site.entered == {1, 2}
