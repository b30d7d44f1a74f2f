"""A ledger that cannot be decoded is written anew from the stored pods, and nobody gets beyond the quota by it."""

from functools import partial

import pytest

from tests.ledger.bookkeeping import Replica, at_once, exceeded, joined, of_namespace, shared_quota
from tests.ledger.reconciling import IDLE, Kept
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.verdicts import Granted, Verdict
from webhook.quota.quotas import Quota

VISION = of_namespace(4)
KEY = VISION.key


def test_the_next_pod_has_the_ledger_written_anew_and_is_judged_by_all_pods(replica: Replica) -> None:
    replica.truth.store(seen_pod(1, "vision", 2))
    replica.truth.store(seen_pod(9, "vision", 1))
    replica.enter(1, VISION, 2)
    replica.store.break_down(KEY)
    replica.truth.store(seen_pod(8, "vision", 1))
    assert replica.enter(2, VISION) == exceeded(1, 4)
    assert replica.entered(VISION) == {1, 8, 9}
    assert replica.told.counts["repaired"] == 1
    assert replica.told.counts[f"failed {KEY}"] == 0


def test_pods_that_were_admitted_and_are_not_stored_yet_still_count(replica: Replica) -> None:
    replica.enter(1, VISION, 3)
    replica.store.break_down(KEY)
    assert replica.another().enter(2, VISION, 2) == exceeded(2, 3)
    assert replica.enter(3, VISION) == Granted()
    assert replica.entered(VISION) == {1, 3}


@pytest.mark.parametrize("quota", [VISION, shared_quota(4, "vision", "speech")], ids=["own", "shared"])
@pytest.mark.parametrize("repeated", range(10))
def test_of_several_replicas_that_find_it_one_writes_it_and_nobody_gets_beyond(
    replica: Replica,
    quota: Quota,
    repeated: int,  # a race may be lost by luck
) -> None:
    replicas = [replica, *(replica.another() for _ in range(3))]
    for one, pod in zip(replicas, (1001, 1002), strict=False):
        assert one.enter(pod, quota) == Granted()
    replica.store.break_down(quota.key)
    asks = [(one, 10 * place + number) for place, one in enumerate(replicas) for number in range(4)]
    verdicts: list[Verdict] = []

    def ask(one: Replica, pod: int) -> None:
        verdicts.append(one.enter(pod, quota))

    joined(at_once(*(partial(ask, *each) for each in asks)))
    assert (len(verdicts), sum(isinstance(one, Granted) for one in verdicts)) == (16, 2)
    assert {1001, 1002} < replica.entered(quota)
    assert len(replica.entered(quota)) == 4
    assert sum(one.told.counts["repaired"] for one in replicas) == 1


def test_a_dry_run_is_judged_by_all_pods_and_writes_nothing(replica: Replica) -> None:
    replica.enter(1, VISION, 3)
    replica.truth.store(seen_pod(9, "vision", 1))
    replica.store.break_down(KEY)
    version = replica.store.read(KEY, 1).version
    assert replica.ask(2, replica.pending(2, VISION).request, is_dry_run=True)[0] == exceeded(1, 4)
    assert replica.store.read(KEY, 1).version == version


def test_a_reconciliation_has_it_written_anew_before_any_pod_asks() -> None:
    replica = Kept().keeping(VISION)
    replica.store_pod(1, 2)
    replica.rounds(1)
    replica.store.break_down(KEY)
    replica.store_pod(2, 1)
    replica.rounds(1)
    assert replica.entered(VISION) == {1, 2}
    assert (MemoryStore.read(replica.store, KEY, 1).damage, replica.told.counts["repaired"]) == ("", 1)


def test_a_ledger_that_no_quota_uses_is_removed_although_it_is_damaged() -> None:
    replica = Kept().keeping(VISION)
    replica.enter(1, VISION)
    replica.store.break_down(KEY)
    replica.in_force.quotas = [of_namespace(4, "speech")]
    replica.pass_time(IDLE)
    assert MemoryStore.read(replica.store, KEY, 1) is None
