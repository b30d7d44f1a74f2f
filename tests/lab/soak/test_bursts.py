"""Storms through a real API server: bursts of creates that open hundreds of connections, and what they leave behind."""

import json
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from socket import create_connection
from typing import Any

from tests.e2e.installation import Installation
from tests.e2e.objects import gpu_pod

Namespaces = Callable[[str], str]


def create(webhook: Installation, namespace: str, count: int, at_once: int) -> list[str]:
    """Create `count` pods from so many threads; what went wrong, as texts."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    stamp = time.monotonic_ns()

    def one(number: int) -> str:
        status, answer = webhook.plane.raw("POST", path, gpu_pod(f"p-{stamp}-{number}"))
        return "" if status == 201 else f"{status} {json.dumps(answer)[:300]}"

    with ThreadPoolExecutor(at_once) as pool:
        return [problem for problem in pool.map(one, range(count)) if problem]


def test_bursts_of_500_creates_are_all_completed(webhook: Installation, make_namespace: Namespaces) -> None:
    """The same with injections: not one pod is stored without them."""
    namespace = make_namespace("enforced")
    for at_once in (500, 500, 32):
        assert create(webhook, namespace, at_once, at_once) == []
    created = webhook.plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"]
    assert len(created) == 1032
    assert all(pod["spec"]["affinity"]["nodeAffinity"] for pod in created)


def test_connections_that_are_held_open_delay_nobody(webhook: Installation, make_namespace: Namespaces) -> None:
    """200 idle TLS connections, 64 idle TCP connections and 16 half-done handshakes are held, and pods are created."""
    namespace = make_namespace("judged")
    with held(webhook.port, tls=200, tcp=64, half_done=16):
        started = time.monotonic()
        assert create(webhook, namespace, 20, 4) == []
        assert time.monotonic() - started < 10


@contextmanager
def held(port: int, *, tls: int, tcp: int, half_done: int) -> Iterator[None]:
    """So many connections of each sort, open until the block ends."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    opened: list[Any] = []
    try:
        opened.extend(context.wrap_socket(create_connection(("127.0.0.1", port), timeout=10)) for _ in range(tls))
        opened.extend(create_connection(("127.0.0.1", port), timeout=10) for _ in range(tcp))
        for _ in range(half_done):
            connection = create_connection(("127.0.0.1", port), timeout=10)
            connection.sendall(b"\x16\x03\x01\x02\x00")
            opened.append(connection)
        yield
    finally:
        for connection in opened:
            connection.close()
