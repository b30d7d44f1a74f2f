"""No connection is left in the backlog of a listening socket that is closed, where it would be reset."""

import select
import socket

import pytest

from webhook.server.listeners import Listeners


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0), backlog=200) as sock:
        sock.setblocking(False)
        yield sock


@pytest.fixture
def listeners(listener):
    with select.epoll() as epoll:
        yield Listeners([listener], epoll)


def connect(listener):
    return socket.create_connection(listener.getsockname(), timeout=10)


def test_closing_admits_everyone_who_waits_in_the_backlog(listener, listeners):
    clients = [connect(listener) for _ in range(150)]
    peers = []
    listeners.close(lambda sock, peer: (sock.close(), peers.append(peer)))
    assert sorted(client.getsockname() for client in clients) == sorted(peers)
    assert {client.recv(1) for client in clients} == {b""}, "ended, not reset"
    for client in clients:
        client.close()


def test_only_so_many_are_accepted_as_there_is_room_for(listener, listeners):
    clients = [connect(listener) for _ in range(5)]
    admitted = []
    listeners.watch(wanted=True)
    listeners.accept(listener.fileno(), 3, lambda sock, _peer: admitted.append(sock))
    assert len(admitted) == 3
    for sock in [*clients, *admitted]:
        sock.close()
