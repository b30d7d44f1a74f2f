"""Pods as the API server describes them, reduced to what quotas count.

A hundred thousand GPU pods stay in memory for as long as the process lives, and most of what decides they say alike. So
equal demands and placements are one object each, shared by all pods that have them.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from webhook.ledger.book import uid_bytes
from webhook.ledger.store import SeenPod
from webhook.model.accelerators import accelerator
from webhook.model.container import APP, INIT
from webhook.model.pod import Pod, pod_from_raw
from webhook.model.selectors import Term

COUNTING = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of the pods that are not finished."""

_FINISHED = frozenset({"Succeeded", "Failed"})
_MOST_PARTS, _MOST_CHARACTERS = 256, 8192
"""Of what a pod says about its nodes, in keys and values. It may say a megabyte, and a tenant may have many such pods:
those are kept as if they said nothing, and so count against every model."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A pod that the API server holds. `seen` is None where it asks for no GPU.

    `ends` is when it stops counting, in seconds since 1970 by the API server's clock: -inf where it has finished, +inf
    where nothing has ended it.
    """

    uid: bytes
    seen: SeenPod | None
    ends: float = math.inf


def stored_from_raw(raw: object) -> Stored:
    """Read a pod. Raises ValueError (a ShapeError where a part has a wrong type), which says what is wrong with it."""
    pod, metadata = _parts(raw)
    uid = _uid(metadata)
    seen = None
    if _mentions_gpus(pod.get("spec")) and (read := pod_from_raw(pod)).gpus:
        seen = SeenPod(uid, sys.intern(str(metadata.get("namespace") or "default")), _name(metadata), _reduced(read))
    status = pod.get("status")
    finished = isinstance(status, dict) and status.get("phase") in _FINISHED
    return Stored(uid, seen, -math.inf if finished else _end(metadata))


def counting_uid(raw: object, now: float) -> bytes | None:
    """The uid of a pod by its metadata alone, None where it does not count at `now` or its uid is none."""
    try:
        _, metadata = _parts(raw)
        return _uid(metadata) if now <= _end(metadata) else None
    except ValueError:
        return None


def uid_of(raw: object) -> bytes:
    """The uid of a pod, whatever else it says. Raises ValueError."""
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
    """When the pod is past its deletion, as the in-tree quota computes it: for pods on nodes that are lost."""
    since, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if not isinstance(since, str) or not isinstance(grace, int):
        return math.inf
    try:
        return datetime.fromisoformat(since).timestamp() + grace
    except (ValueError, OverflowError):
        return math.inf


def _mentions_gpus(spec: object) -> bool:
    """Whether a container has a GPU in its resources; most pods do not, and are not read any further."""
    if not isinstance(spec, dict):
        return False
    for list_name in (APP, INIT):
        containers = spec.get(list_name)
        for container in containers if isinstance(containers, list) else ():
            resources = container.get("resources") if isinstance(container, dict) else None
            if isinstance(resources, dict) and any(_has_gpus(resources.get(part)) for part in ("limits", "requests")):
                return True
    return False


def _has_gpus(amounts: object) -> bool:
    return isinstance(amounts, dict) and any(accelerator(name) is not None for name in amounts)


def _reduced(pod: Pod) -> Pod:
    """The pod with nothing but its GPUs and what it demands of its nodes."""
    selector, required = tuple(pod.node_selector.items()), pod.required
    if _is_too_much(selector, required):
        selector, required = (), None
    return _shared(tuple(pod.gpus.items()), selector, required)


def _is_too_much(selector: tuple[tuple[str, str], ...], required: tuple[Term, ...] | None) -> bool:
    texts = [text for pair in selector for text in pair]
    for term in required or ():
        texts.append("")  # an empty term weighs something, too
        for expression in (*term.expressions, *term.fields):
            texts += (expression.key, expression.operator, *expression.values)
    return len(texts) > _MOST_PARTS or sum(map(len, texts)) > _MOST_CHARACTERS


@lru_cache(maxsize=4096)
def _shared(
    gpus: tuple[tuple[str, int], ...], selector: tuple[tuple[str, str], ...], required: tuple[Term, ...] | None
) -> Pod:
    return Pod(
        spec_path="spec",
        containers=(),
        volumes=(),
        tolerations=(),
        node_selector=dict(selector),
        required=required,
        preferred=(),
        node_name="",
        runtime_class=None,
        host_ipc=False,
        memory_limit=None,
        annotations={},
        gpus=dict(gpus),
        accelerators=tuple(gpu for name, _ in gpus if (gpu := accelerator(name)) is not None),
    )
