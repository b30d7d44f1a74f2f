"""Finds the object behind another one by owner references: the Deployment behind a pod of one of its ReplicaSets.

Anybody who may write an object can write its owner references. A reference is followed only to a learned object with
this uid, kind and name that is in the same namespace or cluster-scoped. Any other reference is believed, not followed.

There is one exception: where a ReplicaSet was not learned, its name DEPLOYMENT-HASH and the hash in the labels of the
pod name the Deployment, if one of that name was learned in the pod's namespace.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from webhook.audit.report import ObjectReference
from webhook.model.json_parts import mapped, text
from webhook.model.pod import POD_TEMPLATE_HASH
from webhook.model.workloads import controller_of

MOST_STEPS = 32
"""Most owners in a chain; a longer chain is cut."""

_NODE = ("v1", "Node")


@dataclass(frozen=True, slots=True)
class _Known:
    reference: ObjectReference
    parent: ObjectReference | None
    is_audited: bool


class Owners:
    """The objects that may own others, by namespace and uid; about 500 bytes for each object.

    `namespace` is the namespace of manifests that name none.
    """

    def __init__(self, namespace: str = "") -> None:
        self._namespace = namespace
        self._known: dict[str, dict[str, _Known]] = {}
        self._deployments: dict[tuple[str, str], _Known] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def learn(self, raw: Mapping[str, Any], *, is_audited: bool = True) -> None:
        """Remember an object that may own others; `is_audited`: it is audited itself."""
        reference = reference_of(raw)
        is_deployment = _is_in_apps(reference, "Deployment")
        if not reference.uid and not is_deployment:
            return
        parent = _parent(raw, reference.namespace)
        owner = None if parent is None else self._find(parent)
        known = _Known(reference, parent if owner is None else owner.reference, is_audited)
        if reference.uid:
            self._known.setdefault(reference.namespace, {})[reference.uid] = known
        if is_deployment:
            self._deployments[reference.namespace or self._namespace, reference.name] = known

    def root_of(self, raw: Mapping[str, Any]) -> ObjectReference:
        """The last owner that can be found; the object itself if nothing controls it.

        An owner that was not learned is taken from the reference, with the namespace of the object. In a circle of
        owners the first one in the alphabet is taken.
        """
        reference = reference_of(raw)
        line = [reference, *self._line(raw, reference, goes_by_hash=True)]
        if line[-1] in line[:-1]:
            return min(line[line.index(line[-1]) :])
        return line[-1]

    def unknown_owner_of(self, raw: Mapping[str, Any]) -> ObjectReference | None:
        """The last owner of the object, if that was not learned and may have owners itself; else None."""
        *_, last = (None, *self._line(raw, reference_of(raw)))
        return last if last is not None and self._find(last) is None else None

    def is_owned_by_known(self, raw: Mapping[str, Any]) -> bool:
        """Whether the object has a learned owner that is audited itself.

        In a circle of owners the first one in the alphabet counts as owned by nothing.
        """
        reference = reference_of(raw)
        line = list(self._line(raw, reference))
        is_circle = bool(line) and line[-1] == reference
        return any(
            known.is_audited
            for owner in line
            if owner < reference or (owner != reference and not is_circle)
            if (known := self._find(owner)) is not None
        )

    def _line(
        self, raw: Mapping[str, Any], reference: ObjectReference, *, goes_by_hash: bool = False
    ) -> Iterator[ObjectReference]:
        """The owner of an object, the owner's owner and so on. In a circle, the last one is the first to come again.

        With `goes_by_hash` a Deployment may be found behind a ReplicaSet that was not learned.
        """
        seen = {reference}
        parent = _parent(raw, reference.namespace)
        while parent is not None and len(seen) <= MOST_STEPS:
            known = self._find(parent)
            if known is None and goes_by_hash:
                known = self._deployment_behind(parent, raw)
            yield known.reference if known is not None else parent
            if known is None or known.reference in seen:
                return
            seen.add(known.reference)
            parent = known.parent

    def _deployment_behind(self, replica_set: ObjectReference, pod: Mapping[str, Any]) -> _Known | None:
        """The learned Deployment whose ReplicaSet made a pod, by the hash in the labels of the pod."""
        label = text(mapped(mapped(pod, "metadata"), "labels"), POD_TEMPLATE_HASH)
        if not label or not _is_in_apps(replica_set, "ReplicaSet") or not replica_set.name.endswith(f"-{label}"):
            return None
        namespace = replica_set.namespace or self._namespace
        return self._deployments.get((namespace, replica_set.name.removesuffix(f"-{label}")))

    def _find(self, wanted: ObjectReference) -> _Known | None:
        """What was learned about the object of a reference; None if nothing was."""
        for namespace in (wanted.namespace, ""):
            known = self._known.get(namespace, {}).get(wanted.uid)
            if known is not None and _names(wanted) == _names(known.reference):
                return known
        return None


def reference_of(raw: Mapping[str, Any]) -> ObjectReference:
    """A reference to an object; missing and malformed texts are empty."""
    metadata = mapped(raw, "metadata")
    name = text(metadata, "name") or text(metadata, "generateName")
    return _reference(raw, intern(text(metadata, "namespace")), name, text(metadata, "uid"))


def _parent(raw: Mapping[str, Any], namespace: str) -> ObjectReference | None:
    """The controller of an object. A node is no controller: it reports static pods and does not make them."""
    owner = controller_of(raw)
    if owner is None or (owner.get("apiVersion"), owner.get("kind")) == _NODE:
        return None
    reference = _reference(owner, namespace, text(owner, "name"), text(owner, "uid"))
    return reference if reference.kind and reference.name else None


def _reference(raw: Mapping[str, Any], namespace: str, name: str, uid: str) -> ObjectReference:
    return ObjectReference(namespace, intern(text(raw, "kind")), name, intern(text(raw, "apiVersion")), uid)


def _is_in_apps(reference: ObjectReference, kind: str) -> bool:
    return reference.kind == kind and reference.api_version.rpartition("/")[0] == "apps"


def _names(reference: ObjectReference) -> tuple[str, str, str]:
    return reference.api_version.rpartition("/")[0], reference.kind, reference.name
