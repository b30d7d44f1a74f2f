"""Consistent reads of single things that a pod depends on: its name and its namespace."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.facts.fake_api_server import FakeApiServer, always, fake_api_server
from tests.facts.pod_samples import stored, uid
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.pod_source import LivePods

POD = "/api/v1/namespaces/team-a/pods/a"
NAMESPACE = "/api/v1/namespaces/team-a"


def status(code: int, name: str = "") -> dict[str, Any]:
    """A refusal that is about an object."""
    return {"kind": "Status", "code": code, "message": "no", "details": {"name": name} if name else {}}


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


@pytest.fixture
def pods(server: FakeApiServer, tmp_path) -> LivePods:
    return LivePods(ApiServer(server.kubeconfig(tmp_path)))


def test_a_pod_is_found_by_its_name(pods, server):
    server.instead[POD] = always(200, stored("a"))
    assert pods.stored_now("team-a", "a", 5) == uid("a")


def test_a_name_that_no_pod_has_is_known_by_what_the_refusal_is_about(pods, server):
    server.instead[POD] = always(404, status(404, "a"))
    assert pods.stored_now("team-a", "a", 5) is None


@pytest.mark.parametrize(
    ("code", "body"),
    [
        pytest.param(404, status(404), id="a path that is not served"),
        pytest.param(403, status(403, "a"), id="forbidden"),
        pytest.param(200, [], id="no object"),
        pytest.param(200, {"metadata": {}}, id="no uid"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_the_ledger(pods, server, code, body):
    server.instead[POD] = always(code, body)
    with pytest.raises(LedgerError, match=f"what a pod depends on cannot be read: GET {POD}: "):
        pods.stored_now("team-a", "a", 5)


def test_a_namespace_exists_or_not_or_is_unknown(pods, server):
    server.instead[NAMESPACE] = always(200, {"metadata": {"name": "team-a"}})
    assert pods.has_namespace("team-a", 5)
    server.instead[NAMESPACE] = always(404, status(404, "team-a"))
    assert not pods.has_namespace("team-a", 5)
    server.instead[NAMESPACE] = always(403, status(403, "team-a"))
    with pytest.raises(LedgerError, match="install the RBAC objects of the chart again"):
        pods.has_namespace("team-a", 5)
