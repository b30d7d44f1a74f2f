"""The sockets on which new connections arrive."""

import ctypes
import logging
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

log = logging.getLogger("gpu_policy.server")

_ACCEPTS_PER_TURN = 64
_LARGEST_BACKLOG = 4096
_ROUND_TRIP_SECONDS = 0.02
"""Time from the server's half of a TCP handshake to the client's half, within a cluster."""

_ATTACH_FILTER = 26
"""SO_ATTACH_FILTER of Linux, which Python does not name."""

_DROP_SYN = b"".join(
    struct.pack("HBBI", code, if_true, if_false, value)
    for code, if_true, if_false, value in (
        (0x30, 0, 0, 13),  # load the byte of the TCP header that holds the flags
        (0x45, 0, 1, 0x02),  # is it a SYN?
        (0x06, 0, 0, 0),  # then keep nothing of the packet
        (0x06, 0, 0, 0xFFFFFFFF),
    )
)
"""A program for the kernel's packet filter: drops packets that begin a handshake, and no others."""

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

        A client that was left in the backlog would be reset. A client that comes after the beginning of this call is
        refused: the kernel drops its first packet, and answers the repeated packet a second later with a refusal.
        """
        self.watch(wanted=False)
        for sock in self._sockets.values():
            _drop_newcomers(sock)
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


def _drop_newcomers(sock: socket.socket) -> None:
    program = ctypes.create_string_buffer(_DROP_SYN, len(_DROP_SYN))
    described = struct.pack("HP", len(_DROP_SYN) // 8, ctypes.addressof(program))
    with suppress(OSError):  # where the kernel cannot do it, a connection of just this moment may be reset
        sock.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, described)
