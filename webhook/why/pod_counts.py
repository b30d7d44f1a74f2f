"""How many pods workloads want, and which parts of a workload lack some."""

from collections.abc import Callable, Iterator, Sequence

from webhook.model.json_parts import part
from webhook.model.workloads import controller_of, templates_of
from webhook.why.observed import Raw, condition, text
from webhook.why.workload_pods import PodGroups

_BUILT_IN = frozenset({"v1", "apps/v1", "batch/v1"})
MOST_READ = 20
"""Parts with the fewest pods that are read whole, to know how many they want."""


def desired_pods(raw: Raw) -> int | None:
    """How many pods a workload wants to have now; None if it does not say."""
    if text(raw, "kind") == "DaemonSet":
        wanted = part(raw, "status", "desiredNumberScheduled")
        return wanted if type(wanted) is int else None
    counts = [template.pods for template in templates_of(raw)]
    known = [count for count in counts if count is not None]
    if not counts or len(known) < len(counts):
        return None
    done, total = part(raw, "status", "succeeded"), part(raw, "spec", "completions")
    if text(raw, "kind") == "Job" and type(done) is int and done:  # without completions, the first success ends it
        return min(sum(known), max(total - done, 0)) if type(total) is int else None
    return None if text(raw, "kind") == "CronJob" else sum(known)


def counts_for_certain(raw: Raw) -> bool:
    """Whether a workload certainly lacks pods if it has fewer than `desired_pods`: operators may have their reasons."""
    return text(raw, "apiVersion") in _BUILT_IN and text(raw, "kind") != "CronJob"


def lacking_parts(parts: Sequence[Raw], found: PodGroups, whole: Callable[[Raw], Raw | None]) -> Iterator[Raw]:
    """The parts that make pods themselves and have fewer than they want, those with the fewest pods first.

    Of the parts of which only metadata is known, those with the fewest pods are read by `whole`.
    """
    makers = {text(controller_of(one), "uid") for one in parts}
    leaves = [one for one in parts if text(one, "metadata", "uid") not in makers]
    left = MOST_READ
    for one in sorted(leaves, key=found.of):
        if "spec" in one:
            known: Raw | None = one
        elif left:
            known, left = whole(one), left - 1
        else:
            known = None
        if known is not None and _lacks(known, found):
            yield known


def _lacks(raw: Raw, found: PodGroups) -> bool:
    if part(raw, "spec", "suspend") is True or part(raw, "spec", "paused") is True:
        return False
    if any(text(condition(raw, kind), "status") == "True" for kind in ("Complete", "SuccessCriteriaMet", "Failed")):
        return False
    wanted = desired_pods(raw)
    return wanted is not None and found.alive_of[text(raw, "metadata", "uid")] < wanted
