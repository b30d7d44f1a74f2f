"""Ledgers in an API server that may do anything: every fault is told, and none looks like an absent ledger."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.facts.fake_api_server import FakeApiServer, Request, always, fake_api_server
from tests.facts.fake_objects import FakeObjects
from tests.golden import each
from tests.ledger.store_contract import KEY, OTHER, SECONDS, StoreContract, entries
from webhook.kubernetes.api_errors import ConflictError
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.entries import DATA, LABEL, PACKED, PREFIX, SET_ASIDE, Entries
from webhook.ledger.ledger_store import LedgerError, StoredLedger
from webhook.replica.ledger_config_maps import ApiStore

PATH = "/api/v1/namespaces/gpu-policy/configmaps"
ONE = f"{PATH}/{PREFIX}{KEY}"
VERSIONED = {"resourceVersion": "7"}


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        server.under[PATH] = FakeObjects(PATH)
        yield server


@pytest.fixture
def store(server: FakeApiServer, tmp_path: Path) -> ApiStore:
    return ApiStore(ApiServer(server.kubeconfig(tmp_path)), "gpu-policy")


class TestApiStore(StoreContract):
    """All promises of a store."""


def test_a_book_is_a_config_map_that_people_can_read(store, server):
    store.create(KEY, entries(1), SECONDS)
    method, path, body = server.sent[0]
    assert (method, path) == ("POST", PATH)
    assert (body["apiVersion"], body["kind"]) == ("v1", "ConfigMap")
    assert body["metadata"] == {"name": f"{PREFIX}{KEY}", "namespace": "gpu-policy", "labels": {LABEL: "true"}}
    assert json.loads(body["data"][DATA])["pods"] == 1


def test_a_book_of_very_many_pods_stays_below_a_mebibyte(store, server):
    store.create(KEY, entries(*range(30_000)), SECONDS)
    _, _, body = server.sent[0]
    assert len(json.dumps(body)) < 2**20
    assert len(store.read(KEY, SECONDS).entries.by_uid) == 30_000


NOT_FOUND = {"kind": "Status", "message": "not found"}


@each(
    "answer, told",
    {
        "an API that is not there yet": (always(404, b"404 page not found\n"), "404: 404 page not found"),
        "another that is not found": (always(404, {**NOT_FOUND, "details": {"name": "other"}}), "404"),
        "a fault": (always(500, {"message": "etcdserver: request timed out"}), "500: etcdserver"),
        "no JSON": (always(200, b"<html>"), "unexpected"),
        "a list": (always(200, []), "the answer is no JSON object"),
        "no metadata": (always(200, {"data": {DATA: '{"pods": 0}'}}), "the answer is not a ledger"),
    },
)
def test_no_fault_looks_like_a_ledger_that_is_not_there(store, server, answer, told):
    server.instead[ONE] = answer
    with pytest.raises(LedgerError, match=told):
        store.read(KEY, SECONDS)


@each(
    "status, about, fault",
    {
        "changed": (409, f"{PREFIX}{KEY}", ConflictError),
        "gone": (404, f"{PREFIX}{KEY}", ConflictError),
        "the namespace is gone": (404, "gpu-policy", LedgerError),
        "forbidden": (403, "", LedgerError),
        "a fault": (500, "", LedgerError),
    },
)
def test_writes_that_fail_are_told_from_ledgers_that_changed(store, server, status, about, fault):
    held = store.create(KEY, entries(1), SECONDS)
    server.instead[ONE] = always(status, {"kind": "Status", "message": "no", "details": {"name": about}})
    with pytest.raises(fault):
        store.replace(KEY, entries(2), held, SECONDS)
    with pytest.raises(fault):
        store.remove(KEY, held, SECONDS)


def test_an_answer_that_breaks_off_is_an_error(store, server):
    held = store.create(KEY, entries(1), SECONDS)

    def half_an_answer(request: Request, path: str, query: dict[str, str]) -> None:
        request.begin_stream()
        request.go_on(b'{"metadata": {"resour')
        server.break_off()

    server.instead[ONE] = half_an_answer
    with pytest.raises(LedgerError):
        store.replace(KEY, entries(2), held, SECONDS)
    server.vanish()
    for ask in (lambda: store.read(KEY, SECONDS), lambda: store.read_all(SECONDS)):
        with pytest.raises(LedgerError, match="refused"):
            ask()


def packed(text: bytes) -> dict[str, Any]:
    return {"metadata": VERSIONED, "binaryData": {PACKED: base64.b64encode(text).decode()}}


BROKEN = [
    pytest.param(packed(b"no gzip"), "not gzip", id="no gzip"),
    pytest.param(packed(gzip.compress(b"{}")[:-4]), "cut off", id="cut off"),
    pytest.param(packed(gzip.compress(b"\0" * 2**25)), "cut off, or larger", id="a bomb"),
    pytest.param({"data": {DATA: 7}}, "found neither", id="a number"),
    pytest.param({"data": {DATA: "ä" * 2**19}}, "", id="very long"),
    pytest.param({}, "found neither", id="emptied"),
]


@pytest.mark.parametrize(("found", "told"), BROKEN)
def test_a_broken_ledger_covers_nothing_and_keeps_what_was_found_until_something_else_is(
    store: ApiStore, server: FakeApiServer, found: dict[str, Any], told: str
) -> None:
    store.create(KEY, entries(1), SECONDS)
    broken = put(server, found)
    held = store.read(KEY, SECONDS)
    assert held is not None
    assert (held.version, held.entries.patterns) == (broken["metadata"]["resourceVersion"], frozenset())
    assert told in held.damage
    written = store.replace(KEY, entries(1, 2), store.replace(KEY, entries(1), held, SECONDS), SECONDS)
    assert written.damage == ""
    data = stored(server).get("data", {})
    text = next(iter({**found.get("data", {}), **found.get("binaryData", {})}.values()), "")
    assert str(text)[:100] in data.get(SET_ASIDE, "")
    assert len(data.get(SET_ASIDE, "").encode()) <= 64 * 1024
    assert store.read_all(SECONDS)[KEY].entries == entries(1, 2)
    put(server, {"data": {DATA: "second"}})
    again = store.read(KEY, SECONDS)
    assert again is not None
    store.replace(KEY, entries(1), again, SECONDS)
    assert stored(server)["data"][SET_ASIDE] == f"{DATA}: second"


def test_what_was_set_aside_stays_until_somebody_removes_it(server: FakeApiServer, tmp_path: Path) -> None:
    first, second = (ApiStore(ApiServer(server.kubeconfig(tmp_path)), "gpu-policy") for _ in range(2))
    first.create(KEY, entries(1), SECONDS)
    put(server, {"data": {DATA: "{"}})
    first.replace(KEY, entries(1), read(first), SECONDS)
    second.replace(KEY, entries(*range(30_000)), read(second), SECONDS)
    assert stored(server)["data"] == {SET_ASIDE: f"{DATA}: {{"}
    put(server, {"binaryData": stored(server)["binaryData"]})
    first.replace(KEY, entries(1), read(first), SECONDS)
    assert list(stored(server)["data"]) == [DATA]


def test_an_immutable_ledger_is_deleted_in_its_version_and_created_anew(store: ApiStore, server: FakeApiServer) -> None:
    store.create(KEY, entries(1), SECONDS)
    theirs = {"labels": {LABEL: "true", "theirs": "label"}, "annotations": {"theirs": "annotation"}, "uid": "u"}
    sound = put(server, {"data": stored(server)["data"], "immutable": True}, **theirs)
    held = read(store)
    assert (held.entries, held.damage) == (entries(1), "it was immutable")
    written = store.replace(KEY, entries(1, 2), held, SECONDS)
    assert [method for method, _, _ in server.sent[-2:]] == ["DELETE", "POST"]
    assert server.sent[-2][2]["preconditions"]["resourceVersion"] == sound["metadata"]["resourceVersion"]
    assert "immutable" not in stored(server)
    assert (written.damage, read(store).entries) == ("", entries(1, 2))
    metadata = stored(server)["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == (theirs["labels"], theirs["annotations"])
    with pytest.raises(ConflictError):
        store.replace(KEY, entries(3), held, SECONDS)


def test_the_entries_of_a_broken_ledger_are_those_before_the_writes_that_broke_it(
    store: ApiStore, server: FakeApiServer
) -> None:
    """Nobody else knows the pods that were admitted a moment ago and are not stored yet."""
    store.create(KEY, entries(1, 2), SECONDS)
    put(server, {"data": {DATA: "{"}})
    put(server, {"data": {DATA: "second"}})
    held = read(store)
    assert (held.entries.by_uid, held.entries.patterns) == (entries(1, 2).by_uid, frozenset())
    assert [query.get("resourceVersionMatch") for _, query in server.seen] == [None, "Exact", "Exact"]


@pytest.mark.parametrize(("status", "is_fault"), [(400, False), (410, False), (429, True), (500, True), (504, True)])
def test_an_api_server_that_has_forgotten_is_told_from_one_that_fails(
    store: ApiStore, server: FakeApiServer, status: int, is_fault: bool
) -> None:
    store.create(KEY, entries(1), SECONDS)
    put(server, {"data": {DATA: "{"}})
    server.instead[PATH] = always(status, {"kind": "Status", "message": "no"})
    if is_fault:
        with pytest.raises(LedgerError, match=f"answered {status}"):
            store.read(KEY, SECONDS)
    else:
        assert read(store).entries == Entries()


def put(server: FakeApiServer, found: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Write the object of a ledger as somebody else does; what is stored then."""
    objects = server.under[PATH]
    assert isinstance(objects, FakeObjects)
    return objects.store(f"{PREFIX}{KEY}", {"metadata": {"name": f"{PREFIX}{KEY}", **metadata}, **found})


def stored(server: FakeApiServer) -> dict[str, Any]:
    """The object of a ledger."""
    objects = server.under[PATH]
    assert isinstance(objects, FakeObjects)
    return objects.objects[f"{PREFIX}{KEY}"]


def read(store: ApiStore) -> StoredLedger:
    """The ledger, which is there."""
    held = store.read(KEY, SECONDS)
    assert held is not None
    return held


def test_broken_books_do_not_hide_the_others(store: ApiStore, server: FakeApiServer) -> None:
    store.create(KEY, entries(1), SECONDS)
    objects = server.under[PATH]
    assert isinstance(objects, FakeObjects)
    objects.objects[f"{PREFIX}{OTHER}"] = {"metadata": {"name": f"{PREFIX}{OTHER}", **VERSIONED}}
    objects.objects["odd"] = {"metadata": 7}
    assert {KEY: "", OTHER: store.read(OTHER, SECONDS).damage} == {
        key: held.damage for key, held in store.read_all(SECONDS).items()
    }


def test_what_others_have_labelled_like_a_ledger_is_none(store, server, tmp_path):
    store.create(KEY, entries(1), SECONDS)
    body = server.sent[0][2]
    named = {**body, "metadata": {**body["metadata"], "name": KEY}}
    ApiServer(server.kubeconfig(tmp_path)).send("POST", PATH, named, SECONDS)
    assert list(store.read_all(SECONDS)) == [KEY]
    assert store.read_all(SECONDS)[KEY].metadata["name"] == f"{PREFIX}{KEY}"


@each(
    "answer, told",
    {
        "no right": (always(403, {"message": "no"}), "the API server answered 403"),
        "no namespace": (always(404, NOT_FOUND), "the API server answered 404"),
        "no ledger": (always(200, {}), "something else"),
    },
)
def test_the_author_of_a_pod_hears_neither_paths_nor_commands_of_the_platform(store, server, answer, told):
    server.instead[ONE] = answer
    with pytest.raises(LedgerError) as fault:
        store.read(KEY, SECONDS)
    assert told in fault.value.for_authors
    assert PATH in str(fault.value)
    for secret in (PATH, "/api", "kubectl", "configmap", "RBAC", "--quota-ledgers", PREFIX):
        assert secret not in fault.value.for_authors
