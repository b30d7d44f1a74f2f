"""The server starts or says why not, gives up on clients that take too long, and stops without losing a request."""

import contextlib
import socket
import ssl
import threading
import time

import pytest

from tests.golden import each
from tests.server.serving import PATIENCE, Server, request, serving, wait_for
from webhook.server.process import ServerSettings
from webhook.server.worker import Clients


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    directory = tmp_path_factory.mktemp("impatient")
    with serving(directory, handshake_seconds=1, request_seconds=1, keepalive_seconds=2, max_connections=8) as server:
        yield server


@pytest.fixture
def server(impatient):
    yield impatient
    impatient.connections.close()


def test_whoever_does_not_send_a_request_in_time_is_told_so_and_ended(server):
    silent = server.tcp()  # does not end its handshake
    late = [server.tls().send(sent) for sent in (b"POST /echo HTTP/1.1\r\nHo", request(body=b"x" * 6000)[:-1])]
    for client in late:
        assert client.answer()[0] == 408
        assert client.ended()
    assert silent.recv(1) == b""


def test_a_request_that_trickles_in_gains_no_time_by_it(server):
    client = server.tls()
    client.sock.settimeout(0.05)
    for sent in range(400):
        client.send(b"POST /echo HTTP/1.1\r\nHost: x"[sent : sent + 1] or b"x")
        with contextlib.suppress(TimeoutError):
            assert client.answer()[0] == 408
            return
    pytest.fail("still waiting after 20 s for a request that must arrive within 1 s")


def test_a_body_that_never_ends_is_thrown_away_only_for_a_while(server):
    client = server.tls().send(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert client.answer()[0] == 411
    with pytest.raises((ConnectionError, ssl.SSLError)):
        _send_for(20, client, b"1\r\nx\r\n" * 1_000)


def test_an_idle_connection_is_ended_with_an_answer_for_the_request_that_may_be_on_its_way(server):
    """Go's client takes it for the answer to a request that crosses with it, and the API server asks again."""
    client = server.tls()
    assert client.ask()[0] == 200
    assert client.is_dismissed()


def test_when_there_is_no_room_those_who_do_nothing_make_some(tmp_path):
    with serving(tmp_path, max_connections=3) as server:
        half = server.tls().send(request(body=b"x" * 6000)[:-1])
        idle = server.tls()
        busy = server.tls().send(request("/long"))
        newest = [server.tls(), server.tls()]
        status, headers, body = half.answer()
        assert (status, headers["retry-after"], body) == (503, "1", b"there are too many connections\n")
        assert idle.is_dismissed()
        assert [client.ask()[0] for client in newest] == [200, 200]
        assert busy.answer()[::2] == (200, b"done")


class Newcomer:
    """A connection that came just now, and waits for its client."""

    is_ending = is_expired = False

    def __init__(self):
        self.since = time.monotonic()

    def expire(self, _why):
        self.is_expired = True


@pytest.mark.parametrize(("connections", "ended"), [(3, 0), (5, 0), (6, 3), (9, 6)])
def test_connections_that_came_just_now_are_ended_where_there_are_twice_too_many(tmp_path, connections, ended):
    settings = ServerSettings(host="", port=0, cert_file=tmp_path, key_file=tmp_path, max_connections=3)
    clients, newcomers = Clients(None, settings, None), [Newcomer() for _ in range(connections)]
    for newcomer in newcomers[:-1]:
        clients._connections[newcomer] = None
    clients.enter(newcomers[-1])
    assert [newcomer.is_expired for newcomer in newcomers] == [True] * ended + [False] * (connections - ended)


class Load:
    """Clients that send requests until they are told that the connection ends."""

    def __init__(self, server, clients):
        self.answered = 0
        self.lost = []
        self.threads = [threading.Thread(target=self._run, args=(server.tls(),)) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def _run(self, client):
        try:
            while client.ask("/echo", b"x" * 5000)[1]["connection"] != "close":
                self.answered += 1
            assert client.ended()
        except (OSError, EOFError) as error:
            self.lost.append(error)

    def wait(self):
        for thread in self.threads:
            thread.join(PATIENCE)


def test_stopping_under_load_answers_every_request_that_was_sent(tmp_path):
    with serving(tmp_path, drain_seconds=1) as server:
        load, idle = Load(server, clients=8), server.tls()
        wait_for(lambda: load.answered > 100)
        slow = server.tls().send(request("/long"))
        server.terminate()
        load.wait()
        status, headers, _ = slow.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert idle.is_dismissed()
        assert load.lost == []
        assert server.process.wait(PATIENCE) == 0
        assert "the application is closed" in server.log


def test_draining_turns_unready_first_and_ends_each_connection_with_its_next_answer(tmp_path):
    """The API server opens its next connection through the Service, which knows of the other replicas."""
    with serving(tmp_path, drain_seconds=2) as server:
        kept = server.tls()
        assert kept.ask("/readyz")[2] == b"ready"
        server.terminate()
        wait_for(lambda: server.tls().ask("/readyz")[2] == b"draining")
        for client in (kept, server.tls()):
            status, headers, body = client.ask(body=b"hello")
            assert (status, headers["connection"], body) == (200, "close", b"hello")
            assert client.ended()
        assert server.process.wait(PATIENCE) == 0


def test_when_draining_is_over_nobody_gets_in_any_more(tmp_path):
    with serving(tmp_path, drain_seconds=1) as server:
        last = server.tls().send(request("/long"))
        server.terminate()
        wait_for(lambda: not _listens(server))
        assert last.answer()[0] == 200


def test_a_request_that_is_arriving_when_the_server_stops_is_answered(tmp_path):
    with serving(tmp_path) as server:
        message = request(body=b"x" * 6000)
        client = server.tls().send(message[:3000])
        server.terminate()
        wait_for(lambda: not _listens(server))
        status, headers, body = client.send(message[3000:]).answer()
        assert (status, headers["connection"], body) == (200, "close", b"x" * 6000)


def test_a_request_that_has_not_arrived_when_the_server_ends_is_told_to_come_again_and_keeps_it_for_no_longer(tmp_path):
    with serving(tmp_path, graceful_seconds=2) as server:
        client = server.tls().send(request(body=b"x" * 6000)[:-1])
        before = time.monotonic()
        server.terminate()
        status, headers, body = client.answer()
        assert (status, headers["retry-after"], body) == (503, "1", b"this server is stopping\n")
        assert client.ended()
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - before < 5


@each(
    "fault, reason",
    {
        "the application cannot be made": ({"broken": True}, "no policies here"),
        "the key cannot be used": ({"key_file": "/dev/null"}, "SSLError"),
    },
)
def test_a_server_that_cannot_start_says_why_and_ends_at_once(tmp_path, fault, reason):
    server = Server(tmp_path, **fault)
    assert server.process.wait(PATIENCE) == 3
    assert reason in server.log
    assert server.log.count("Booting worker") == 1


def _send_for(seconds, client, some):
    for _ in range(int(seconds / 0.05)):
        client.send(some)
        time.sleep(0.05)


def _listens(server):
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE):
            return True
    except OSError:
        return False
