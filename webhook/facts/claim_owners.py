"""For which pod a resource claim was made, by what the claim itself says.

Source: pkg/controller/resourceclaim/controller.go of Kubernetes, and for extended resources
pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

from webhook.ledger.entries import reservation_key, uid_bytes
from webhook.model.json_parts import listed, mapped

CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that Kubernetes made from a template: its name in the pod that owns it."""
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler made for extended resources of the pod that owns it: "true"."""


def owner_of(raw: object) -> bytes:
    """The uid of the pod that a claim was made for; empty where it has no such owner.

    Whoever may create claims may write any owner.
    """
    for reference in listed(raw, "metadata", "ownerReferences")[:16]:
        owner = mapped(reference)
        if owner.get("controller") is True and (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod"):
            try:
                return uid_bytes(str(owner.get("uid")))
            except ValueError:
                return b""
    return b""


def reservation_of(raw: object) -> bytes:
    """The key of the reservation that a claim takes over; empty where it was not made from a template."""
    name, owner = mapped(raw, "metadata", "annotations").get(CLAIM_NAME), owner_of(raw)
    return reservation_key(owner, name) if owner and isinstance(name, str) else b""
