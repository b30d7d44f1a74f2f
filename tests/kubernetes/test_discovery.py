"""What an API server serves: found with few calls, and as far as it can be found."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.facts.fake_api_server import FakeApiServer, always, fake_api_server
from tests.facts.served_kinds import Groups, aggregated
from tests.golden import each, golden
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.discovery import Discovery

SERVED: Groups = {
    "": [("v1", {"ReplicationController": "replicationcontrollers"})],
    "apps": [("v1", {"Deployment": "deployments"})],
    "batch": [("v1", {"Job": "jobs"}), ("v1beta1", {"Job": "jobs", "CronJob": "cronjobs"})],
    "example.com": [("v2", {"Widget": "widgets", "ClusterWidget": "clusterwidgets"}), ("v1", {"Widget": "widgets"})],
    "lost.example.com": [("v1", None)],
    "half.example.com": [("v2", None), ("v1", {"Gadget": "gadgets"})],
}


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


@pytest.fixture
def discovery(server: FakeApiServer, tmp_path: Path) -> Discovery:
    server.instead["/api"] = server.instead["/apis"] = aggregated(SERVED)
    return Discovery(ApiServer(server.kubeconfig(tmp_path)))


@golden
def test_a_kind_is_found_in_the_version_that_is_preferred_among_those_that_have_it(discovery, group, kind, path):
    resource = discovery.find(group, kind)
    assert resource.path() == path
    assert resource.path("team-a") == path.replace(f"/{resource.name}", f"/namespaces/team-a/{resource.name}")
    assert resource.kind == kind
    assert resource.is_namespaced


@golden
def test_a_kind_that_is_not_served_is_none(discovery, group, kind):
    assert discovery.find(group, kind) is None


def test_kinds_that_are_in_no_namespace_are_told_from_others(discovery):
    assert not discovery.find("example.com", "ClusterWidget").is_namespaced


def test_a_group_whose_api_server_is_down_is_an_error_of_its_own(discovery):
    with pytest.raises(ApiServerError, match=r"what the API group lost\.example\.com serves as v1 is not known: "):
        discovery.find("lost.example.com", "Anything")
    assert discovery.find("apps", "Deployment") is not None


def test_what_may_be_in_a_version_that_is_down_is_not_called_absent(discovery):
    with pytest.raises(ApiServerError, match=r"half\.example\.com serves as v2"):
        discovery.find("half.example.com", "Widget")


def test_two_calls_are_enough(server, discovery):
    ask_for_everything(discovery)
    assert [path for path, _ in server.seen] == ["/api", "/apis"]


def ask_for_everything(discovery: Discovery) -> None:
    for _ in range(3):
        for group, kind in (("", "Pod"), ("apps", "Deployment"), ("batch", "CronJob"), ("absent.example.com", "Any")):
            discovery.find(group, kind)
        with pytest.raises(ApiServerError):
            discovery.find("lost.example.com", "Anything")


@each(
    "status, body, text",
    {
        "403": (403, {"message": "no"}, "answered 403: no; the ClusterRole system:discovery allows it"),
        "500": (500, {"message": "no"}, "answered 500: no"),
        "something else than JSON": (200, b"<html>", "GET /apis: "),
        "another list": (200, {"kind": "APIGroupList"}, "the answer is no APIGroupDiscoveryList"),
    },
)
def test_an_api_server_that_does_not_say_is_asked_once(server, tmp_path, status, body, text):
    server.instead["/apis"] = always(status, body)
    discovery = Discovery(ApiServer(server.kubeconfig(tmp_path)))
    for group in ("apps", "batch"):
        with pytest.raises(ApiServerError) as caught:
            discovery.find(group, "Any")
        assert text in str(caught.value)
    assert len(server.seen) == 1


@golden
def test_answers_of_another_shape_serve_nothing(server, tmp_path, answer):
    server.instead["/apis"] = server.instead["/api"] = always(200, answer)
    discovery = Discovery(ApiServer(server.kubeconfig(tmp_path)))
    assert discovery.find("apps", "Deployment") is None
    assert discovery.find("", "ReplicationController") is None
