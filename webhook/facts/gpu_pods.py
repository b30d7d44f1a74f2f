"""Pods as the API server describes them, reduced to what quotas count.

A hundred thousand GPU pods stay in memory for as long as the process lives, and most of them are alike. So equal
demands and placements are one object each, shared by all pods that have them.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

from webhook.ledger.entries import reservation_key, uid_bytes
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import TEMPLATE, claims_of
from webhook.model.container import APP, INIT
from webhook.model.json_parts import mapped
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw

COUNTING = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of the pods that are not finished."""

NO_POD = pod_from_raw({"spec": {"containers": []}})
"""Stands for the pod where a claim is meant, which has none."""

_FINISHED = ("Succeeded", "Failed")
_MOST_BYTES, _MOST_PARTS = 8192, 1024
"""Most bytes and parts of the JSON in which a pod chooses its nodes. A tenant may have many pods with a megabyte of it:
such pods are kept without their choice, and so count against the quotas of every GPU model."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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


def stored_from_raw(raw: object, accelerators: Accelerators = BUILT_IN) -> StoredPod:
    """Read a pod. Raises ValueError (a ShapeError where a part has a wrong type), which says what is wrong with it."""
    pod, metadata = _parts(raw)
    uid = _uid(metadata)
    gpu_pod = None
    decisive = _decisive(pod.get("spec"), accelerators)
    if decisive is not None and (read := _read(decisive, accelerators)).gpus:
        node = mapped(pod.get("spec")).get("nodeName")
        namespace = sys.intern(str(metadata.get("namespace") or "default"))
        gpu_pod = GpuPod(uid, namespace, _name(metadata), read, node=sys.intern(str(node)) if node else "")
    status = pod.get("status")
    finished = isinstance(status, dict) and status.get("phase") in _FINISHED
    claims, namespace = mapped(pod.get("spec")).get("resourceClaims"), str(metadata.get("namespace") or "default")
    reserved = tuple(reservation_key(namespace, uid, one.name) for one in claims_of(claims) if one.kind == TEMPLATE)
    return StoredPod(uid, gpu_pod, -math.inf if finished else _end(metadata), reserved)


def counted_pod(raw: object, accelerators: Accelerators = BUILT_IN) -> Pod | None:
    """A pod reduced to what quotas count, as it will be read once it is stored; None where it has no GPUs.

    Raises ValueError.
    """
    decisive = _decisive(_parts(raw)[0].get("spec"), accelerators)
    read = None if decisive is None else _read(decisive, accelerators)
    return read if read is not None and read.gpus else None


def counting_uid(raw: object, now: float) -> bytes | None:
    """The uid of a pod by its metadata alone; None where it does not count at `now`, or has no valid uid."""
    try:
        _, metadata = _parts(raw)
        return _uid(metadata) if now <= _end(metadata) else None
    except ValueError:
        return None


def uid_or_none(raw: object) -> bytes | None:
    """The uid of an object by its metadata; None where it has no valid uid."""
    try:
        return uid_of(raw)
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
    text = metadata.get("uid")
    try:
        return uid_bytes(text if isinstance(text, str) else "")
    except ValueError:
        raise ValueError(f"pod {_name(metadata)}: metadata.uid {str(text)[:60]!r} is no UUID") from None


def _name(metadata: Mapping[str, Any]) -> str:
    name = metadata.get("name")
    return name if isinstance(name, str) else ""


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


def _decisive(spec: object, accelerators: Accelerators) -> dict[str, Any] | None:
    """The parts of a spec that decide about quotas: GPUs, and the choice of nodes. None for pods without GPUs."""
    if not isinstance(spec, dict):
        return None
    containers = {name: found for name in (INIT, APP) if (found := _gpu_containers(spec.get(name), accelerators))}
    if not containers:
        return None
    placement = {"nodeSelector": spec.get("nodeSelector"), "affinity": _required(spec.get("affinity"))}
    said = _json(placement)
    if len(said) > _MOST_BYTES or said.count(b'"') + said.count(b"{") > _MOST_PARTS:
        return containers
    return containers | placement


def _gpu_containers(containers: object, accelerators: Accelerators) -> list[dict[str, Any]]:
    found = []
    for container in containers if isinstance(containers, list) else ():
        resources = container.get("resources") if isinstance(container, dict) else None
        if isinstance(resources, dict):
            amounts = {part: _gpus(resources.get(part), accelerators) for part in ("limits", "requests")}
            if any(amounts.values()):
                found.append({"restartPolicy": container.get("restartPolicy"), "resources": amounts})
    return found


def _gpus(amounts: object, accelerators: Accelerators) -> dict[str, Any]:
    if not isinstance(amounts, dict):
        return {}
    return {name: amount for name, amount in amounts.items() if accelerators.of(name) is not None}


def _required(affinity: object) -> object:
    nodes = affinity.get("nodeAffinity") if isinstance(affinity, dict) else affinity
    return {"nodeAffinity": {_REQUIRED: nodes.get(_REQUIRED)} if isinstance(nodes, dict) else nodes}


def _read(decisive: Mapping[str, Any], accelerators: Accelerators) -> Pod:
    return _reduced(_json(decisive), accelerators)


def _json(value: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError as error:  # only in files: JSON that was read can be written
        raise ValueError(f"spec: {error}") from None


@lru_cache(maxsize=4096)
def _reduced(decisive: bytes, accelerators: Accelerators) -> Pod:
    return replace(pod_from_raw({"spec": orjson.loads(decisive)}, accelerators), containers=())
