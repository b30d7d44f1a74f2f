"""The bytes of answers: those of the application, and those of the server itself where the application cannot be asked.

The API server repeats a call that is answered with 503 and `Retry-After`, after that many seconds and within the
webhook's timeout. It does not repeat a call that ends in a reset or with the connection. So every client that cannot
be served gets an answer.
"""

import time
from collections.abc import Sequence
from email.utils import formatdate

RETRY_AFTER_SECONDS = 1
_WITHOUT_BODY = ("1", "204", "304")
"""Statuses that are never followed by a body."""


class Refusal(Exception):  # noqa: N818  it is an answer
    """An answer of the server itself, after which the connection ends. `status` is code and phrase."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    @property
    def code(self) -> int:
        return int(self.status[:3])

    def response(self) -> bytes:
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        if self.code == 503:
            headers.append(("Retry-After", str(RETRY_AFTER_SECONDS)))
        return written(self.status, headers, f"{self.message}\n".encode(), is_last=True)


def unavailable(message: str) -> Refusal:
    """The refusal of a request that another replica can answer, or this replica a second later."""
    return Refusal("503 Service Unavailable", message)


def written(
    status: str, headers: Sequence[tuple[str, str]], content: bytes, *, is_last: bool, is_to_head: bool = False
) -> bytes:
    """An answer as it is sent: in one piece, in one TLS record if it fits. `is_last` ends the connection.

    The length of the body is counted here, except for HEAD, where only the application knows it. Raises ValueError for
    a status or header that is no line.
    """
    has_body = not is_to_head and not status.startswith(_WITHOUT_BODY)
    lines = [
        f"HTTP/1.1 {status}",
        f"Date: {formatdate(time.time(), usegmt=True)}",
        f"Connection: {'close' if is_last else 'keep-alive'}",
    ]
    lines += [f"{name}: {value}" for name, value in headers if not (has_body and name.lower() == "content-length")]
    if has_body:
        lines.append(f"Content-Length: {len(content)}")
    text = "\r\n".join(lines)
    if not status or len(text.splitlines()) != len(lines):
        raise ValueError("the status is missing, or a header has more than one line")
    return (text + "\r\n\r\n").encode("latin-1") + (content if has_body else b"")
