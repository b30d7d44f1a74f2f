"""One reason for a pod: detectors in the order of a pod's life. The first that has something to say decides."""

from collections.abc import Callable

from webhook.model.json_parts import listed, part
from webhook.why.explanation import Clue, Explanation, ReasonCode, by_command
from webhook.why.held_back import entry_by_scheduler, gated, queued
from webhook.why.observed import ObservedPod, Surroundings, may_have_gpus, text
from webhook.why.on_node import logs_of, lost_gpus, on_node
from webhook.why.placement import by_nodes, unplaced

_WHATEVER_QUEUES_SAY = frozenset({ReasonCode.FITS_NOWHERE, ReasonCode.KEPT_OFF})
"""Reasons that no turn in a queue mends."""

Detector = Callable[[ObservedPod, Surroundings], Explanation | None]


def why_pod(seen: ObservedPod, around: Surroundings) -> Explanation:
    """The dominant reason of a pod, with its evidence and a remedy."""
    for detect in _DETECTORS:
        found = detect(seen, around)
        if found is not None:
            return found.bounded
    raise AssertionError  # the last detector always finds a reason


def _unreadable(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # one signature
    if seen.pod is not None:
        return None
    return Explanation(ReasonCode.UNKNOWN, f"the pod cannot be read: {seen.fault}", "Correct the pod")


def _lost(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # as above
    return lost_gpus(seen)


def _no_gpus(seen: ObservedPod, around: Surroundings) -> Explanation | None:
    if seen.pod is None or seen.is_beside_gpus or may_have_gpus(seen.pod, around.policy):
        return None
    message = "it requests no GPU; gpu-policy why explains GPU pods"
    return Explanation(
        ReasonCode.NO_GPUS, message, "Use kubectl describe; to get a GPU, set a limit such as nvidia.com/gpu: 1"
    )


def _finished(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # as above
    if seen.phase == "Succeeded":
        return Explanation(ReasonCode.FINISHED, "it has finished, and holds no GPU any more")
    if seen.phase != "Failed":
        return None
    ended = [
        f"container {text(one, 'name')} ended with exit code {part(one, 'state', 'terminated', 'exitCode')} "
        f"{text(one, 'state', 'terminated', 'reason')}".rstrip()
        for one in listed(seen.raw, "status", "containerStatuses")[:20]
        if part(one, "state", "terminated", "exitCode")
    ]
    reason, said = text(seen.raw, "status", "reason"), text(seen.raw, "status", "message")
    why = ": ".join(filter(None, (reason, said))) or "; ".join(ended) or "its status does not say why"
    remedy = by_command("A pod that has failed does not start again by itself; see its logs", *logs_of(seen))
    clues = tuple(Clue("status of the containers", one) for one in ended)
    return Explanation(ReasonCode.FAILED, f"it has failed, and holds no GPU any more: {why}", remedy, clues)


def _terminating(seen: ObservedPod, around: Surroundings) -> Explanation | None:
    since = text(seen.raw, "metadata", "deletionTimestamp")
    if not since:
        return None
    clues = [Clue("metadata.deletionTimestamp", since)]
    finalizers = [one for one in listed(seen.raw, "metadata", "finalizers")[:10] if isinstance(one, str)]
    clues += [Clue("metadata.finalizers", ", ".join(finalizers))] if finalizers else []
    state = (around.states or {}).get(seen.node)
    lost = (
        f"; its node {seen.node} cannot confirm that it has ended: {state.fault}"
        if state and not state.is_ready
        else ""
    )
    held = f"; the finalizers {', '.join(finalizers)} keep it" if finalizers else ""
    message = f"it is being deleted since {since}{lost}{held}"
    return Explanation(ReasonCode.TERMINATING, message, "Wait until it has ended", tuple(clues))


def _gated(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # as above
    return gated(seen)


def _queued(seen: ObservedPod, around: Surroundings) -> Explanation | None:
    entry = entry_by_scheduler(seen)
    if entry is None:
        return None
    found, on_nodes = queued(entry), by_nodes(seen, around)
    if on_nodes is None or on_nodes.code.rank > found.code.rank:
        return found
    is_certain = on_nodes.code in _WHATEVER_QUEUES_SAY
    return on_nodes.with_evidence(*found.evidence) if is_certain or not entry.message else found


def _unplaced(seen: ObservedPod, around: Surroundings) -> Explanation | None:
    return None if seen.node else unplaced(seen, around)


_DETECTORS: tuple[Detector, ...] = (
    _unreadable,
    _lost,
    _no_gpus,
    _finished,
    _terminating,
    _gated,
    _queued,
    _unplaced,
    on_node,
)
"""In the order of asking."""
