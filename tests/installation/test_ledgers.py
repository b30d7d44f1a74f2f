"""Ledgers in an API server that may do anything: every fault is told, and none looks like an absent ledger."""

import base64
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fake_api_server import FakeApiServer, Request, always, fake_api_server
from tests.cluster.fake_objects import FakeObjects
from tests.ledger.store_contract import KEY, OTHER, SECONDS, StoreContract, appending, book, uids
from webhook.cluster.api_server import ApiServer
from webhook.installation.ledgers import ApiStore
from webhook.ledger import content
from webhook.ledger.content import DATA, LABEL, PACKED, PREFIX
from webhook.ledger.store import LedgerChangedError, LedgerError

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
    store.create(KEY, book(1), SECONDS)
    method, path, body = server.sent[0]
    assert (method, path) == ("POST", PATH)
    assert (body["apiVersion"], body["kind"]) == ("v1", "ConfigMap")
    assert body["metadata"] == {"name": f"{PREFIX}{KEY}", "namespace": "gpu-policy", "labels": {LABEL: "true"}}
    assert json.loads(body["data"][DATA])["pods"] == 1


def test_a_book_of_very_many_pods_stays_below_a_mebibyte(store, server):
    store.create(KEY, book(*range(30_000)), SECONDS)
    _, _, body = server.sent[0]
    assert len(json.dumps(body)) < 2**20
    assert len(store.read(KEY, SECONDS).book.entries) == 30_000


def test_only_ledgers_are_asked_for(store, server):
    store.read_all(SECONDS)
    assert [query["labelSelector"] for _, query in server.seen] == [LABEL]


NOT_FOUND = {"kind": "Status", "message": "not found"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            always(404, b"404 page not found\n"), "404: 404 page not found", id="an API that is not there yet"
        ),
        pytest.param(always(404, NOT_FOUND), "404: not found", id="something that is not found"),
        pytest.param(always(404, {**NOT_FOUND, "details": {"name": "other"}}), "404", id="another that is not found"),
        pytest.param(always(404, {**NOT_FOUND, "details": 7}), "404", id="odd details"),
        pytest.param(always(500, {"message": "etcdserver: request timed out"}), "500: etcdserver", id="a fault"),
        pytest.param(always(503, b""), "503: nothing", id="a fault without words"),
        pytest.param(always(200, b"<html>"), "unexpected", id="no JSON"),
        pytest.param(always(200, []), "the answer is no JSON object", id="a list"),
        pytest.param(always(200, {}), "the answer is no ledger", id="an empty object"),
        pytest.param(always(200, {"data": {DATA: "[]"}, "metadata": VERSIONED}), "expected a map", id="no book"),
        pytest.param(always(200, {"data": {DATA: '{"pods": 0}'}}), "the answer is no ledger", id="no metadata"),
        pytest.param(
            always(200, {"data": {DATA: "{}"}, "metadata": {"resourceVersion": ""}}),
            "the answer is no ledger",
            id="no version",
        ),
    ],
)
def test_no_fault_looks_like_a_ledger_that_is_not_there(store, server, answer, told):
    server.instead[ONE] = answer
    with pytest.raises(LedgerError, match=told):
        store.read(KEY, SECONDS)


@pytest.mark.parametrize(
    ("status", "about", "fault"),
    [
        pytest.param(409, f"{PREFIX}{KEY}", LedgerChangedError, id="changed"),
        pytest.param(404, f"{PREFIX}{KEY}", LedgerChangedError, id="gone"),
        pytest.param(404, "gpu-policy", LedgerError, id="the namespace is gone"),
        pytest.param(403, "", LedgerError, id="forbidden"),
        pytest.param(413, "", LedgerError, id="too large"),
        pytest.param(429, "", LedgerError, id="too many requests"),
        pytest.param(500, "", LedgerError, id="a fault"),
        pytest.param(504, "", LedgerError, id="a timeout"),
    ],
)
def test_writes_that_fail_are_told_from_ledgers_that_changed(store, server, status, about, fault):
    held = store.create(KEY, book(1), SECONDS)
    server.instead[ONE] = always(status, {"kind": "Status", "message": "no", "details": {"name": about}})
    with pytest.raises(fault):
        store.replace(KEY, book(2), held, SECONDS)
    with pytest.raises(fault):
        store.remove(KEY, held, SECONDS)


@pytest.mark.parametrize(
    ("status", "about", "fault"),
    [
        pytest.param(409, f"{PREFIX}{KEY}", LedgerChangedError, id="too many at once"),
        pytest.param(404, f"{PREFIX}{KEY}", LedgerChangedError, id="gone"),
        pytest.param(422, f"{PREFIX}{KEY}", LedgerChangedError, id="another edition, or no room"),
        pytest.param(403, "", LedgerChangedError, id="forbidden, so it is to be written over"),
        pytest.param(404, "gpu-policy", LedgerError, id="the namespace is gone"),
        pytest.param(415, "", LedgerError, id="no such patch"),
        pytest.param(429, "", LedgerError, id="too many requests"),
        pytest.param(500, "", LedgerError, id="a fault"),
    ],
)
def test_amending_that_fails_is_told_from_ledgers_to_be_read_anew(store, server, status, about, fault):
    held = store.create(KEY, book(1), SECONDS)
    server.instead[ONE] = always(status, {"kind": "Status", "message": "no", "details": {"name": about}})
    with pytest.raises(fault):
        store.amend(KEY, appending(held, 2), held, SECONDS)
    assert store.can_amend() is (status != 403)


def test_where_patches_are_not_allowed_it_is_said_and_tried_again_later(store, server, caplog, monkeypatch):
    held = store.create(KEY, book(1), SECONDS)
    server.instead[ONE] = always(403, {"kind": "Status", "message": "cannot patch"})
    with pytest.raises(LedgerChangedError):
        store.amend(KEY, appending(held, 2), held, SECONDS)
    assert "quotas take longer where several replicas write" in caplog.text
    assert "cannot patch; install the RBAC objects of the chart again" in caplog.text
    later = time.monotonic() + 601
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert store.can_amend()


def test_what_is_appended_to_a_book_that_is_packed_stays_beside_it(store, server):
    held = store.create(KEY, book(*range(30_000)), SECONDS)
    written = store.amend(KEY, appending(held, 30_001), held, SECONDS)
    assert len(written.book.entries) == 30_001
    with pytest.raises(LedgerChangedError):
        store.amend(KEY, written.book.settled(uids(30_001)), written, SECONDS)
    assert store.read(KEY, SECONDS).book == written.book


def test_what_lasts_is_not_decoded_again_for_what_is_appended(store, monkeypatch):
    held = store.create(KEY, book(1), SECONDS)
    monkeypatch.setattr(content, "book_from_raw", lambda _: pytest.fail("decoded"))
    for number in (2, 3):
        held = store.amend(KEY, appending(held, number), held, SECONDS)
    assert held.book.entries.keys() == uids(1, 2, 3)


def test_what_was_written_with_the_book_is_told_from_what_is_appended_to_it(store):
    first = store.create(KEY, book(1), SECONDS)
    held = store.amend(KEY, appending(first, 2), first, SECONDS)
    held = store.replace(KEY, held.book.changed(book(3).entries), held, SECONDS)
    back = store.amend(KEY, held.book.without(uids(2), "a"), held, SECONDS)
    assert back.book.entries.keys() == uids(1, 3)
    assert not back.book.appended


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("entry.no-uid.a", "{}", id="no uid"),
        pytest.param("entry.", "{}", id="nothing"),
        pytest.param("entry.00000000-0000-0000-0000-000000000002.a", "{", id="no JSON"),
        pytest.param("entry.00000000-0000-0000-0000-000000000002.a", "[]", id="no object"),
        pytest.param("entry.00000000-0000-0000-0000-000000000002.a", "{}", id="no namespace"),
        pytest.param(
            "entry.00000000-0000-0000-0000-000000000002.a", '{"namespace": "a", "gpus": {"x": -1}}', id="less than none"
        ),
    ],
)
def test_an_appended_entry_that_is_none_makes_the_book_a_broken_one(store, server, key, text):
    store.create(KEY, book(1), SECONDS)
    found = server.under[PATH].objects[f"{PREFIX}{KEY}"]
    server.instead[ONE] = always(200, {**found, "metadata": VERSIONED, "data": {**found["data"], key: text}})
    with pytest.raises(LedgerError, match=rf"data\[{key}\]: is no entry of a pod: .*kubectl delete configmap"):
        store.read(KEY, SECONDS)


def test_an_answer_that_breaks_off_is_an_error(store, server):
    held = store.create(KEY, book(1), SECONDS)

    def half_an_answer(request: Request, path: str, query: dict[str, str]) -> None:
        request.begin_stream()
        request.go_on(b'{"metadata": {"resour')
        server.break_off()

    server.instead[ONE] = half_an_answer
    with pytest.raises(LedgerError):
        store.replace(KEY, book(2), held, SECONDS)
    server.vanish()
    for ask in (lambda: store.read(KEY, SECONDS), lambda: store.read_all(SECONDS)):
        with pytest.raises(LedgerError, match="refused"):
            ask()


def packed(text: bytes) -> dict[str, Any]:
    return {"metadata": VERSIONED, "binaryData": {PACKED: base64.b64encode(text).decode()}}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(packed(b"no gzip"), "not gzip", id="no gzip"),
        pytest.param(packed(gzip.compress(b"{}")[:-4]), "cut off", id="cut off"),
        pytest.param(packed(gzip.compress(b"\0" * 2**25)), "cut off, or larger", id="a bomb"),
        pytest.param({"metadata": VERSIONED, "binaryData": {PACKED: "?"}}, "", id="no base64"),
        pytest.param({"metadata": VERSIONED, "data": {DATA: 7}}, "found neither", id="a number"),
        pytest.param({"metadata": VERSIONED, "data": {DATA: "{"}}, "", id="half a book"),
    ],
)
def test_a_broken_book_is_told_with_what_to_do(store, server, found, told):
    server.instead[ONE] = always(200, found)
    with pytest.raises(LedgerError, match=f"{told}.*kubectl delete configmap -n gpu-policy {PREFIX}{KEY}"):
        store.read(KEY, SECONDS)


def test_broken_books_do_not_hide_the_others(store, server, caplog):
    store.create(KEY, book(1), SECONDS)
    objects = server.under[PATH]
    assert isinstance(objects, FakeObjects)
    objects.objects[f"{PREFIX}{OTHER}"] = {"metadata": {"name": f"{PREFIX}{OTHER}", **VERSIONED}}
    objects.objects["odd"] = {"metadata": 7}
    objects.objects["odder"] = {"metadata": {"name": f"{PREFIX}{OTHER}"}}
    assert {KEY} == set(store.read_all(SECONDS))
    assert f"kubectl delete configmap -n gpu-policy {PREFIX}{OTHER}" in caplog.text


def test_a_book_that_has_not_changed_is_not_decoded_again(store):
    written = store.create(KEY, book(1, 2), SECONDS)
    assert store.read(KEY, SECONDS) is written
    assert store.read_all(SECONDS)[KEY] is written


def test_what_others_have_labelled_like_a_ledger_is_none(store, server):
    store.create(KEY, book(1), SECONDS)
    body = server.sent[0][2]
    named = {**body, "metadata": {**body["metadata"], "name": KEY}}
    ApiServer(store._server._kubeconfig).send("POST", PATH, named, SECONDS)
    assert list(store.read_all(SECONDS)) == [KEY]
    assert store.read_all(SECONDS)[KEY].metadata["name"] == f"{PREFIX}{KEY}"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(always(403, {"message": "no"}), "the API server answered 403", id="no right"),
        pytest.param(always(404, NOT_FOUND), "the API server answered 404", id="no namespace"),
        pytest.param(always(200, []), "does not answer", id="no object"),
        pytest.param(always(200, {}), "something else", id="no ledger"),
        pytest.param(always(200, {"data": {DATA: "[]"}, "metadata": VERSIONED}), "it is broken", id="a broken one"),
    ],
)
def test_A48_the_author_of_a_pod_hears_neither_paths_nor_commands_of_the_platform(store, server, answer, told):
    server.instead[ONE] = answer
    with pytest.raises(LedgerError) as fault:
        store.read(KEY, SECONDS)
    assert told in fault.value.told
    assert PATH in str(fault.value)
    for secret in (PATH, "/api", "kubectl", "configmap", "RBAC", "--quota-ledgers", PREFIX):
        assert secret not in fault.value.told
