"""Pods as the API server describes them, reduced to what quotas count.

A hundred thousand GPU pods stay in memory for as long as the process lives, and most of them are alike. So equal
demands and placements are one object each, shared by all pods that have them.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from webhook.facts.claim_index import bounded
from webhook.facts.facts import ClusterFacts
from webhook.ledger.entries import reservation_key, uid_bytes
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, CLAIM_NAME, TEMPLATE, Requests, claim_of_kind, claims_of
from webhook.model.gpu_fractions import ASKING, KEYS, with_fractions
from webhook.model.json_parts import listed, mapped, text
from webhook.model.pod import APP, INIT, GpuFraction, Pod
from webhook.model.pod_groups import named_groups
from webhook.model.pod_reader import pod_from_raw
from webhook.model.selectors import Term
from webhook.model.shape import SizeError
from webhook.model.subject import Member, makers_of
from webhook.quota.demand import looked_up, most_devices

COUNTING = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of the pods that are not finished."""

NO_POD = pod_from_raw({"spec": {"containers": []}})
"""Stands for the pod where a claim is meant, which has none."""

_FINISHED = ("Succeeded", "Failed")
_DECISIVE = (INIT, APP, "nodeSelector", "affinity")
_LONGEST_CHOICE = 8192
"""Characters in which a pod may choose its nodes. A tenant may have many pods with a megabyte of them: such pods are
kept without their choice, and so count against the quotas of every GPU model."""


@dataclass(frozen=True, slots=True)
class StoredPod:
    """A pod, or a resource claim, that the API server holds. `gpu_pod` is None where it requests no GPU by itself.

    `reserved` are the keys of the entries that hold room for claims which are made for the pod from templates. `ends`
    is the time when it stops counting, in seconds since 1970 by the API server's clock: -inf for a finished pod, +inf
    for a pod that is not being deleted.
    """

    uid: bytes
    gpu_pod: GpuPod | None
    ends: float = math.inf
    reserved: tuple[bytes, ...] = ()
    groups: tuple["InGroup", ...] = ()
    """The groups that it names."""


class InGroup(NamedTuple):
    """The group that a pod names by namespace and text, and its part."""

    namespace: str
    text: str
    part: str


def stored_from_raw(raw: object, accelerators: Accelerators = BUILT_IN) -> StoredPod:
    """Read a pod. Raises ValueError (a ShapeError where a part has a wrong type), which says what is wrong with it."""
    pod, metadata = _parts(raw)
    uid, spec, gpu_pod = _uid(metadata), mapped(pod.get("spec")), None
    namespace = sys.intern(str(metadata.get("namespace") or "default"))
    annotations = mapped(metadata.get("annotations"))
    containers = (*listed(spec, APP), *listed(spec, INIT))
    amounts = (mapped(one, "resources", key) for one in containers for key in ("limits", "requests"))
    asks_gpus = any(accelerators.of(str(name)) for one in amounts for name in one)
    if asks_gpus or any(key in annotations for key in ASKING):
        said = {"annotations": {key: annotations[key] for key in KEYS if key in annotations}}
        try:
            read = pod_from_raw({"metadata": said, "spec": {key: spec.get(key) for key in _DECISIVE}}, accelerators)
        except SizeError:  # it was admitted while nobody looked
            read = pod_from_raw({"metadata": said, "spec": {key: spec.get(key) for key in (INIT, APP)}}, accelerators)
        if (part := counted_pod(read)) is not None:
            node = spec.get("nodeName")
            node = sys.intern(str(node)) if node else ""
            gated = bool(spec.get("schedulingGates"))
            makers = _shared(makers_of(pod))
            gpu_pod = GpuPod(uid, namespace, text(metadata, "name"), part, node=node, is_gated=gated, makers=makers)
    finished = mapped(pod.get("status")).get("phase") in _FINISHED
    claims = claims_of(spec.get("resourceClaims"))
    reserved = tuple(reservation_key(namespace, uid, one.name) for one in claims if one.kind == TEMPLATE)
    in_groups = () if spec.get("schedulingGates") else named_groups(pod)
    groups = tuple(InGroup(namespace, sys.intern(one.text), sys.intern(one.part)) for one in in_groups)
    return StoredPod(uid, gpu_pod, -math.inf if finished else _end(metadata), reserved, groups)


@lru_cache(maxsize=4096)
def _shared(makers: tuple[Member, ...]) -> tuple[Member, ...]:
    return tuple((sys.intern(kind), name) for kind, name in makers)


def counted_pod(pod: Pod) -> Pod | None:
    """A pod reduced to what quotas count: its GPUs and the nodes that it requires; None where it has no GPUs."""
    pod = with_fractions(pod) if pod.fractions else pod
    if not pod.gpus:
        return None
    choice = tuple(pod.node_selector.items()), pod.required
    is_long = len(repr(choice)) > _LONGEST_CHOICE
    return _reduced(tuple(pod.gpus.items()), *(((), None) if is_long else choice), pod.known, pod.fractions)


@lru_cache(maxsize=4096)
def _reduced(
    gpus: tuple[tuple[str, int], ...],
    selector: tuple[tuple[str, str], ...],
    required: tuple[Term, ...] | None,
    known: Accelerators,
    fractions: tuple[GpuFraction, ...],
) -> Pod:
    found = tuple([gpu for name, _ in gpus if (gpu := known.of(name)) is not None])
    return replace(
        NO_POD,
        gpus=dict(gpus),
        accelerators=found,
        node_selector=dict(selector),
        required=required,
        known=known,
        fractions=fractions,
    )


def counting_uid(raw: object, now: float = -math.inf) -> bytes | None:
    """The uid of an object by its metadata alone; None where it does not count at `now`, or has no valid uid."""
    try:
        _, metadata = _parts(raw)
        return _uid(metadata) if now <= _end(metadata) else None
    except ValueError:
        return None


def uid_of(raw: object) -> bytes:
    """The uid of a pod. Raises ValueError where it has none; other parts may be malformed."""
    return _uid(_parts(raw)[1])


def _parts(raw: object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(metadata, dict):
        raise ValueError("found no pod with metadata")  # noqa: TRY004  # a value from outside
    return raw, metadata


def _uid(metadata: Mapping[str, Any]) -> bytes:
    """The 16 bytes of the uid; the kubelet leaves the hyphens out for the pods of its own files."""
    try:
        return uid_bytes(text(metadata, "uid"))
    except ValueError:
        uid = str(metadata.get("uid"))[:60]
        raise ValueError(f"pod {text(metadata, 'name')}: metadata.uid {uid!r} is no UUID") from None


def _end(metadata: Mapping[str, Any]) -> float:
    """The time when a pod stops counting although it still exists, as pods on lost nodes do.

    The ResourceQuota of Kubernetes computes it alike.
    """
    since, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if not isinstance(since, str) or not isinstance(grace, int):
        return math.inf
    try:
        return datetime.fromisoformat(since).timestamp() + grace
    except (ValueError, OverflowError):
        return math.inf


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

    A claim that gives no GPUs is kept only where its pod has room for it, because that room is not needed any more.
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


def counted_once(pods: Iterable[GpuPod], claims: Iterable[GpuPod], classes: ClusterFacts | None) -> Iterator[GpuPod]:
    """Pods and claims, with the extended resources of DeviceClasses. What is both a pod and a claim comes once.

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
