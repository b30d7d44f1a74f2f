"""GPU pods are followed from start to close, and are known to be gone however their watch fared."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from tests.e2e.eventually import eventually
from tests.facts.asking import is_gone, is_live
from tests.facts.fake_api_server import PODS, FakeApiServer, Request, fake_api_server, first
from tests.facts.pod_samples import cpu_pod, deleted, live, stored, uid
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import WatchTiming
from webhook.ledger.pod_source import LivePods

QUICK = WatchTiming(watch=(30, 30), margin=10, answer=5, first_retry=0.02, last_retry=0.1)
EXPIRED_EVENT = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}\n'
NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        server.objects[PODS] = [stored("a"), stored("b", "team-b"), cpu_pod("web")]
        yield server


@contextmanager
def following(server: FakeApiServer, directory: Path, *, gone: Callable[[], None] = lambda: None) -> Iterator[LivePods]:
    """Pods that are followed, and closed afterwards."""
    pods = LivePods(ApiServer(server.kubeconfig(directory)), timing=QUICK)
    pods.listen(gone)
    pods.start()
    eventually(pods.is_known)
    try:
        yield pods
    finally:
        pods.close()


def test_nothing_is_known_before_the_list_is_whole(server, tmp_path):
    go_on = Event()

    def slow(request: Request, path: str, query: dict[str, str]) -> None:
        go_on.wait(10)
        server.answer(request, path, query)

    server.objects[PODS] = [stored(f"p{number}") for number in range(400)]
    server.instead[PODS] = first(server.answer, then=slow)
    pods = LivePods(ApiServer(server.kubeconfig(tmp_path)), timing=QUICK)
    pods.start()
    eventually(lambda: len(server.lists(PODS)) == 2)
    assert not pods.is_known()
    assert set() == live(pods)
    go_on.set()
    eventually(pods.is_known)
    assert len(live(pods)) == 400
    pods.close()


def test_closed_before_it_was_started_it_never_starts(server, tmp_path):
    pods = LivePods(ApiServer(server.kubeconfig(tmp_path)))
    pods.close()
    pods.start()
    assert not pods.is_known()
    assert server.seen == []


def test_pods_that_have_finished_are_neither_listed_nor_watched(server, tmp_path):
    server.objects[PODS] = [stored(f"p{number}") for number in range(400)]
    with following(server, tmp_path):
        pass
    assert server.lists(PODS) == [
        {"limit": "250", "fieldSelector": NOT_FINISHED},
        {"limit": "250", "fieldSelector": NOT_FINISHED, "continue": "250"},
    ]
    assert [query["fieldSelector"] for query in server.watches(PODS)] == [NOT_FINISHED]


def test_the_callback_is_called_for_pods_that_are_gone_and_for_no_others(server, tmp_path):
    told: list[int] = []
    with following(server, tmp_path, gone=lambda: told.append(1)) as pods:
        server.tell_event(PODS, "ADDED", stored("c"), "101")
        server.tell_event(PODS, "MODIFIED", stored("a"), "102")
        server.tell_event(PODS, "DELETED", cpu_pod("web"), "103")
        eventually(lambda: live(pods) == {"a", "b", "c"})
        assert told == []
        server.tell_event(PODS, "DELETED", stored("a"), "104")
        eventually(lambda: len(told) == 1)
        server.tell_event(PODS, "MODIFIED", stored("b", "team-b", phase="Succeeded"), "105")
        eventually(lambda: len(told) == 2)
        assert {"c"} == live(pods)
        assert is_gone(pods, uid("a"))
        assert is_gone(pods, uid("b"))


def test_pods_that_went_while_the_watch_was_lost_are_known_as_gone_after_the_next_list(server, tmp_path):
    told = Event()
    with following(server, tmp_path, gone=told.set) as pods:
        server.objects[PODS] = [stored("b", "team-b"), stored("c")]
        server.tell(PODS, EXPIRED_EVENT)
        assert told.wait(10)
        eventually(lambda: live(pods) == {"b", "c"})
        assert is_gone(pods, uid("a"))
        assert not is_gone(pods, uid("b"))
        eventually(pods.is_known)
        server.tell_event(PODS, "ADDED", stored("d"), "101")
        eventually(lambda: live(pods) == {"b", "c", "d"})


def test_while_the_watch_is_lost_pods_are_not_known_and_those_last_heard_of_stay(server, tmp_path):
    with following(server, tmp_path) as pods:
        server.vanish()
        eventually(lambda: not pods.is_known())
        assert {"a", "b"} == live(pods)
        assert is_live(pods, uid("a"))
        assert not is_gone(pods, uid("a"))


@pytest.mark.parametrize("jump", [pytest.param(3600, id="ahead"), pytest.param(-3600, id="back")])
def test_deletions_are_overdue_by_the_clock_of_the_api_server(server, tmp_path, monkeypatch, jump):
    """However the clock of this machine is set meanwhile."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    server.objects[PODS] = [deleted(stored("a"), at, 30), deleted(stored("b"), at, 300)]
    with following(server, tmp_path) as pods:
        true_time = time.time
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: true_time() + jump)
            assert {"b"} == live(pods)
            assert is_gone(pods, uid("a"))
