"""Room for the claims that Kubernetes makes for a pod: entered with the pod, and taken over by the claim."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, Replica, demand, exceeded, of_namespace, pot, uid
from webhook.ledger.context import LedgerTiming
from webhook.ledger.entries import Entries, entries_from_raw, reservation_key
from webhook.ledger.verdicts import Claim, Granted, PendingEntry
from webhook.quota.quotas import ClaimedDevices, Demand

VISION = of_namespace(4)
GRANTED = (Granted(),)


def by_claim(count: int, namespace: str = "vision") -> Demand:
    return Demand(namespace, (), None, ((ClaimedDevices("nvidia.com/gpu", count),),))


def pod_with(*claims: int, own: int = 0) -> Claim:
    """What a pod claims with GPUs of its own, and with claims for so many GPUs."""
    reserved = tuple((f"c{at}", by_claim(count)) for at, count in enumerate(claims))
    requests = tuple(one for _, found in reserved for one in found.requests)
    mine = demand(own) if own else None
    return Claim(VISION, Demand("vision", mine.gpus if mine else (), None, requests), True, reserved, mine)


@pytest.fixture
def replica() -> Replica:
    return Replica(timing=LedgerTiming(in_flight=IN_FLIGHT, longest_pause=0.0, waits=()))


def keys(replica: Replica) -> set[bytes]:
    held = replica.store.read(VISION.key, 5)
    return set(held.entries.by_uid) if held else set()


def made(replica: Replica, number: int, count: int, pod: int, name: str = "c0") -> object:
    """What a ledger says to a claim that is made for a pod."""
    claim = Claim(VISION, by_claim(count))
    key = reservation_key(uid(pod), name)
    return replica.ledgers.reserve(uid(number), [claim], replica.clock() + 5, takes_over=key)


def test_a_pod_is_entered_with_room_for_each_of_its_claims(replica: Replica) -> None:
    assert replica.ask(1, pod_with(1, 2, own=1)) == GRANTED
    assert keys(replica) == {uid(1), reservation_key(uid(1), "c0"), reservation_key(uid(1), "c1")}
    assert replica.ask(2, Claim(VISION, demand(1))) == (exceeded(1, 4),)
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


def test_a_claim_that_has_grown_since_its_pod_was_entered_needs_room_for_the_rest(replica: Replica) -> None:
    replica.ask(1, pod_with(2, own=1))
    assert made(replica, 7, 4, pod=1) == (exceeded(4, 1),)
    assert keys(replica) == {uid(1), reservation_key(uid(1), "c0")}
    assert made(replica, 8, 3, pod=1) == GRANTED
    assert keys(replica) == {uid(1), uid(8)}


def test_A58_the_room_is_taken_over_once_whoever_calls_himself_made_for_the_pod(replica: Replica) -> None:
    replica.ask(1, pod_with(3, own=1))
    assert made(replica, 7, 3, pod=1) == GRANTED
    assert made(replica, 8, 1, pod=1) == (exceeded(1, 4),)


def test_claims_of_one_batch_do_not_take_the_same_room_over_twice(replica: Replica) -> None:
    replica.ask(1, pod_with(3, own=1))
    ledger, key = replica.ledgers.of(VISION.key), reservation_key(uid(1), "c0")
    batch = [
        PendingEntry(uid(number), Claim(VISION, by_claim(3)), replica.clock() + 5, takes_over=key) for number in (7, 8)
    ]
    ledger.settle(batch)
    assert [one.verdict for one in batch] == [Granted(), exceeded(3, 4)]
    assert keys(replica) == {uid(1), uid(7)}


def test_the_pod_and_its_claim_may_come_in_one_batch(replica: Replica) -> None:
    ledger, key = replica.ledgers.of(VISION.key), reservation_key(uid(1), "c0")
    until = replica.clock() + 5
    batch = [
        PendingEntry(uid(1), pod_with(3), until),
        PendingEntry(uid(7), Claim(VISION, by_claim(4)), until, takes_over=key),
        PendingEntry(uid(8), Claim(VISION, demand(1)), until),
    ]
    ledger.settle(batch)
    assert [one.verdict for one in batch] == [Granted(), Granted(), exceeded(1, 4)]
    assert keys(replica) == {uid(7)}


def test_a_dry_run_takes_nothing_over(replica: Replica) -> None:
    replica.ask(1, pod_with(4))
    claim = Claim(VISION, by_claim(4))
    key = reservation_key(uid(1), "c0")
    found = replica.ledgers.reserve(uid(7), [claim], replica.clock() + 5, is_dry_run=True, takes_over=key)
    assert found == GRANTED
    assert keys(replica) == {key}


def test_a_claim_that_takes_over_is_not_withheld_in_a_pot() -> None:
    replica = Replica(timing=LedgerTiming(in_flight=IN_FLIGHT, longest_pause=0.0, waits=()), is_bounded=True)
    shared = pot(8, "vision", "speech")
    first = replace(pod_with(4), quota=shared)
    assert replica.ask(1, first) == GRANTED
    key = reservation_key(uid(1), "c0")
    claim = Claim(shared, by_claim(4))
    assert replica.ledgers.reserve(uid(7), [claim], replica.clock() + 5, takes_over=key) == GRANTED


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


@pytest.mark.parametrize(
    ("requests", "fault"),
    [
        ([[]], "a request has no alternative"),
        ([[{"gpu": "nvidia.com/gpu", "number": 0}]], "expected a whole number from 1"),
        ([[{"gpu": 7, "number": 1}]], "expected a string"),
        ([7], "expected a list"),
    ],
)
def test_what_is_no_request_is_told(requests: object, fault: str) -> None:
    packed = {"vision": {"0": "AAAAAAAAAAAAAAAAAAAAAQ=="}}
    with pytest.raises(ValueError, match=fault) as told:
        entries_from_raw({"kinds": [{"gpus": {}, "requests": requests}], "entries": packed})
    assert "kinds[0].requests" in str(told.value)


def test_keys_of_reservations_differ_by_pod_and_by_claim() -> None:
    found = {reservation_key(UUID(int=pod).bytes, name) for pod in (1, 2) for name in ("a", "b", "\ud800")}
    assert {len(key) for key in found} == {16}
    assert len(found) == 6
