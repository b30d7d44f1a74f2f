"""Resource claims as the API server describes them, reduced to what quotas count, and for which pod they were made.

Source: pkg/controller/resourceclaim/controller.go of Kubernetes, and for extended resources
pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from webhook.facts.claim_index import bounded
from webhook.facts.facts import ClusterFacts
from webhook.facts.gpu_pods import NO_POD, StoredPod, uid_of
from webhook.ledger.entries import reservation_key, uid_bytes
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claim_owner import CLAIM_NAME
from webhook.model.claims import CLAIM, Requests, claim_of_kind
from webhook.model.json_parts import listed, mapped
from webhook.quota.claimed_devices import DeviceClasses, looked_up, most_devices

EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler made for extended resources of the pod that owns it: "true"."""


def is_for_extended_resources(raw: object) -> bool:
    """Whether a claim says that the scheduler made it for extended resources of a pod.

    A claim that was made from a template has the annotations of the template, and another one that no other claim has.
    """
    annotations = mapped(raw, "metadata", "annotations")
    return annotations.get(EXTENDED) == "true" and CLAIM_NAME not in annotations


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
    metadata = mapped(raw, "metadata")
    name, owner = mapped(metadata.get("annotations")).get(CLAIM_NAME), owner_of(raw)
    if not owner or not isinstance(name, str):
        return b""
    return reservation_key(str(metadata.get("namespace") or "default"), owner, name)


def stored_claim(raw: object, accelerators: Accelerators = BUILT_IN) -> StoredPod:
    """Read a claim. Raises ValueError where it has no uid.

    A claim that gives no GPUs is kept only where a pod has room for it, which is not needed any more.
    """
    uid, claim, metadata = uid_of(raw), claim_of_kind(CLAIM, raw), mapped(raw, "metadata")
    requests = bounded(claim.requests) if claim is not None else ()
    may_count = any(
        one.are_gpus(accelerators) or one.may_be_gpus(accelerators) for request in requests for one in request
    )
    takes_over = reservation_of(raw)
    if claim is None or not (may_count or takes_over):
        return StoredPod(uid, None)
    namespace = sys.intern(str(metadata.get("namespace") or "default"))
    requests = requests if may_count else ()
    return StoredPod(uid, GpuPod(uid, namespace, claim.name, NO_POD, requests, takes_over, extended_pod(raw)))


def counted_once(pods: Iterable[GpuPod], claims: Iterable[GpuPod], classes: DeviceClasses | None) -> Iterator[GpuPod]:
    """Pods and claims, with the extended resources of DeviceClasses: what is both pod and claim once.

    A claim for extended resources of a pod stands for the pod, and counts what the pod counts. That holds for one claim
    of each pod, in its namespace, with no more devices than the pod requests: whoever may create claims may write that
    annotation.
    """
    known: dict[Requests, Requests] = {}
    special: dict[tuple[str, bytes], list[GpuPod]] = {}
    for claim in claims:
        requests = claim.requests
        if classes is not None:
            if requests not in known:
                known[requests] = looked_up(requests, classes)
            requests = known[requests]
        counted = replace(claim, requests=requests)
        if claim.extends:
            special.setdefault((claim.namespace, claim.extends), []).append(counted)
        else:
            yield counted
    stood_for: dict[tuple[str, bytes], GpuPod] = {}
    for pod in pods:  # some come twice
        place = pod.namespace, pod.uid
        most = sum(pod.pod.gpus.values())
        standing = [one for one in special.get(place, ()) if most_devices(one.requests) <= most]
        if standing:
            stood_for[place] = pod
        else:
            yield pod
    for place, found in special.items():
        waiting = stood_for.get(place)
        for claim in sorted(found, key=lambda one: one.uid):
            if waiting is not None and most_devices(claim.requests) <= sum(waiting.pod.gpus.values()):
                yield replace(claim, pod=waiting.pod, requests=())
                waiting = None
            else:
                yield claim


def placed(pods: Iterable[GpuPod], cluster: ClusterFacts | None) -> Iterator[GpuPod]:
    """The pods, each with the class of its node. A pod that waits for a node gets none: it counts as at its admission,
    which knew the node pools of its policy as well.
    """
    for pod in pods:
        kind = cluster.node_class(pod.node) if cluster is not None and pod.node and pod.pod.gpus else None
        yield pod if kind is None else replace(pod, kind=kind)
