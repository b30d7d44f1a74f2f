"""Objects of custom resources whose status shows people something: their kind, and what is kept of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.kubernetes.api_paths import path_of

API = "gpupolicy.dev/v1alpha1"

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpu-policy-webhook"
INSTALLATION = "gpupolicy.dev/installation"
"""The label that distinguishes the objects of installations: the namespace of their ledgers."""


Place = tuple[str, str]
"""Namespace and name of an object."""
Status = Mapping[str, Any]
"""The field `status` of an object."""


@dataclass(frozen=True, slots=True)
class ShownKind:
    """A kind of objects that show something, in the plural as paths have it.

    `compared` gives what counts of a status when it is compared with another one. `is_newer` says whether the first
    status, which is stored, is of a later state than the second, so that its writer knows more. `kept` gives what is
    kept in memory of a stored status.
    """

    kind: str
    plural: str
    compared: Callable[[Status], object]
    is_newer: Callable[[Status, Status], bool]
    kept: Callable[[Status], Status] = dict

    def path(self, namespace: str | None, name: str = "") -> str:
        """The path of the objects of a namespace or of all (None), or of one object."""
        return path_of(f"/apis/{API}", self.plural, namespace=namespace, name=name)

    def body(
        self, place: Place, status: Status, labels: Mapping[str, str], over: "StoredStatus | None"
    ) -> dict[str, Any]:
        """The body that creates an object, or replaces the one that was seen."""
        metadata: dict[str, Any] = {"namespace": place[0], "name": place[1], "labels": dict(labels)}
        if over is not None:
            metadata["resourceVersion"] = over.version
        return {"apiVersion": API, "kind": self.kind, "metadata": metadata, "status": dict(status)}


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """An object as the watch last saw it. The status is kept only if the object is of this installation."""

    uid: str
    version: str
    is_ours: bool
    status: Status


def labels_of(installation: str) -> Mapping[str, str]:
    """The labels of the objects of one installation."""
    return {MANAGED_BY: MANAGER, INSTALLATION: installation}


def stored_in(
    raw: Mapping[str, Any], labels: Mapping[str, str], kept: Callable[[Status], Status]
) -> tuple[Place, StoredStatus]:
    """The place of an object, and the object. It is of this installation if it has these labels."""
    metadata, status = raw["metadata"], raw.get("status")
    found = metadata.get("labels") or {}
    is_ours = all(found.get(key) == value for key, value in labels.items())
    ours = kept(status) if is_ours and isinstance(status, dict) else {}
    return (metadata["namespace"], metadata["name"]), StoredStatus(
        metadata["uid"], metadata["resourceVersion"], is_ours, ours
    )
