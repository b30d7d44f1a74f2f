"""The sockets on which new connections arrive."""

import logging
import select
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

log = logging.getLogger("gpu_policy.server")

_ACCEPTS_PER_TURN = 64
_LARGEST_BACKLOG = 4096
_ROUND_TRIP_SECONDS = 0.02
"""Time from the server's half of a TCP handshake to the client's half, within a cluster."""

Admit = Callable[[socket.socket, Any], None]


class Listeners:
    """The listening sockets, and whether the poller watches them. They are closed when the server stops."""

    def __init__(self, sockets: Iterable[socket.socket], epoll: select.epoll) -> None:
        self._sockets = {sock.fileno(): sock for sock in sockets}
        self._epoll = epoll
        self._watched = False

    def __contains__(self, fd: int) -> bool:
        return fd in self._sockets

    def watch(self, *, wanted: bool) -> None:
        """Begin or cease to accept connections. Clients that are not accepted wait in the backlog."""
        if wanted == self._watched:
            return
        self._watched = wanted
        for fd in self._sockets:
            if wanted:
                self._epoll.register(fd, select.EPOLLIN)
            else:
                self._epoll.unregister(fd)

    def accept(self, fd: int, room: int, admit: Admit) -> None:
        """Accept some connections, at most as many as there is room for."""
        if self._accept(self._sockets[fd], min(room, _ACCEPTS_PER_TURN), admit) >= room:
            self.watch(wanted=False)  # the next sweep looks whether there is room again

    def close(self, admit: Admit) -> None:
        """Accept all clients that are connected or halfway through the TCP handshake, and close the sockets.

        A client that was left in the backlog would be reset. The Service has led no client here for the whole drain.
        """
        self.watch(wanted=False)
        time.sleep(_ROUND_TRIP_SECONDS)
        for sock in self._sockets.values():
            self._accept(sock, _LARGEST_BACKLOG, admit)
            sock.close()
        self._sockets.clear()

    def _accept(self, listener: socket.socket, count: int, admit: Admit) -> int:
        """Accept at most `count` connections; return how many were accepted, counting those closed at once."""
        for number in range(count):
            try:
                sock, peer = listener.accept()
            except BlockingIOError:
                return number
            except ConnectionAbortedError:
                continue
            except OSError as error:  # out of descriptors or memory
                log.error("cannot accept connections: %s", error)  # noqa: TRY400  no bug, no traceback
                self.watch(wanted=False)  # the next sweep tries again
                return number
            admit(sock, peer)
        return count
