"""What an answer other than the one asked for means."""

import time
from email.utils import parsedate_to_datetime

from webhook.images.http_request import HttpResponse
from webhook.images.lookup_errors import LookUpError

_LONGEST_WAIT = 3600.0
"""Seconds for which a registry can ask to be left alone."""


def refusal(answer: HttpResponse, what: str) -> LookUpError:
    """The error for an answer that is not `what` was asked for."""
    host, status = answer.url.host, answer.status
    if status == 404:
        return LookUpError(f"{host} does not have {what} (404)")
    if status in (401, 403):
        return LookUpError(
            f"{host} denies access to {what} ({status}); check that it exists and that the configured credentials may "
            "pull it"
        )
    if status == 429:
        return LookUpError(
            f"{host} rejects requests for now, because there were too many (429)",
            is_lasting=False,
            retry_after=retry_after(answer),
        )
    if status == 408 or status >= 500:
        return LookUpError(
            f"{host} cannot answer the request at the moment ({status})",
            is_lasting=False,
            retry_after=retry_after(answer),
        )
    return LookUpError(f"{host} answers with status {status} instead of {what}")


def retry_after(answer: HttpResponse) -> float:
    """The seconds in the header Retry-After, or until the date in it; 0 where it says nothing, an hour at most."""
    text = str(answer.headers.get("retry-after", ""))
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), _LONGEST_WAIT)
    try:
        wait = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(wait, 0.0), _LONGEST_WAIT)
