"""Reads answers of the API server: JSON, headers, refusals, and the reason of a failed request."""

import re
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from webhook.kubernetes.api_errors import RefusedError
from webhook.model.json_parts import text as text_at

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
"""Brackets, and texts, because brackets in texts do not count."""
_DEEPEST = 500
"""Most levels of nesting that are kept: about ten times as many as objects of Kubernetes usually have."""


def from_json(text: bytes) -> Any:
    """Parse JSON, with null in the place of values that are nested too deep.

    The API server stores values with thousands of levels, such as the parameters of a resource claim, and the parser
    reads 1,024 levels. One such object must not make the other objects of its list unreadable.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        shallow = _without_depths(text)
        if len(shallow) == len(text):
            raise
        return orjson.loads(shallow)


def _without_depths(text: bytes) -> bytes:
    """The text without values that are nested too deep; unchanged where there are none."""
    kept: list[bytes] = []
    begun = depth = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth == _DEEPEST + 1:
                kept += (text[begun : token.start()], b"null")
        elif first in b"]}":
            depth -= 1
            if depth == _DEEPEST:
                begun = token.end()
    if depth:
        return text  # it is no JSON
    return b"".join((*kept, text[begun:]))


def time_of(response: Any) -> float | None:
    """The Date of an answer in seconds since 1970; None where it is missing or cannot be read."""
    try:
        return parsedate_to_datetime(str(response.headers.get("date", ""))).timestamp()
    except (ValueError, OverflowError):
        return None


def refusal_of(response: Any) -> RefusedError:
    """The error for a response with an error status, with at most 300 characters of its message."""
    body = response.read(65536)
    response.close()
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    text = text_at(found, "message") or body.decode("utf-8", "replace")
    after = str(response.headers.get("retry-after", ""))
    return RefusedError(
        response.status,
        " ".join(text.split())[:300] or "nothing",
        float(after) if after.isdecimal() and len(after) < 6 else 0.0,
        text_at(found, "details", "name"),
        rest=text_at(found, "metadata", "continue"),
    )


def reason(error: BaseException) -> str:
    """The innermost reason of a failed request, in one line."""
    while isinstance(cause := getattr(error, "reason", None) or error.__cause__, BaseException) and cause is not error:
        error = cause
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
