"""Whatever an API server does to a watch, the last known facts stay, the fault is reported, and the watch recovers."""

import time
from collections.abc import Mapping
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import (
    NODES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    Answer,
    FakeApiServer,
    Request,
    always,
    first,
)
from tests.facts.following import EXPIRED_EVENT, OTHERS_FOLLOWED, STATUS, following, nodes, watched
from tests.facts.samples import node, priority_class, runtime_class
from webhook.facts.live import LiveFacts
from webhook.kubernetes.api_errors import ClusterConfigError
from webhook.kubernetes.api_server import ApiServer, Stream
from webhook.kubernetes.watch import WatchTiming
from webhook.model.node import PriorityClass


def test_nothing_is_known_before_start(server, tmp_path):
    facts = LiveFacts(server.kubeconfig(tmp_path))
    assert facts.facts is None
    status = facts.status(time.monotonic())
    assert (status.loaded, status.ready) == (False, False)
    facts.close()
    assert server.seen == []


def test_lists_are_read_page_by_page(server, tmp_path):
    server.objects[NODES] = [node(f"n{number}") for number in range(250)]
    with following(server, tmp_path) as facts:
        assert len(eventually(lambda: nodes(facts))) == 250
    assert server.lists(NODES) == [
        {"limit": "100"},
        {"limit": "100", "continue": "100"},
        {"limit": "100", "continue": "200"},
    ]


def test_a_list_whose_continuation_has_expired_is_read_again_from_its_beginning(server, tmp_path):
    server.objects[NODES] = [node(f"n{number}") for number in range(150)]
    server.instead[NODES] = first(server.answer, always(410, STATUS), then=server.answer)
    with following(server, tmp_path) as facts:
        assert len(eventually(lambda: nodes(facts))) == 150


def test_events_are_followed_from_the_version_of_the_list(server, tmp_path):
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
        assert [
            (query["resourceVersion"], query["allowWatchBookmarks"], query["timeoutSeconds"])
            for query in server.watches(NODES)
        ] == [("100", "true", "30")]
        server.tell_event(NODES, "ADDED", node("c"), "101")
        server.tell_event(NODES, "DELETED", node("a"), "102")
        server.tell_event(RUNTIME_CLASSES, "ADDED", runtime_class("kata"), "103")
        server.tell_event(RUNTIME_CLASSES, "DELETED", runtime_class("nvidia"), "104")
        eventually(lambda: nodes(facts) == {"b", "c"})
        eventually(lambda: facts.facts is not None and set(facts.facts.cluster.runtime_classes) == {"kata"})
        server.tell_event(PRIORITY_CLASSES, "MODIFIED", priority_class("low", 20), "105")
        server.tell_event(PRIORITY_CLASSES, "ADDED", priority_class("high", 1000, is_default=True), "106")
        expected = {"low": PriorityClass("low", 20), "high": PriorityClass("high", 1000, is_default=True)}
        eventually(lambda: facts.facts is not None and facts.facts.priority_classes() == expected)
        server.tell_event(PRIORITY_CLASSES, "DELETED", priority_class("low"), "107")
        eventually(lambda: facts.facts is not None and set(facts.facts.priority_classes()) == {"high"})
        assert nodes(facts) == {"b", "c"}


def test_events_that_arrive_in_pieces_are_put_together(server, tmp_path):
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
        for piece in (b'{"type": "ADDED", "obj', b'ect": {"metadata": {"name": "c", "resourceVersion": "7"}}', b"}\n"):
            server.tell(NODES, piece)
        eventually(lambda: nodes(facts) == {"a", "b", "c"})


@pytest.mark.parametrize("how", ["the server ends it", "the connection breaks"])
def test_a_watch_that_ends_is_resumed_where_it_was_without_a_new_list(server, tmp_path, how):
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
        server.tell_event(NODES, "ADDED", node("c"), "101")
        server.tell_event(NODES, "BOOKMARK", {}, "105")
        eventually(lambda: nodes(facts) == {"a", "b", "c"})
        if how == "the server ends it":
            server.tell(NODES, b"")
        else:
            server.tell(NODES, b'{"type": "ADDED", "object"')
            server.break_off()
        eventually(lambda: len(server.watches(NODES)) >= 2)
        assert server.watches(NODES)[1]["resourceVersion"] == "105"
        server.tell_event(NODES, "ADDED", node("d"), "106")
        eventually(lambda: nodes(facts) == {"a", "b", "c", "d"})
    assert len(server.lists(NODES)) == 1


def test_a_watch_that_goes_silent_is_given_up_and_begun_again(server, tmp_path):
    """The connection stays open, as it does when the network forgets it: nothing comes, not even an end."""

    def silence(request: Request, path: str, query: dict[str, str]) -> None:
        request.begin_stream()
        server.closing.wait(30)

    server.instead_of_watch[NODES] = first(silence, then=server.answer)
    timing = WatchTiming(watch=(1, 1), margin=1, first_retry=0.02)
    with following(server, tmp_path, timing=timing) as facts:
        eventually(lambda: len(server.watches(NODES)) >= 2)
        server.tell_event(NODES, "ADDED", node("c"), "101")
        eventually(lambda: nodes(facts) == {"a", "b", "c"})
    assert len(server.lists(NODES)) == 1


def test_a_quiet_watch_is_ended_by_the_api_server_alone_and_a_dead_one_given_up_within_two_minutes(
    server, tmp_path, monkeypatch
):
    """An API server sends no bookmark for a kind of which it has seen no event since its start."""
    asked = []
    stream = ApiServer.stream

    def heard(self: ApiServer, path: str, query: Mapping[str, str], seconds: float) -> Stream:
        asked.append((int(query["timeoutSeconds"]), seconds))
        return stream(self, path, query, seconds)

    monkeypatch.setattr(ApiServer, "stream", heard)
    with following(server, tmp_path, timing=WatchTiming()) as facts:
        eventually(lambda: watched(facts))
    assert len(asked) >= 5
    assert all(ends + 10 <= given_up <= 120 for ends, given_up in asked)


def test_a_watch_that_ends_without_a_word_is_no_failure(server, tmp_path, caplog):
    def quiet(request: Request, path: str, query: dict[str, str]) -> None:
        request.begin_stream()
        server.closing.wait(1)
        request.go_on(b"")

    server.instead_of_watch[NODES] = first(quiet, quiet, then=server.answer)
    with following(server, tmp_path, timing=WatchTiming(watch=(1, 1), margin=5, settled=0.5)) as facts:
        eventually(lambda: len(server.watches(NODES)) >= 3)
        assert facts.status(0).ready
    assert "not followed" not in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(EXPIRED_EVENT, id="410 in the stream"),
        pytest.param(b'{"type": "ERROR", "object": null}\n', id="an error without a reason"),
        pytest.param(b'{"type": "ADDED", \n', id="no JSON"),
        pytest.param(b'[{"metadata": 7}]\n', id="no event"),
        pytest.param(b'{"type": "ADDED", "object": {"metadata": {}}}\n', id="an event without a version"),
        pytest.param(
            b'{"type": "DELETED", "object": {"metadata": {"resourceVersion": "1"}}}\n', id="of a nameless node"
        ),
        pytest.param(b"\xff\n", id="no text"),
    ],
)
def test_a_watch_that_cannot_be_followed_is_replaced_by_a_new_list(server, tmp_path, content):
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
        server.objects[NODES] = [node("b"), node("c")]  # what happened unheard
        server.tell(NODES, content)
        eventually(lambda: nodes(facts) == {"b", "c"})
        eventually(lambda: watched(facts))


@pytest.mark.parametrize(
    ("answer", "lists"),
    [
        pytest.param(always(410, STATUS), 2, id="a version too old to watch from leads to a new list"),
        pytest.param(always(429, STATUS, {"Retry-After": "1"}), 1, id="an overloaded server is only asked again"),
    ],
)
def test_a_watch_that_is_refused_is_begun_again(server, tmp_path, answer, lists):
    server.instead_of_watch[NODES] = first(answer, then=server.answer)
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
    assert len(server.lists(NODES)) == lists


@pytest.mark.parametrize("status", [403, 401, 500, 404])
def test_nodes_that_must_not_be_listed_are_an_error_and_not_an_empty_cluster(server, tmp_path, status):
    server.instead[NODES] = always(status, STATUS)
    with following(server, tmp_path) as facts:
        wanted = f"nodes: the API server answered {status}: it is not to be; {OTHERS_FOLLOWED}"
        eventually(lambda: facts.status(time.monotonic()).detail == wanted)
        status_now = facts.status(time.monotonic())
        assert facts.facts is None
        assert (status_now.loaded, status_now.ready, status_now.server_reachable) == (False, False, True)
        server.instead.clear()
        eventually(lambda: nodes(facts) == {"a", "b"})


def test_a_watch_that_ends_at_once_every_time_is_not_begun_again_without_a_pause(server, tmp_path):
    def end_at_once(request: Request, path: str, query: dict[str, str]) -> None:
        request.begin_stream()
        request.go_on(b"")

    server.instead_of_watch[NODES] = end_at_once
    with following(server, tmp_path, timing=WatchTiming(first_retry=0.2, last_retry=30)):
        eventually(lambda: len(server.watches(NODES)) >= 2)
        time.sleep(0.6)
        assert len(server.watches(NODES)) <= 6


def test_a_token_that_was_replaced_is_read_again_when_the_old_one_is_refused(server, tmp_path):
    tokens = []

    def demand(request: Request, path: str, query: dict[str, str]) -> None:
        tokens.append(request.headers["Authorization"])
        if tokens[-1] == "Bearer new-token":
            server.answer(request, path, query)
        else:
            request.send(401, STATUS)

    server.instead[NODES] = server.instead[RUNTIME_CLASSES] = demand
    with following(server, tmp_path) as facts:
        eventually(lambda: "401" in facts.status(0).detail)
        server.kubeconfig(tmp_path, token="new-token")
        eventually(lambda: nodes(facts) == {"a", "b"})
    assert tokens[0] == "Bearer secret-token"


def test_tokens_are_never_logged(server, tmp_path, caplog):
    server.instead[NODES] = always(401, {"message": "Unauthorized"})
    with caplog.at_level("DEBUG"), following(server, tmp_path) as facts:
        eventually(lambda: "401" in facts.status(0).detail)
    assert "nodes: not followed: the API server answered 401: Unauthorized" in caplog.text
    assert "secret-token" not in caplog.text


def hang(server: FakeApiServer) -> Answer:
    """Take the request and say nothing."""
    return lambda _request, _path, _query: server.closing.wait(30) and None


@pytest.mark.parametrize("during", ["a watch", "a pause", "a list"])
def test_closing_takes_less_than_two_seconds(server, tmp_path, during):
    if during == "a list":
        server.instead[NODES] = hang(server)
    if during == "a pause":
        server.instead[NODES] = always(429, STATUS, {"Retry-After": "20"})
    with following(server, tmp_path, timing=WatchTiming()) as facts:
        eventually(lambda: len(server.seen) >= (2 if during == "a watch" else 1))
        if during == "a watch":
            eventually(lambda: watched(facts))
        began = time.monotonic()
        facts.close()
        assert time.monotonic() - began < 2
        if during != "a list":  # which cannot be interrupted; its thread ends with the answer, or with the process
            assert not [thread for thread in enumerate_threads() if thread.name == "watch-nodes"]
        server.vanish()


BROKEN: dict[str, Any] = {
    "no such file": None,
    "empty": "",
    "a list": "[]",
    "no YAML": "a: b: c",
    "no contexts": "apiVersion: v1\nkind: Config\n",
    "a context that is not there": "current-context: x\ncontexts: []\nclusters: []\n",
    "clusters is a text": "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\nclusters: text\n",
}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(always(200, b"<html>not an API server</html>"), id="no JSON"),
        pytest.param(always(200, []), id="a list"),
        pytest.param(always(200, {"kind": "NodeList"}), id="no metadata"),
        pytest.param(always(200, {"metadata": {"resourceVersion": "1"}, "items": {}}), id="items are a map"),
        pytest.param(always(200, {"metadata": {}, "items": []}), id="no version"),
        pytest.param(always(200, {"metadata": {"resourceVersion": "1"}, "items": "ab"}), id="items are a text"),
    ],
)
def test_an_answer_that_is_no_list_is_never_taken_for_an_empty_cluster(server, tmp_path, answer):
    server.instead[NODES] = answer
    with following(server, tmp_path) as facts:
        eventually(lambda: "nodes: " in facts.status(0).detail and "Error: " in facts.status(0).detail)
        assert facts.facts is None
        server.instead.clear()
        assert {"a", "b"} == eventually(lambda: nodes(facts))


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_kubeconfig_that_leads_nowhere_is_named_with_its_fault(tmp_path, content):
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ClusterConfigError, match=r"kubeconfig .*kubeconfig: .*; name one that kubectl accepts"):
        LiveFacts(file)
