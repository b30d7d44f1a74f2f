"""How a ledger stands in a ConfigMap: as text, a large one packed."""

import base64
import gzip
import zlib
from typing import Any

import orjson

from webhook.ledger.book import Book, book_from_raw
from webhook.model.gzipped import unzipped

PREFIX = "gpu-quota."
"""Ledgers are ConfigMaps named so and by the key of the quota, such as gpu-quota.namespace.team-vision."""
LABEL = "gpupolicy.dev/ledger"
DATA = "book.json"
"""The key under which a ConfigMap holds the book."""
PACKED = "book.json.gz"
"""The key under which it holds a large one, in binaryData."""

_LARGEST_TEXT = 600 * 1024
"""Bytes of a book that is written as text; a ConfigMap may have 1 MiB, and uids are a quarter shorter when packed."""
_LARGEST_BOOK = 16 * 1024**2


def content(book: Book) -> dict[str, Any]:
    """The parts of a ConfigMap that hold a book."""
    text = orjson.dumps(book.to_raw())
    if len(text) <= _LARGEST_TEXT:
        return {"data": {DATA: text.decode()}}
    return {"binaryData": {PACKED: base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")}}


def book_in(found: object) -> Book:
    """The book in a ConfigMap; ValueError, of which BookError is one, where there is none."""
    raw = found if isinstance(found, dict) else {}
    for part, key in (("data", DATA), ("binaryData", PACKED)):
        held = raw.get(part)
        text = held.get(key) if isinstance(held, dict) else None
        if isinstance(text, str):
            return book_from_raw(
                orjson.loads(text if key == DATA else _unpacked(base64.b64decode(text, validate=True)))
            )
    raise ValueError(f"found neither data[{DATA}] nor binaryData[{PACKED}]")


def _unpacked(packed: bytes) -> bytes:
    try:
        return unzipped(packed, _LARGEST_BOOK)
    except zlib.error as error:
        raise ValueError(f"binaryData[{PACKED}] is not gzip: {error}") from None
    except ValueError as error:
        raise ValueError(f"binaryData[{PACKED}]: {error}") from None
