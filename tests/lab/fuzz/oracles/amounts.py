"""Oracles of the rules about how much a pod asks for."""

from fractions import Fraction

from tests.lab.fuzz.oracles.containers import named
from tests.lab.fuzz.oracles.places import candidates, shares
from tests.lab.fuzz.pods import SHOWING
from tests.lab.fuzz.raw import (
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
    is_uncertain,
    lasting,
    reserved,
)
from tests.lab.fuzz.seen import Complaints, Seen, exactly


def gpu_limits(seen: Seen) -> Complaints:
    """Refused for exactly these: broken amounts, requests alone (unless repaired), slices with whole GPUs, too many."""
    settings = seen.settings["gpuLimits"]
    nodes = list(candidates(seen.after, whatever_taints=True))
    part = {WHOLE[0]: Fraction(1, 2)} if nodes and all(map(shares, nodes)) else {}
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
        if sum(count * part.get(name, 1) for name, count in asked.items()) > settings["maxPerContainer"]:
            reasons.append("too many in a container")
    if sum(count * part.get(name, 1) for name, count in reserved(seen.after).items()) > settings["maxPerPod"]:
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
    """A container that asks for more than one shared GPU or slice is refused, by the name or by labels of nodes."""
    refused = {finding.field for finding in seen.violations("sharedGpus")}
    spec, labels = seen.after["spec"], at(seen.after, "metadata", "labels") or {}
    is_queued = bool(spec.get("schedulingGates")) or "kueue.x-k8s.io/queue-name" in labels
    among = list(candidates(seen.after))
    only_shares = bool(among) and all(map(shares, among))
    is_certain = (
        only_shares and seen.judged is not None and not (is_queued or spec.get("nodeName") or is_uncertain(seen.after))
    )
    for where, one in named(seen.after, "resources"):
        asked = gpus_of(one)
        by_name = any(name.endswith(".shared") and count > 1 for name, count in asked.items())
        by_labels = asked.get(WHOLE[0], 0) > 1
        if by_name or not by_labels or not among:
            yield from exactly(where in refused, by_name, f"refused {where}")
        elif where in refused and not only_shares:
            yield f"refused {where}, although some node does not share its GPUs"
        elif where not in refused and is_certain:
            yield f"not refused {where}, although every node shares its GPUs"


def memory_and_cpu(seen: Seen) -> Complaints:
    """A GPU container without a memory limit or CPU request is refused, unless the pod as a whole has them, or all that
    it does is to show its GPUs.
    """
    whole = seen.after["spec"]
    refused = {finding.field for finding in seen.violations("memoryAndCpu")}
    for where, one in named(seen.after, "resources"):
        lacks = not (_has(one, "limits", "memory") or _has(whole, "limits", "memory"))
        lacks |= not (_requests(one, "cpu") or _requests(whole, "cpu"))
        lacks &= tuple(one.get("command") or one.get("args") or ()) not in SHOWING
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
    if any(map(shares, candidates(seen.after, whatever_taints=True))):
        certain = 0
    if certain > hard and not refused:
        yield f"not refused, although {certain} GPUs are more than {hard}"
    if refused and sum(asked.values()) <= hard:
        yield f"refused, although {asked} is within {hard}"
