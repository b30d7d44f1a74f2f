"""Room for the claims that Kubernetes makes for a pod: entered with the pod, and taken over by the claim."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, Replica, demand, exceeded, of_namespace, shared_quota, uid
from webhook.ledger.context import LedgerTiming
from webhook.ledger.entries import Entries, entries_from_raw, reservation_key
from webhook.ledger.verdicts import Granted, PendingEntry, QuotaRequest
from webhook.quota.quotas import ClaimedDevices, Demand

VISION = of_namespace(4)
GRANTED = (Granted(),)


def by_claim(count: int, namespace: str = "vision") -> Demand:
    return Demand(namespace, (), None, ((ClaimedDevices("nvidia.com/gpu", count),),))


def pod_with(*claims: int, own: int = 0) -> QuotaRequest:
    """What a pod claims with GPUs of its own, and with claims for so many GPUs."""
    reserved = tuple((f"c{at}", by_claim(count)) for at, count in enumerate(claims))
    requests = tuple(one for _, found in reserved for one in found.requests)
    mine = demand(own) if own else None
    return QuotaRequest(VISION, Demand("vision", mine.gpus if mine else (), None, requests), True, reserved, mine)


@pytest.fixture
def replica() -> Replica:
    return Replica(timing=LedgerTiming(in_flight=IN_FLIGHT, longest_pause=0.0))


def keys(replica: Replica) -> set[bytes]:
    held = replica.store.read(VISION.key, 5)
    return set(held.entries.by_uid) if held else set()


def made(replica: Replica, number: int, count: int, pod: int, name: str = "c0") -> object:
    """What a ledger says to a claim that is made for a pod."""
    claim = QuotaRequest(VISION, by_claim(count))
    key = reservation_key("vision", uid(pod), name)
    return replica.ledgers.reserve(uid(number), [claim], replica.clock() + 5, takes_over=key)


def test_a_pod_is_entered_with_room_for_each_of_its_claims(replica: Replica) -> None:
    assert replica.ask(1, pod_with(1, 2, own=1)) == GRANTED
    assert keys(replica) == {uid(1), reservation_key("vision", uid(1), "c0"), reservation_key("vision", uid(1), "c1")}
    assert replica.ask(2, QuotaRequest(VISION, demand(1))) == (exceeded(1, 4),)
    assert replica.ask(1, pod_with(1, 2, own=1)) == GRANTED, "asked again"


def test_a_pod_whose_claims_do_not_fit_together_enters_none_of_them(replica: Replica) -> None:
    assert replica.ask(1, pod_with(3, 2)) == (exceeded(5, 0),)
    assert keys(replica) == set()


def test_a_claim_takes_the_room_over_that_its_pod_brought(replica: Replica) -> None:
    replica.ask(1, pod_with(3, own=1))
    assert made(replica, 7, 3, pod=1) == GRANTED
    assert keys(replica) == {uid(1), uid(7)}
    assert made(replica, 7, 3, pod=1) == GRANTED, "asked again"
    assert keys(replica) == {uid(1), uid(7)}


def test_a_claim_that_is_larger_than_the_room_needs_room_beside_it(replica: Replica) -> None:
    replica.ask(1, pod_with(1, own=1))
    assert made(replica, 7, 3, pod=1) == (exceeded(3, 2),)
    assert made(replica, 8, 2, pod=1) == GRANTED
    assert keys(replica) == {uid(1), uid(8), reservation_key("vision", uid(1), "c0")}


def test_the_room_is_taken_over_once_whoever_calls_himself_made_for_the_pod(replica: Replica) -> None:
    replica.ask(1, pod_with(3, own=1))
    assert made(replica, 7, 3, pod=1) == GRANTED
    assert made(replica, 8, 1, pod=1) == (exceeded(1, 4),)


def test_claims_of_one_batch_do_not_take_the_same_room_over_twice(replica: Replica) -> None:
    replica.ask(1, pod_with(3, own=1))
    ledger, key = replica.ledgers.of(VISION.key), reservation_key("vision", uid(1), "c0")
    batch = [
        PendingEntry(uid(number), QuotaRequest(VISION, by_claim(3)), replica.clock() + 5, takes_over=key)
        for number in (7, 8)
    ]
    ledger.settle(batch)
    assert [one.verdict for one in batch] == [Granted(), exceeded(3, 4)]
    assert keys(replica) == {uid(1), uid(7)}


def test_the_pod_and_its_claim_may_come_in_one_batch(replica: Replica) -> None:
    ledger, key = replica.ledgers.of(VISION.key), reservation_key("vision", uid(1), "c0")
    until = replica.clock() + 5
    batch = [
        PendingEntry(uid(1), pod_with(3), until),
        PendingEntry(uid(7), QuotaRequest(VISION, by_claim(3)), until, takes_over=key),
        PendingEntry(uid(8), QuotaRequest(VISION, demand(2)), until),
    ]
    ledger.settle(batch)
    assert [one.verdict for one in batch] == [Granted(), Granted(), exceeded(2, 3)]
    assert keys(replica) == {uid(7)}


def test_a_dry_run_takes_nothing_over(replica: Replica) -> None:
    replica.ask(1, pod_with(4))
    claim = QuotaRequest(VISION, by_claim(4))
    key = reservation_key("vision", uid(1), "c0")
    found = replica.ledgers.reserve(uid(7), [claim], replica.clock() + 5, is_dry_run=True, takes_over=key)
    assert found == GRANTED
    assert keys(replica) == {key}


def test_a_claim_that_takes_over_is_not_withheld_in_a_shared_quota() -> None:
    replica = Replica(timing=LedgerTiming(in_flight=IN_FLIGHT, longest_pause=0.0), is_bounded=True)
    shared = shared_quota(8, "vision", "speech")
    first = replace(pod_with(4), quota=shared)
    assert replica.ask(1, first) == GRANTED
    key = reservation_key("vision", uid(1), "c0")
    claim = QuotaRequest(shared, by_claim(4))
    assert replica.ledgers.reserve(uid(7), [claim], replica.clock() + 5, takes_over=key) == GRANTED


def stands_for(replica: Replica, number: int, count: int, pod: int) -> object:
    """What a ledger says to a claim that the scheduler makes for extended resources of a pod."""
    claim, until = QuotaRequest(VISION, by_claim(count)), replica.clock() + 5
    return replica.ledgers.reserve(uid(number), [claim], until, takes_over=uid(pod), stands_for=True)


def test_the_claim_for_extended_resources_of_a_pod_goes_on_with_the_entry_of_the_pod(replica: Replica) -> None:
    replica.ask(1, QuotaRequest(VISION, demand(4)))
    assert stands_for(replica, 7, 3, pod=1) == GRANTED
    held = replica.store.read(VISION.key, 5)
    assert held is not None
    assert dict(held.entries.by_uid) == {uid(7): demand(4)}
    assert stands_for(replica, 7, 3, pod=1) == GRANTED, "asked again"
    assert stands_for(replica, 8, 1, pod=1) == (exceeded(1, 4),), "once"


def test_a_claim_for_more_than_its_pod_counts_needs_room_beside_it(replica: Replica) -> None:
    replica.ask(1, QuotaRequest(VISION, demand(1)))
    assert stands_for(replica, 7, 4, pod=1) == (exceeded(4, 1),)
    assert stands_for(replica, 8, 3, pod=1) == GRANTED
    assert keys(replica) == {uid(1), uid(8)}


def test_a_claim_that_needs_no_more_than_its_room_is_granted_also_beyond_the_quota(replica: Replica) -> None:
    replica.ask(1, pod_with(3))
    replica.ask(2, QuotaRequest(VISION, demand(9), enforced=False))
    assert made(replica, 7, 3, pod=1) == GRANTED


def test_what_claims_request_is_written_and_read() -> None:
    several = (ClaimedDevices("nvidia.com/gpu", 1, ("H100",)), ClaimedDevices("nvidia.com/mig-1g.10gb", 2))
    entries = Entries(
        {
            uid(1): Demand("vision", (("nvidia.com/gpu", 2),), ("T4",), (several,)),
            uid(2): Demand("vision", (), None, ((ClaimedDevices("nvidia.com/gpu", 3),), several)),
            uid(3): Demand("speech", (), None, ((ClaimedDevices("nvidia.com/gpu", 3),), several)),
        },
        frozenset({"vision"}),
    )
    raw = entries.to_raw()
    assert entries_from_raw(raw) == entries
    assert len(raw["kinds"]) == 2


def test_keys_of_reservations_differ_by_pod_and_by_claim() -> None:
    pods, names = [UUID(int=number).bytes for number in (1, 2)], ("a", "b", "\ud800")
    found = {reservation_key(place, pod, name) for place in ("x", "y") for pod in pods for name in names}
    assert {len(key) for key in found} == {16}
    assert len(found) == 12
