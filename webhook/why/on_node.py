"""Why a pod that has a node does not run as it should: its node, its images, its containers, or GPUs that are gone."""

from collections.abc import Callable, Iterator

from webhook.model.json_parts import listed, mapped, part
from webhook.model.requirements import demand_of, is_extended
from webhook.model.wording import counted, cut
from webhook.why.explanation import Clue, Explanation, ReasonCode, by_command
from webhook.why.observed import ObservedPod, Raw, Surroundings, condition, text

_MOST_CONTAINERS = 200
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
_ADMISSION = ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu")
_OUT_OF = "OutOf"


def on_node(seen: ObservedPod, around: Surroundings) -> Explanation:
    """The reason of a pod that is bound to a node and has not finished."""
    detectors = (_node_fault, _gone_gpus, _images, _not_started, _crashing, _ended, _waiting)
    for detect in detectors:
        if (found := detect(seen, around)) is not None:
            return found
    return _running(seen)


def lost_gpus(seen: ObservedPod) -> Explanation | None:
    """A pod that its node has turned away, because the GPUs that the scheduler counted on are not there."""
    reason, said = text(seen.raw, "status", "reason"), text(seen.raw, "status", "message")
    is_short = reason.startswith(_OUT_OF) and seen.pod is not None and reason.removeprefix(_OUT_OF) in seen.pod.gpus
    if seen.phase != "Failed" or not (reason in _ADMISSION or is_short):
        return None
    message = f"node {seen.node or '(unknown)'} has turned it away ({reason}): {said}"
    remedy = (
        "Delete the pod, so that its controller makes another one; if that fails, too, let the platform team look at "
        "the device plugin of the node"
    )
    return Explanation(ReasonCode.WITHOUT_GPU, message, remedy, (Clue("status of the pod", f"{reason}: {said}"),))


def _node_fault(seen: ObservedPod, around: Surroundings) -> Explanation | None:
    if around.states is None:
        lost = text(seen.raw, "status", "reason") == "NodeLost"
        return _node(seen, "the control plane has lost it", ()) if lost else None
    state = around.states.get(seen.node)
    if state is None:
        return _node(seen, "the cluster has no such node any more", ())
    return None if state.is_ready else _node(seen, state.fault, (Clue(f"node {state.name}", state.fault),))


def _node(seen: ObservedPod, fault: str, clues: tuple[Clue, ...]) -> Explanation:
    message = f"its node {seen.node} is not in order: {fault}"
    remedy = (
        "Let the platform team look at the node; delete the pod, so that its controller makes another one elsewhere"
    )
    return Explanation(ReasonCode.NODE_NOT_READY, message, remedy, clues)


def _gone_gpus(seen: ObservedPod, around: Surroundings) -> Explanation | None:
    """A pod on a node that has fewer GPUs than its pods request, or lists none any more."""
    state = (around.states or {}).get(seen.node)
    if state is None or seen.pod is None:
        return None
    for resource, wanted in seen.pod.gpus.items():
        gpu = seen.pod.known.of(resource)
        if gpu is not None and gpu.by_dra:
            continue
        left = state.allocatable.get(resource, 0)
        promised = wanted if around.usage is None else max(around.usage.requested(state.name, resource), wanted)
        if left >= promised:
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
    """Name and state of each container, init containers first."""
    for key in ("initContainerStatuses", "containerStatuses"):
        for found in listed(raw, "status", key)[:_MOST_CONTAINERS]:
            yield text(found, "name"), mapped(found)


def _waits(raw: Raw, is_meant: Callable[[str], bool]) -> tuple[str, str, str, str] | None:
    """The first container that waits for such a reason: its name, its image, the reason and the message."""
    for name, status in _statuses(raw):
        reason = text(status, "state", "waiting", "reason")
        if reason and is_meant(reason):
            return name, text(status, "image"), reason, text(status, "state", "waiting", "message")
    return None


def _images(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # one signature
    found = _waits(seen.raw, _IMAGE_FAULTS.__contains__)
    if found is None:
        return None
    name, image, reason, said = found
    event = next((one for one in seen.events if one.reason == "Failed" and "pull" in one.message.lower()), None)
    why = said if reason != "ImagePullBackOff" or event is None else event.message
    clues = [Clue(f"container {name}", f"{reason}: {said}"), *([Clue(event.source, event.message)] if event else [])]
    message = f"container {name} has no image {cut(image, 300)} ({reason}): {why}"
    remedy = "Correct the image's name and tag, or give the pod imagePullSecrets for its registry"
    return Explanation(ReasonCode.IMAGE_FAILING, message, remedy, tuple(clues))


def _not_started(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # one signature
    found = _waits(seen.raw, _START_FAULTS.__contains__)
    if found is not None:
        name, _, reason, said = found
        message = f"container {name} cannot be started ({reason}): {said}"
        remedy = "Correct what the message names: a missing Secret or ConfigMap, a command, or the node's GPU runtime"
        return Explanation(ReasonCode.NOT_STARTING, message, remedy, (Clue(f"container {name}", f"{reason}: {said}"),))
    event = seen.event(*_START_EVENTS) if _is_before_start(seen) else None
    later = seen.event(*_PROGRESS)
    if event is None or not event.is_warning or (later is not None and later.last >= event.last):
        return None
    message = f"node {seen.node} cannot start it ({event.reason}): {event.message}"
    remedy = (
        "Correct what the message names: a volume, a resource claim, or the RuntimeClass and its runtime on the node"
    )
    return Explanation(ReasonCode.NOT_STARTING, message, remedy, (Clue(event.source, event.message),))


def _is_before_start(seen: ObservedPod) -> bool:
    return not any(part(status, "started") or part(status, "state", "running") for _, status in _statuses(seen.raw))


def _crashing(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # one signature
    found = _waits(seen.raw, "CrashLoopBackOff".__eq__)
    if found is None:
        return None
    name = found[0]
    status = next(status for other, status in _statuses(seen.raw) if other == name)
    ended = mapped(status, "lastState", "terminated")
    code, why, times = part(ended, "exitCode"), text(ended, "reason"), part(status, "restartCount")
    said = text(ended, "message")
    message = f"container {name} ends again and again ({times} restarts), last with exit code {code} {why}".rstrip()
    remedy = by_command(f"{_memory(why)}See what it wrote last", *logs_of(seen, name), "--previous")
    clues = (Clue(f"container {name}", f"exit code {code} {why} {said}".rstrip()),)
    return Explanation(ReasonCode.CRASHING, message, remedy, clues)


def _ended(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # one signature
    """A pod of which a container has ended with a fault while others go on."""
    for name, status in _statuses(seen.raw):
        ended = mapped(status, "state", "terminated")
        code, why, times = part(ended, "exitCode"), text(ended, "reason"), part(status, "restartCount")
        if type(code) is not int or code == 0:
            continue
        how = f"exit code {code} {why}".rstrip()
        clues = (Clue(f"container {name}", f"{how} {text(ended, 'message')}".rstrip()),)
        if text(seen.raw, "spec", "restartPolicy") == "Never":
            message = f"container {name} has ended with {how}, and is not started again while other containers go on"
            remedy = by_command(f"{_memory(why)}See what it wrote last", *logs_of(seen, name))
            return Explanation(ReasonCode.FAILED, message, remedy, clues)
        message = f"container {name} has ended with {how}, and is started again ({times or 0} restarts until now)"
        remedy = by_command(f"{_memory(why)}See what it wrote last", *logs_of(seen, name))
        return Explanation(ReasonCode.CRASHING, message, remedy, clues)
    return None


def _memory(why: str) -> str:
    return "It needs a larger memory limit. " if why == "OOMKilled" else ""


def logs_of(seen: ObservedPod, container: str = "") -> tuple[str, ...]:
    """The words of the command that shows the logs of a pod, or of one of its containers."""
    name, namespace = (text(seen.raw, "metadata", key) for key in ("name", "namespace"))
    return "kubectl", "logs", name, "-n", namespace, *(("-c", container) if container else ())


def _waiting(seen: ObservedPod, around: Surroundings) -> Explanation | None:  # noqa: ARG001  # one signature
    """A pod whose containers are being started."""
    if seen.phase not in {"", "Pending"}:
        return None
    pulling, pulled = seen.event("Pulling"), seen.event("Pulled", "Created", "Started")
    if pulling is not None and (pulled is None or pulled.last < pulling.last):
        message = f"node {seen.node} is pulling an image: {pulling.message}"
        return Explanation(
            ReasonCode.IMAGE_PULLING,
            message,
            "Wait; large images take minutes",
            (Clue(pulling.source, pulling.message),),
        )
    reasons = [
        f"{name}: {why}" for name, one in _statuses(seen.raw) if (why := text(one, "state", "waiting", "reason"))
    ]
    if not reasons and not text(seen.raw, "status", "startTime"):
        message = f"it was bound to node {seen.node}, whose kubelet has not taken it yet"
    else:
        message = f"node {seen.node} is starting it"
    remedy = "Wait a moment; if it stays so, let the platform team look at the kubelet of the node"
    clues = (Clue("containers", ", ".join(reasons[:5])),) if reasons else ()
    return Explanation(ReasonCode.STARTING, message, remedy, clues)


def _running(seen: ObservedPod) -> Explanation:
    ready = condition(seen.raw, "Ready")
    held = _held(seen)
    if seen.phase == "Unknown":
        return Explanation(
            ReasonCode.UNKNOWN,
            f"its node {seen.node} does not report its state",
            "Let the platform team look at the node",
        )
    if not ready or text(ready, "status") == "True":
        return Explanation(ReasonCode.HEALTHY, f"it runs on node {seen.node}{held}")
    waiting = [name for name, status in _statuses(seen.raw) if part(status, "ready") is False]
    said = text(ready, "message") or f"{counted(len(waiting), 'container')} not ready"
    remedy = by_command("Look at its readiness probe and its logs", *logs_of(seen, waiting[0] if waiting else ""))
    clues = tuple(_restarts(seen.raw))
    return Explanation(
        ReasonCode.NOT_READY, f"it runs on node {seen.node}{held}, but is not ready: {said}", remedy, clues
    )


def _restarts(raw: Raw) -> Iterator[Clue]:
    """How often containers that are not ready have ended before."""
    for name, status in _statuses(raw):
        times, code = part(status, "restartCount"), part(status, "lastState", "terminated", "exitCode")
        if part(status, "ready") is False and type(times) is int and times:
            last = f", last with exit code {code}" if type(code) is int else ""
            why = text(status, "lastState", "terminated", "reason")
            yield Clue(f"container {name}", f"{counted(times, 'restart')}{last} {why if last else ''}".rstrip())


def _held(seen: ObservedPod) -> str:
    """The devices of a pod that runs, for a sentence; empty if it has none."""
    if seen.pod is None:
        return ""
    devices = seen.pod.gpus or {name: count for name, count in demand_of(seen.pod).items() if is_extended(name)}
    if devices:
        return f" with {', '.join(f'{count} {cut(name)}' for name, count in devices.items())}"
    return " with devices of its resource claims" if seen.pod.resource_claims or seen.pod.requests_classes else ""
