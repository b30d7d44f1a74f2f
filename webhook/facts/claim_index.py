"""The requests of resource claims, or of templates of claims, by namespace and name.

Tenants write claims, so memory for them is bounded, for each claim and for each namespace. Claims beyond the bounds of
their namespace are unknown, as claims that do not exist. Other namespaces are not affected.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from webhook.model.claims import Requests, ResourceClaim, claim_of_kind
from webhook.model.json_parts import mapped
from webhook.model.workloads import controller_of

MOST_IN_NAMESPACE = 4096
"""Most claims, and most templates, that are kept for a namespace; later ones are unknown."""
MOST_DEVICES = 32
"""Most alternatives in all requests of a claim together."""
LONGEST_CLASSES = 512
"""Most characters of the names of all DeviceClasses in a claim."""

_UNREADABLE: Requests = ((),)
_NOTHING: Mapping[str, Requests] = MappingProxyType({})
_Known = tuple[str, str, Requests]
"""The namespace, name and requests of a claim."""


class ClaimTable:
    """Claims of one kind. A table is immutable: a change makes another table, which shares unchanged namespaces."""

    __slots__ = ("_namespaces",)

    def __init__(self, namespaces: Mapping[str, Mapping[str, Requests]] = MappingProxyType({})) -> None:
        self._namespaces = namespaces

    @classmethod
    def of(cls, kind: str, raws: Iterable[object]) -> "ClaimTable":
        """The table of these objects of one kind. Only one object is in memory at a time."""
        return cls()._with(filter(None, (_read(kind, raw) for raw in raws)))

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClaimTable) and self._namespaces == other._namespaces

    __hash__ = None  # type: ignore[assignment]  # tables are compared only

    def get(self, namespace: str, name: str) -> Requests | None:
        """The requests of a claim; None where the claim is not known."""
        return self._namespaces.get(namespace, _NOTHING).get(name)

    def names(self, namespace: str) -> Sequence[str] | None:
        """The names of the claims of a namespace, sorted; None where there may be others.

        That is so where no claim is known in any namespace, and where a namespace has more than are kept.
        """
        here = self._namespaces.get(namespace, _NOTHING)
        return sorted(here) if self._namespaces and len(here) < MOST_IN_NAMESPACE else None

    def with_all(self, claims: Iterable[tuple[str, ResourceClaim]]) -> "ClaimTable":
        """The table with these claims, each after its namespace. They replace claims of their names."""
        return self._with((namespace, claim.name, _bounded(claim.requests)) for namespace, claim in claims)

    def _with(self, claims: Iterable[_Known]) -> "ClaimTable":
        namespaces = {namespace: dict(here) for namespace, here in self._namespaces.items()}
        for namespace, name, requests in claims:
            here = namespaces.setdefault(namespace, {})
            if name in here or len(here) < MOST_IN_NAMESPACE:
                here[name] = requests
        return ClaimTable(namespaces)

    def with_claim(self, kind: str, raw: object) -> "ClaimTable":
        """The table with an object added or changed; the table itself where its content stays the same."""
        found = _read(kind, raw)
        if found is None:
            return self
        namespace, name, requests = found
        here = self._namespaces.get(namespace, _NOTHING)
        if here.get(name) == requests or (name not in here and len(here) >= MOST_IN_NAMESPACE):
            return self
        return ClaimTable({**self._namespaces, namespace: {**here, name: requests}})

    def without(self, namespace: str, name: str) -> "ClaimTable":
        """The table without a claim; the table itself where it has no claim of this name."""
        here = self._namespaces.get(namespace, _NOTHING)
        if name not in here:
            return self
        left = {other: requests for other, requests in here.items() if other != name}
        namespaces = {**self._namespaces, namespace: left}
        if not left:
            del namespaces[namespace]
        return ClaimTable(namespaces)


def _read(kind: str, raw: object) -> _Known | None:
    """The entry for an object; None where it has no name, and for a claim that a pod owns.

    Kubernetes makes such a claim from a template, and the pod names the template.
    """
    claim = claim_of_kind(kind, raw)
    metadata = mapped(raw, "metadata")
    owner = controller_of({"metadata": metadata})
    if claim is None or (owner is not None and owner.get("kind") == "Pod"):
        return None
    namespace = metadata.get("namespace")
    return namespace if isinstance(namespace, str) else "", claim.name, _bounded(claim.requests)


def _bounded(requests: Requests) -> Requests:
    """The requests; unreadable ones where they are larger than the bounds."""
    devices = [one for request in requests for one in request]
    classes = sum(map(len, {one.device_class for one in devices}))
    return _alike(requests) if len(devices) <= MOST_DEVICES and classes <= LONGEST_CLASSES else _UNREADABLE


@lru_cache(maxsize=4096)
def _alike(requests: Requests) -> Requests:
    """One object for equal requests, which most claims have."""
    return requests
