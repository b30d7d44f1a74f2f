"""Attacks on memory and time of a replica: bodies too large, reviews too slow, connections that do nothing."""

import copy
import json
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build import container as make_container
from tests.build import env as variable
from tests.build import pod, review
from tests.operation import Operated, ask, operated
from tests.server.serving import wait_for


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """A replica with the facts of an inventory, shared by tests that leave it as it was."""
    directory = tmp_path_factory.mktemp("replica")
    with operated(directory, f"--inventory={inventory(directory)}") as running:
        yield running


def inventory(directory: Path) -> Path:
    """A file with the facts of a cluster that has a runtime class and nothing else."""
    file = directory / "inventory.yaml"
    file.write_text("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n")
    return file


MEBIBYTE = 1024**2


# A23: a body that is too large takes the memory, or a legal one is refused.


LARGEST_BODY = 7 * MEBIBYTE


def head(path: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: replica", "Content-Type: application/json", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_a_length_over_seven_mebibytes_or_none_is_refused_before_the_body_is_sent(replica: Operated) -> None:
    for path in ("/mutate", "/validate"):
        for sent, status in ((f"Content-Length: {LARGEST_BODY + 1}", 413), ("Transfer-Encoding: chunked", 411)):
            client = replica.connect().send(head(path, sent))
            assert client.answer()[0] == status
            assert client.ended()
    assert replica.metric("gpu_policy_errors_total", reason="bad_request") == 4


def test_the_largest_object_and_its_predecessor_are_judged(replica: Operated) -> None:
    old = pod(1, annotations={"note": "x" * (3 * MEBIBYTE)})
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 9
    body = review(new, "UPDATE", old=old)
    assert 6 * MEBIBYTE < len(json.dumps(body)) <= LARGEST_BODY
    status, _, answer = replica.ask("/validate", body)
    assert (status, json.loads(answer)["response"]["allowed"]) == (200, False)


# A24: a request that is slow or complicated starves the others.


def many_variables() -> dict[str, Any]:
    """A pod whose container has ten thousand environment variables."""
    variables = [entry for number in range(10_000) for entry in variable(f"V{number}", "x" * 100)]
    return pod(spec={"containers": [make_container("c0", limits={"nvidia.com/gpu": 9}, env=variables)]})


def nested(levels: int) -> dict[str, Any]:
    """A pod with a list in a list in a list where the API server takes anything."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return pod(9, spec={"containers": pod(9)["spec"]["containers"], "unknown": value})


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(many_variables(), id="10,000 environment variables"),
        pytest.param(nested(900), id="900 levels"),
        pytest.param(pod(*[1] * 1000), id="1,000 containers"),
        pytest.param(
            pod(9, spec={**pod(9)["spec"], "tolerations": [{"key": f"k{n}"} for n in range(10_000)]}), id="taints"
        ),
    ],
)
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_complicated_pod_gets_its_answer(replica: Operated, path: str, raw: dict[str, Any]) -> None:
    status, _, body = replica.ask(path, review(raw))
    assert status == 200
    if path == "/validate":
        assert not json.loads(body)["response"]["allowed"]


@pytest.mark.parametrize("bracket", [pytest.param("[", id="lists"), pytest.param('{"a":', id="maps")])
def test_nesting_that_no_parser_takes_is_refused(replica: Operated, bracket: str) -> None:
    client = replica.connect()
    status, _, body = client.ask("/mutate", (bracket * 200_000).encode(), content_type="application/json")
    assert (status, body.startswith(b"the body is not JSON")) == (400, True)
    assert replica.ask("/mutate", review(pod(1)))[0] == 200


def test_heavy_requests_do_not_keep_small_ones_from_their_answers(replica: Operated) -> None:
    """Four clients send pods of a mebibyte without a pause; each small request is answered, none sent back as late."""
    heavy = json.dumps(review(many_variables())).encode()
    finished = threading.Event()
    answered: list[int] = []

    def send_heavy() -> None:
        client = replica.connect()
        while not finished.is_set():
            answered.append(client.ask("/validate?timeout=30s", heavy, content_type="application/json")[0])

    senders = [threading.Thread(target=send_heavy) for _ in range(4)]
    for sender in senders:
        sender.start()
    try:
        client = replica.connect()
        small = [ask(client, "/mutate?timeout=10s", review(pod(1)))[0] for _ in range(50)]
        wait_for(lambda: len(answered) >= 8)
    finally:
        finished.set()
        for sender in senders:
            sender.join(60)
    assert set(small) == {200}
    assert set(answered) == {200}


def test_what_has_waited_for_half_of_its_timeout_is_sent_back_and_the_replica_catches_up(replica: Operated) -> None:
    """Nobody waits any more for what a replica without CPU has left lying; the API server asks again in a second."""
    before = replica.metric("gpu_policy_errors_total", reason="overloaded")
    late = [replica.connect() for _ in range(20)]
    patient = replica.connect()
    body = json.dumps(review(pod(9))).encode()
    with replica.paused():
        for client in late:
            client.send(head("/validate?timeout=2s", f"Content-Length: {len(body)}") + body)
        patient.send(head("/validate?timeout=30s", f"Content-Length: {len(body)}") + body)
        time.sleep(1.5)
    for client in late:
        status, headers, text = client.answer()
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        assert re.match(rb"overloaded: the request waited for [\d.]+ s of the 2 s", text)
    assert patient.answer()[0] == 200
    assert before + 20 == replica.metric("gpu_policy_errors_total", reason="overloaded")
    assert replica.ask("/validate?timeout=2s", review(pod(9)))[0] == 200


# A39: reviews that are made to take memory.


@pytest.mark.untraced  # a client that coverage slows down takes its answers too late
def test_reviews_that_are_made_to_take_memory_take_little_of_it_also_together(
    replica: Operated, tmp_path: Path
) -> None:
    containers = pod(*[1] * 10_000)["spec"]["containers"]
    bodies = [
        json.dumps(review(pod(spec=spec)), separators=(",", ":")).encode()
        for spec in (
            {"containers": [{}] * 900_000},
            {"hold": [{"": 0}] * 900_000},
            {"containers": containers},
            {"containers": [{"name": f"c{number}", "env": [{}] * 39_000} for number in range(20)]},
        )
    ]
    answered: list[int] = []

    def send(number: int) -> None:
        body = bodies[number % len(bodies)]
        for _ in range(3):
            client = replica.connect().send(head("/mutate?timeout=30s", f"Content-Length: {len(body)}") + body)
            answered.append(client.answer()[0])

    senders = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for sender in senders:
        sender.start()
    small = [replica.ask("/validate?timeout=30s", review(pod(9)))[0] for _ in range(20)]
    for sender in senders:
        sender.join(120)
    assert set(small) == {200}
    assert len(answered) == 24
    assert set(answered) <= {200, 422, 503}, "503 says that another replica may have the memory"
    assert replica.peak_memory() < 220 * MEBIBYTE


def test_connections_that_do_nothing_do_not_keep_the_api_server_out(replica: Operated) -> None:
    """More than the process has room for, opened as fast as they can be."""
    if (descriptors := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < 2_500:
        pytest.skip(f"a process may have {descriptors} file descriptors here, this needs 2,500")
    held = [socket.create_connection(("127.0.0.1", replica.port), timeout=20) for _ in range(2100)]
    try:
        assert replica.ask("/validate?timeout=30s", review(pod(9)))[0] == 200
    finally:
        for sock in held:
            sock.close()
