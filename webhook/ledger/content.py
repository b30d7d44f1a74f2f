"""How a ledger stands in a ConfigMap: what lasts as one text, packed if long, and each appended entry by itself."""

import base64
import gzip
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from webhook.ledger.book import Book, BookError, book_from_raw, kind_from_raw, kind_to_raw, uid_bytes, uid_text
from webhook.model.gzipped import unzipped
from webhook.quota.quota import Demand

PREFIX = "gpu-quota."
"""Ledgers are ConfigMaps named so and by the key of the quota, such as gpu-quota.namespace.team-vision."""
LABEL = "gpupolicy.dev/ledger"
DATA = "book.json"
"""The key under which a ConfigMap holds the book."""
PACKED = "book.json.gz"
"""The key under which it holds a large one, in binaryData."""
EDITION = "edition"
"""The key of a text that is another one whenever what lasts was written."""
APPENDED = "entry."
"""The keys of appended entries begin so; the uid of the pod and the mark of the replica follow."""

_LARGEST_TEXT = 600 * 1024
"""Bytes of a book that is written as text; a ConfigMap may have 1 MiB, and uids are a quarter shorter when packed."""
_LARGEST_BOOK = 16 * 1024**2


class TooLargeError(ValueError):
    """What lasts of a book is too large for a text."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """What lasts of a ledger as it stands in a ConfigMap, with the hash of its text, by which it is not read twice."""

    book: Book
    text_hash: int


def content(book: Book) -> dict[str, Any]:
    """The parts of a ConfigMap that hold a book, as another edition."""
    text = orjson.dumps(book.to_raw())
    data = {EDITION: _new_edition(), **_appended(book)}
    if len(text) <= _LARGEST_TEXT:
        return {"data": {DATA: text.decode(), **data}}
    return {"data": data, "binaryData": {PACKED: base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")}}


def merge_patch(before: Book, after: Book) -> dict[str, Any]:
    """What appends and takes back what differs between two books in which the same entries last (RFC 7386).

    It can be applied to whatever the object is by then.
    """
    return {"data": _changes(before, after)}


def json_patch(before: Book, after: Book, edition: str) -> list[dict[str, Any]]:
    """The same for books in which other entries last (RFC 6902).

    It can be applied to that edition only, whatever was appended to it meanwhile. Raises TooLargeError.
    """
    text = orjson.dumps(after.to_raw())
    if len(text) > _LARGEST_TEXT:
        raise TooLargeError
    operations: list[dict[str, Any]] = [{"op": "test", "path": f"/data/{EDITION}", "value": edition}]
    for key, value in {DATA: text.decode(), EDITION: _new_edition(), **_changes(before, after)}.items():
        place = {"path": f"/data/{key}"}
        operations.append({"op": "remove", **place} if value is None else {"op": "add", **place, "value": value})
    return operations


def book_in(found: object) -> Book:
    """The book that the ConfigMap `found` holds. Raises ValueErrors that say what is wrong, BookError among them."""
    return with_appended(lasting_in(found).book, found)


def edition_in(found: object) -> str:
    """The edition of a ledger; empty where it says none, as after somebody changed it by hand."""
    edition = _part(found, "data").get(EDITION)
    return edition if isinstance(edition, str) else ""


def lasting_in(found: object, known: Lasting | None = None) -> Lasting:
    """What lasts of the ledger that a ConfigMap holds; `known` where its text is the same. Raises as `book_in`."""
    for part, key in (("data", DATA), ("binaryData", PACKED)):
        text = _part(found, part).get(key)
        if isinstance(text, str):
            text_hash = hash(text)
            if known is not None and known.text_hash == text_hash:
                return known
            raw = orjson.loads(text if key == DATA else _unpacked(base64.b64decode(text, validate=True)))
            return Lasting(book_from_raw(raw), text_hash)
    raise ValueError(f"found neither data[{DATA}] nor binaryData[{PACKED}]")


def with_appended(lasting: Book, found: object) -> Book:
    """What lasts, and what the ConfigMap has appended to it. Raises BookError."""
    marked: dict[bytes, tuple[Demand, list[str]]] = {}
    for key, text in sorted(_part(found, "data").items()):
        if key.startswith(APPENDED):
            if not isinstance(text, str):
                raise BookError(f"data[{key}]: is no entry of a pod: found {text!r}, expected a string")
            uid, mark, demand = _entry(key, text)
            marked.setdefault(uid, (demand, []))[1].append(mark)
    return lasting.appending_all(marked) if marked else lasting


def _changes(before: Book, after: Book) -> dict[str, str | None]:
    """The texts of the keys that differ in what is appended; None where there is none any more."""
    old, new = _marked(before), _marked(after)
    added = {_key(*one): _text(after.entries[one[0]]) for one in new - old}
    return {**dict.fromkeys(_key(*one) for one in old - new), **added}


def _marked(book: Book) -> set[tuple[bytes, str]]:
    return {(uid, mark) for uid, marks in book.appended.items() for mark in marks}


def _appended(book: Book) -> dict[str, str]:
    """The keys and texts of what is appended to a book."""
    return {_key(uid, mark): _text(book.entries[uid]) for uid, mark in _marked(book)}


def _key(uid: bytes, mark: str) -> str:
    return f"{APPENDED}{uid_text(uid)}.{mark}"


def _text(demand: Demand) -> str:
    return orjson.dumps({"namespace": demand.namespace, **kind_to_raw(demand.gpus, demand.models)}).decode()


@lru_cache(maxsize=4096)  # since most of them have been read before, with what was appended earlier
def _entry(key: str, text: str) -> tuple[bytes, str, Demand]:
    uid, _, mark = key.removeprefix(APPENDED).partition(".")
    try:
        raw = orjson.loads(text)
        return uid_bytes(uid), mark, Demand(str(raw["namespace"]), *kind_from_raw(raw, "entry"))
    except (ValueError, TypeError, KeyError) as error:
        raise BookError(f"data[{key}]: is no entry of a pod: {error}") from None


def _part(found: object, name: str) -> Mapping[str, Any]:
    part = found.get(name) if isinstance(found, dict) else None
    return part if isinstance(part, dict) else {}


def _new_edition() -> str:
    return secrets.token_hex(8)


def _unpacked(packed: bytes) -> bytes:
    try:
        return unzipped(packed, _LARGEST_BOOK)
    except zlib.error as error:
        raise ValueError(f"binaryData[{PACKED}] is not gzip: {error}") from None
    except ValueError as error:
        raise ValueError(f"binaryData[{PACKED}]: {error}") from None
