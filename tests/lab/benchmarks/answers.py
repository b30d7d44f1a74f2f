"""What a measured server answers to a review: asked once by hand before a load and after it, and counted by itself."""

import json
import re
import socket
import ssl
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.lab.benchmarks.runs import demand
from tests.lab.benchmarks.served import Served
from tests.lab.benchmarks.wrk import Load
from webhook.admission.app import SECONDS

_COUNTED = re.compile(r"^gpu_policy_(?:requests|findings|errors)_total(\{[^}]*\}) (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: status, body, and the bytes of head and body, which are the same for all answers with that body."""

    status: int
    body: bytes
    size: int

    @property
    def response(self) -> dict[str, Any]:
        """What the body says about the review."""
        response: dict[str, Any] = json.loads(self.body)["response"]
        return response


def ask(server: Served, method: str, path: str, body: bytes = b"", *, kept: bool = True) -> Answer:
    """Ask over a connection of its own, that is kept, or closed, as those of a load."""
    trust = ssl.create_default_context(cafile=str(server.ca_file))
    connection = "keep-alive" if kept else "close"
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: application/json", f"Connection: {connection}", "", ""]
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as opened,
        opened.makefile("rb") as answer,
    ):
        opened.sendall("\r\n".join(lines).encode() + body)
        head = b"".join(iter(answer.readline, b"\r\n")) + b"\r\n"
        found = re.search(rb"(?im)^content-length: *(\d+)", head)
        demand(found is not None, f"{path} answered without a length: {head[:200]!r}")
        assert found is not None
        content = answer.read(int(found[1]))
    return Answer(int(head.split(maxsplit=2)[1]), content, len(head) + len(content))


def demand_alike(load: Load, connections: int, before: Answer, after: Answer, where: str) -> None:
    """Every answer of the load was as long as those that were looked at, and these are the same.

    wrk may have read a part of one more answer on each connection.
    """
    same = before.status == after.status == 200 and before.body == after.body
    demand(same, f"{where}: answered {before.body[:300]!r} before the load and {after.body[:300]!r} after it")
    rest = load.bytes - load.answers * before.size
    text = f"{load.answers} answers of {before.size} bytes were expected, and {load.bytes} bytes came"
    demand(0 <= rest < connections * before.size, f"{where}: {text}")


def counted(server: Served) -> Counter[str]:
    """The product's own counts of decisions, findings and errors, by their labels; its page is made once a second."""
    time.sleep(SECONDS + 0.1)
    page = ask(server, "GET", "/metrics").body.decode()
    return Counter({labels: int(float(value)) for labels, value in _COUNTED.findall(page)})


def demand_counted(before: Counter[str], after: Counter[str], results: dict[str, str], least: int) -> None:
    """Since `before` the product decided nothing but these results, by phase, of each at least so many."""
    grown = after - before
    expected = {f'{{operation="CREATE",phase="{phase}",result="{result}"}}' for phase, result in results.items()}
    right = set(grown) == expected and all(count >= least for count in grown.values())
    demand(right, f"the product counts {dict(grown)}; expected are {sorted(expected)}, {least} or more of each")
