"""One reason for a pod: detectors in the order of a pod's life. The first that has something to say decides."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from webhook.engine.running_rules import violations
from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.requirements import demand_of, is_extended
from webhook.model.wording import counted, cut
from webhook.outcome import Finding, FindingKind
from webhook.rules import processes
from webhook.why.explanation import Clue, Explanation, ReasonCode, by_command
from webhook.why.held_back import after_quotas, entry_by_scheduler, gated, queued
from webhook.why.observed import ObservedPod, Raw, condition, may_have_gpus
from webhook.why.placement import by_nodes, cuda_rules, unplaced

_IMAGE_FAULTS = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_START_FAULTS = frozenset(
    {
        "ContainerCannotRun",
        "CreateContainerConfigError",
        "CreateContainerError",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
        "StartError",
    }
)
_START_EVENTS = (
    "FailedCreatePodSandBox",
    "FailedMount",
    "FailedAttachVolume",
    "FailedPrepareDynamicResources",
    "Failed",
)
_PROGRESS = ("Pulling", "Pulled", "Created", "Started")
"""Events of a node that has come further than what it warned of before."""
_OUT_OF = "OutOf"
_TURNED_AWAY = ("UnexpectedAdmissionError", f"{_OUT_OF}nvidia.com/gpu")


def why_pod(seen: ObservedPod) -> Explanation:
    """The dominant reason of a pod, with its evidence and a remedy."""
    found = (detect(seen) for detect in _DETECTORS)
    reason = after_quotas(next(one for one in found if one is not None), seen)
    return _after_rules(reason, seen).bounded


_NEVER_READY = frozenset({ReasonCode.NOT_STARTING, ReasonCode.CRASHING, ReasonCode.FAILED, ReasonCode.NOT_READY})


def _after_rules(reason: Explanation, seen: ObservedPod) -> Explanation:
    """The reason, with what rules find in commands, models and images. Faults of a pod that waits are mended first."""
    policy, is_broken = seen.around.policy, reason.code in _NEVER_READY
    waits = not seen.node and seen.phase in {"", "Pending"} and reason.code is not ReasonCode.TERMINATING
    if seen.pod is None or policy is None or not (is_broken or waits):
        return reason
    facts = replace(seen.around.facts or seen.around.on_nodes, is_thorough=is_broken)
    own = [one for one in policy.validators if one.rule is processes.RULE and one.exception is None]
    every = (one for one in violations(seen.pod, [*own, *cuda_rules(policy)], facts) if is_broken or _is_fault(one))
    found = [one for one in every if f"{one.field}: " not in reason.message]
    mend, rest = next((f"{one.remedy} ({one.field})" for one in found if _is_fault(one)), ""), reason.remedy
    remedy = ". ".join(filter(None, (mend, "" if mend and rest.startswith("Wait") else rest)))
    return replace(reason, remedy=remedy).with_evidence(*(Clue(one.field, one.message) for one in found))


def _is_fault(found: Finding) -> bool:
    return found.kind is FindingKind.VIOLATION or (found.follows_nodes and found.rule == processes.RULE.key)


def _unreadable(seen: ObservedPod) -> Explanation | None:
    if seen.pod is not None:
        return None
    return Explanation(ReasonCode.UNKNOWN, f"the pod cannot be read: {seen.fault}", "Correct the pod")


def _lost_gpus(seen: ObservedPod) -> Explanation | None:
    """A pod that its node has turned away, because the GPUs that the scheduler counted on are not there."""
    reason, said = text(seen.raw, "status", "reason"), text(seen.raw, "status", "message")
    is_short = reason.startswith(_OUT_OF) and seen.pod is not None and reason.removeprefix(_OUT_OF) in seen.pod.gpus
    if seen.phase != "Failed" or not (reason in _TURNED_AWAY or is_short):
        return None
    message = f"node {seen.node or '(unknown)'} has turned it away ({reason}): {said}"
    remedy = (
        "Delete the pod, so that its controller makes another one; if that fails, too, let the platform team look at "
        "the device plugin of the node"
    )
    return Explanation(ReasonCode.WITHOUT_GPU, message, remedy, (Clue("status of the pod", f"{reason}: {said}"),))


def _no_gpus(seen: ObservedPod) -> Explanation | None:
    if seen.pod is None or seen.is_beside_gpus or may_have_gpus(seen.pod, seen.around.policy):
        return None
    message = "it requests no GPU; gpu-policy why explains GPU pods"
    remedy = "Use kubectl describe; to get a GPU, set a limit such as nvidia.com/gpu: 1"
    return Explanation(ReasonCode.NO_GPUS, message, remedy)


def _finished(seen: ObservedPod) -> Explanation | None:
    if seen.phase == "Succeeded":
        return Explanation(ReasonCode.FINISHED, "it has finished, and holds no GPU any more")
    if seen.phase != "Failed":
        return None
    ended = [
        f"container {text(one, 'name')} ended with exit code {part(one, 'state', 'terminated', 'exitCode')} "
        f"{text(one, 'state', 'terminated', 'reason')}".rstrip()
        for one in listed(seen.raw, "status", "containerStatuses")
        if part(one, "state", "terminated", "exitCode")
    ]
    said = ": ".join(filter(None, (text(seen.raw, "status", key) for key in ("reason", "message"))))
    why = said or "; ".join(ended) or "its status does not say why"
    remedy = by_command("A pod that has failed does not start again by itself; see its logs", *_logs_of(seen))
    clues = tuple(Clue("status of the containers", one) for one in ended)
    return Explanation(ReasonCode.FAILED, f"it has failed, and holds no GPU any more: {why}", remedy, clues)


def _terminating(seen: ObservedPod) -> Explanation | None:
    until = text(seen.raw, "metadata", "deletionTimestamp")
    if not until:
        return None
    message = f"it is being deleted, and has time to end until {until}"
    clues = [Clue("metadata.deletionTimestamp", until)]
    if seen.node_state and not seen.node_state.is_ready:
        message += f"; its node {seen.node} cannot confirm that it has ended: {seen.node_state.fault}"
    finalizers = ", ".join(one for one in listed(seen.raw, "metadata", "finalizers") if isinstance(one, str))
    if finalizers:
        message += f"; the finalizers {finalizers} keep it"
        clues.append(Clue("metadata.finalizers", finalizers))
    return Explanation(ReasonCode.TERMINATING, message, "Wait until it has ended", tuple(clues))


def _queued(seen: ObservedPod) -> Explanation | None:
    """A pod that a scheduler with queues has not placed. No turn in a queue helps a pod that fits nowhere."""
    entry = entry_by_scheduler(seen)
    if entry is None:
        return None
    found, on_nodes = queued(entry), by_nodes(seen)
    if on_nodes is None or on_nodes.code.rank > found.code.rank:
        return found
    is_certain = on_nodes.code in {ReasonCode.FITS_NOWHERE, ReasonCode.KEPT_OFF}
    return on_nodes.with_evidence(*found.evidence) if is_certain or not entry.message else found


# From here on the pod is bound to a node.


def _node_fault(seen: ObservedPod) -> Explanation | None:
    state = seen.node_state
    if seen.around.states is None:
        fault = "the control plane has lost it" if text(seen.raw, "status", "reason") == "NodeLost" else ""
    elif state is None:
        fault = "the cluster has no such node any more"
    else:
        fault = "" if state.is_ready else state.fault
    if not fault:
        return None
    message = f"its node {seen.node} is not in order: {fault}"
    remedy = (
        "Let the platform team look at the node; delete the pod, so that its controller makes another one elsewhere"
    )
    clues = () if state is None else (Clue(f"node {state.name}", fault),)
    return Explanation(ReasonCode.NODE_NOT_READY, message, remedy, clues)


def _gone_gpus(seen: ObservedPod) -> Explanation | None:
    """A pod on a node that has fewer GPUs than its pods request, or lists none any more."""
    state, usage = seen.node_state, seen.around.usage
    if state is None or seen.pod is None:
        return None
    for resource, wanted in seen.pod.gpus.items():
        gpu = seen.pod.known.of(resource)
        left = state.allocatable.get(resource, 0)
        promised = wanted if usage is None else max(usage.requested(state.name, resource), wanted)
        if left >= promised or (gpu is not None and gpu.by_dra):
            continue
        which = "" if promised == wanted else f", and its pods request {promised}"
        message = f"node {state.name} offers {left} {cut(resource)} now{which}; the pod requests {wanted}"
        remedy = (
            "Let the platform team look at the GPUs and the device plugin of the node; delete the pod, so that its "
            "controller makes another one elsewhere"
        )
        clue = Clue(f"node {state.name}", f"status.allocatable has {left} {resource}")
        return Explanation(ReasonCode.WITHOUT_GPU, message, remedy, (clue,))
    return None


def _statuses(raw: Raw) -> Iterator[tuple[str, Raw]]:
    """Name and status of each container, init containers first."""
    for key in ("initContainerStatuses", "containerStatuses"):
        yield from ((text(found, "name"), mapped(found)) for found in listed(raw, "status", key))


def _waiting_for(seen: ObservedPod, reasons: Collection[str]) -> tuple[str, Raw, str, str] | None:
    """The first container that waits for one of these reasons: its name and status, the reason and the message."""
    for name, status in _statuses(seen.raw):
        if (reason := text(status, "state", "waiting", "reason")) in reasons:
            return name, status, reason, text(status, "state", "waiting", "message")
    return None


def _images(seen: ObservedPod) -> Explanation | None:
    found = _waiting_for(seen, _IMAGE_FAULTS)
    if found is None:
        return None
    name, status, reason, said = found
    event = next((one for one in seen.events if one.reason == "Failed" and "pull" in one.message.lower()), None)
    why = said if reason != "ImagePullBackOff" or event is None else event.message
    clues = [Clue(f"container {name}", f"{reason}: {said}"), *([Clue(event.source, event.message)] if event else [])]
    message = f"container {name} has no image {cut(text(status, 'image'), 300)} ({reason}): {why}"
    remedy = "Correct the image's name and tag, or give the pod imagePullSecrets for its registry"
    return Explanation(ReasonCode.IMAGE_FAILING, message, remedy, tuple(clues))


def _not_started(seen: ObservedPod) -> Explanation | None:
    if (found := _waiting_for(seen, _START_FAULTS)) is not None:
        name, _, reason, said = found
        message = f"container {name} cannot be started ({reason}): {said}"
        remedy = "Correct what the message names: a missing Secret or ConfigMap, a command, or the node's GPU runtime"
        return Explanation(ReasonCode.NOT_STARTING, message, remedy, (Clue(f"container {name}", f"{reason}: {said}"),))
    if any(part(status, "started") or part(status, "state", "running") for _, status in _statuses(seen.raw)):
        return None
    event, later = seen.event(*_START_EVENTS), seen.event(*_PROGRESS)
    if event is None or not event.is_warning or (later is not None and later.last >= event.last):
        return None
    message = f"node {seen.node} cannot start it ({event.reason}): {event.message}"
    remedy = (
        "Correct what the message names: a volume, a resource claim, or the RuntimeClass and its runtime on the node"
    )
    return Explanation(ReasonCode.NOT_STARTING, message, remedy, (Clue(event.source, event.message),))


def _crashing(seen: ObservedPod) -> Explanation | None:
    found = _waiting_for(seen, ("CrashLoopBackOff",))
    if found is None:
        return None
    name, status = found[:2]
    how, why = _end(mapped(status, "lastState", "terminated"))
    message = f"container {name} ends again and again ({part(status, 'restartCount')} restarts), last with {how}"
    remedy = by_command(f"{_memory(why)}See what it wrote last", *_logs_of(seen, name), "--previous")
    clue = Clue(f"container {name}", f"{how} {text(status, 'lastState', 'terminated', 'message')}".rstrip())
    return Explanation(ReasonCode.CRASHING, message, remedy, (clue,))


def _ended(seen: ObservedPod) -> Explanation | None:
    """A pod with a container that has ended with a fault while others go on."""
    for name, status in _statuses(seen.raw):
        ended = mapped(status, "state", "terminated")
        code = part(ended, "exitCode")
        if type(code) is not int or code == 0:
            continue
        how, why = _end(ended)
        message, reason = f"container {name} has ended with {how}, and is ", ReasonCode.CRASHING
        if text(seen.raw, "spec", "restartPolicy") == "Never":
            message, reason = f"{message}not started again while other containers go on", ReasonCode.FAILED
        else:
            message += f"started again ({part(status, 'restartCount') or 0} restarts until now)"
        remedy = by_command(f"{_memory(why)}See what it wrote last", *_logs_of(seen, name))
        return Explanation(
            reason, message, remedy, (Clue(f"container {name}", f"{how} {text(ended, 'message')}".rstrip()),)
        )
    return None


def _end(terminated: Raw) -> tuple[str, str]:
    """How a container has ended, such as `exit code 137 OOMKilled`, and its reason."""
    why = text(terminated, "reason")
    return f"exit code {part(terminated, 'exitCode')} {why}".rstrip(), why


def _memory(why: str) -> str:
    return "It needs a larger memory limit. " if why == "OOMKilled" else ""


def _logs_of(seen: ObservedPod, container: str = "") -> tuple[str, ...]:
    """The words of the command that shows the logs of a pod, or of one of its containers."""
    name, namespace = (text(seen.raw, "metadata", key) for key in ("name", "namespace"))
    return "kubectl", "logs", name, "-n", namespace, *(("-c", container) if container else ())


def _starting(seen: ObservedPod) -> Explanation | None:
    if seen.phase not in {"", "Pending"}:
        return None
    pulling, pulled = seen.event("Pulling"), seen.event("Pulled", "Created", "Started")
    if pulling is not None and (pulled is None or pulled.last < pulling.last):
        message, clue = (
            f"node {seen.node} is pulling an image: {pulling.message}",
            Clue(pulling.source, pulling.message),
        )
        return Explanation(ReasonCode.IMAGE_PULLING, message, "Wait; large images take minutes", (clue,))
    waiting = ((name, text(one, "state", "waiting", "reason")) for name, one in _statuses(seen.raw))
    reasons = [f"{name}: {why}" for name, why in waiting if why]
    if not reasons and not text(seen.raw, "status", "startTime"):
        message = f"it was bound to node {seen.node}, whose kubelet has not taken it yet"
    else:
        message = f"node {seen.node} is starting it"
    remedy = "Wait a moment; if it stays so, let the platform team look at the kubelet of the node"
    clues = (Clue("containers", ", ".join(reasons[:5])),) if reasons else ()
    return Explanation(ReasonCode.STARTING, message, remedy, clues)


def _running(seen: ObservedPod) -> Explanation:
    ready, runs = condition(seen.raw, "Ready"), f"it runs on node {seen.node}{_held(seen)}"
    if seen.phase == "Unknown":
        message = f"its node {seen.node} does not report its state"
        return Explanation(ReasonCode.UNKNOWN, message, "Let the platform team look at the node")
    if not ready or text(ready, "status") == "True":
        return Explanation(ReasonCode.HEALTHY, runs)
    waiting = [name for name, status in _statuses(seen.raw) if part(status, "ready") is False]
    said = text(ready, "message") or f"{counted(len(waiting), 'container')} not ready"
    remedy = by_command("Look at its readiness probe and its logs", *_logs_of(seen, waiting[0] if waiting else ""))
    return Explanation(ReasonCode.NOT_READY, f"{runs}, but is not ready: {said}", remedy, tuple(_restarts(seen.raw)))


def _restarts(raw: Raw) -> Iterator[Clue]:
    """How often containers that are not ready have ended before."""
    for name, status in _statuses(raw):
        times, ended = part(status, "restartCount"), mapped(status, "lastState", "terminated")
        if part(status, "ready") is False and type(times) is int and times:
            last = f", last with {_end(ended)[0]}" if type(part(ended, "exitCode")) is int else ""
            yield Clue(f"container {name}", f"{counted(times, 'restart')}{last}")


def _held(seen: ObservedPod) -> str:
    """The devices of a pod that runs, for a sentence; empty if it has none."""
    if seen.pod is None:
        return ""
    devices = seen.pod.gpus or {name: count for name, count in demand_of(seen.pod).items() if is_extended(name)}
    if devices:
        return f" with {', '.join(f'{count} {cut(name)}' for name, count in devices.items())}"
    return " with devices of its resource claims" if seen.pod.resource_claims or seen.pod.requests_classes else ""


_DETECTORS: tuple[Callable[[ObservedPod], Explanation | None], ...] = (
    _unreadable,
    _lost_gpus,
    _no_gpus,
    _finished,
    _terminating,
    gated,
    _queued,
    unplaced,
    _node_fault,
    _gone_gpus,
    _images,
    _not_started,
    _crashing,
    _ended,
    _starting,
    _running,
)
"""In the order of asking; the last one always finds a reason."""
