"""Oracles of the rules about how much a pod asks for."""

from fractions import Fraction

from tests.fuzz.oracles.containers import named
from tests.fuzz.raw import (
    SHARED,
    SLICES,
    WHOLE,
    Raw,
    amount,
    at,
    containers,
    count_of,
    gpu_faults,
    gpus_of,
    lasting,
    reserved,
)
from tests.fuzz.seen import Complaints, Seen, exactly


def gpu_limits(seen: Seen) -> Complaints:
    """Refused for exactly these: broken amounts, requests alone (unless repaired), slices with whole GPUs, too many."""
    settings = seen.settings["gpuLimits"]
    reasons = []
    for _, one in containers(seen.after):
        faults = gpu_faults(one)
        repairs = settings["requestsOnly"] == "repair"
        reasons += [fault for fault in faults if fault == "fault" or not repairs]
        asked = gpus_of(one)
        if any(name in SLICES for name in asked if name.startswith("nvidia.com/")) and asked.keys() & {
            WHOLE[0],
            *SHARED,
        }:
            reasons.append("slices and whole GPUs")
        if count_of(one) > settings["maxPerContainer"]:
            reasons.append("too many in a container")
    if sum(reserved(seen.after).values()) > settings["maxPerPod"]:
        reasons.append("too many in the pod")
    yield from exactly(bool(seen.violations("gpuLimits")), bool(reasons), f"refused for {sorted(set(reasons))}")
    for before, after in zip(lasting(seen.before), lasting(seen.after), strict=True):
        limits = at(before, "resources", "limits") or {}
        new = {name: one for name, one in (at(after, "resources", "limits") or {}).items() if name not in limits}
        asked = at(before, "resources", "requests") or {}
        if any(amount(value) != amount(asked.get(name)) for name, value in new.items()):
            yield f"{new} was added to limits, and requests are {asked}"
    if seen.completes("gpuLimits") and any("requests only" in gpu_faults(one) for one in lasting(seen.after)):
        yield "GPUs are left in requests only, and the mutating phase let the pod through"


def shared_gpus(seen: Seen) -> Complaints:
    """A container that asks for more than one shared GPU or shared slice is refused, and nobody else."""
    refused = {finding.field for finding in seen.violations("sharedGpus")}
    for where, one in named(seen.after, "resources"):
        several = any(name.endswith(".shared") and count > 1 for name, count in gpus_of(one).items())
        yield from exactly(where in refused, several, f"refused {where}")


def memory_and_cpu(seen: Seen) -> Complaints:
    """A GPU container without a memory limit or CPU request is refused, unless the pod as a whole has them."""
    whole = seen.after["spec"]
    refused = {finding.field for finding in seen.violations("memoryAndCpu")}
    for where, one in named(seen.after, "resources"):
        lacks = not (_has(one, "limits", "memory") or _has(whole, "limits", "memory"))
        lacks |= not (_requests(one, "cpu") or _requests(whole, "cpu"))
        yield from exactly(where in refused, lacks and count_of(one) > 0, f"refused {where}")


def _has(holder: Raw, part: str, name: str) -> bool:
    return bool(amount((at(holder, "resources", part) or {}).get(name, 0)))


def _requests(holder: Raw, name: str) -> bool:
    """What is requested, which is the limit where only that is written."""
    return _has(holder, "requests" if name in (at(holder, "resources", "requests") or {}) else "limits", name)


def gpu_quota(seen: Seen) -> Complaints:
    """Whoever asks for more whole GPUs than the quota is refused; whoever asks for less of anything is not."""
    asked = reserved(seen.after)
    hard = Fraction(seen.settings["gpuQuota"]["gpus"])
    refused = bool(seen.violations("gpuQuota"))
    certain = sum(count for name, count in asked.items() if name in WHOLE)
    if certain > hard and not refused:
        yield f"not refused, although {certain} GPUs are more than {hard}"
    if refused and sum(asked.values()) <= hard:
        yield f"refused, although {asked} is within {hard}"
