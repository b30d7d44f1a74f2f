"""One reason for a workload: why it lacks pods, or else the gravest reason of its pods."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from webhook.model.json_parts import part
from webhook.model.pod import KUEUE_QUEUE
from webhook.model.wording import counted, few
from webhook.model.workloads import controller_of
from webhook.why.explanation import Clue, Explanation, PodsAlike, ReasonCode, by_command, gravest
from webhook.why.held_back import KUEUE, queued
from webhook.why.observed import ObservedWorkload, QueueEntry, Raw, SeenEvent, Surroundings, condition, newest, text
from webhook.why.pod_counts import counts_for_certain
from webhook.why.refusals import of_policies, refusal

_FAILED = ("FailedCreate", "FailedCreatePod", "FailedCreatePodReason", "FailedDaemonPod")
_MADE = ("SuccessfulCreate", "Created")
_MOST_NAMES = 5
_PHASES = (("phase",), ("state", "phase"), ("jobStatus",))
"""Places in the status where Argo, Volcano and KubeRay say how a workload has ended."""
_GOOD_ENDS = frozenset({"succeeded", "completed"})
_BAD_ENDS = frozenset({"failed", "error", "aborted", "terminated", "stopped"})
_BUILT_IN = frozenset({"", "apps", "batch"})
_SUSPENDED = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))


def why_workload(seen: ObservedWorkload, pods: Sequence[PodsAlike], around: Surroundings) -> Explanation:
    """The dominant reason of a workload. `pods` are its pods by reason."""
    found = _finished(seen) or _unmade(seen, around)
    if found is None and pods:
        found = _of_pods(gravest(pods), seen)
    return (found or _without_pods(seen)).bounded


def _unmade(seen: ObservedWorkload, around: Surroundings) -> Explanation | None:
    """Why the workload has fewer pods than it wants; None if it has all."""
    if not seen.has_gpus:
        if seen.is_short and (refused := _refused(seen, around)) is not None:
            return refused
        message = "its pods request no GPU; gpu-policy why explains GPU workloads"
        return Explanation(ReasonCode.NO_GPUS, message, "Use kubectl describe")
    for detect in (_suspended, _scaled_to_zero):
        if (found := detect(seen)) is not None:
            return found
    if not seen.is_short:
        return _refused(seen, around) if seen.is_stuck else None
    return _refused(seen, around) or _paused(seen)


def _finished(seen: ObservedWorkload) -> Explanation | None:
    phases = {text(seen.raw, "status", *path).lower() for path in _PHASES}
    conditions = (condition(seen.raw, kind) for kind in ("Complete", "Succeeded", "Completed"))
    if any(text(found, "status") == "True" for found in conditions) or phases & _GOOD_ENDS:
        return Explanation(ReasonCode.FINISHED, "it has finished, and its pods hold no GPUs any more")
    failed = condition(seen.raw, "Failed")
    if text(failed, "status") != "True" and not phases & _BAD_ENDS:
        return None
    said = (text(failed, "reason"), text(failed, "message") or text(seen.raw, "status", "message"))
    why = ": ".join(filter(None, said)) or "its status does not say why"
    remedy = "See the logs of its pods; delete it and create it again"
    return Explanation(ReasonCode.FAILED, f"it has failed: {why}", remedy, (Clue("its status", why),))


def _suspended(seen: ObservedWorkload) -> Explanation | None:
    path = next((path for path in _SUSPENDED if part(seen.raw, *path) is True), None)
    if path is None or (seen.reference.kind == "CronJob" and seen.pods):  # its Jobs that run are not suspended
        return None
    clue = Clue(".".join(path), "true")
    queue = text(seen.raw, "metadata", "labels", KUEUE_QUEUE)
    if seen.entry is not None or queue:
        return queued(seen.entry or QueueEntry(KUEUE, queue), replace(clue, message="true, which Kueue takes back"))
    message = "it is suspended (suspend: true), so it makes no pods"
    resumed: object = False
    for key in reversed(path):
        resumed = {key: resumed}
    patch = json.dumps(resumed, separators=(",", ":"))
    remedy = by_command("Resume it", "kubectl", "patch", *_named(seen), "--type", "merge", "-p", patch)
    return Explanation(ReasonCode.SUSPENDED, message, remedy, (clue,))


def _named(seen: ObservedWorkload) -> tuple[str, ...]:
    """The words by which kubectl finds the workload, whatever namespace the terminal is in."""
    about = seen.reference
    group = about.api_version.rpartition("/")[0]
    kind = about.kind.lower() if group in _BUILT_IN else f"{about.kind.lower()}.{group}"
    return kind, about.name, "-n", about.namespace


def _scaled_to_zero(seen: ObservedWorkload) -> Explanation | None:
    for key in ("replicas", "parallelism"):
        if part(seen.raw, "spec", key) == 0 and type(part(seen.raw, "spec", key)) is int:
            remedy = by_command("Scale it up", "kubectl", "scale", *_named(seen), "--replicas=1")
            remedy = remedy if key == "replicas" else "Set spec.parallelism to 1 or more"
            return Explanation(
                ReasonCode.SCALED_TO_ZERO, f"it wants no pods (spec.{key}: 0)", remedy, (Clue(f"spec.{key}", "0"),)
            )
    return None


def _paused(seen: ObservedWorkload) -> Explanation | None:
    if part(seen.raw, "spec", "paused") is not True:
        return None
    remedy = by_command("Resume it", "kubectl", "rollout", "resume", *_named(seen))
    return Explanation(
        ReasonCode.PAUSED, "it is paused, so it makes no new pods", remedy, (Clue("spec.paused", "true"),)
    )


def _refused(seen: ObservedWorkload, around: Surroundings) -> Explanation | None:
    """A refusal by the newest event, by a condition that outlives events, or by the policies as they are now."""
    event = newest((one for one in seen.events if _counts(one, seen)), *_FAILED)
    if event is not None:
        found = refusal(event.message, event.source, around, seen.reference.kind)
        return found.with_evidence(*_times(event))
    for raw in (*seen.parts, seen.raw):
        failure = condition(raw, "ReplicaFailure")
        if text(failure, "status") == "True" and text(failure, "message"):
            source = f"condition ReplicaFailure of {text(raw, 'kind')} {text(raw, 'metadata', 'name')}"
            return refusal(text(failure, "message"), source, around, seen.reference.kind)
    return of_policies(seen.refusal, around, seen.reference.kind) if seen.refusal else None


def _counts(event: SeenEvent, seen: ObservedWorkload) -> bool:
    """Whether a refusal is about pods that are still missing, and no pod was made of the same object since."""
    about = event.about.uid
    if about not in seen.lacking and not (seen.is_short and _is_whole(about, seen)):
        return False
    made = newest((one for one in seen.events if one.about.uid == about), *_MADE)
    return made is None or made.last <= event.last or not seen.pods


def _is_whole(uid: str, seen: ObservedWorkload) -> bool:
    """Whether an object is the workload, or makes other parts, so that what it lacks is missing of the whole."""
    leaves = {text(one, "metadata", "uid") for one in seen.parts}
    leaves -= {text(controller_of(one), "uid") for one in seen.parts}
    return uid not in leaves


def _times(event: SeenEvent) -> Iterator[Clue]:
    if event.count > 1:
        yield Clue(event.source, f"{counted(event.count, 'time')}, last at {event.last}")


def _of_pods(pods: Sequence[PodsAlike], seen: ObservedWorkload) -> Explanation:
    """The gravest reason of the pods, with the number of pods for each reason, or that there are too few of them."""
    total = sum(one.count for one in pods)
    first = pods[0]
    found = first.explanation
    whose = few(list(first.names)) if first.count <= len(first.names) else f"{first.count} of its {total} pods"
    if total > 1:
        whose = f"{first.count} of its {total} pods, such as {first.names[0]}" if first.names else whose
    counts = [Clue("pods", f"{one.explanation.code}: {counted(one.count, 'pod')} ({few(one.names)})") for one in pods]
    if seen.is_short and seen.desired is not None:
        there = f"it wants {counted(seen.desired, 'pod')}, and {_there(seen.pods)}"
        counts.insert(0, Clue("pods", there))
        if found.code.is_good and seen.pods and counts_for_certain(seen.raw):
            remedy = "Wait a moment; if it stays so, see the events of its controller with kubectl describe"
            return Explanation(ReasonCode.TOO_FEW_PODS, f"{there}; nothing says why", remedy, tuple(counts))
    return Explanation(found.code, f"{whose}: {found.message}", found.remedy, found.evidence).with_evidence(*counts)


def _there(pods: int) -> str:
    return f"{pods or 'none'} {'is' if pods == 1 else 'are'} there"


def _without_pods(seen: ObservedWorkload) -> Explanation:
    warnings = [Clue(one.source, one.message) for one in seen.events if one.is_warning]
    if seen.reference.kind == "CronJob":
        last = text(seen.raw, "status", "lastScheduleTime")
        when = f"it made the last Job at {last}" if last else "it has not made a Job yet"
        remedy = f"Wait for its schedule, {text(seen.raw, 'spec', 'schedule') or 'which is not set'}"
        return Explanation(ReasonCode.NO_PODS, f"it has no pods now; {when}", remedy, tuple(warnings))
    message = "it has no pods, and nothing says why"
    if warnings:
        message = f"it has no pods: {warnings[0].message}"
    remedy = "Wait a moment; if it stays so, see whether the controller of this kind runs"
    return Explanation(ReasonCode.NO_PODS, message, remedy, tuple(warnings))


def names_of(raws: Sequence[Raw]) -> tuple[str, ...]:
    """The names of the first objects."""
    return tuple(text(raw, "metadata", "name") for raw in raws[:_MOST_NAMES])
