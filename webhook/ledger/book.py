"""The book of one quota: an entry for every admitted pod, under the uid that no other pod ever has.

Pods with equal demands share one line, so a pod costs the 16 bytes of its uid: 8,000 of them 175 kB, 20,000 430 kB, of
the 1 MiB that a ConfigMap may have.
"""

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from webhook.quota.quota import Demand

UID_BYTES = 16


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
    counts: Mapping[Demand, int] = field(init=False, compare=False)
    """How many pods have equal demands."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", _counted(self.entries.values()))

    def changed(
        self,
        entered: Mapping[bytes, Demand],
        struck: Collection[bytes] = (),
        patterns: Iterable[str] | None = None,
    ) -> "Book":
        """The book with other entries; the same book where nothing differs. What is entered is not struck."""
        entries = {uid: demand for uid, demand in self.entries.items() if uid not in struck} if struck else self.entries
        entries = {**entries, **entered}
        covered = self.patterns if patterns is None else frozenset(patterns)
        return self if entries == self.entries and covered == self.patterns else Book(entries, covered)

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that have entries."""
        return frozenset(demand.namespace for demand in self.counts)

    def to_raw(self) -> dict[str, Any]:
        """The book as JSON, sorted so that equal books look alike."""
        uids: dict[Demand, list[bytes]] = {}
        for uid, demand in self.entries.items():
            uids.setdefault(demand, []).append(uid)
        lines = [_line(demand, uids[demand]) for demand in sorted(uids, key=_order)]
        return {"namespaces": sorted(self.patterns), "pods": len(self.entries), "entries": lines}


def uid_bytes(text: str) -> bytes:
    """The uid of a pod as bytes. Raises ValueError for what is no UUID."""
    return UUID(text).bytes


def uid_text(uid: bytes) -> str:
    """The same as it stands in metadata.uid."""
    return str(UUID(bytes=uid))


def book_from_raw(raw: object) -> Book:
    """The book that `to_raw` gave; raises BookError for anything else."""
    try:
        spec = _map(raw, "book")
        entries: dict[bytes, Demand] = {}
        for index, line in enumerate(_list(spec.get("entries"), "entries")):
            _enter(_map(line, f"entries[{index}]"), f"entries[{index}]", entries)
        patterns = frozenset(_text(name, "namespaces") for name in _list(spec.get("namespaces"), "namespaces"))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise BookError(f"entries: uids are no base64 ({error})") from None
    return Book(entries, patterns)


def _counted(demands: Iterable[Demand]) -> dict[Demand, int]:
    counts: dict[Demand, int] = {}
    for demand in demands:
        counts[demand] = counts.get(demand, 0) + 1
    return counts


def _order(demand: Demand) -> tuple[object, ...]:
    return demand.namespace, demand.gpus, demand.models is not None, demand.models or ()


def _line(demand: Demand, uids: Iterable[bytes]) -> dict[str, Any]:
    line: dict[str, Any] = {"namespace": demand.namespace, "gpus": dict(demand.gpus)}
    if demand.models is not None:
        line["models"] = list(demand.models)
    line["uids"] = base64.b64encode(b"".join(sorted(uids))).decode("ascii")
    return line


def _enter(line: Mapping[str, Any], where: str, entries: dict[bytes, Demand]) -> None:
    gpus = []
    for name, count in _map(line.get("gpus"), f"{where}.gpus").items():
        if count.__class__ is not int or count < 1:
            raise BookError(f"{where}.gpus[{name}]: found {count!r}, expected a whole number from 1")
        gpus.append((name, count))
    models = line.get("models")
    if models is not None:
        models = tuple(sorted(_text(model, f"{where}.models") for model in _list(models, f"{where}.models")))
    demand = Demand(_text(line.get("namespace"), f"{where}.namespace"), tuple(sorted(gpus)), models)
    packed = base64.b64decode(_text(line.get("uids"), f"{where}.uids"), validate=True)
    if len(packed) % UID_BYTES:
        raise BookError(f"{where}.uids: {len(packed)} bytes are no whole number of uids of {UID_BYTES}")
    for start in range(0, len(packed), UID_BYTES):
        entries[packed[start : start + UID_BYTES]] = demand


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
        raise BookError(f"{where}: expected a text")
    return value
