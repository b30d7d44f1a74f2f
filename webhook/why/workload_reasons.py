"""One reason for a workload: why it lacks pods, or else the gravest reason of its pods.

Why the API server refused a pod stands in the text that the controller kept of it: in an event, which the API server
forgets after an hour, and with some controllers in a condition.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.model.json_parts import part, text
from webhook.model.pod import KUEUE_QUEUE
from webhook.model.wording import counted, cut, few
from webhook.model.workloads import controller_of
from webhook.why.explanation import Clue, Explanation, PodsAlike, ReasonCode, by_command, gravest
from webhook.why.held_back import KUEUE, queued
from webhook.why.observed import ObservedWorkload, QueueEntry, SeenEvent, Surroundings, condition, newest
from webhook.why.workload_pods import BUILT_IN_GROUPS, counts_for_certain

_FAILED = ("FailedCreate", "FailedCreatePod", "FailedCreatePodReason", "FailedDaemonPod")
_MADE = ("SuccessfulCreate", "Created")
_PHASES = (("phase",), ("state", "phase"), ("jobStatus",))
"""Places in the status where Argo, Volcano and KubeRay say how a workload has ended."""
_GOOD_ENDS = frozenset({"succeeded", "completed"})
_BAD_ENDS = frozenset({"failed", "error", "aborted", "terminated", "stopped"})
_SUSPENDED = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))


def why_workload(seen: ObservedWorkload, pods: Sequence[PodsAlike], around: Surroundings) -> Explanation:
    """The dominant reason of a workload. `pods` are its pods by reason."""
    found = _finished(seen) or _unmade(seen, around)
    if found is None and pods:
        found = _of_pods(gravest(pods), seen)
    return (found or _without_pods(seen)).bounded


def _unmade(seen: ObservedWorkload, around: Surroundings) -> Explanation | None:
    if not seen.has_gpus:
        message = "its pods request no GPU; gpu-policy why explains GPU workloads"
        refused = _refused(seen, around) if seen.is_short else None
        return refused or Explanation(ReasonCode.NO_GPUS, message, "Use kubectl describe")
    if found := _suspended(seen) or _scaled_to_zero(seen):
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
    resumed: object = False
    for key in reversed(path):
        resumed = {key: resumed}
    patch = json.dumps(resumed, separators=(",", ":"))
    remedy = by_command("Resume it", "kubectl", "patch", *_named(seen), "--type", "merge", "-p", patch)
    message = "it is suspended (suspend: true), so it makes no pods"
    return Explanation(ReasonCode.SUSPENDED, message, remedy, (clue,))


def _named(seen: ObservedWorkload) -> tuple[str, ...]:
    """The words by which kubectl finds the workload, whatever namespace the terminal is in."""
    about = seen.reference
    group = about.api_version.rpartition("/")[0]
    kind = about.kind.lower() if group in BUILT_IN_GROUPS else f"{about.kind.lower()}.{group}"
    return kind, about.name, "-n", about.namespace


def _scaled_to_zero(seen: ObservedWorkload) -> Explanation | None:
    for key in ("replicas", "parallelism"):
        wanted = part(seen.raw, "spec", key)
        if wanted == 0 and type(wanted) is int:
            remedy = "Set spec.parallelism to 1 or more"
            if key == "replicas":
                remedy = by_command("Scale it up", "kubectl", "scale", *_named(seen), "--replicas=1")
            message = f"it wants no pods (spec.{key}: 0)"
            return Explanation(ReasonCode.SCALED_TO_ZERO, message, remedy, (Clue(f"spec.{key}", "0"),))
    return None


def _paused(seen: ObservedWorkload) -> Explanation | None:
    if part(seen.raw, "spec", "paused") is not True:
        return None
    remedy = by_command("Resume it", "kubectl", "rollout", "resume", *_named(seen))
    message = "it is paused, so it makes no new pods"
    return Explanation(ReasonCode.PAUSED, message, remedy, (Clue("spec.paused", "true"),))


def _of_pods(pods: Sequence[PodsAlike], seen: ObservedWorkload) -> Explanation:
    """The gravest reason of the pods, with the number of pods for each reason, or that there are too few of them."""
    total, first = sum(one.count for one in pods), pods[0]
    found = first.explanation
    whose = few(first.names) if total == 1 else f"{first.count} of its {total} pods, such as {first.names[0]}"
    counts = [Clue("pods", f"{one.explanation.code}: {counted(one.count, 'pod')} ({few(one.names)})") for one in pods]
    if seen.is_short and seen.desired is not None:
        are = "is" if seen.pods == 1 else "are"
        there = f"it wants {counted(seen.desired, 'pod')}, and {seen.pods or 'none'} {are} there"
        counts.insert(0, Clue("pods", there))
        if found.code.is_good and seen.pods and counts_for_certain(seen.raw):
            remedy = "Wait a moment; if it stays so, see the events of its controller with kubectl describe"
            return Explanation(ReasonCode.TOO_FEW_PODS, f"{there}; nothing says why", remedy, tuple(counts))
    return Explanation(found.code, f"{whose}: {found.message}", found.remedy, found.evidence).with_evidence(*counts)


def _without_pods(seen: ObservedWorkload) -> Explanation:
    warnings = [Clue(one.source, one.message) for one in seen.events if one.is_warning]
    if seen.reference.kind == "CronJob":
        last = text(seen.raw, "status", "lastScheduleTime")
        when = f"it made the last Job at {last}" if last else "it has not made a Job yet"
        remedy = f"Wait for its schedule, {text(seen.raw, 'spec', 'schedule') or 'which is not set'}"
        return Explanation(ReasonCode.NO_PODS, f"it has no pods now; {when}", remedy, tuple(warnings))
    message = f"it has no pods: {warnings[0].message}" if warnings else "it has no pods, and nothing says why"
    remedy = "Wait a moment; if it stays so, see whether the controller of this kind runs"
    return Explanation(ReasonCode.NO_PODS, message, remedy, tuple(warnings))


# Refusals.

_DENIED = re.compile(r'admission webhook "([^"\s]{1,253})" denied the request: ?', re.IGNORECASE)
_NO_ANSWER = re.compile(r'failed calling webhook "([^"\s]{1,253})"')
_EXCEEDED = re.compile(r"exceeded quota: ([^\s,]{1,253}), ?")
_OTHERS = (
    (
        re.compile(r"ValidatingAdmissionPolicy '([^'\s]{1,253})'[^:]{0,300} denied request: ?"),
        "ValidatingAdmissionPolicy {}",
    ),
    (re.compile(r'violates PodSecurity "([^"\s]{1,100})": ?'), "Pod Security ({})"),
)
"""What the API server writes of its own policies, and their names for people."""
_RULE = re.compile(r"^(?:- )?([a-z][A-Za-z]{2,40}): ", re.MULTILINE)
_OURS = ".gpupolicy.dev"
_AGAIN = "the controller then tries again by itself"


def _refused(seen: ObservedWorkload, around: Surroundings) -> Explanation | None:
    """A refusal by the newest event, by a condition that outlives events, or by the policies as they are now."""
    event = newest((one for one in seen.events if _counts(one, seen)), *_FAILED)
    if event is not None:
        times = Clue(event.source, f"{counted(event.count, 'time')}, last at {event.last}")
        found = _refusal(event.message, event.source, around, seen.reference.kind)
        return found.with_evidence(times) if event.count > 1 else found
    for raw in (*seen.parts, seen.raw):
        failure = condition(raw, "ReplicaFailure")
        if text(failure, "status") == "True" and text(failure, "message"):
            source = f"condition ReplicaFailure of {text(raw, 'kind')} {text(raw, 'metadata', 'name')}"
            return _refusal(text(failure, "message"), source, around, seen.reference.kind)
    if not seen.refusal:
        return None
    source = "the policies as they are now; events are kept for an hour, and none is left"
    return _by_us(seen.refusal, Clue(source, seen.refusal), around, seen.reference.kind)


def is_our_refusal(event: Mapping[str, Any]) -> bool:
    """Whether an event says that this webhook refused a pod."""
    denied = _DENIED.search(text(event, "message")) if text(event, "reason") in _FAILED else None
    return denied is not None and denied[1].endswith(_OURS)


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
    return uid not in leaves - {text(controller_of(one), "uid") for one in seen.parts}


def _refusal(message: str, source: str, around: Surroundings, kind: str) -> Explanation:
    """The reason in a text such as `Error creating: admission webhook "validate.gpupolicy.dev" denied ...`.

    `source` is where the text stood, `kind` the kind of the workload that people change.
    """
    message = message.removeprefix("Error creating: ").strip()
    clue = Clue(source, message)
    if found := _DENIED.search(message):
        said = message[found.end() :]
        is_ours = found[1].endswith(_OURS)
        return (
            _by_us(said, clue, around, kind) if is_ours else _by(f"the admission webhook {found[1]}", said, clue, kind)
        )
    if found := _NO_ANSWER.search(message):
        message, remedy = "no pod can be created, because ", "Tell the platform team"
        if found[1].endswith(_OURS):
            message, remedy = (
                f"{message}gpu-policy does not answer",
                f"{remedy}, who see the fault by gpu-policy doctor",
            )
        else:
            message += f"the admission webhook {found[1]} does not answer"
        return Explanation(ReasonCode.REFUSED, message, remedy, (clue,))
    if found := _EXCEEDED.search(message):
        remedy = f"Let other pods of the namespace end, request less, or ask for a larger ResourceQuota; {_AGAIN}"
        message = f"the ResourceQuota {found[1]} refuses its pods: {message[found.end() :]}"
        return Explanation(ReasonCode.OVER_QUOTA, message, remedy, (clue, *_holders(around)))
    for pattern, whom in _OTHERS:
        if found := pattern.search(message):
            return _by(whom.format(found[1]), message[found.end() :], clue, kind)
    remedy = f"Correct what the message names; {_AGAIN}"
    return Explanation(ReasonCode.REFUSED, f"the API server refuses its pods: {message}", remedy, (clue,))


def _by_us(said: str, clue: Clue, around: Surroundings, kind: str) -> Explanation:
    rules = list(dict.fromkeys(_RULE.findall(said)))
    bound = () if around.policy is None else around.policy.rules
    places = [f"{one.rule.key} is set in {one.origin}:{one.line}" for one in bound if one.rule.key in rules]
    clues = (clue, *(Clue("policy", place) for place in places))
    if rules == ["gpuQuota"]:
        quotas = (
            Clue(
                f"GPUQuota {one.name}",
                cut("; ".join(f"{part.name or 'GPUs'}: {part.used} of {part.hard} used" for part in one.parts), 500),
            )
            for one in around.quotas
        )
        remedy = f"Let one of the holders end, request fewer GPUs, or ask for a larger quota; {_AGAIN}"
        evidence = (*clues, *quotas, *_holders(around))
        return Explanation(ReasonCode.OVER_QUOTA, f"the GPU quota refuses its pods: {said}", remedy, evidence)
    named = f" ({few(rules)})" if rules else ""
    remedy = _other_template(kind, "as the message says")
    return Explanation(ReasonCode.REFUSED, f"gpu-policy refuses its pods{named}: {said}", remedy, clues)


def _holders(around: Surroundings) -> Iterator[Clue]:
    if around.holders:
        yield Clue("pods of the namespace", few([f"{name} holds {gpus}" for name, gpus in around.holders]))


def _by(whom: str, said: str, clue: Clue, kind: str) -> Explanation:
    remedy = f"{_other_template(kind, 'that it admits')}; or ask who runs it"
    return Explanation(ReasonCode.REFUSED, f"{whom} refuses its pods: {said}", remedy, (clue,))


def _other_template(kind: str, how: str) -> str:
    """How to change the pod template of a workload of this kind; a Job keeps the one that it has."""
    if kind == "JobSet" or (kind.endswith("Job") and kind != "CronJob"):
        return (
            f"Delete the {kind} and create it again with a pod template {how}: a {kind} keeps the template that it has"
        )
    if kind == "CronJob":
        return f"Change the pod template {how}; the next Job has it"
    return f"Change the pod template {how}; {_AGAIN}"
