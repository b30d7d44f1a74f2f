"""Consistent reads of single things that a pod depends on: its name, its namespace, its ResourceQuotas."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.facts.fake_api_server import FakeApiServer, always, fake_api_server
from tests.facts.pod_samples import stored, uid
from webhook.facts.pod_lists import too_full
from webhook.facts.pod_source import LivePods
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.ledger_store import LedgerError

POD = "/api/v1/namespaces/team-a/pods/a"
NAMESPACE = "/api/v1/namespaces/team-a"
QUOTAS = "/api/v1/namespaces/team-a/resourcequotas"
GPUS = {"nvidia.com/gpu": 2}


def status(code: int, name: str = "") -> dict[str, Any]:
    """A refusal that is about an object."""
    return {"kind": "Status", "code": code, "message": "no", "details": {"name": name} if name else {}}


def quota(hard: dict[str, str], used: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A ResourceQuota with its status."""
    return {"metadata": {"name": "team"}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used}}


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


def test_A45_a_namespace_exists_or_not_or_is_unknown(pods, server):
    server.instead[NAMESPACE] = always(200, {"metadata": {"name": "team-a"}})
    assert pods.has_namespace("team-a", 5)
    server.instead[NAMESPACE] = always(404, status(404, "team-a"))
    assert not pods.has_namespace("team-a", 5)
    server.instead[NAMESPACE] = always(403, status(403, "team-a"))
    with pytest.raises(LedgerError, match="install the RBAC objects of the chart again"):
        pods.has_namespace("team-a", 5)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(
            quota({"requests.nvidia.com/gpu": "4"}, {"requests.nvidia.com/gpu": "3"}),
            "ResourceQuota team leaves 1 of requests.nvidia.com/gpu",
            id="too few GPUs",
        ),
        pytest.param(
            quota({"requests.nvidia.com/gpu": "2"}, {"requests.nvidia.com/gpu": "3"}),
            "ResourceQuota team leaves 0 of requests.nvidia.com/gpu",
            id="overdrawn",
        ),
        pytest.param(quota({"pods": "1"}, {"pods": "1"}), "ResourceQuota team leaves 0 of pods", id="no more pods"),
        pytest.param(
            quota({"count/pods": "0"}, {"count/pods": "0"}), "ResourceQuota team leaves 0 of count/pods", id="0"
        ),
        pytest.param(quota({"requests.nvidia.com/gpu": "5"}, {"requests.nvidia.com/gpu": "3"}), "", id="exactly full"),
        pytest.param(quota({"requests.cpu": "0"}, {"requests.cpu": "0"}), "", id="something else"),
        pytest.param(quota({"pods": "0"}, {"pods": "0"}, scopes=["BestEffort"]), "", id="only some pods"),
        pytest.param(quota({"pods": "0"}, {"pods": "0"}, scopeSelector={"matchExpressions": [{}]}), "", id="selected"),
        pytest.param({"spec": {"hard": {"pods": "0"}}}, "", id="not counted yet"),
        pytest.param(quota({"pods": "x"}, {"pods": "0"}), "", id="no number"),
        pytest.param("quota", "", id="no object"),
    ],
)
def test_A43_a_resource_quota_refuses_only_what_it_certainly_refuses(found, said):
    assert said == too_full(found, GPUS)


def test_resource_quotas_are_read_now(pods, server):
    server.instead[QUOTAS] = always(
        200,
        {
            "kind": "ResourceQuotaList",
            "metadata": {"resourceVersion": "7"},
            "items": [quota({"pods": "9"}, {"pods": "1"})],
        },
    )
    assert pods.full_quota("team-a", GPUS, 5) == ""
    server.instead[QUOTAS] = always(
        200,
        {
            "kind": "ResourceQuotaList",
            "metadata": {"resourceVersion": "7"},
            "items": [quota({"pods": "1"}, {"pods": "1"})],
        },
    )
    assert pods.full_quota("team-a", GPUS, 5) == "ResourceQuota team leaves 0 of pods"


def test_who_may_not_list_resource_quotas_knows_of_none(pods, server):
    server.instead[QUOTAS] = always(403, status(403))
    assert pods.full_quota("team-a", GPUS, 5) == ""
    server.instead[QUOTAS] = always(500, status(500))
    with pytest.raises(LedgerError):
        pods.full_quota("team-a", GPUS, 5)
