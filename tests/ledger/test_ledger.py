"""One ledger, and several that a pod goes by: what is written when, what is asked again, and what is told.

That no quota is ever passed in any order of events is in test_ledger_machine.py.
"""

import threading
from dataclasses import replace

from tests.ledger.bookkeeping import (
    IN_FLIGHT,
    at_once,
    demand,
    eventually,
    exceeded,
    gpus,
    joined,
    of_namespace,
    shared_quota,
)
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.verdicts import Exceeded, Granted, QuotaRequest, Unanswered

VISION, SPEECH = of_namespace(4), of_namespace(4, "speech")
KEY = VISION.key
GRANTED = Granted()


# Entering.


def test_a_pod_is_entered_before_the_answer_and_the_one_that_is_too_much_is_not(replica):
    assert [replica.enter(number, VISION, 2) for number in (1, 2, 3)] == [GRANTED, GRANTED, exceeded(2, 4)]
    assert replica.entered(VISION) == {1, 2}
    assert replica.told.counts[f"refused {KEY}"] == 1


def test_a_refusal_gives_every_limit_that_is_passed_and_what_is_in_use(replica):
    quota = replace(VISION, limits=(gpus(4), replace(gpus(2), name="again"), replace(gpus(9), name="never")))
    replica.enter(1, quota, 2)
    verdict = replica.enter(2, quota, 3)
    assert isinstance(verdict, Exceeded)
    assert [(one.limit.hard, one.asks, one.used, one.free) for one in verdict.excesses] == [(4, 3, 2, 2), (2, 3, 2, 0)]


def test_what_passes_a_quota_already_refuses_the_next_pod_and_removes_nobody(replica):
    replica.enter(1, of_namespace(8), 8)
    verdict = replica.enter(2, VISION)
    assert verdict == exceeded(1, 8)
    assert verdict.excesses[0].free == 0
    assert replica.entered(VISION) == {1}


def test_a_pod_that_is_asked_about_again_counts_once_whichever_replica_answers(replica):
    other = replica.another()
    assert [one.enter(1, VISION, 3) for one in (replica, other, replica, other)] == [GRANTED] * 4
    assert replica.entered(VISION) == {1}
    assert other.enter(2, VISION, 2) == exceeded(2, 3)


def test_one_write_is_made_for_all_that_wait(replica):
    replica.enter(1, of_namespace(100))
    let_go = threading.Event()
    replica.store.before = lambda call: call.startswith("replace") and let_go.wait(5)
    verdicts = {}

    def come(number):
        verdicts[number] = replica.enter(number, of_namespace(100))

    before = len(replica.store.calls)
    first = at_once(lambda: come(2))
    eventually(lambda: len(replica.store.calls) > before)
    others = at_once(*(lambda number=number: come(number) for number in range(3, 23)))
    eventually(lambda: replica.ledgers.of(KEY).queue.waiting == 20)
    let_go.set()
    joined(first + others)
    assert set(verdicts.values()) == {GRANTED}
    assert replica.entered(VISION) == set(range(1, 23))
    assert replica.store.calls[before:] == [f"replace {KEY}"] * 2


def test_those_that_are_written_together_by_two_versions_of_a_quota_are_added_up(replica):
    """While policies are changed, some requests of a batch still go by the earlier ones."""
    earlier, later = VISION, replace(VISION, limits=(gpus(5),))
    batch = [replica.pending(1, earlier, 3), replica.pending(2, later, 3), replica.pending(3, earlier, 2)]
    replica.ledgers.of(KEY).settle(batch)
    assert [one.verdict for one in batch] == [GRANTED, exceeded(3, 3, hard=5), exceeded(2, 3)]
    assert replica.entered(VISION) == {1}


def test_what_an_earlier_version_of_a_shared_quota_covers_uses_nothing_of_a_later_one_that_does_not(replica):
    earlier, later = shared_quota(4, "speech", "vision"), shared_quota(4, "vision")
    batch = [replica.pending(1, later), replica.pending(2, earlier, 3), replica.pending(3, later, 3)]
    assert batch[1].request.demand.namespace == "speech"
    replica.ledgers.of(later.key).settle(batch)
    assert [one.verdict for one in batch] == [GRANTED] * 3


# Dry runs, and claims that are not enforced.


def test_a_dry_run_is_judged_alike_and_leaves_nothing(replica):
    claim = QuotaRequest(VISION, demand(4))
    assert replica.ask(1, claim, is_dry_run=True) == (GRANTED,)
    assert replica.entered(VISION) == set()
    replica.enter(2, VISION)
    calls = list(replica.store.calls)
    assert replica.ask(3, claim, is_dry_run=True) == (exceeded(4, 1),)
    assert not [call for call in replica.store.calls[len(calls) :] if not call.startswith("read")]


def test_a_dry_run_is_judged_by_what_other_replicas_have_entered_since(replica):
    other = replica.another()
    other.enter(1, VISION)
    replica.enter(2, VISION, 3)
    assert other.ask(3, QuotaRequest(VISION, demand()), is_dry_run=True) == (exceeded(1, 4),)


def test_a_claim_that_is_not_enforced_is_entered_and_said_to_pass_the_limit(replica):
    replica.enter(1, VISION, 4)
    assert replica.enter(2, VISION, 3, enforced=False) == exceeded(3, 4)
    assert replica.entered(VISION) == {1, 2}
    assert replica.told.counts[f"refused {KEY}"] == 0
    assert replica.enter(3, VISION) == exceeded(1, 7)


# Several quotas.


def test_the_verdicts_are_in_the_order_of_the_claims(replica):
    shared = shared_quota(2, "vision")
    claims = [
        QuotaRequest(VISION, demand(3)),
        QuotaRequest(shared, demand(3)),
        QuotaRequest(shared_quota(9, "*", name="all"), demand(3)),
    ]
    assert replica.ask(1, *claims) == (GRANTED, exceeded(3, 0, hard=2), GRANTED)


def test_the_quota_that_seems_full_is_asked_first_and_the_others_are_then_only_asked(replica):
    shared = shared_quota(2, "vision")
    replica.enter(1, VISION)
    replica.enter(1, shared, 2)
    assert replica.ask(2, QuotaRequest(VISION, demand()), QuotaRequest(shared, demand())) == (
        GRANTED,
        exceeded(1, 2, hard=2),
    )
    assert replica.entered(VISION) == {1}


def test_what_was_entered_before_another_quota_refused_stays_for_as_long_as_an_admission_may_last(replica):
    """The replica has not heard yet that the shared quota is full."""
    shared = shared_quota(2, "vision")
    replica.enter(9, of_namespace(1, "other"))
    replica.another().enter(1, shared, 2)
    assert replica.ask(2, QuotaRequest(VISION, demand(4)), QuotaRequest(shared, demand())) == (
        GRANTED,
        exceeded(1, 2, hard=2),
    )
    assert replica.entered(VISION) == {2}
    replica.clock.now += IN_FLIGHT
    assert replica.enter(3, VISION) == exceeded(1, 4)
    replica.clock.now += 3
    assert replica.enter(4, VISION) == GRANTED
    assert replica.entered(VISION) == {4}


def test_a_quota_that_is_only_warned_of_keeps_nobody_out_of_the_others(replica):
    replica.enter(1, VISION, 4)
    shared = shared_quota(4, "vision")
    assert replica.ask(2, QuotaRequest(VISION, demand(), enforced=False), QuotaRequest(shared, demand())) == (
        exceeded(1, 4),
        GRANTED,
    )
    assert (replica.entered(VISION), replica.entered(shared)) == ({1, 2}, {2})


def test_a_ledger_that_cannot_be_reached_does_not_answer_for_another(replica):
    replica.store.before = lambda call: call.endswith(KEY) and replica.store.faults.append(LedgerError("broken"))
    assert replica.ask(1, QuotaRequest(VISION, demand()), QuotaRequest(SPEECH, demand(1, "speech"))) == (
        Unanswered("broken"),
        GRANTED,
    )
