"""Resource claims, or templates of claims, of a cluster: what each asks for, by namespace and name.

Whoever may create claims writes them, so that what is remembered of them is bounded: by claim, and by namespace. A
namespace harms nobody but itself: claims beyond the bounds are as unknown as those that do not exist.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from webhook.model.claims import Requests, ResourceClaim, claim_of_kind
from webhook.model.workloads import controller_of
from webhook.model.workloads.parts import mapped

MOST_IN_NAMESPACE = 4096
"""Claims, and as many templates, that are remembered of a namespace: the first that were heard of."""
MOST_DEVICES = 32
"""Alternatives in all requests of a claim together."""
LONGEST_CLASSES = 512
"""Characters of all different DeviceClasses that a claim names."""

_UNREADABLE: Requests = ((),)
_NOTHING: Mapping[str, Requests] = MappingProxyType({})
_Known = tuple[str, str, Requests]
"""A claim as it is remembered: its namespace, its name and what it asks for."""


class ClaimTable:
    """Claims of one kind. It never changes: a change gives another table, which shares the other namespaces."""

    __slots__ = ("_namespaces",)

    def __init__(self, namespaces: Mapping[str, Mapping[str, Requests]] = MappingProxyType({})) -> None:
        self._namespaces = namespaces

    @classmethod
    def of(cls, kind: str, raws: Iterable[object]) -> "ClaimTable":
        """The table of these objects of one kind, which are read one by one."""
        return cls()._with(filter(None, (_read(kind, raw) for raw in raws)))

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClaimTable) and self._namespaces == other._namespaces

    __hash__ = None  # type: ignore[assignment]  # tables are compared only

    def get(self, namespace: str, name: str) -> Requests | None:
        """What a claim asks for; None where it is not known."""
        return self._namespaces.get(namespace, _NOTHING).get(name)

    def with_all(self, claims: Iterable[tuple[str, ResourceClaim]]) -> "ClaimTable":
        """The table with these claims, each in its namespace, in the place of those that have their names."""
        return self._with((namespace, claim.name, _bounded(claim.requests)) for namespace, claim in claims)

    def _with(self, claims: Iterable[_Known]) -> "ClaimTable":
        namespaces = {namespace: dict(here) for namespace, here in self._namespaces.items()}
        for namespace, name, requests in claims:
            here = namespaces.setdefault(namespace, {})
            if name in here or len(here) < MOST_IN_NAMESPACE:
                here[name] = requests
        return ClaimTable(namespaces)

    def with_claim(self, kind: str, raw: object) -> "ClaimTable":
        """The table with an object added or changed; itself where nothing that is remembered changes."""
        found = _read(kind, raw)
        if found is None:
            return self
        namespace, name, requests = found
        here = self._namespaces.get(namespace, _NOTHING)
        if here.get(name) == requests or (name not in here and len(here) >= MOST_IN_NAMESPACE):
            return self
        return ClaimTable({**self._namespaces, namespace: {**here, name: requests}})

    def without(self, namespace: str, name: str) -> "ClaimTable":
        """The table without a claim; itself where it has none of this name."""
        here = self._namespaces.get(namespace, _NOTHING)
        if name not in here:
            return self
        left = {other: requests for other, requests in here.items() if other != name}
        namespaces = {**self._namespaces, namespace: left}
        if not left:
            del namespaces[namespace]
        return ClaimTable(namespaces)


def _read(kind: str, raw: object) -> _Known | None:
    """What is remembered of an object; None for what has no name, and for claims that are made for one pod each.

    The pod names the template of such a claim, never the claim.
    """
    claim = claim_of_kind(kind, raw)
    metadata = mapped(raw, "metadata")
    owner = controller_of({"metadata": metadata})
    if claim is None or (owner is not None and owner.get("kind") == "Pod"):
        return None
    namespace = metadata.get("namespace")
    return namespace if isinstance(namespace, str) else "", claim.name, _bounded(claim.requests)


def _bounded(requests: Requests) -> Requests:
    """The requests; of a claim that asks for too much to be remembered, that it cannot be read."""
    devices = [one for request in requests for one in request]
    classes = sum(map(len, {one.device_class for one in devices}))
    return _alike(requests) if len(devices) <= MOST_DEVICES and classes <= LONGEST_CLASSES else _UNREADABLE


@lru_cache(maxsize=4096)
def _alike(requests: Requests) -> Requests:
    """The same object for claims that ask for the same, as most do."""
    return requests
