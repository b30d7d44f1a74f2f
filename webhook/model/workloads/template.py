"""The pods that an object makes, as a value."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any

_SPEC = "spec"
_NOWHERE: Mapping[str, str] = MappingProxyType({})
_PART = re.compile(r"[.\[]")
_MOST_PARTS = 8
"""Parts of a place that is found elsewhere; names with many dots have more."""


@dataclass(frozen=True, slots=True)
class Template:
    """What one sort of an object's pods is made from.

    `pod` is such a pod, `{"metadata": ..., "spec": ...}`; where the kind keeps its parts elsewhere, it is put together
    from them. Never to be changed: it shares parts with the object.
    """

    pod: Mapping[str, Any]
    path: str
    """Where its spec stands in the object, such as `spec.template.spec`."""
    group: str = ""
    """What the object calls these pods, such as `Worker`; empty where it makes pods of one sort only."""
    pods: int | None = None
    """How many of them run at a time; None where the object does not say."""
    is_per_node: bool = False
    """Whether each is made for one node, as those of a DaemonSet, so that nothing else decides where it runs."""
    owner_kind: str = ""
    """Kind of the controller that the pods will have, such as ReplicaSet; empty where that is not known."""
    is_validated: bool = False
    """Whether the API server judges the template as it judges pods, and refuses the object on its own."""
    elsewhere: Mapping[str, str] = field(default_factory=lambda: _NOWHERE)
    """Place in the pod -> where its value stands in the object, for parts that are not below `path`."""
    unknown: frozenset[str] = frozenset()
    """Places in the pod whose values are filled in later, so that nothing can be said about them."""
    is_queued: bool = False
    """Whether a queue is yet to decide where the pods run."""
    labels: Mapping[str, str] = field(default_factory=lambda: _NOWHERE)
    """Labels that the controller adds, by which rules know the pods; the values are not told."""

    @property
    def made(self) -> Mapping[str, Any]:
        """`pod` with the owner and the labels that it will have."""
        metadata = self.pod.get("metadata")
        if not (metadata is None or isinstance(metadata, dict)):
            return self.pod
        added: dict[str, Any] = {}
        if self.owner_kind:
            added["ownerReferences"] = [{"kind": self.owner_kind, "controller": True}]
        own = (metadata or {}).get("labels")
        if self.labels and (own is None or isinstance(own, dict)):
            added["labels"] = {**self.labels, **(own or {})}
        return {**self.pod, "metadata": {**(metadata or {}), **added}} if added else self.pod

    def place(self, field: str) -> str:
        """Where in the object stands what is at `field` of the pod.

        >>> Template({}, "spec.template.spec").place("spec.containers[a].image")
        'spec.template.spec.containers[a].image'
        >>> somewhere = {"spec.containers[main]": "spec.templates[train].container"}
        >>> Template({}, "spec.templates[train]", elsewhere=somewhere).place("spec.containers[main].resources")
        'spec.templates[train].container.resources'
        """
        for above in _above(field):
            if above in self.elsewhere:
                return self.elsewhere[above] + field[len(above) :]
        if field == _SPEC or field.startswith(f"{_SPEC}."):
            return self.path + field[len(_SPEC) :]
        return f"{self.path.removesuffix('.spec')}.{field}"

    def is_unknown(self, field: str) -> bool:
        """Whether what is at `field` of the pod is filled in later."""
        return any(above in self.unknown for above in _above(field))


def _above(field: str) -> Iterator[str]:
    """A field and what it is part of, from the inside out; not all of it for one of very many parts.

    >>> list(_above("spec.containers[main].image"))
    ['spec.containers[main].image', 'spec.containers[main]', 'spec.containers', 'spec']
    """
    yield field
    ends = [match.start() for match in islice(_PART.finditer(field), _MOST_PARTS)]
    for end in reversed(ends):
        yield field[:end]
