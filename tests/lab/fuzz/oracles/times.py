"""Oracles of the rules about priority and time."""

from fnmatch import fnmatchcase

from tests.lab.fuzz.cluster import DEFAULT_PRIORITY, PRIORITIES
from tests.lab.fuzz.raw import Raw, at, controller, reserved
from tests.lab.fuzz.seen import Complaints, Seen, exactly

_WITHOUT_DEADLINES = ("DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet")


def priority_class(seen: Seen) -> Complaints:
    """A GPU pod that chose no class gets the one of the policy with what follows from it; a chosen one stays."""
    settings = seen.settings["priorityClass"]
    gpus, chosen = bool(reserved(seen.before)), seen.before["spec"].get("priorityClassName") or ""
    found = seen.after["spec"].get("priorityClassName") or ""
    is_due = gpus and chosen in ("", DEFAULT_PRIORITY) and seen.completes("priorityClass")
    expected = settings["name"] if is_due else chosen
    if found != expected:
        yield f"the class is {found!r} instead of {expected!r}"
    if is_due:
        value = (at(seen.after, "spec", "priority"), at(seen.after, "spec", "preemptionPolicy"))
        if value != PRIORITIES[expected]:
            yield f"{expected} comes with {value}"
    has = found or DEFAULT_PRIORITY
    may = not settings["allowed"] or has in (settings["name"], *settings["allowed"])
    is_set_later = has == DEFAULT_PRIORITY  # what is set for the pod is not held against it
    refused = bool(seen.violations("priorityClass"))
    yield from exactly(refused, gpus and not may and not is_set_later, f"refused for its class {has}")


def time_limit(seen: Seen) -> Complaints:
    """An interactive GPU pod has a deadline of two hours or less in the end, or is refused; no other pod gets one."""
    settings, most = seen.settings["timeLimit"], 7200
    written, found = (at(pod, "spec", "activeDeadlineSeconds") for pod in (seen.before, seen.after))
    concerned = bool(reserved(seen.before)) and _is_interactive(seen.before, settings["selectors"])
    expected = written
    if (
        concerned
        and seen.completes("timeLimit")
        and (written is None or (written > most and settings["longer"] == "cap"))
    ):
        expected = most
    if found != expected:
        yield f"the deadline is {found} instead of {expected}"
    too_long = concerned and found is not None and found > most and settings["longer"] == "refuse"
    is_mine_to_say = concerned and found is None and settings["missing"] == "refuse"
    is_mine_to_say = is_mine_to_say and controller(seen.before) not in _WITHOUT_DEADLINES
    yield from exactly(bool(seen.violations("timeLimit")), too_long or is_mine_to_say, f"refused for {found} seconds")


def _is_interactive(pod: Raw, selectors: list[dict[str, str]]) -> bool:
    labels = at(pod, "metadata", "labels") or {}
    return any(
        all(isinstance(labels.get(key), str) and fnmatchcase(labels[key], glob) for key, glob in selector.items())
        for selector in selectors
    )
