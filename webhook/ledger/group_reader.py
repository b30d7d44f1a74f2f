"""Reads the groups that pods name, each from its object as it is stored at this moment."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from threading import Semaphore
from typing import TYPE_CHECKING, Any

from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_paths import path_of
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.pod_cache import Member
from webhook.ledger.remainders import Remainder, key_of
from webhook.model.json_parts import mapped
from webhook.model.pod_groups import GROUP_KINDS, Group, GroupPart, NamedGroup, group_in, group_of, named_groups
from webhook.model.quantity import parse_quantity
from webhook.model.shape import FormatError
from webhook.quota.quotas import Demand

if TYPE_CHECKING:  # without a cluster nothing is read
    from webhook.kubernetes.api_server import ApiServer

_log = logging.getLogger("gpu_policy.quota")

_FRESH = 1.0
"""Seconds for which an object that was read counts as read now: the pods of a group come together."""
_MOST_KEPT = 16
"""Most objects that are kept so long. Each may have 1.5 MiB."""
_AT_A_TIME = 4
"""Most objects that are read at a time."""


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """The group of a pod as its object says it, and the pods of it that are stored, by their uids."""

    named: NamedGroup
    group: Group
    members: Mapping[bytes, Member]

    def present(self, part: GroupPart) -> frozenset[bytes]:
        """The stored pods with GPUs of a part."""
        return frozenset(uid for uid, one in self.members.items() if one.has_gpus and part.name in (one.part, ""))

    def needed(self, part: GroupPart, demand: Demand) -> int:
        """How many pods with this demand a part needs. A part without a template may have pods without GPUs, too."""
        if part.template is not None:
            return part.size
        with_gpus = max(0, part.size - sum(1 for one in self.members.values() if not one.has_gpus))
        together = self.group.resources
        if together is None:
            return with_gpus
        return min([with_gpus, *(_amount(together.get(name)) // units for name, units in demand.gpus if units)])


def _amount(quantity: object) -> int:
    with suppress(FormatError):
        return max(0, int(parse_quantity(quantity)))
    return 0


Members = Callable[[str, str], Mapping[bytes, Member]]
"""Gives the stored pods of a group, by namespace and the text of the group."""


class GroupSource:
    """The groups among objects of files. Objects that name no namespace are in `namespace`."""

    def __init__(self, members: Members, objects: Iterable[Mapping[str, Any]] = (), namespace: str = "") -> None:
        self._members = members
        self._objects: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        for raw in objects:
            group, kind = str(raw.get("apiVersion")).rpartition("/")[0], f"{str(raw.get('kind')).lower()}s"
            metadata = mapped(raw, "metadata")
            place = str(metadata.get("namespace") or namespace), f"{kind}.{group}", str(metadata.get("name"))
            if place[1] in GROUP_KINDS:
                self._objects[place] = {**raw, "metadata": {"uid": "/".join(place), **metadata}}

    def of(self, pod: Mapping[str, Any], namespace: str, seconds: float) -> FoundGroup | None:
        """The group that a pod starts together with; None where it names none that exists. Raises LedgerError."""
        until = time.monotonic() + seconds
        for named in named_groups(pod):
            raw = self._object(named, namespace, until)
            if raw is not None and (group := group_of(named, raw, pod)) is not None:
                return FoundGroup(named, group, self._members(namespace, named.text))
        return None

    def now(self, key: bytes, one: Remainder, seconds: float) -> Remainder | None:
        """A remainder as its object says it now; None where that is gone or complete. Raises LedgerError."""
        named = group_in(one.of)
        raw = None if named is None else self._object(named, one.demand.namespace, time.monotonic() + seconds)
        group = None if named is None or raw is None else group_of(named, raw)
        if group is None or group.has_started or key_of(group.uid, one.of) != key:
            return None
        return replace(one, size=min(one.size, group.parts[0].size))

    def _object(self, named: NamedGroup, namespace: str, until: float) -> Mapping[str, Any] | None:  # noqa: ARG002  # nothing takes time here
        return self._objects.get((namespace, named.kind.key, named.name))


class GroupReader(GroupSource):
    """Reads groups, but for those among `objects`. Threads may share it."""

    def __init__(
        self,
        server: "ApiServer",
        members: Members,
        objects: Iterable[Mapping[str, Any]] = (),
        namespace: str = "",
    ) -> None:
        super().__init__(members, objects, namespace)
        self._server = server
        self._turns = Semaphore(_AT_A_TIME)
        self._read: dict[tuple[str, str, str], tuple[float, Mapping[str, Any]]] = {}
        self._may_not: set[str] = set()

    def _object(self, named: NamedGroup, namespace: str, until: float) -> Mapping[str, Any] | None:
        place = namespace, named.kind.key, named.name
        if (known := super()._object(named, namespace, until) or self._known(place)) is not None:
            return known
        if not self._turns.acquire(timeout=max(0.0, until - time.monotonic())):
            raise LedgerError("too many groups of pods are being read")
        try:
            begun, known = time.monotonic(), self._known(place)
            raw = self._asked(named, namespace, until) if known is None else known
            if raw is not None and known is None and len(self._read) < _MOST_KEPT:
                self._read = {**self._read, place: (begun, raw)}
            return raw
        finally:
            self._turns.release()

    def _known(self, place: tuple[str, str, str]) -> Mapping[str, Any] | None:
        """The object, if it was read a moment ago."""
        now = time.monotonic()
        self._read = {key: one for key, one in self._read.items() if now - one[0] < _FRESH}
        return known[1] if (known := self._read.get(place)) is not None else None

    def _asked(self, named: NamedGroup, namespace: str, until: float) -> Mapping[str, Any] | None:
        """The object in the first version that the API server has; None where it has none, or does not show it."""
        kind = named.kind
        for version in kind.versions:
            try:
                path = path_of(f"/apis/{kind.group}/{version}", kind.resource, namespace=namespace, name=named.name)
            except ValueError:  # no name of an object
                return None
            try:
                return self._server.get(path, {}, max(0.05, until - time.monotonic()))
            except ApiServerError as error:
                if error.status == HTTPStatus.FORBIDDEN:
                    if kind.key not in self._may_not:
                        _log.warning("pods of a %s are counted one by one: %s", kind.kind, error.sentence("GET", path))
                    self._may_not.add(kind.key)
                    return None
                if error.status != HTTPStatus.NOT_FOUND:
                    text = error.sentence("GET", path)
                    raise LedgerError(text, error.for_authors(named.called), error.code) from error
                if error.is_about_missing(named.name):
                    return None
        return None
