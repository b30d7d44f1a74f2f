"""Whatever an API server does to a watch, the last known facts stay, the fault is told, and the watch comes back."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from tests.clock import Clock
from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import (
    CLAIMS,
    DEVICE_CLASSES,
    NODES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    TEMPLATES,
    Answer,
    FakeApiServer,
    Request,
    always,
    fake_api_server,
    first,
)
from tests.facts.samples import claim, device_class, node, pod, priority_class, runtime_class
from webhook.facts.live import LiveFacts
from webhook.kubernetes.api_errors import ClusterConfigError
from webhook.kubernetes.watch import WatchTiming
from webhook.model.claims import CLAIM, TEMPLATE, Devices, PodResourceClaim, Requests
from webhook.model.node import PriorityClass

QUICK = WatchTiming(watch=(30, 30), margin=10, answer=5, first_retry=0.02, last_retry=0.1)
STATUS = {"kind": "Status", "message": "it is not to be"}


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        server.objects[NODES] = [node("a"), node("b")]
        server.objects[RUNTIME_CLASSES] = [runtime_class("nvidia")]
        server.objects[PRIORITY_CLASSES] = [priority_class("low", 10)]
        yield server


OTHERS_FOLLOWED = "; ".join(
    f"{name}: followed"
    for name in ("runtimeclasses", "priorityclasses", "deviceclasses", "resourceclaims", "resourceclaimtemplates")
)


@contextmanager
def following(
    server: FakeApiServer, directory: Path, *, timing: WatchTiming = QUICK, clock: Callable[[], float] = time.monotonic
) -> Iterator[LiveFacts]:
    """Live facts that have been started and are closed afterwards."""
    facts = LiveFacts(server.kubeconfig(directory), timing=timing, clock=clock)
    facts.start()
    try:
        yield facts
    finally:
        facts.close()


def nodes(facts: LiveFacts) -> set[str] | None:
    """The names of the nodes known, None where facts are not loaded."""
    return None if facts.facts is None else set(facts.facts.nodes)


def watched(facts: LiveFacts) -> bool:
    """Whether all resources are being watched at this moment, and claims where the API server has them."""
    detail = facts.status(0).detail.replace("unknown to the API server, so there are none", "followed")
    return detail == f"nodes: followed; {OTHERS_FOLLOWED}" and "deviceclasses: followed" in facts.status(0).detail


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
        eventually(lambda: facts.facts is not None and set(facts.facts.runtime_classes) == {"kata"})
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


EXPIRED_EVENT = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}\n'


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


CLASSES = pytest.mark.parametrize(
    ("path", "name", "known"),
    [
        pytest.param(RUNTIME_CLASSES, "runtimeclasses", lambda found: found.runtime_classes, id="runtime classes"),
        pytest.param(
            PRIORITY_CLASSES, "priorityclasses", lambda found: found.priority_classes(), id="priority classes"
        ),
    ],
)


@CLASSES
def test_classes_that_must_not_be_listed_are_an_error(server, tmp_path, path, name, known):
    server.instead[path] = always(403, STATUS)
    with following(server, tmp_path) as facts:
        eventually(lambda: f"{name}: the API server answered 403: it is not to be" in facts.status(0).detail)
        assert facts.facts is None
        server.instead.clear()
        eventually(lambda: facts.facts is not None and len(known(facts.facts)) == 1)


@CLASSES
def test_a_cluster_without_the_api_of_a_class_has_none(server, tmp_path, path, name, known):
    server.instead[path] = always(404, b"404 page not found")
    with following(server, tmp_path) as facts:
        eventually(lambda: nodes(facts) == {"a", "b"})
        assert facts.facts is not None
        assert known(facts.facts) == {}
        status = eventually(lambda: (status := facts.status(time.monotonic())).ready and status)
        assert not status.stale
        assert f"{name}: unknown to the API server, so there are none" in status.detail
        server.instead.clear()
        eventually(lambda: facts.facts is not None and len(known(facts.facts)) == 1)


ASKING = pod(gpus={"nvidia.com/gpu": 1})
ABSENT = always(404, b"404 page not found")


def claimable(facts: LiveFacts) -> bool | None:
    """Whether a pod may get a GPU that no node lists, None where facts are not loaded."""
    return None if facts.facts is None else bool(facts.facts.feasible_nodes(ASKING))


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_device_classes_are_found_in_whatever_version_the_api_server_has(server, tmp_path, version):
    path = f"/apis/resource.k8s.io/{version}/deviceclasses"
    server.under["/apis/resource.k8s.io/"] = ABSENT
    server.instead[path] = server.answer
    server.objects[path] = [device_class("gpu.nvidia.com", "nvidia.com/gpu")]
    with following(server, tmp_path) as facts:
        eventually(lambda: claimable(facts))
        eventually(lambda: watched(facts))
        server.tell_event(path, "MODIFIED", device_class("gpu.nvidia.com"), "105")
        eventually(lambda: claimable(facts) is False)
        server.tell_event(path, "ADDED", device_class("another", "nvidia.com/gpu"), "106")
        eventually(lambda: claimable(facts))
        server.tell_event(path, "DELETED", device_class("another"), "107")
        eventually(lambda: claimable(facts) is False)


def test_an_api_server_without_device_classes_has_none_and_is_asked_again(server, tmp_path):
    server.under["/apis/resource.k8s.io/"] = ABSENT
    server.objects[DEVICE_CLASSES] = [device_class("gpu.nvidia.com", "nvidia.com/gpu")]
    with following(server, tmp_path) as facts:
        eventually(lambda: claimable(facts) is False)
        status = eventually(lambda: (status := facts.status(time.monotonic())).ready and status)
        assert "deviceclasses: unknown to the API server, so there are none" in status.detail
        server.instead[DEVICE_CLASSES] = server.answer
        eventually(lambda: claimable(facts))


def test_a_version_that_an_upgrade_takes_away_is_followed_in_the_next(server, tmp_path):
    old = "/apis/resource.k8s.io/v1beta1/deviceclasses"
    server.under["/apis/resource.k8s.io/"] = ABSENT
    server.instead[old] = server.answer
    server.objects[old] = []
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
        server.objects[DEVICE_CLASSES] = [device_class("gpu.nvidia.com", "nvidia.com/gpu")]
        server.instead[DEVICE_CLASSES] = server.answer
        server.instead[old] = ABSENT
        server.break_off()
        eventually(lambda: claimable(facts))


def test_device_classes_that_must_not_be_listed_are_not_known_and_nothing_waits_for_them(server, tmp_path):
    server.instead[DEVICE_CLASSES] = always(403, STATUS)
    with following(server, tmp_path) as facts:
        eventually(lambda: claimable(facts))
        status = eventually(lambda: (status := facts.status(time.monotonic())).ready and status)
        assert not status.stale
        wanted = "deviceclasses: nothing is known of them: the API server answered 403: it is not to be"
        assert wanted in status.detail
        server.instead.clear()
        eventually(lambda: claimable(facts) is False)
        server.instead[DEVICE_CLASSES] = always(403, STATUS)
        server.break_off()
        eventually(lambda: claimable(facts))


def claimed(facts: LiveFacts, kind: str = TEMPLATE, name: str = "t") -> Requests | None:
    """What a claim of the namespace `team` asks for, None where it is not known."""
    return None if facts.facts is None else facts.facts.claim(PodResourceClaim("c", kind, name), "team")


GPU, SLICE = (((Devices(name),),) for name in ("gpu.nvidia.com", "mig.nvidia.com"))


@pytest.mark.parametrize("kind", [CLAIM, TEMPLATE])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_claims_are_followed_in_whatever_version_the_api_server_has(server, tmp_path, version, kind):
    path = (CLAIMS if kind == CLAIM else TEMPLATES).replace("/v1/", f"/{version}/")
    server.under["/apis/resource.k8s.io/"] = ABSENT
    server.instead[path] = server.answer
    server.objects[path] = [claim("t", kind, "gpu.nvidia.com")]
    with following(server, tmp_path) as facts:
        eventually(lambda: claimed(facts, kind) == GPU)
        eventually(lambda: f"{path.rpartition('/')[2]}: followed" in facts.status(0).detail)
        server.tell_event(path, "ADDED", claim("u", kind, "mig.nvidia.com"), "105")
        eventually(lambda: claimed(facts, kind, "u") == SLICE)
        server.tell_event(path, "DELETED", claim("t", kind, "gpu.nvidia.com"), "106")
        eventually(lambda: claimed(facts, kind) is None)
        assert claimed(facts, kind, "u") == SLICE


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(always(403, STATUS), id="forbidden"),
        pytest.param(always(500, STATUS), id="an error"),
        pytest.param(always(200, b"no JSON"), id="garbage"),
    ],
)
def test_no_replica_waits_for_claims_that_cannot_be_listed_and_none_is_taken_out_for_them(server, tmp_path, answer):
    server.instead[TEMPLATES] = answer
    with following(server, tmp_path) as facts:
        eventually(lambda: nodes(facts) == {"a", "b"})
        assert eventually(lambda: (status := facts.status(time.monotonic() + 1000)).ready and status).server_reachable
        assert claimed(facts) is None
        server.objects[TEMPLATES] = [claim("t", TEMPLATE, "gpu.nvidia.com")]
        server.instead.clear()
        eventually(lambda: claimed(facts) == GPU)


def test_claims_that_may_no_longer_be_listed_are_forgotten(server, tmp_path):
    server.objects[TEMPLATES] = [claim("t", TEMPLATE, "gpu.nvidia.com")]
    with following(server, tmp_path) as facts:
        eventually(lambda: claimed(facts) == GPU)
        eventually(lambda: watched(facts))
        server.instead[TEMPLATES] = always(403, STATUS)
        server.break_off()
        eventually(lambda: claimed(facts) is None)


DEEP = b'{"a":' * 1600 + b"1" + b"}" * 1600


def test_A55_a_claim_nested_too_deep_keeps_no_other_from_being_known(server, tmp_path):
    """Its parameters may be nested thousands of levels deep."""

    def with_depths(raw: Any) -> bytes:
        return json.dumps(raw).encode().replace(b'"DEEP"', DEEP)

    def listed(request: Request, path: str, query: dict[str, str]) -> None:
        if "watch" in query:
            server.answer(request, path, query)
        else:
            items = [claim("deep", TEMPLATE, "gpu.nvidia.com", config="DEEP"), claim("t", TEMPLATE, "gpu.nvidia.com")]
            request.send(200, with_depths({"metadata": {"resourceVersion": "7"}, "items": items}))

    server.instead[TEMPLATES] = listed
    with following(server, tmp_path) as facts:
        eventually(lambda: claimed(facts) == GPU)
        assert claimed(facts, name="deep") == GPU
        assert facts.status(time.monotonic()).ready


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


def test_a_server_that_answers_while_the_watch_fails_makes_the_facts_stale_after_the_bound(server, tmp_path):
    clock = Clock()
    with following(server, tmp_path, clock=clock) as facts:
        eventually(lambda: watched(facts))
        refuse(server, always(500, STATUS))
        eventually(lambda: "answered 500" in facts.status(clock.now).detail)
        clock.now += 60
        within = facts.status(clock.now)
        assert (within.ready, within.stale, within.age_seconds) == (True, False, 60.0)
        clock.now += 1
        beyond = facts.status(clock.now)
        assert (beyond.ready, beyond.stale, beyond.server_reachable, beyond.loaded) == (False, True, True, True)
        assert {"a", "b"} == nodes(facts)
        server.instead_of_watch.clear()
        server.instead.clear()
        eventually(lambda: facts.status(clock.now).ready)
        eventually(lambda: watched(facts))
        for path in (RUNTIME_CLASSES, PRIORITY_CLASSES, DEVICE_CLASSES, CLAIMS, TEMPLATES):
            server.tell_event(path, "BOOKMARK", {}, "200")  # their watches were quiet since the clock moved
        eventually(lambda: facts.status(clock.now).age_seconds == 0.0)


def test_after_a_silence_the_age_counts_from_the_last_word(server, tmp_path):
    clock = Clock()

    def silence(request: Request, path: str, query: dict[str, str]) -> None:
        request.begin_stream()
        clock.now += 100
        server.closing.wait(30)

    server.instead_of_watch[NODES] = first(silence, then=always(500, STATUS))
    server.instead[NODES] = first(server.answer, then=always(500, STATUS))
    timing = WatchTiming(watch=(1, 1), margin=1, first_retry=0.02, last_retry=0.1)
    with following(server, tmp_path, timing=timing, clock=clock) as facts:
        eventually(lambda: watched(facts))
        clock.now += 50
        eventually(lambda: "nodes: the API server answered 500" in facts.status(clock.now).detail)
        assert facts.status(clock.now).age_seconds >= 50


@CLASSES
def test_classes_that_were_known_are_kept_when_the_server_forgets_the_api(server, tmp_path, path, name, known):
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
        server.instead[path] = always(404, b"404 page not found")
        server.tell(path, EXPIRED_EVENT)
        eventually(lambda: f"{name}: the API server answered 404" in facts.status(0).detail)
        assert facts.facts is not None
        assert len(known(facts.facts)) == 1


def test_classes_that_arrive_during_a_long_list_of_nodes_are_kept(server, tmp_path):
    arrived = Event()

    def wait(request: Request, path: str, query: dict[str, str]) -> None:
        arrived.wait(10)
        server.answer(request, path, query)

    server.objects[NODES] = [node(f"n{number}") for number in range(150)]
    server.instead[NODES] = first(server.answer, then=wait)
    with following(server, tmp_path) as facts:
        eventually(lambda: len(server.lists(NODES)) == 2 and OTHERS_FOLLOWED in facts.status(0).detail)
        arrived.set()
        found = eventually(lambda: facts.facts)
        assert found.runtime_class("nvidia") is not None
        assert set(found.priority_classes()) == {"low"}
        assert len(found.nodes) == 150


def test_a_server_that_is_away_leaves_the_last_known_facts_in_force(server, tmp_path):
    clock = Clock()
    with following(server, tmp_path, clock=clock) as facts:
        eventually(lambda: watched(facts))
        server.vanish()
        eventually(lambda: not facts.status(clock.now).server_reachable)
        clock.now += 3600
        status = facts.status(clock.now)
        assert (status.ready, status.stale, status.age_seconds) == (True, False, 3600.0)
        assert {"a", "b"} == nodes(facts)
        back = FakeApiServer(server.server_port)
        try:
            back.objects[NODES] = [node("c")]
            back.instead_of_watch[NODES] = first(always(410, STATUS), then=back.answer)
            eventually(lambda: nodes(facts) == {"c"})
            eventually(lambda: facts.status(clock.now).server_reachable)
            assert facts.status(clock.now).ready
        finally:
            back.vanish()


def test_facts_do_not_turn_stale_at_the_moment_the_server_is_back(server, tmp_path):
    """After a long absence the bound counts from the first answer, not from the last good watch."""
    clock = Clock()
    with following(server, tmp_path, clock=clock) as facts:
        eventually(lambda: watched(facts))
        server.vanish()
        eventually(lambda: not facts.status(clock.now).server_reachable)
        clock.now += 3600
        back = FakeApiServer(server.server_port)
        try:
            refuse(back, always(503, STATUS))
            eventually(lambda: "answered 503" in facts.status(clock.now).detail)
            status = facts.status(clock.now)
            assert (status.ready, status.stale, status.server_reachable) == (True, False, True)
        finally:
            back.vanish()


def refuse(server: FakeApiServer, answer: Answer) -> None:
    """Break off the watches of nodes, and answer this from now on."""
    server.instead[NODES] = server.instead_of_watch[NODES] = answer
    server.tell(NODES, b"")
    server.break_off()


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


BROKEN: dict[str, Any] = {
    "no such file": None,
    "empty": "",
    "a list": "[]",
    "no YAML": "a: b: c",
    "no contexts": "apiVersion: v1\nkind: Config\n",
    "a context that is not there": "current-context: x\ncontexts: []\nclusters: []\n",
    "clusters is a text": "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\nclusters: text\n",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_kubeconfig_that_leads_nowhere_is_named_with_its_fault(tmp_path, content):
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ClusterConfigError, match=r"kubeconfig .*kubeconfig: .*; name one that kubectl accepts"):
        LiveFacts(file)


def test_outside_a_cluster_a_kubeconfig_must_be_named(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterConfigError) as refused:
        LiveFacts()
    assert str(refused.value) == "not in a cluster: Service host/port is not set; name a kubeconfig file"
