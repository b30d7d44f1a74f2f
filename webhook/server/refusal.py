"""What the server answers itself, without asking the application.

The API server repeats a call that is answered with 503 and `Retry-After` after so many seconds, within the webhook's
timeout. It repeats no call that ends in a reset or with the connection. So whoever cannot be served is told so.
"""

from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine

RETRY_AFTER_SECONDS = 1

_MOST_CHARACTERS = 300
"""Of what was wrong with a request, which quotes it."""


class Refusal(Exception):  # noqa: N818  it is an answer
    """An answer of the server itself, after which the connection ends. `status` is code and phrase."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    @property
    def code(self) -> int:
        """The status as a number."""
        return int(self.status[:3])

    def response(self) -> bytes:
        """The answer as it is sent."""
        text = f"{self.message}\n".encode()
        head = [
            f"HTTP/1.1 {self.status}",
            "Connection: close",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(text)}",
        ]
        if self.code == 503:
            head.append(f"Retry-After: {RETRY_AFTER_SECONDS}")
        return ("\r\n".join(head) + "\r\n\r\n").encode() + text


def bad_request(message: str) -> Refusal:
    """Bytes that are no request."""
    return Refusal("400 Bad Request", message)


def malformed(error: Exception) -> Refusal:
    """What gunicorn's parser does not take."""
    if isinstance(error, LimitRequestLine):
        return Refusal("414 URI Too Long", str(error))
    if isinstance(error, LimitRequestHeaders):
        return Refusal("431 Request Header Fields Too Large", str(error))
    return bad_request(str(error)[:_MOST_CHARACTERS])


def failed() -> Refusal:
    """A request at which the application failed."""
    return Refusal("500 Internal Server Error", "no answer because of a bug; the log says more")


def too_slow(seconds: float) -> Refusal:
    """A request that did not arrive in time."""
    return Refusal("408 Request Timeout", f"the request took longer than {seconds:g} s to arrive")


def length_required() -> Refusal:
    """A body whose length is found out only by reading it."""
    text = (
        "Transfer-Encoding: found chunked, expected a body whose length is said beforehand; the API server sends "
        "Content-Length: leave Transfer-Encoding out and send it too"
    )
    return Refusal("411 Length Required", text)


def forbidden(objection: str) -> Refusal:
    """A body of a client that gets no review answered; nothing else has one."""
    return Refusal("403 Forbidden", objection)


def head_too_large(limit: int) -> Refusal:
    """Headers that do not end."""
    return Refusal("431 Request Header Fields Too Large", f"the head is larger than {limit} bytes")


def unavailable(message: str) -> Refusal:
    """A request that another replica, or this one in a second, can answer."""
    return Refusal("503 Service Unavailable", message)


FAREWELL = unavailable("this connection ends; a request that was on its way was not read, send it again").response()
"""Sent before the server ends a connection on which no request has begun.

A request that crosses with the end of its connection would be lost, for the API server does not repeat it. With this it
has its answer: Go's client takes what arrives after it began to write for the answer to its request. Where no request
was on its way, it logs "Unsolicited response received on idle HTTP channel" and opens another connection next time.
"""
