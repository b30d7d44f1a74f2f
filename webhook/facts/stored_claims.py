"""Resource claims as the API server describes them, reduced to what quotas count, and for which pod they were made.

Source: pkg/controller/resourceclaim/controller.go of Kubernetes, and for extended resources
pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

import sys
from collections.abc import Iterable, Iterator

from webhook.facts.claim_index import bounded
from webhook.facts.gpu_pods import NO_POD, StoredPod, uid_of
from webhook.ledger.entries import reservation_key, uid_bytes
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, Requests, claim_of_kind
from webhook.model.json_parts import listed, mapped
from webhook.quota.claimed_devices import DeviceClasses, looked_up

CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that Kubernetes made from a template: its name in the pod that owns it."""
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler made for extended resources of the pod that owns it: "true"."""


def is_for_extended_resources(raw: object) -> bool:
    """Whether a claim says that the scheduler made it for extended resources of a pod."""
    return mapped(raw, "metadata", "annotations").get(EXTENDED) == "true"


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


def extended_pod(raw: object) -> bytes:
    """The uid of the pod for whose extended resources the scheduler made a claim; empty for other claims."""
    return owner_of(raw) if is_for_extended_resources(raw) else b""


def reservation_of(raw: object) -> bytes:
    """The key of the reservation that a claim takes over; empty where it was not made from a template."""
    name, owner = mapped(raw, "metadata", "annotations").get(CLAIM_NAME), owner_of(raw)
    return reservation_key(owner, name) if owner and isinstance(name, str) else b""


def stored_claim(raw: object, accelerators: Accelerators = BUILT_IN) -> StoredPod:
    """Read a claim. Raises ValueError where it has no uid."""
    uid, claim, metadata = uid_of(raw), claim_of_kind(CLAIM, raw), mapped(raw, "metadata")
    requests = bounded(claim.requests) if claim is not None else ()
    may_count = any(
        one.are_gpus(accelerators) or one.may_be_gpus(accelerators) for request in requests for one in request
    )
    if claim is None or not may_count:
        return StoredPod(uid, None)
    namespace = sys.intern(str(metadata.get("namespace") or "default"))
    found = GpuPod(uid, namespace, claim.name, NO_POD, requests, reservation_of(raw), extended_pod(raw))
    return StoredPod(uid, found)


def counted_once(pods: Iterable[GpuPod], claims: Iterable[GpuPod], classes: DeviceClasses | None) -> Iterator[GpuPod]:
    """Pods, and the claims that their entries do not count already, with the extended resources of DeviceClasses.

    Of the claims that call themselves claims for extended resources of a pod, the first one is left out where there is
    that pod, and else stands under the uid of the pod, whose entry stays until then. Whoever may create claims may
    write that annotation.
    """
    existing: set[bytes] = set()
    for pod in pods:
        existing.add(pod.uid)
        yield pod
    extended: set[bytes] = set()
    known: dict[int, tuple[Requests, Requests]] = {}  # by the id of the first, which is held so that it stays unique
    for claim in claims:
        uid = claim.uid
        if claim.extends and claim.extends not in extended:
            extended.add(claim.extends)
            if claim.extends in existing:
                continue
            uid = claim.extends
        requests = claim.requests
        if classes is not None:
            if id(requests) not in known:
                known[id(requests)] = requests, looked_up(requests, classes)
            requests = known[id(requests)][1]
        yield GpuPod(uid, claim.namespace, claim.name, claim.pod, requests, claim.takes_over)
