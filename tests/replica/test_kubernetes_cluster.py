"""What certificates ask of a cluster, answered by API servers and by gateways before them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from certs.cluster import ClusterError
from tests.facts.fake_api_server import FakeApiServer, Request, fake_api_server
from tests.golden import each
from webhook.kubernetes.api_server import ApiServer
from webhook.replica.kubernetes_cluster import KubernetesCluster

SECRET = "/api/v1/namespaces/gpu-policy/secrets/gpu-policy-tls"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


@pytest.fixture
def cluster(server: FakeApiServer, tmp_path: Path) -> KubernetesCluster:
    return KubernetesCluster(ApiServer(server.kubeconfig(tmp_path)))


def answering(server: FakeApiServer, status: int, body: Any, ahead: timedelta = timedelta()) -> None:
    """Answer so, and have a clock that is ahead of ours."""

    def answer(request: Request, path: str, query: dict[str, str]) -> None:
        date = format_datetime(datetime.now(UTC) + ahead, usegmt=True)
        request.date_time_string = lambda *_: date  # type: ignore[method-assign]  # the clock of this answer
        request.send(status, body)

    server.instead[SECRET] = answer


def test_an_object_that_is_not_there_is_none(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    answering(server, 404, {"kind": "Status", "message": "not found"})
    assert cluster.get(SECRET) is None


@each(
    "status, body, message",
    {
        "forbidden": (403, {"message": "no"}, "403: no; install the RBAC objects of the chart again"),
        "too many requests": (429, {"message": "slow"}, "429: slow"),
        "a proxy's page": (500, b"<html>oops</html>", "500: <html>oops</html>"),
        "a page instead of JSON": (200, b"<html>hello</html>", "unexpected"),
        "no object": (200, {}, "the answer is not a Kubernetes object"),
        "odd metadata": (200, {"metadata": 7}, "the answer is not a Kubernetes object"),
        "a list": (200, [1], "no JSON object"),
    },
)
def test_any_other_answer_is_a_fault_that_names_the_request(
    status: int, body: Any, message: str, server: FakeApiServer, cluster: KubernetesCluster
) -> None:
    answering(server, status, body)
    with pytest.raises(ClusterError) as caught:
        cluster.get(SECRET)
    assert f"GET {SECRET}: " in str(caught.value)
    assert message in str(caught.value)


def test_a_server_that_is_away_is_a_fault(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    server.vanish()
    with pytest.raises(ClusterError, match=f"GET {SECRET}: .*refused"):
        cluster.get(SECRET)


@pytest.mark.parametrize("minutes", [0, 50, -50])
def test_the_clock_is_the_api_servers(minutes: int, server: FakeApiServer, cluster: KubernetesCluster) -> None:
    answering(server, 200, {"metadata": {}}, timedelta(minutes=minutes))
    cluster.get(SECRET)
    assert abs(cluster.now() - datetime.now(UTC) - timedelta(minutes=minutes)) < timedelta(seconds=10)


@each("hours, text", {"behind": (2, "behind the API server's"), "ahead": (-100_000, "ahead of the API server's")})
def test_clocks_that_disagree_decide_nothing(
    hours: int, text: str, server: FakeApiServer, cluster: KubernetesCluster
) -> None:
    answering(server, 200, {"metadata": {}}, timedelta(hours=hours))
    cluster.get(SECRET)
    with pytest.raises(ClusterError, match=text):
        cluster.now()
