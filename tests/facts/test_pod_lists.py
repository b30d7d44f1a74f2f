"""Consistent lists of pods: what they ask, what they leave out, and what becomes of them when they fail."""

import time
from collections.abc import Iterator

import pytest

from tests.facts.fake_api_server import PODS, FakeApiServer, Request, always, fake_api_server, first
from tests.facts.pod_samples import cpu_pod, deleted, stored, uid
from webhook.kubernetes import api_server
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.pod_source import LivePods

TEAM_A, TEAM_B = "/api/v1/namespaces/team-a/pods", "/api/v1/namespaces/team-b/pods"
NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
GONE = {"kind": "Status", "code": 410, "message": "The provided continue parameter is too old"}
LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        server.objects[PODS] = [
            stored("a"),
            cpu_pod("web"),
            stored("b", "team-b"),
            stored("c", "research-1"),
            stored("done", phase="Succeeded"),
            deleted(stored("lost"), LONG_AGO, 30),
        ]
        yield server


@pytest.fixture
def pods(server: FakeApiServer, tmp_path) -> LivePods:
    return LivePods(ApiServer(server.kubeconfig(tmp_path)))


def test_all_pods_of_the_namespaces_that_count_are_live(pods, server):
    assert {uid("a"), uid("web"), uid("b")} == pods.live_now(["team-a", "team-b"], 5) - {uid("done")}
    assert [path for path, _ in server.seen] == [TEAM_A, TEAM_B]
    assert pods.live_now([], 5) == frozenset()


def test_nothing_but_metadata_is_asked_for_of_pods_that_have_not_finished(pods, server):
    accepted: list[str | None] = []

    def note(request: Request, path: str, query: dict[str, str]) -> None:
        accepted.append(request.headers["accept"])
        server.answer(request, path, query)

    server.instead[TEAM_A] = note
    pods.live_now(["team-a"], 5)
    assert server.lists(TEAM_A) == [{"limit": "1000", "fieldSelector": NOT_FINISHED}]
    assert accepted == ["application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"]


@pytest.mark.parametrize(
    ("patterns", "names", "asked"),
    [
        pytest.param(["team-a"], {"a"}, [TEAM_A], id="one name"),
        pytest.param(["team-b", "team-a"], {"a", "b"}, [TEAM_A, TEAM_B], id="names"),
        pytest.param(["team-?"], {"a", "b"}, [PODS], id="a glob"),
        pytest.param(["research-*", "team-b"], {"b", "c"}, [PODS], id="a glob and a name"),
        pytest.param(["*"], {"a", "b", "c"}, [PODS], id="everything"),
        pytest.param([], set(), [], id="nothing"),
    ],
)
def test_gpu_pods_that_count_are_listed_by_name_and_by_glob(pods, server, patterns, names, asked):
    assert names == {pod.name for pod in pods.list_now(patterns, 5)}
    assert asked == [path for path, _ in server.seen]


def test_a_list_whose_rest_has_expired_is_begun_anew(pods, server):
    server.objects[PODS] = [stored(f"p{number}") for number in range(400)]
    server.instead[TEAM_A] = first(server.answer, always(410, GONE), then=server.answer)
    assert len({pod.name for pod in pods.list_now(["team-a"], 10)}) == 400
    assert [query.get("continue") for query in server.lists(TEAM_A)] == [None, "250", None, "250"]


def test_a_list_that_expires_again_and_again_is_given_up(pods, server):
    server.instead[TEAM_A] = always(410, GONE)
    with pytest.raises(LedgerError, match="the API server answered 410: The provided continue parameter is too old"):
        pods.live_now(["team-a"], 5)
    assert len(server.lists(TEAM_A)) == 3


def test_all_pages_together_have_the_time_that_was_given(pods, server):
    def slowly(request: Request, path: str, query: dict[str, str]) -> None:
        server.closing.wait(0.2)
        server.answer(request, path, query)

    server.objects[PODS] = [cpu_pod(f"p{number}") for number in range(3000)]
    server.instead[TEAM_A] = slowly
    with pytest.raises(LedgerError, match=r"there was no time left for the rest of the list|timed out"):
        pods.live_now(["team-a"], 0.3)


def test_pages_of_large_pods_have_fewer_of_them(pods, server, monkeypatch):
    monkeypatch.setattr(api_server, "MOST_BYTES", 100_000)
    server.objects[PODS] = [stored(f"p{number}", hostname="x" * 10_000) for number in range(40)]
    assert len(list(pods.list_now(["team-a"], 10))) == 40
    limits = [int(query["limit"]) for query in server.lists(TEAM_A)]
    assert limits[0] == 250
    assert min(limits) >= 4


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            always(403, {"message": "pods is forbidden"}),
            "the API server answered 403: pods is forbidden; install the RBAC objects of the chart again",
            id="forbidden",
        ),
        pytest.param(always(429, {"message": "too many"}), "the API server answered 429: too many", id="too many"),
        pytest.param(always(500, b"oh"), "the API server answered 500: oh", id="a fault"),
        pytest.param(
            always(200, b"oh"), "unexpected character, expected a JSON value: line 1 column 1 (char 0)", id="no JSON"
        ),
        pytest.param(always(200, {"kind": "Status"}), "the answer to a list is no list", id="no list"),
    ],
)
def test_what_fails_is_told_as_an_error_of_the_ledger(pods, server, answer, message):
    server.instead[TEAM_A] = answer
    expected = f"pods cannot be listed: GET {TEAM_A}: {message}"
    with pytest.raises(LedgerError) as told:
        pods.live_now(["team-a"], 5)
    assert expected == str(told.value)
    with pytest.raises(LedgerError) as told:
        list(pods.list_now(["team-a"], 5))
    assert expected == str(told.value)


def test_an_api_server_that_is_away_or_silent_is_an_error_of_the_ledger(pods, server):
    def silence(request: Request, path: str, query: dict[str, str]) -> None:
        server.closing.wait(10)

    server.instead[TEAM_A] = silence
    begun = time.monotonic()
    with pytest.raises(LedgerError, match="timed out"):
        pods.live_now(["team-a"], 0.2)
    assert time.monotonic() - begun < 5
    server.vanish()
    with pytest.raises(LedgerError, match="refused"):
        pods.live_now(["team-a"], 1)
