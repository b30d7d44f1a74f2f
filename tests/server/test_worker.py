"""No client, however idle, slow or wrong, keeps the server from answering the others."""

import contextlib
import socket
import ssl
import struct
import time

import pytest

from tests.golden import each
from tests.server.serving import request, serving, wait_for

SOON = 4.5
"""Seconds within which other clients are answered, whatever one client holds: fewer than any timeout of the server."""
LIMIT = 7 * 2**20


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), max_body_bytes=LIMIT) as server:
        yield server


@pytest.fixture
def server(shared):
    yield shared
    shared.connections.close()


def idle_tls(server):
    server.tls()


def idle_tcp(server):
    server.tcp()


def half_handshake(server):
    """Send the first half of a ClientHello."""
    outgoing = ssl.MemoryBIO()
    hello = server.trust.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    server.tcp().sendall(outgoing.read()[:100])


def slow_head(server):
    server.tls().send(b"POST /echo HTTP/1.1\r\nHost: ")


def slow_body(server):
    server.tls().send(request(body=b"x" * 6000)[:-1])


def waiting_for_continue(server):
    head = request(body=b"x" * 6000, expect="100-continue").partition(b"\r\n\r\n")[0]
    server.tls().send(head + b"\r\n\r\n")


def answer_not_taken(server):
    server.tls().send(request("/large"))


def used_and_kept(server):
    server.tls().ask(body=b"hello")


@each(
    "hold, count",
    {
        "200 idle TLS connections": (idle_tls, 200),
        "64 idle TCP connections": (idle_tcp, 64),
        "200 half-done handshakes": (half_handshake, 200),
        "32 half-sent heads": (slow_head, 32),
        "32 half-sent bodies": (slow_body, 32),
        "32 bodies announced and not sent": (waiting_for_continue, 32),
        "16 answers not taken": (answer_not_taken, 16),
        "64 connections kept alive": (used_and_kept, 64),
    },
)
def test_whatever_other_clients_hold_the_next_one_is_answered(server, hold, count):
    for _ in range(count):
        hold(server)
    waited = max(server.seconds_to_answer() for _ in range(3))
    print(f"answered within {waited * 1000:.0f} ms")  # shown by pytest -rP
    assert waited < SOON


def test_connections_that_do_nothing_take_little_memory(tmp_path):
    """Every pod of a cluster may open as many as there may be, and leave them."""
    with serving(tmp_path) as server:
        for _ in range(20):
            server.tls().ask(body=b"x" * 6000)
        before = server.memory()
        for _ in range(600):
            server.tls().ask(body=b"x" * 6000)
        each = (server.memory() - before) / 600
    print(f"{each:.1f} KiB for each connection")  # shown by pytest -rP
    assert each < 96


def test_many_requests_use_one_connection(server):
    client = server.tls()
    answers = [client.ask(body=b"%d" % number) for number in range(20)]
    assert [(200, b"%d" % number) for number in range(20)] == [(status, body) for status, _, body in answers]
    assert answers[-1][1]["connection"] == "keep-alive"


@each("first", {"a quick request": "/echo", "one that takes long": "/sleep"})
def test_a_request_that_is_sent_ahead_ends_the_connection_after_the_answer_before_it(server, first):
    """The API server sends none; whoever sends many would be served before others."""
    client = server.tls().send(request(first) * 3_000)
    status, headers, _ = client.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert client.ended()
    assert server.tls().ask()[0] == 200


def test_requests_that_are_half_sent_take_no_more_memory_together_than_is_set_aside(server):
    """Each is small, and there may be thousands of connections."""
    headers = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 7_900) for number in range(2))
    half = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n" + headers + b"\r\n" + b"[" * 65_530
    clients = [server.tls().send(half) for _ in range(340)]
    status, _, body = clients[0].answer()
    assert (status, body) == (503, b"too many requests are half sent\n")
    assert server.tls().ask()[0] == 200
    assert clients[-1].send(b"]" * 6).answer()[0] == 200, "who began last goes on"


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@each(
    "body",
    {
        "nothing of it has come": b"",
        "all of it and another request": b"5\r\nhello\r\n0\r\n\r\n" + request(body=b"next"),
        "a size that is no number": b"xyz\r\n",
        "one byte a chunk": b"1\r\nx\r\n" * 250_000,
    },
)
def test_a_body_of_unknown_length_is_answered_411_whatever_it_holds(server, body):
    client = server.tls().send(CHUNKED + body)
    status, headers, text = client.answer()
    assert (status, headers["connection"]) == (411, "close")
    assert b"Transfer-Encoding: found chunked" in text
    assert b"send Content-Length in place of" in text
    assert client.ended()


@each(
    "message",
    {
        "a length with a sign": b"POST /echo HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
        "a length below nothing": b"POST /echo HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        "a list of lengths": b"POST /echo HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
        "a huge length": b"POST /echo HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        "chunks and a length": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"),
        "chunks in chunks": CHUNKED.replace(b": chunked", b": chunked, chunked"),
        "no HTTP": b"nonsense\r\n\r\n",
        "a length that is no number": b"POST /echo HTTP/1.1\r\nContent-Length: five\r\n\r\n",
        "two lengths": request().replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"),
    },
)
def test_what_is_no_request_gets_400_and_the_connection_ends_cleanly(server, message):
    client = server.tls().send(message + b"more")
    assert client.answer()[0] == 400
    assert client.ended()


def test_a_client_may_wait_for_100_continue_before_it_sends_the_body(server):
    client = server.tls()
    head, _, body = request(body=b"x" * 100_000, expect="100-continue").partition(b"\r\n\r\n")
    client.send(head + b"\r\n\r\n")
    assert client.answer()[0] == 100
    client.send(body)
    assert client.answer()[::2] == (200, b"x" * 100_000)


def test_a_body_at_the_limit_is_received(server):
    assert server.tls().ask(body=b"x" * LIMIT)[::2] == (200, b"x" * LIMIT)


def test_a_length_over_the_limit_is_refused_before_the_body_is_sent(server):
    client = server.tls().send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n")
    said = f"body: larger than {LIMIT} bytes; the API server sends less\n"
    assert client.answer()[::2] == (413, said.encode())
    assert client.ended()


def test_the_refusal_of_a_large_body_is_readable_after_all_of_it_was_sent(server):
    client = server.tls().send(request(body=b"x" * (LIMIT + 5_000_000)))
    status, _, body = client.answer()
    assert (status, body[:5]) == (413, b"body:")
    assert client.ended()


def test_large_bodies_that_never_arrive_use_limited_memory_and_small_requests_get_in(server):
    head, _, body = request(body=b"x" * (LIMIT - 1_000)).partition(b"\r\n\r\n")  # so that the answer has room, too
    held = [server.tls().send(head + b"\r\n\r\n" + body[:-1]) for _ in range(4)]
    wait_for(lambda: server.tls().ask(body=body)[0] == 503)
    assert server.tls().ask(body=body)[1]["retry-after"] == "1"
    assert server.tls().ask(body=b"x" * 60_000)[0] == 200
    assert held[0].send(body[-1:]).answer()[0] == 200
    assert server.tls().ask(body=body)[0] == 200


@each(
    "message, status",
    {
        "no HTTP": (b"nonsense\r\n\r\n", 400),
        "a line without end": (b"POST /" + b"x" * 17_000 + b" HTTP/1.1\r\n\r\n", 431),
        "a body of unknown length": (CHUNKED, 411),
        "too many headers": (b"POST /echo HTTP/1.1\r\n" + b"X: x\r\n" * 3_000 + b"\r\n", 431),
        "a bug in the application": (request("/bug"), 500),
    },
)
def test_the_application_learns_what_the_server_answered_itself(server, message, status):
    told = f"the server itself answered {status}"
    before = server.log.count(told)
    client = server.tls().send(message)
    assert client.answer()[0] == status
    assert client.ended()
    assert before + 1 == server.log.count(told)


def test_an_answer_of_503_ends_its_connection_so_that_the_next_attempt_may_meet_another_replica(server):
    client = server.tls()
    status, headers, body = client.ask("/unavailable")
    assert (status, headers["connection"], body) == (503, "close", b"not now")
    assert client.ended()


def test_the_application_learns_how_long_a_request_waited_before_it_was_read(server):
    client = server.tls()
    with server.paused():
        client.send(request("/waited"))
        time.sleep(1.2)
    waited = float(client.answer()[2])
    assert waited >= 1
    assert waited > float(client.ask("/waited")[2]), "the next one did not wait"


@each("path", {"at once": "/echo", "later": "/sleep"})
def test_a_client_that_asks_for_the_end_of_the_connection_gets_it_after_its_answer(server, path):
    client = server.tls()
    status, headers, _ = client.ask(path, connection="close")
    assert (status, headers["connection"]) == (200, "close")
    assert client.ended()


def test_a_request_may_arrive_byte_by_byte(server):
    client = server.tls()
    for byte in request(body=b"hello"):
        client.send(bytes([byte]))
    assert client.answer()[::2] == (200, b"hello")


def test_a_large_answer_is_taken_in_the_pace_of_the_client(server):
    client = server.tls().send(request("/large"))
    time.sleep(0.2)
    assert client.answer()[::2] == (200, b"x" * 12_000_000)
    assert client.ask()[0] == 200


def test_large_answers_that_nobody_takes_are_kept_for_a_few_only(server):
    """Each is of 12 MB, of which the kernels of both sides take some."""
    idle = [server.tls().send(request("/large")) for _ in range(30)]
    wait_for(lambda: "too many large answers" in server.log)
    assert server.tls().ask()[0] == 200
    for client in idle:
        client.sock.close()
    wait_for(lambda: server.tls().ask("/large")[0] == 200)


def test_requests_that_wait_for_something_do_not_hold_up_the_others(server):
    sleepers = [server.tls().send(request("/sleep")) for _ in range(3)]
    before = time.monotonic()
    assert server.tls().ask()[0] == 200
    assert time.monotonic() - before < 0.4, "answered only when a sleeper had slept"
    assert max(int(client.answer()[2]) for client in sleepers) == 3


def test_a_decision_that_computes_for_ever_holds_up_the_others_until_its_deadline(server):
    """It is small, so that it runs on the event loop."""
    endless = server.tls().send(request("/endless"))
    assert server.seconds_to_answer() < SOON
    assert endless.answer()[2] == b"ended"


def test_a_client_that_goes_away_while_its_request_is_answered_harms_nobody(server):
    client = server.tls().send(request("/sleep"))
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
    client.sock.close()
    assert server.tls().ask()[0] == 200
    assert server.tls().ask("/sleep")[0] == 200
    assert "a bug ended the connection" not in server.log


def test_plain_http_on_the_tls_port_is_refused_and_logged(server):
    sock = server.tcp()
    sock.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
    with contextlib.suppress(ConnectionResetError):
        assert not sock.recv(100).startswith(b"HTTP")
    assert server.tls().ask()[0] == 200
    wait_for(lambda: "HTTP_REQUEST" in server.log)


def test_only_http_1_1_is_offered(server):
    server.trust.set_alpn_protocols(["h2", "http/1.1"])
    assert server.tls().sock.selected_alpn_protocol() in {None, "http/1.1"}
