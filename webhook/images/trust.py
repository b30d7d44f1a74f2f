"""Whose certificates are trusted."""

import ssl
from functools import lru_cache


@lru_cache(maxsize=8)
def trust(authorities: str | None = None) -> ssl.SSLContext:
    """A client's context that trusts the authorities of the system and those in a PEM text; shared, about 1 MiB.

    Raises ValueError where the text holds no certificate.
    """
    context = ssl.create_default_context()
    if authorities is not None:
        try:
            context.load_verify_locations(cadata=authorities)
        except ssl.SSLError as error:
            raise ValueError("no certificate in PEM") from error
    return context
