"""The book of one quota: an entry for every admitted pod, under the uid that no other pod ever has.

Pods of a namespace that ask for the same share a text, so a pod costs the 16 bytes of its uid, which are 22 in base64.

In a ConfigMap a ledger is text, and packed where it is large.
"""

import base64
import binascii
import gzip
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson

from webhook.model.bounds import unzipped
from webhook.quota.quotas import Demand

UID_BYTES = 16
MOST_RESOURCES = 16
"""Different GPU resources in one entry. No node has as many, and their names have room for any text: a tenant must not
fill a book, which many may share, with a few pods that never run."""


class BookError(ValueError):
    """What was read is no book; the text says what was found where."""


@dataclass(frozen=True, slots=True)
class Book:
    """The entries of one quota. Never changed: every change makes another book.

    `patterns` are the names and globs of namespaces whose pods have all been entered: those that were there before the
    quota was, too.
    """

    entries: Mapping[bytes, Demand] = field(default_factory=dict)
    patterns: frozenset[str] = frozenset()
    counts: Mapping[Demand, int] = field(default_factory=dict, compare=False)
    """How many pods have equal demands; found out where it is not given."""

    def __post_init__(self) -> None:
        if self.entries and not self.counts:
            counts: dict[Demand, int] = {}
            for demand, uids in _by_demand(self.entries):
                counts[demand] = counts.get(demand, 0) + len(uids)
            object.__setattr__(self, "counts", counts)

    def changed(
        self,
        entered: Mapping[bytes, Demand],
        struck: Collection[bytes] = (),
        patterns: Iterable[str] | None = None,
    ) -> "Book":
        """The book with other entries; the same book where nothing differs. What is entered is not struck."""
        same = {demand: demand for demand in self.counts}  # so that entries share what is equal
        added = {uid: same.setdefault(demand, demand) for uid, demand in entered.items()}
        added = {uid: one for uid, one in added.items() if self.entries.get(uid) != one}
        removed = {uid for uid in struck if uid in self.entries and uid not in entered}
        covered = self.patterns if patterns is None else frozenset(patterns)
        if not added and not removed and covered == self.patterns:
            return self
        entries = {**self.entries, **added}
        for uid in removed:
            del entries[uid]
        gone = [self.entries[uid] for uid in (*removed, *added) if uid in self.entries]
        return Book(entries, covered, self._counted(added.values(), gone))

    def _counted(self, added: Iterable[Demand], gone: Iterable[Demand]) -> dict[Demand, int]:
        counts = dict(self.counts)
        for demand in added:
            counts[demand] = counts.get(demand, 0) + 1
        for demand in gone:
            counts[demand] -= 1
            if not counts[demand]:
                del counts[demand]
        return counts

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that have entries."""
        return frozenset(demand.namespace for demand in self.counts)

    def to_raw(self) -> dict[str, Any]:
        """The book as JSON, sorted so that equal books look alike.

        `kinds` are what pods ask for, `entries` the uids of the pods of each namespace by the number of their kind.
        """
        kinds = sorted({(demand.gpus, demand.models) for demand in self.counts}, key=_order)
        numbers = {kind: number for number, kind in enumerate(kinds)}
        demands = sorted(self.counts, key=lambda one: (one.namespace, numbers[one.gpus, one.models]))
        uids: dict[Demand, list[bytes]] = {demand: [] for demand in demands}
        for demand, pods in _by_demand(self.entries):
            uids[demand] += pods
        entries: dict[str, dict[str, str]] = {}
        for demand, pods in uids.items():
            packed = base64.b64encode(b"".join(sorted(pods))).decode("ascii")
            entries.setdefault(demand.namespace, {})[str(numbers[demand.gpus, demand.models])] = packed
        return {
            "namespaces": sorted(self.patterns),
            "pods": len(self.entries),
            "kinds": [kind_to_raw(*kind) for kind in kinds],
            "entries": entries,
        }


def kind_to_raw(gpus: tuple[tuple[str, int], ...], models: tuple[str, ...] | None) -> dict[str, Any]:
    """What pods ask for, as it stands in a book."""
    return {"gpus": dict(gpus)} | ({} if models is None else {"models": list(models)})


def uid_bytes(text: str) -> bytes:
    """The uid of a pod as bytes. Raises ValueError for what is no UUID."""
    return UUID(text).bytes


def uid_text(uid: bytes) -> str:
    """The same as it stands in metadata.uid."""
    return str(UUID(bytes=uid))


def book_from_raw(raw: object) -> Book:
    """The book that `to_raw` gave; raises BookError for anything else."""
    book = _map(raw, "book")
    kinds = [_read_kind(kind, f"kinds[{number}]") for number, kind in enumerate(_list(book.get("kinds"), "kinds"))]
    entries: dict[bytes, Demand] = {}
    for namespace, pods in _map(book.get("entries"), "entries").items():
        for number, packed in _map(pods, f"entries.{namespace}").items():
            where = f"entries.{namespace}.{number}"
            if not number.isdecimal() or len(number) > _LONGEST_NUMBER or int(number) >= len(kinds):
                raise BookError(f"{where}: no kind has this number")
            demand = Demand(namespace, *kinds[int(number)])
            entries.update(dict.fromkeys(_uids(packed, where), demand))
    patterns = frozenset(_text(name, "namespaces") for name in _list(book.get("namespaces"), "namespaces"))
    return Book(entries, patterns)


_Kind = tuple[tuple[tuple[str, int], ...], tuple[str, ...] | None]

_LONGEST_NUMBER = 9


def _by_demand(entries: Mapping[bytes, Demand]) -> Iterable[tuple[Demand, list[bytes]]]:
    """The uids of each demand; equal demands come as often as there are objects of them, of which entries share most.

    By identity, because a demand takes longer to hash than everything else that is done for an entry.
    """
    found: dict[int, tuple[Demand, list[bytes]]] = {}
    for uid, demand in entries.items():
        known = found.get(id(demand))
        if known is None:
            found[id(demand)] = demand, [uid]
        else:
            known[1].append(uid)
    return found.values()


def _order(kind: _Kind) -> tuple[object, ...]:
    gpus, models = kind
    return gpus, models is not None, models or ()


def _read_kind(raw: object, where: str) -> _Kind:
    kind = _map(raw, where)
    gpus = []
    for name, count in _map(kind.get("gpus"), f"{where}.gpus").items():
        if count.__class__ is not int or count < 1:
            raise BookError(f"{where}.gpus[{name}]: found {count!r}, expected a whole number from 1")
        gpus.append((name, count))
    models = kind.get("models")
    if models is not None:
        models = tuple(sorted(_text(model, f"{where}.models") for model in _list(models, f"{where}.models")))
    return tuple(sorted(gpus)), models


def _uids(packed: object, where: str) -> Iterator[bytes]:
    try:
        found = base64.b64decode(_text(packed, where), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BookError(f"{where}: uids are no base64 ({error})") from None
    if len(found) % UID_BYTES:
        raise BookError(f"{where}: {len(found)} bytes are no whole number of uids of {UID_BYTES}")
    return (found[start : start + UID_BYTES] for start in range(0, len(found), UID_BYTES))


def _map(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BookError(f"{where}: expected a map")
    return value


def _list(value: object, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BookError(f"{where}: expected a list")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BookError(f"{where}: expected a string")
    return value


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
