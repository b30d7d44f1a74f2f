"""Who holds a pod or workload back before any scheduler looks at it: scheduling gates, queues, quotas, and people.

Names are those of Kueue (kubernetes-sigs/kueue), KAI (kai-scheduler/KAI-Scheduler) and Volcano (volcano-sh/volcano).
"""

from webhook.model.json_parts import listed, part, text
from webhook.model.pod import KUEUE_QUEUE
from webhook.model.wording import cut, few
from webhook.why.explanation import LONGEST_PART, Clue, Explanation, ReasonCode
from webhook.why.observed import ObservedPod, QueueEntry, Raw, condition, said_by_scheduler

KUEUE, KAI, VOLCANO = "Kueue", "KAI", "Volcano"
_KUEUES_GATES = "kueue.x-k8s.io/"
_SCHEDULERS = {"kai-scheduler": KAI, "volcano": VOLCANO}
_QUEUE_LABELS = {
    KAI: ("kai.scheduler/queue", "runai/queue"),
    VOLCANO: ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name"),
    KUEUE: (KUEUE_QUEUE,),
}
_REMEDIES = {
    KUEUE: "Wait, or let other workloads of the queue end; kubectl describe workloads.kueue.x-k8s.io shows more",
    KAI: "Wait, or let other pods of the queue end; kubectl describe podgroups.scheduling.run.ai shows more",
    VOLCANO: "Wait until jobs of the queue end; kubectl describe podgroups.scheduling.volcano.sh tells more",
}


def keeper_of(raw: Raw) -> str:
    """The queue that decides when a pod, or a suspended workload, starts: Kueue, KAI or Volcano; empty for none."""
    if any(gate.startswith(_KUEUES_GATES) for gate in gates_of(raw)):
        return KUEUE
    by_label = KUEUE if text(raw, "metadata", "labels", KUEUE_QUEUE) else ""
    return _SCHEDULERS.get(text(raw, "spec", "schedulerName"), by_label)


def _queue_named_by(raw: Raw, keeper: str) -> str:
    """The queue that labels or annotations of an object name; empty if none."""
    names = (text(raw, "metadata", place, key) for key in _QUEUE_LABELS[keeper] for place in ("labels", "annotations"))
    return next(filter(None, names), "")


def gates_of(raw: Raw) -> tuple[str, ...]:
    """The names of the scheduling gates of a pod."""
    return tuple(name for gate in listed(raw, "spec", "schedulingGates") if (name := text(gate, "name")))


def entry_of(keeper: str, found: Raw) -> QueueEntry:
    """What the object of a queue says: a Workload of Kueue, a PodGroup of KAI or of Volcano."""
    source = f"{text(found, 'kind')} {text(found, 'metadata', 'name')}"
    if keeper == KUEUE:
        queue = text(found, "status", "admission", "clusterQueue") or text(found, "spec", "queueName")
        return QueueEntry(keeper, queue, _of_kueue(found), source)
    said = condition(found, "UnschedulableOnNodePool", "status", "schedulingConditions")
    phase = text(found, "status", "phase")
    message = text(said or condition(found, "Unschedulable"), "message") or (
        f"its PodGroup is {phase}" if phase else ""
    )
    return QueueEntry(keeper, text(found, "spec", "queue"), message, source)


def _of_kueue(workload: Raw) -> str:
    if part(workload, "spec", "active") is False:
        return "its Workload is not active: somebody, or Kueue after too many attempts, has deactivated it"
    for kind, well in (("QuotaReserved", "True"), ("Admitted", "True"), ("Evicted", "False")):
        found = condition(workload, kind)
        if found and text(found, "status") != well and text(found, "message"):
            return text(found, "message")
    checks = [
        f"{text(check, 'name')} is {text(check, 'state')}: {text(check, 'message')}"
        for check in listed(workload, "status", "admissionChecks")
        if text(check, "state") not in {"", "Ready"}
    ]
    return few(checks, LONGEST_PART) if checks else ""


def gated(seen: ObservedPod) -> Explanation | None:
    """A pod that a scheduling gate holds back."""
    gates = gates_of(seen.raw)
    if not gates or seen.node:
        return None
    clue = Clue("spec.schedulingGates", few(gates))
    if keeper_of(seen.raw) == KUEUE:
        return queued(seen.entry or QueueEntry(KUEUE, _queue_named_by(seen.raw, KUEUE)), clue)
    keep, them = ("gate {} keeps", "it") if len(gates) == 1 else ("gates {} keep", "them")
    message = f"the scheduling {keep.format(few(gates))} it from being scheduled"
    remedy = f"Whoever has set {them} has to remove {them}: look at the controller of {cut(gates[0].partition('/')[0])}"
    return Explanation(ReasonCode.GATED, message, remedy, (clue,))


def entry_by_scheduler(seen: ObservedPod) -> QueueEntry | None:
    """What KAI or Volcano says of a pod that it has not scheduled; None if neither schedules it.

    They queue and schedule in one. Where the queue is silent, the condition of the pod counts.
    """
    keeper = _SCHEDULERS.get(seen.scheduler, "")
    if seen.node or not keeper:
        return None
    entry = seen.entry or QueueEntry(keeper, _queue_named_by(seen.raw, keeper))
    said = said_by_scheduler(seen.raw)
    return entry if entry.message or not said else QueueEntry(keeper, entry.queue, said, "condition PodScheduled")


def queued(entry: QueueEntry, *clues: Clue) -> Explanation:
    """Something that a queue holds back."""
    queue = f" in queue {cut(entry.queue)}" if entry.queue else ""
    why = f": {entry.message}" if entry.message else "; it does not say why"
    seen = (Clue(entry.source, entry.message),) if entry.source and entry.message else ()
    message = f"{entry.keeper} holds it back{queue}{why}"
    return Explanation(ReasonCode.QUEUED, message, _REMEDIES[entry.keeper], (*seen, *clues))


_NO_START, _NO_ROOM = "does not let it start", "has no room for the rest of its group"
_WAITING = frozenset((ReasonCode.UNSCHEDULABLE, ReasonCode.QUEUED, ReasonCode.GATED, ReasonCode.NOT_SCHEDULED))


def after_quotas(found: Explanation, seen: ObservedPod) -> Explanation:
    """The reason `found` of a pod, or that quotas have no room for a gated pod, or for the group of a pod that waits.

    A gated pod that a quota did not let start has an event about it.
    """
    is_gated, refusal, clues = bool(gates_of(seen.raw)), seen.refusal, []
    if seen.lacking:
        clues.append(Clue("group", seen.lacking))
    if is_gated and not refusal and (event := seen.event("GpuPolicyWarning")) is not None:
        refusal = event.message.removeprefix("may not start: ")
        clues.append(Clue(event.source, event.message))
    is_in_queue = is_gated and seen.entry is not None and seen.entry.message
    if refusal and found.code in _WAITING and not is_in_queue:
        message = f"the GPU quota {_NO_START if is_gated else _NO_ROOM}: {refusal}"
        remedy = "Let one of the holders end, request fewer GPUs, or ask for a larger quota"
        return Explanation(ReasonCode.OVER_QUOTA, message, remedy, (*clues, *found.evidence))
    return found.with_evidence(*clues, *([Clue("GPU quota", refusal)] if seen.refusal else []))
