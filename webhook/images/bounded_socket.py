"""A connection that gives out neither more bytes nor more time than was agreed on.

A socket's timeout begins anew with every byte, so that a server which sends one a second is never too slow for it. Here
every read gets what is left of one deadline, and every byte is paid for, those of heads, chunk sizes and trailers too.
"""

import io
import socket

from webhook.images.deadline import Deadline


class TooMuchError(Exception):
    """More was sent than was agreed on."""


class BoundedSocket:
    """A socket for http.client, which asks of one no more than this. Whoever made it closes the socket."""

    def __init__(self, connection: socket.socket, deadline: Deadline, budget: int) -> None:
        self._connection = connection
        self._deadline = deadline
        self.budget = budget
        """Bytes that may still be received."""

    def sendall(self, content: bytes) -> None:
        """Send everything."""
        self._connection.settimeout(self._deadline.left())
        self._connection.sendall(content)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What arrives."""
        return io.BufferedReader(_Arriving(self))

    def receive_into(self, buffer: memoryview) -> int:
        """Wait for bytes; raises TooMuchError, TimeoutError and OSError."""
        self._connection.settimeout(self._deadline.left())
        count = self._connection.recv_into(buffer)
        self.budget -= count
        if self.budget < 0:
            raise TooMuchError
        return count

    def close(self) -> None:
        """Nothing: http.client closes before the answer has been read."""


class _Arriving(io.RawIOBase):
    def __init__(self, wire: BoundedSocket) -> None:
        super().__init__()
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]  # what BufferedReader passes
        return self._wire.receive_into(buffer)
