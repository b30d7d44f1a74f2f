"""What is read of an answer of the API server: JSON, headers, and why there was none."""

import gc
from email.utils import parsedate_to_datetime
from typing import Any

import orjson


def parsed(answer: bytes) -> Any:
    """JSON, without the garbage collector, which would walk through a long list again and again as it grows."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return orjson.loads(answer)
    finally:
        if was_enabled:
            gc.enable()


def told_time(response: Any) -> float | None:
    """The Date of an answer in seconds since 1970; None where it has none that can be read."""
    try:
        return parsedate_to_datetime(str(response.headers.get("date", ""))).timestamp()
    except (ValueError, OverflowError):
        return None


def retry_after(response: Any) -> float:
    """The Retry-After of an answer where it is a number of seconds, else 0."""
    text = str(response.headers.get("retry-after", ""))
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0


def reason(error: BaseException) -> str:
    """The innermost reason of a failed request, in one line."""
    while isinstance(cause := getattr(error, "reason", None) or error.__cause__, BaseException) and cause is not error:
        error = cause
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
