"""Ledgers as ConfigMaps in the API server, one for each quota, in the namespace of this installation.

Every cluster has ConfigMaps. Objects of a custom kind would be removed together with its CRD.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.kubernetes.api_errors import ApiServerError, ConflictError
from webhook.kubernetes.api_paths import CORE, delete_options, path_of
from webhook.kubernetes.api_server import METADATA, ApiServer
from webhook.kubernetes.paged_list import ListDeadline, Listed, PagedList
from webhook.ledger.entries import LABEL, PREFIX, SET_ASIDE, Entries, content, entries_in, undecodable
from webhook.ledger.ledger_store import LedgerError, StoredLedger
from webhook.model.json_parts import listed, mapped, part

_PAGE = 50
"""Ledgers in one page of a list. A ledger usually has a few kilobytes, and at most half a megabyte."""


@dataclass(frozen=True, slots=True)
class _HeldObject(StoredLedger):
    """A ledger with the metadata of its object, so that labels and annotations of others are kept.

    `aside` is what was set aside because it could not be decoded. An immutable object can only be deleted.
    """

    metadata: Mapping[str, Any] = field(default_factory=dict)
    aside: str = ""
    is_immutable: bool = False


class ApiStore:
    """`webhook.ledger.ledger_store.LedgerStore` in the API server; writes are compared by resourceVersion.

    Threads may share it.
    """

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self._path = path_of(CORE, "configmaps", namespace=namespace)
        self._known: dict[str, StoredLedger] = {}  # as last read or written, so that none is decoded twice

    def read(self, key: str, seconds: float) -> StoredLedger | None:
        path, left = self._path_of(key), ListDeadline(seconds).left
        try:
            found = self._server.get(path, {}, left())
        except ApiServerError as error:
            if error.is_about_missing(PREFIX + key):
                return None
            raise _explained("GET", path, error) from error
        return self._held(key, found, left)

    def create(self, key: str, entries: Entries, seconds: float) -> StoredLedger:
        return self._written(key, entries, self._send("POST", key, self._object(key, entries, {}, ""), seconds), "")

    def replace(self, key: str, entries: Entries, over: StoredLedger, seconds: float) -> StoredLedger:
        held = over if isinstance(over, _HeldObject) else _HeldObject(over.version, over.entries)
        method, metadata = "PUT", {**held.metadata, "resourceVersion": over.version}
        if held.is_immutable:
            self.remove(key, over, seconds := seconds / 2)
            method, metadata = "POST", {one: mapped(held.metadata, one) for one in ("labels", "annotations")}
        sent = self._send(method, key, self._object(key, entries, metadata, held.aside), seconds)
        return self._written(key, entries, sent, held.aside)

    def remove(self, key: str, over: StoredLedger, seconds: float) -> None:
        self._send("DELETE", key, delete_options(over.version), seconds)

    def read_all(self, seconds: float) -> Mapping[str, StoredLedger]:
        ledgers: dict[str, StoredLedger] = {}
        left = ListDeadline(seconds).left
        try:
            for raw in PagedList(self._server, Listed(self._path, _PAGE, labels=LABEL), left):
                if not _name(raw).startswith(PREFIX):
                    continue  # no ledger, although it has the label
                key = _name(raw).removeprefix(PREFIX)
                ledgers[key] = self._held(key, raw, left)
        except ApiServerError as error:
            raise _explained("GET", self._path, error) from error
        self._known = dict(ledgers)
        return ledgers

    def _path_of(self, key: str) -> str:
        return path_of(CORE, "configmaps", namespace=self._namespace, name=PREFIX + key)

    def _object(self, key: str, entries: Entries, metadata: Mapping[str, Any], aside: str) -> dict[str, Any]:
        labels = {**mapped(metadata, "labels"), LABEL: "true"}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "name": PREFIX + key, "namespace": self._namespace, "labels": labels},
            **content(entries, aside),
        }

    def _held(self, key: str, found: object, left: Callable[[], float]) -> StoredLedger:
        version, metadata = self._place(key, found)
        known = self._known.get(key)
        if known is not None and known.version == version:
            return known
        aside, is_immutable = str(mapped(found, "data").get(SET_ASIDE, "")), part(found, "immutable") is True
        damage = "it was immutable" if is_immutable else ""
        try:
            entries = entries_in(found)
        except ValueError as error:
            damage, aside = f"it could not be decoded ({error}), see data[{SET_ASIDE}]", undecodable(found)
            entries = Entries(self._before(key, version, left).by_uid)
        return self._remembered(key, _HeldObject(version, entries, damage, metadata, aside, is_immutable))

    def _before(self, key: str, version: str, left: Callable[[], float], tries: int = 3) -> Entries:
        """The entries before the writes that broke a ledger, as far as the API server still has them; else none.

        No list shows pods that were admitted a moment ago and are not stored yet.
        """
        if not tries or not version.isdecimal():
            return Entries()
        query = {"fieldSelector": f"metadata.name={PREFIX}{key}", "resourceVersionMatch": "Exact"}
        try:
            answer = self._server.get(self._path, {**query, "resourceVersion": str(int(version) - 1)}, left())
        except ApiServerError as error:
            if error.status in (0, 429) or error.status >= 500:
                raise _explained("GET", self._path, error) from error
            return Entries()  # the API server has forgotten it
        found = next((one for one in listed(answer, "items") if _name(one) == PREFIX + key), None)
        try:
            return entries_in(found)
        except ValueError:
            return self._before(key, str(part(found, "metadata", "resourceVersion")), left, tries - 1)

    def _written(self, key: str, entries: Entries, found: object, aside: str) -> StoredLedger:
        """A ledger whose entries are known, from the metadata of its object."""
        version, metadata = self._place(key, found)
        return self._remembered(key, _HeldObject(version, entries, metadata=metadata, aside=aside))

    def _remembered(self, key: str, held: StoredLedger) -> StoredLedger:
        self._known[key] = held
        return held

    def _place(self, key: str, found: object) -> tuple[str, Mapping[str, Any]]:
        metadata, version = mapped(found, "metadata"), part(found, "metadata", "resourceVersion")
        if not isinstance(version, str) or not version:
            text = f"{self._path_of(key)}: the answer is not a ledger; check whether a proxy answers for the API server"
            raise LedgerError(text, "something else was found in its place", 500)
        return version, {name: part for name, part in metadata.items() if name != "managedFields"}

    def _send(self, method: str, key: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        path = self._path if method == "POST" else self._path_of(key)
        try:
            return self._server.send(method, path, body, seconds, accept=METADATA)
        except ApiServerError as error:
            if error.status == 409 or error.is_about_missing(PREFIX + key):
                raise ConflictError from error
            raise _explained(method, path, error) from error


def _name(raw: object) -> str:
    return str(mapped(raw, "metadata").get("name", ""))


def _explained(method: str, path: str, error: ApiServerError) -> LedgerError:
    text = f"{error.sentence(method, path)}{_REMEDIES.get(error.status, '')}"
    return LedgerError(text, error.for_authors("it cannot be read or written"), error.code)


_TOO_LARGE = "; the quota has more pods than one object can hold"
_REMEDIES = {404: "; --quota-ledgers has to name a namespace that is there", 413: _TOO_LARGE, 422: _TOO_LARGE}
