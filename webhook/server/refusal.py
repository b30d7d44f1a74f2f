"""Answers of the server itself, without the application.

The API server repeats a call that is answered with 503 and `Retry-After`, after that many seconds and within the
webhook's timeout. It does not repeat a call that ends in a reset or with the connection. So every client that cannot
be served gets an answer.
"""

from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine

RETRY_AFTER_SECONDS = 1

_MOST_CHARACTERS = 300
"""Most characters of an error of the parser, which quotes the request."""


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
    """The refusal of bytes that are not an HTTP request."""
    return Refusal("400 Bad Request", message)


def malformed(error: Exception) -> Refusal:
    """The refusal of a request that gunicorn's parser does not accept."""
    if isinstance(error, LimitRequestLine):
        return Refusal("414 URI Too Long", str(error))
    if isinstance(error, LimitRequestHeaders):
        return Refusal("431 Request Header Fields Too Large", str(error))
    return bad_request(str(error)[:_MOST_CHARACTERS])


def failed() -> Refusal:
    """The refusal of a request at which the application failed."""
    return Refusal("500 Internal Server Error", "no answer because of a bug; the log says more")


def too_slow(seconds: float) -> Refusal:
    """The refusal of a request that did not arrive in time."""
    return Refusal("408 Request Timeout", f"the request took longer than {seconds:g} s to arrive")


def length_required() -> Refusal:
    """The refusal of a body without a Content-Length."""
    text = (
        "Transfer-Encoding: found chunked, expected a body with its length in Content-Length, as the API server sends "
        "it; send Content-Length in place of Transfer-Encoding"
    )
    return Refusal("411 Length Required", text)


def forbidden(objection: str) -> Refusal:
    """The refusal of a body from a client whose reviews are not answered."""
    return Refusal("403 Forbidden", objection)


def head_too_large(limit: int) -> Refusal:
    """The refusal of a request line and headers beyond the limit."""
    return Refusal("431 Request Header Fields Too Large", f"the head is larger than {limit} bytes")


def unavailable(message: str) -> Refusal:
    """The refusal of a request that another replica can answer, or this replica a second later."""
    return Refusal("503 Service Unavailable", message)


FAREWELL = unavailable("this connection ends; a request that was on its way was not read, send it again").response()
"""Sent before the server ends a connection on which no request has begun.

A request that crosses with the end of its connection would be lost, because the API server does not repeat it. This
text is its answer: Go's client takes data that arrives after it began to write for the answer to its request. Without a
request on its way, the client logs "Unsolicited response received on idle HTTP channel" and connects anew next time.
"""
