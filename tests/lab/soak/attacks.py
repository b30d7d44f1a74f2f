"""What attackers do, for as long as they are let: past the API server at the port of a replica, or as its tenants."""

import http.client
import json
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any

from tests.build import review
from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.objects import deployment, gpu_pod

Raw = dict[str, Any]

_TLS = ssl._create_unverified_context()  # noqa: S323  # attackers do not look at certificates
_PATIENCE = 15
"""Seconds that an attacker waits for an answer before trying anew."""


class Attack:
    """Runs in threads of its own while the `with` block lasts. `sent` counts attempts, `said` what was answered."""

    def __init__(self, *turns: Callable[[Event], None]) -> None:
        self.sent = 0
        self.said: Counter[str] = Counter()
        self._ended = Event()
        self._threads = [Thread(target=self._go_on, args=(turn,), daemon=True) for turn in turns]

    def __enter__(self) -> "Attack":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(_PATIENCE + 5)

    def _go_on(self, turn: Callable[[Event], None]) -> None:
        while not self._ended.is_set():
            with suppress(OSError, http.client.HTTPException):
                turn(self._ended)
            self.sent += 1
            self._ended.wait(0.02)


def _connected(port: int) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
    return _TLS.wrap_socket(plain)


def one_chunk_a_byte(ports: Sequence[int]) -> Attack:
    """Bodies of 480 kB in chunks of one byte, to every replica."""
    head = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = head + b"1\r\n \r\n" * 480_000 + b"0\r\n\r\n"
    return Attack(*(lambda _ended, port=port: _sent(port, body) for port in ports))  # bound early


def _sent(port: int, request: bytes) -> None:
    with _connected(port) as connection:
        connection.sendall(request)
        connection.recv(4096)


def pipelined_metrics(ports: Sequence[int], connections: int = 12) -> Attack:
    """Connections that ask for the page of metrics again and again without waiting for it."""
    some = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50

    def turn(ended: Event, port: int) -> None:
        with _connected(port) as connection:
            while not ended.is_set():
                connection.sendall(some)
                if not connection.recv(2**16):
                    return

    return Attack(*(lambda ended, n=number: turn(ended, ports[n % len(ports)]) for number in range(connections)))


def empty_containers(ports: Sequence[int], count: int = 900_000) -> Attack:
    """Reviews of a pod with so many empty containers, 2.7 MB, to every replica."""
    body = json.dumps(review(gpu_pod("many"))).encode()
    body = body.replace(b'"containers": [', b'"containers": [' + b"{}," * count)

    def turn(port: int, path: str) -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=_PATIENCE, context=_TLS)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        finally:
            connection.close()

    paths = ("/validate", "/mutate")
    return Attack(*(lambda _ended, port=port, path=path: turn(port, path) for port in ports for path in paths))


def costly_selectors(plane: ControlPlane, namespace: str) -> Attack:
    """Two dry-run creates a second as a tenant: pods and Deployments of 400 kB to 1 MB of node selectors.

    They are about the label that the policy of the namespaces `enforced-*` requires.
    """
    tenants_may(plane, namespace)
    manifests = [*_costly(), deployment("wide", _costly()[0])]

    def turn(ended: Event, first: int) -> None:
        manifest = manifests[first % len(manifests)]
        path = "/apis/apps/v1" if manifest["kind"] == "Deployment" else "/api/v1"
        path = f"{path}/namespaces/{namespace}/{manifest['kind'].lower()}s?dryRun=All"
        answer = plane.raw("POST", path, manifest, TENANT_TOKEN)
        attack.said[f"{manifest['metadata']['name']}: {_shown(answer)}"] += 1
        ended.wait(len(turns) / 2)

    turns = [lambda ended, n=number: turn(ended, n) for number in range(2 * len(manifests))]
    attack = Attack(*turns)  # what is asked is bound early
    return attack


def _shown(answer: tuple[int, Any]) -> str:
    status, said = answer
    return f"{status} {str(said.get('message', '') if isinstance(said, dict) else said)[:120]}"


def tenants_may(plane: ControlPlane, namespace: str) -> None:
    """Let the user `tenant` make what tenants make in a namespace."""
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["create", "delete"]}]
    subject = {"kind": "User", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "maker", "apiGroup": "rbac.authorization.k8s.io"}
    for path, body in (
        ("roles", {"metadata": {"name": "maker"}, "rules": rules}),
        ("rolebindings", {"metadata": {"name": "maker"}, "roleRef": role, "subjects": [subject]}),
    ):
        status, answer = plane.raw("POST", f"{root}/{path}", body)
        assert status in (201, 409), answer


def _costly() -> list[Raw]:
    """GPU pods whose selectors are long: one list, terms that contradict each other, a selector beside many terms."""
    pool = "example.com/pool"
    values = [f"v{number:06}" for number in range(40_000)]
    one_list = _expression(pool, "In", *values, "gpu")
    terms = [{"matchExpressions": [_expression(pool, "In", f"a{number}")]} for number in range(8000)]
    wide = [{"matchExpressions": [_expression(f"example.com/l{number}", "Exists")]} for number in range(5000)]
    selector = {f"example.com/s{number}": "x" for number in range(5000)}
    return [
        gpu_pod("in-list", affinity=_required([{"matchExpressions": [one_list]}])),
        gpu_pod("terms", affinity=_required(terms)),
        gpu_pod("selector", affinity=_required(wide), nodeSelector=selector),
        gpu_pod("not-in", affinity=_required([{"matchExpressions": [one_list, _expression(pool, "NotIn", *values)]}])),
    ]


def _expression(key: str, operator: str, *values: str) -> Raw:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _required(terms: list[Raw]) -> Raw:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def creates_that_others_refuse(plane: ControlPlane, namespace: str) -> Attack:
    """As a tenant: pods that the namespace's ResourceQuota refuses after us, and a pod whose name is taken."""
    tenants_may(plane, namespace)
    path = f"/api/v1/namespaces/{namespace}"
    assert plane.raw("POST", f"{path}/pods", gpu_pod("taken", 1))[0] == 201
    hard = {"pods": "1"}
    status, answer = plane.raw("POST", f"{path}/resourcequotas", {"metadata": {"name": "one"}, "spec": {"hard": hard}})
    assert status == 201, answer
    used = {"status": {"hard": hard, "used": hard}}  # as the controller of quotas, which does not run here, writes it
    assert plane.raw("PATCH", f"{path}/resourcequotas/one/status", used)[0] == 200
    numbers = iter(range(10**9))

    def turn(ended: Event, name: Callable[[], str]) -> None:
        attack.said[_shown(plane.raw("POST", f"{path}/pods", gpu_pod(name(), 1), TENANT_TOKEN))] += 1
        ended.wait(0.1)

    attack = Attack(
        lambda ended: turn(ended, lambda: f"never-{next(numbers)}"), lambda ended: turn(ended, lambda: "taken")
    )
    return attack


def refusals_of(plane: ControlPlane, namespace: str, manifest: Mapping[str, Any]) -> str:
    """What the API server says of one create; empty where it takes it."""
    status, answer = plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)
    return "" if status == 201 else str(answer["message"] if isinstance(answer, dict) else answer)
