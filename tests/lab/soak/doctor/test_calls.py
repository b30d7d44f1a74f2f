"""Calls of the API server that fail are recognised by what becomes of a GPU pod, and explained."""

import shlex
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.doctor.breaks import LOG, MUTATING, OTHER, VALIDATING, Break, entry
from tests.doctor.site import Site, said
from tests.e2e.eventually import eventually
from webhook.doctor.doctor_report import Status

pytestmark = pytest.mark.e2e


def fails(site: Site, found: str, remedy: str) -> None:
    """The pods of dry runs show it, as soon as the API server has noticed."""
    tried = eventually(lambda: (f := site.tried()) and found in f[0].found and f)
    assert [finding.status for finding in tried] == [Status.PROBLEM]
    assert remedy in tried[0].remedy


def lead_to(site: Site, port: int) -> None:
    """Have both configurations call another port."""
    for kind in (MUTATING, VALIDATING):
        entry(kind, "clientConfig/service/port", port)(site)
        entry(kind, "timeoutSeconds", 1)(site)


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port whose packets get lost, as behind a firewall: the queue of its one listener is full for good."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_a_firewall_between_control_plane_and_nodes_is_recognised(site: Site, black_hole: int) -> None:
    """Nobody answers the connection: the ports to open are named."""
    lead_to(site, black_hole)
    fails(
        site,
        "packets from the control plane to the pods get lost: a firewall or a NetworkPolicy",
        f"gcloud compute firewall-rules create gpu-policy --allow=tcp:{site.webhook.port} ",
    )


def test_a_port_where_nothing_listens_is_recognised(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    lead_to(site, port)
    fails(site, "nothing listens at the address that the API server calls", f"the pods' port {site.webhook.port}")


def test_something_else_behind_the_port_is_recognised(site: Site) -> None:
    """It speaks HTTP without TLS."""
    with plain_server() as port:
        lead_to(site, port)
        fails(site, "something other than the webhook answers at this port", "describe service gpu-policy")


def test_a_wrong_bundle_is_recognised(site: Site) -> None:
    for kind in (MUTATING, VALIDATING):
        entry(kind, "clientConfig/caBundle", OTHER)(site)
    fails(site, "the caBundle does not trust the serving certificate", LOG)


@contextmanager
def plain_server() -> Iterator[int]:
    """A web server without TLS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_webhook_that_is_not_asked_is_noticed(site: Site) -> None:
    """With the configurations gone nothing fails; only what becomes of the pods shows it."""
    for kind in (MUTATING, VALIDATING):
        site.delete(kind, "gpu-policy")
    found = eventually(lambda: (f := said(site.examined(), "pods", Status.PROBLEM)) and len(f) > 1 and f)
    assert f"a pod with 100000 GPUs in namespace {site.place.dry_run_namespace} is admitted unchanged" in [
        f.found for f in found
    ]
    assert {finding.expected for finding in found} >= {"by its policy it is refused by validate.gpupolicy.dev"}


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda site: site.delete(MUTATING, "gpu-policy"), id="one is missing"),
        pytest.param(entry(VALIDATING, "failurePolicy", "Ignore"), id="one was changed"),
        pytest.param(entry(VALIDATING, "objectSelector", {"matchLabels": {"a": "b"}}), id="one selects less"),
    ],
)
def test_the_remedy_for_configurations_mends_them(site: Site, broken: Break) -> None:
    """The command in the report is run as it stands there."""
    broken(site)
    (command,) = {finding.remedy for finding in said(site.examined(), "configurations", Status.PROBLEM)}
    first, second = map(shlex.split, command.split(" | "))
    printed = site.plane.kubectl(*first[1:])
    site.plane.kubectl(*second[1:], input=printed.stdout)
    assert said(site.examined(), "configurations", Status.PROBLEM) == []
