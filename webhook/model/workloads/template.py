"""Pod templates of workloads, as values."""

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
"""Most parts of a field that are tried in `elsewhere`; only names with many dots have more."""


@dataclass(frozen=True, slots=True)
class Template:
    """One pod template of a workload.

    `pod` is a pod of the template, `{"metadata": ..., "spec": ...}`, composed of its parts where the kind keeps them in
    several places. It shares parts with the object and must not be changed.
    """

    pod: Mapping[str, Any]
    path: str
    """Place of its spec in the object, such as `spec.template.spec`."""
    group: str = ""
    """The object's name for these pods, such as `Worker`; empty where it has only one template."""
    pods: int | None = None
    """The number of these pods that run at a time; None where the object does not say."""
    is_per_node: bool = False
    """Whether each pod is made for one node, as by a DaemonSet, so that its own spec does not decide where it runs."""
    owner_kind: str = ""
    """Kind of the pods' controller, such as ReplicaSet; empty where it is not known."""
    is_validated: bool = False
    """Whether the API server validates the template as it validates pods, and refuses the object itself."""
    elsewhere: Mapping[str, str] = field(default_factory=lambda: _NOWHERE)
    """Place in the pod -> place of its value in the object, for parts that are not below `path`."""
    unknown: frozenset[str] = frozenset()
    """Places in the pod whose values are unknown, because they are filled in later."""
    is_queued: bool = False
    """Whether a queue decides later where the pods run."""
    labels: Mapping[str, str] = field(default_factory=lambda: _NOWHERE)
    """Labels that the controller will add and rules look for; their values are empty, because they are not known."""

    @property
    def made(self) -> Mapping[str, Any]:
        """`pod` with the owner reference and the labels that its controller will add."""
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
        """The place in the object of the value at `field` of the pod.

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
        """Whether the value at `field` of the pod is filled in later."""
        return any(above in self.unknown for above in _above(field))


def _above(field: str) -> Iterator[str]:
    """A field and the fields around it, from the inside out; at most a few for a very long field.

    >>> list(_above("spec.containers[main].image"))
    ['spec.containers[main].image', 'spec.containers[main]', 'spec.containers', 'spec']
    """
    yield field
    ends = [match.start() for match in islice(_PART.finditer(field), _MOST_PARTS)]
    for end in reversed(ends):
        yield field[:end]
