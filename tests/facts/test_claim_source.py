"""Pods and claims together, as ledgers see them: claims exist from their creation to their deletion."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.eventually import eventually
from tests.facts.asking import is_gone, is_live
from tests.facts.claim_samples import claiming_pod, for_extended_resources, made_for, stored_claim
from tests.facts.fake_api_server import CLAIMS, PODS, FakeApiServer, always, fake_api_server
from tests.facts.pod_samples import AT, deleted, stored, uid
from tests.facts.test_pod_source import QUICK
from tests.quota.claim_samples import Classes
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.entries import reservation_key
from webhook.ledger.ledger_store import LedgerError, entered_demand
from webhook.ledger.pod_source import PodsAndClaims
from webhook.quota.quotas import Counting

ROOM = reservation_key("team-a", uid("p"), "gpus")
FORBIDDEN = always(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        server.objects[PODS] = [stored("a", gpus=2), claiming_pod("p")]
        server.objects[CLAIMS] = [stored_claim("c", 3), stored_claim("d", 1, namespace="team-b")]
        yield server


@contextmanager
def following(server: FakeApiServer, directory: Path) -> Iterator[PodsAndClaims]:
    found = PodsAndClaims(ApiServer(server.kubeconfig(directory)), timing=QUICK)
    found.know(Classes)
    found.start()
    found.start()
    eventually(found.is_known)
    try:
        yield found
    finally:
        found.close()


def test_claims_count_beside_pods_and_reservations_as_long_as_their_pods(server: FakeApiServer, tmp_path: Path) -> None:
    with following(server, tmp_path) as found:
        assert {one.called for one in found.seen()} == {"a", "claim c", "claim d"}
        assert {one.called for one in found.seen("team-b")} == {"claim d"}
        assert found.has_any_in("team-b")
        assert all(is_live(found, one) for one in (uid("a"), uid("claim c"), ROOM))
        assert found.live_now(["team-a"], 5) == {uid("a"), uid("p"), uid("claim c"), ROOM}
        assert {one.called for one in found.list_now(["team-a"], 5)} == {"a", "claim c"}
        assert {one.called for one in found.list_now(["team-*"], 5)} == {"a", "claim c", "claim d"}
        server.tell_event(PODS, "DELETED", claiming_pod("p"), "101")
        eventually(lambda: is_gone(found, ROOM))
        assert not is_live(found, ROOM)


def test_a_reservation_is_gone_once_its_claim_is_stored_and_the_claim_once_it_is_deleted(
    server: FakeApiServer, tmp_path: Path
) -> None:
    made = made_for("p", stored_claim("made", 2))
    with following(server, tmp_path) as found:
        server.tell_event(CLAIMS, "ADDED", made, "101")
        eventually(lambda: is_gone(found, ROOM))
        assert not is_live(found, ROOM)
        assert is_live(found, uid("claim made"))
        assert ROOM not in found.live_now(["team-a"], 5)
        server.tell_event(CLAIMS, "DELETED", made, "102")
        eventually(lambda: is_gone(found, uid("claim made")))
        assert is_live(found, ROOM), "Kubernetes makes it anew"


def test_a_reservation_is_gone_also_if_its_claim_gives_no_gpus_after_all(server: FakeApiServer, tmp_path: Path) -> None:
    made = made_for("p", stored_claim("made", 1, "mrdma.google.com"))
    with following(server, tmp_path) as found:
        server.tell_event(CLAIMS, "ADDED", made, "101")
        eventually(lambda: is_gone(found, ROOM))
        assert [entered_demand(one, Counting()) for one in found.seen() if one.name == "made"] == [None]


def test_a_claim_that_is_being_deleted_counts_until_it_is_gone(server: FakeApiServer, tmp_path: Path) -> None:
    """A finalizer keeps it while its devices are reserved."""
    leaving = deleted(stored_claim("c", 3), AT, 0)
    with following(server, tmp_path) as found:
        server.objects[CLAIMS] = [leaving]
        server.tell_event(CLAIMS, "MODIFIED", leaving, "101")
        assert uid("claim c") in found.live_now(["team-a"], 5)
        assert {one.called for one in found.list_now(["team-a"], 5)} == {"a", "claim c"}
        assert not is_gone(found, uid("claim c"))


@pytest.mark.parametrize(("namespace", "is_gone_for_it"), [("team-a", True), ("team-b", False)])
def test_the_entry_of_a_pod_goes_once_the_claim_for_its_extended_resources_is_entered(
    server: FakeApiServer, tmp_path: Path, namespace: str, *, is_gone_for_it: bool
) -> None:
    special = for_extended_resources("a", stored_claim("special", 2, namespace=namespace))
    server.objects[CLAIMS] = [special]
    entries = {uid("a"), uid("claim special")}
    with following(server, tmp_path) as found:
        assert (uid("a") in found.gone_among(entries)) is is_gone_for_it
        assert (uid("a") in found.live_among(entries)) is not is_gone_for_it
        assert is_live(found, uid("a")), "while only the pod has an entry"
        assert uid("claim special") in found.live_now([namespace], 5)
        assert {one.called for one in found.seen()} == ({"claim special"} if is_gone_for_it else {"a", "claim special"})
        server.tell_event(CLAIMS, "DELETED", special, "102")
        eventually(lambda: uid("a") in found.live_among(entries))


def test_the_entry_of_a_claim_for_extended_resources_holds_the_room_of_a_pod_that_outlives_it(
    server: FakeApiServer, tmp_path: Path
) -> None:
    """Or others take the room before the scheduler has made another claim."""
    special = for_extended_resources("a", stored_claim("special", 2))
    entries = {uid("claim special")}
    server.objects[CLAIMS] = []
    with following(server, tmp_path) as found:
        server.tell_event(CLAIMS, "ADDED", special, "101")
        eventually(lambda: found.live_among(entries))
        server.tell_event(CLAIMS, "DELETED", special, "102")
        eventually(lambda: not found.live_among(entries))
        assert found.gone_among(entries) == set()
        assert entries <= found.live_now(["team-a"], 5)
        assert {one.called for one in found.seen()} == {"a"}, "which is entered soon"
        assert found.gone_among({*entries, uid("a")}) == entries
        server.tell_event(PODS, "DELETED", stored("a", gpus=2), "103")
        eventually(lambda: found.gone_among(entries) == entries)


@pytest.mark.parametrize(
    ("make", "pod", "key"),
    [(for_extended_resources, "a", uid("a")), (made_for, "p", ROOM)],
    ids=["extended", "template"],
)
def test_the_second_claim_of_a_pod_stands_for_it_when_the_first_goes(
    server: FakeApiServer, tmp_path: Path, make: Callable[..., Any], pod: str, key: bytes
) -> None:
    """The scheduler makes another claim while the one of a binding that failed is still being deleted."""
    first, second = (make(pod, stored_claim(name, 2)) for name in ("first", "second"))
    entries = {key, uid("claim first"), uid("claim second")}
    server.objects[CLAIMS] = []
    with following(server, tmp_path) as found:
        events = [("ADDED", first), ("ADDED", second), ("MODIFIED", deleted(first, AT, 0)), ("DELETED", first)]
        for version, (event, claim) in enumerate(events, 101):
            server.tell_event(CLAIMS, event, claim, str(version))
        eventually(lambda: uid("claim first") in found.gone_among(entries))
        assert key in found.gone_among(entries)
        server.tell_event(CLAIMS, "DELETED", second, "105")
        eventually(lambda: key not in found.gone_among(entries))


def test_a_pod_that_has_ended_needs_no_room(server: FakeApiServer, tmp_path: Path) -> None:
    with following(server, tmp_path) as found:
        server.tell_event(PODS, "MODIFIED", {**claiming_pod("p"), "status": {"phase": "Succeeded"}}, "101")
        eventually(lambda: is_gone(found, ROOM))


def test_without_the_right_to_read_claims_all_is_as_without_claims(server: FakeApiServer, tmp_path: Path) -> None:
    server.under["/apis/resource.k8s.io/"] = FORBIDDEN
    with following(server, tmp_path) as found:
        assert {one.called for one in found.seen()} == {"a"}
        assert found.live_now(["team-a"], 5) == {uid("a"), uid("p"), ROOM}
        assert {one.called for one in found.list_now(["team-a"], 5)} == {"a"}


def test_a_list_of_claims_that_fails_is_no_list_without_claims(server: FakeApiServer, tmp_path: Path) -> None:
    """Or entries of claims that exist would be removed."""
    with following(server, tmp_path) as found:
        server.under["/apis/resource.k8s.io/"] = always(500, {"kind": "Status", "code": 500})
        with pytest.raises(LedgerError, match="resourceclaims"):
            found.live_now(["team-a"], 5)
        with pytest.raises(LedgerError, match="resourceclaims"):
            list(found.list_now(["team-a"], 5))


def test_nothing_is_known_before_the_classes_are(server: FakeApiServer, tmp_path: Path) -> None:
    with following(server, tmp_path) as found:
        found.know(lambda: None)
        assert not found.is_known()
        assert {one.called for one in found.seen()} == {"a", "claim c", "claim d"}
