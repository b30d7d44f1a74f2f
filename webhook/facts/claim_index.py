"""The requests of resource claims, or of templates of claims, by namespace and name.

Tenants write claims, so memory for them is bounded, for each claim and for each namespace. Claims beyond the bounds of
their namespace are unknown, as claims that do not exist; a claim beyond its own bounds is known to be too large. Other
namespaces are not affected.

Claims that Kubernetes makes for a pod from a template are kept as well. Nothing marks them but what any author of a
claim may write into it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from webhook.model.claims import TOO_LARGE, DeviceRequest, Devices, Requests, ResourceClaim, claim_of_kind
from webhook.model.json_parts import text

MOST_IN_NAMESPACE = 4096
"""Most claims, and most templates, that are kept for a namespace; later ones are unknown."""
MOST_DEVICES = 32
"""Most different alternatives in all requests of a claim together."""
LONGEST_CLASSES = 512
"""Most characters of the names of all DeviceClasses, and of all taints that are tolerated, in a claim."""

_NOTHING: Mapping[str, Requests] = MappingProxyType({})
_Known = tuple[str, str, Requests]
"""The namespace, name and requests of a claim."""


class ClaimTable:
    """Claims of one kind. A table is immutable: a change makes another table, which shares unchanged namespaces."""

    __slots__ = ("_is_complete", "_namespaces", "_overfull")

    def __init__(
        self,
        namespaces: Mapping[str, Mapping[str, Requests]] = MappingProxyType({}),
        *,
        is_complete: bool = False,
        overfull: frozenset[str] = frozenset(),
    ) -> None:
        self._namespaces = namespaces
        self._is_complete = is_complete
        self._overfull = overfull

    @classmethod
    def of(cls, kind: str, raws: Iterable[object]) -> "ClaimTable":
        return cls(is_complete=True)._with(filter(None, (_read(kind, raw) for raw in raws)))

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClaimTable) and self._namespaces == other._namespaces

    __hash__ = None  # type: ignore[assignment]  # tables are compared only

    def get(self, namespace: str, name: str) -> Requests | None:
        return self._namespaces.get(namespace, _NOTHING).get(name)

    def names(self, namespace: str) -> Sequence[str] | None:
        """The names of the claims of a namespace, sorted; None where there may be others.

        There may be others unless the claims of the whole cluster were listed, and where a namespace had more than are
        kept.
        """
        if not self._is_complete or namespace in self._overfull:
            return None
        return sorted(self._namespaces.get(namespace, _NOTHING))

    def with_all(self, claims: Iterable[tuple[str, ResourceClaim]]) -> "ClaimTable":
        return self._with((namespace, claim.name, bounded(claim.requests)) for namespace, claim in claims)

    def _with(self, claims: Iterable[_Known]) -> "ClaimTable":
        namespaces = {namespace: dict(here) for namespace, here in self._namespaces.items()}
        overfull = set(self._overfull)
        for namespace, name, requests in claims:
            here = namespaces.setdefault(namespace, {})
            if name in here or len(here) < MOST_IN_NAMESPACE:
                here[name] = requests
            else:
                overfull.add(namespace)
        return ClaimTable(namespaces, is_complete=self._is_complete, overfull=frozenset(overfull))

    def with_claim(self, kind: str, raw: object) -> "ClaimTable":
        found = _read(kind, raw)
        if found is None:
            return self
        namespace, name, requests = found
        here = self._namespaces.get(namespace, _NOTHING)
        if here.get(name) == requests:
            return self
        if name not in here and len(here) >= MOST_IN_NAMESPACE:
            return self if namespace in self._overfull else self._but(overfull=self._overfull | {namespace})
        return self._but({**self._namespaces, namespace: {**here, name: requests}})

    def without(self, namespace: str, name: str) -> "ClaimTable":
        here = self._namespaces.get(namespace, _NOTHING)
        if name not in here:
            return self
        left = {other: requests for other, requests in here.items() if other != name}
        namespaces = {**self._namespaces, namespace: left}
        if not left:
            del namespaces[namespace]
        return self._but(namespaces)

    def _but(
        self, namespaces: Mapping[str, Mapping[str, Requests]] | None = None, overfull: frozenset[str] | None = None
    ) -> "ClaimTable":
        return ClaimTable(
            self._namespaces if namespaces is None else namespaces,
            is_complete=self._is_complete,
            overfull=self._overfull if overfull is None else overfull,
        )


def _read(kind: str, raw: object) -> _Known | None:
    """The entry for an object; None where it has no name."""
    claim = claim_of_kind(kind, raw)
    if claim is None:
        return None
    return text(raw, "metadata", "namespace"), claim.name, bounded(claim.requests)


def bounded(requests: Requests) -> Requests:
    """The requests without repeated alternatives; `TOO_LARGE` where they are larger than the bounds."""
    distinct = tuple(map(_distinct, requests))
    devices = [one for request in distinct for one in request]
    names = {one.device_class for one in devices}.union(*[one.tolerated for one in devices])
    is_small = len(devices) <= MOST_DEVICES and sum(map(len, names)) <= LONGEST_CLASSES
    return _alike(distinct) if is_small else TOO_LARGE


def _distinct(request: DeviceRequest) -> DeviceRequest:
    """The alternatives of a request; where several differ in their number only, one with the largest."""
    alike: dict[Devices, list[Devices]] = {}
    for one in request:
        key = one._replace(number=one.number and 1)
        alike.setdefault(key, []).append(one)
    return tuple(map(_largest, alike.values()))


def _largest(alike: Sequence[Devices]) -> Devices:
    largest = max(alike, key=lambda one: one.number or 0)
    fewest = min(one.least for one in alike)
    return largest if fewest == largest.least else largest._replace(fewest=fewest)


@lru_cache(maxsize=4096)
def _alike(requests: Requests) -> Requests:
    return requests
