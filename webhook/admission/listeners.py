"""The sockets on which new connections arrive."""

import logging
import select
import socket
from collections.abc import Callable, Iterable
from typing import Any

log = logging.getLogger("gpu_policy.server")

_ACCEPTS_PER_TURN = 64


class Listeners:
    """Listening sockets and whether the poller watches them; they are closed when the server stops."""

    def __init__(self, sockets: Iterable[socket.socket], epoll: select.epoll) -> None:
        self._sockets = {sock.fileno(): sock for sock in sockets}
        self._epoll = epoll
        self._watched = False

    def __contains__(self, fd: int) -> bool:
        return fd in self._sockets

    def watch(self, *, wanted: bool) -> None:
        """Begin or cease to accept; clients that come meanwhile wait in the backlog."""
        if wanted == self._watched:
            return
        self._watched = wanted
        for fd in self._sockets:
            if wanted:
                self._epoll.register(fd, select.EPOLLIN)
            else:
                self._epoll.unregister(fd)

    def accept(self, fd: int, room: int, admit: Callable[[socket.socket, Any], None]) -> None:
        """Accept some connections, at most as many as there is room for."""
        for _ in range(min(room, _ACCEPTS_PER_TURN)):
            try:
                sock, peer = self._sockets[fd].accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:  # out of descriptors or memory
                log.error("cannot accept connections: %s", error)  # noqa: TRY400  no bug, no traceback
                self.watch(wanted=False)  # the next sweep tries again
                return
            admit(sock, peer)
        if room <= _ACCEPTS_PER_TURN:
            self.watch(wanted=False)

    def close(self, room: int, admit: Callable[[socket.socket, Any], None]) -> None:
        """Accept who is connected already, since closing would reset them, and close."""
        for fd in self._sockets:
            for _ in range(0, room, _ACCEPTS_PER_TURN):
                self.accept(fd, _ACCEPTS_PER_TURN, admit)
        self.watch(wanted=False)
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()
