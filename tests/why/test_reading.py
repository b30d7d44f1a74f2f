"""Reading a cluster that has too much, says too little, or does not answer."""

from pathlib import Path
from typing import Any

import pytest

from tests.facts.fake_api_server import FakeApiServer, always, fake_api_server
from tests.golden import golden
from webhook.audit.report import ObjectReference
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.discovery import PODS
from webhook.why.explanation import MissingAnswer
from webhook.why.reading import ClusterReader
from webhook.why.workload_pods import label_selector

ABOUT = ObjectReference("team", "Job", "train", "batch/v1", "u")
EVENTS = "/api/v1/namespaces/team/events"


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with fake_api_server() as server:
        yield server


def reader(server: FakeApiServer, directory: Path) -> ClusterReader:
    return ClusterReader(ApiServer(server.kubeconfig(directory)))


def seen(number: int, reason: str) -> dict[str, Any]:
    metadata = {"name": f"e{number:05}", "namespace": "team"}
    return {
        "metadata": metadata,
        "reason": reason,
        "message": f"m{number}",
        "lastTimestamp": f"2026-11-01T10:{number // 60 % 60:02}:{number % 60:02}Z",
    }


def test_of_thousands_of_events_the_newest_of_each_reason_is_kept(server: FakeApiServer, tmp_path: Path) -> None:
    """In pages."""
    server.objects[EVENTS] = [seen(number, f"r{number % 3}") for number in range(2_500)]
    found = reader(server, tmp_path).events([ABOUT])
    assert {event.reason for event in found} == {"r0", "r1", "r2"}
    assert [event.last for event in found] == sorted((event.last for event in found), reverse=True)
    assert server.lists(EVENTS)[0]["fieldSelector"] == "involvedObject.uid=u"


@golden
def test_what_cannot_be_listed_is_noted_with_verb_and_resource(
    server: FakeApiServer, tmp_path: Path, status: int, words: str
) -> None:
    server.instead["/api/v1/namespaces/team/pods"] = always(status, {"message": "no"})
    asked = reader(server, tmp_path)
    assert list(asked.items(PODS, "team", "x")) == []
    assert str(asked.missing[0]).startswith(words)
    assert asked.is_missing("list", "pods", "team")


def test_a_list_that_is_no_list_is_noted(server: FakeApiServer, tmp_path: Path) -> None:
    server.instead["/api/v1/namespaces/team/pods"] = always(200, {"items": 5})
    asked = reader(server, tmp_path)
    assert list(asked.items(PODS, "team", "x")) == []
    assert "no list" in str(asked.missing[0])


def test_an_object_that_does_not_exist_is_nothing_missing(server: FakeApiServer, tmp_path: Path) -> None:
    server.instead["/api/v1/namespaces/team/pods/p"] = always(404, {"message": "not found"})
    asked = reader(server, tmp_path)
    assert asked.get(PODS, "team", "p", "x") is None
    assert asked.missing == ()


def test_a_missing_right_for_the_whole_cluster_says_so() -> None:
    assert (
        str(MissingAnswer("list", "nodes", "", "what fits"))
        == "to know what fits, you need `list nodes` in the cluster"
    )


@golden
def test_a_selector_is_asked_for_as_far_as_labels_say(selector: Any, query: str) -> None:
    assert label_selector(selector) == query
