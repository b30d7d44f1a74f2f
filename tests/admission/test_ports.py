"""Metrics have a port of their own where one is named: each port serves its own pages, over the same TLS."""

import json
from collections.abc import Iterator

import pytest

from tests.build import pod, review
from tests.e2e.eventually import eventually
from tests.e2e.load_balancer import free_ports
from tests.golden import each
from tests.operation import Operated, ask, operated

(METRICS_PORT,) = free_ports(1)
ANY_REVIEW = json.dumps(review(pod(9))).encode()


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    directory = tmp_path_factory.mktemp("replica")
    inventory = directory / "inventory.yaml"
    inventory.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    with operated(directory, f"--inventory={inventory}", f"--metrics-port={METRICS_PORT}") as running:
        yield running


def test_metrics_are_on_their_own_port_alone(replica: Operated) -> None:
    status, text = replica.page("/metrics", METRICS_PORT)
    assert (status, "\ngpu_policy_ready 1.0\n" in text) == (200, True)
    status, text = replica.page("/metrics")
    assert (status, text) == (
        404,
        "not found on this port: /metrics has a port of its own, on which nothing else is served\n",
    )


def test_who_reaches_the_port_of_metrics_gets_nothing_else_and_is_counted(replica: Operated) -> None:
    before = _refused(replica)
    for path in ("/mutate", "/validate", "/workloads"):
        assert ask(replica.connect(port=METRICS_PORT), path, review(pod(9)))[0] == 404
        assert replica.ask(path, review(pod(9)))[0] == 200
    for path in ("/livez", "/readyz"):
        assert (replica.page(path)[0], replica.page(path, METRICS_PORT)[0]) == (200, 404)
    eventually(lambda: _refused(replica) >= before + 5)  # the page is kept for a second


def _refused(replica: Operated) -> int:
    lines = replica.page("/metrics", METRICS_PORT)[1].splitlines()
    (line,) = [line for line in lines if line.startswith('gpu_policy_errors_total{reason="bad_request"}')]
    return int(float(line.rsplit(" ", 1)[1]))


@each(
    "token",
    {
        "a token": "Bearer eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJ4In0.c2ln",
        "a long one": "Bearer " + "x" * 4000,
        "another scheme": "Basic dXNlcjpwYXNzd29yZA==",
    },
)
def test_a_caller_that_authenticates_by_a_token_is_answered_as_ever_and_the_token_is_in_no_log(
    replica: Operated, token: str
) -> None:
    """KEP-6060: API servers will present one."""
    client = replica.connect()
    answer = ask(client, "/validate", review(pod(9)))
    with_token = client.ask("/validate", ANY_REVIEW, content_type="application/json", authorization=token)
    assert with_token[0] == answer[0] == 200
    assert with_token[2] == answer[2]
    log = (replica.directory / "replica.log").read_text()
    assert len(token) < 20 or token.split()[1] not in log
