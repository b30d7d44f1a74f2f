"""Why a pod that nothing holds back has no node: no node fits, the policy keeps it off, or the nodes are in use.

The engine's facts say which nodes fit, the rule `schedulable` says why none does, and what pods request says what is
free. What the scheduler itself says is evidence, and the reason where nodes may not be read.
"""

from collections.abc import Iterator, Sequence

from webhook.facts.facts import ClusterFacts
from webhook.facts.node_index import is_by_dra
from webhook.model.node import NodeClass
from webhook.model.pod import Pod
from webhook.model.requirements import demand_of, is_extended
from webhook.model.wording import asked, counted, cut_at_a_word, few, offered
from webhook.rules import schedulable
from webhook.rules.rule import Violation
from webhook.rules.rule_settings import Mode
from webhook.why import kept_off
from webhook.why.explanation import LONGEST_PART, Clue, Explanation, ReasonCode
from webhook.why.node_usage import NodeState, NodeUsage, fitting_names
from webhook.why.observed import ObservedPod, Surroundings, reasons_of_scheduler, said_by_scheduler, text

_TELL = "tell the platform team"
_NO_NODE = "0/"


def unplaced(seen: ObservedPod, around: Surroundings) -> Explanation:
    """The reason of a pod without a node that no gate and no queue holds back."""
    found = by_nodes(seen, around) or _by_scheduler(seen)
    return found.with_evidence(*_said(seen))


def _said(seen: ObservedPod) -> Iterator[Clue]:
    """What schedulers and autoscalers have said of the pod."""
    if said := said_by_scheduler(seen.raw):
        yield Clue("condition PodScheduled", said)
    for reason in ("NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp", "FailedScheduling"):
        event = seen.event(reason)
        if event is not None and (reason != "FailedScheduling" or not said):
            yield Clue(event.source, reasons_of_scheduler(event.message))
    if node := text(seen.raw, "status", "nominatedNodeName"):
        yield Clue("status.nominatedNodeName", f"pods of lower priority on {node} have to end first")


def by_nodes(seen: ObservedPod, around: Surroundings) -> Explanation | None:
    """The reason as far as nodes tell; None if they fit and have room, or are not known."""
    facts, pod = around.facts, seen.pod
    if pod is None or facts is None or not facts.knows_nodes():
        return None
    if not pod.gpus:  # GPUs by claims alone: what is free is the scheduler's to say
        return _impossible(seen, pod, around, facts)
    names = fitting_names(pod, facts)
    if names:
        return _in_use(seen, pod, names, around)
    if around.policy is not None and (found := kept_off.kept_off(seen, around.policy, facts)):
        return kept_off.explained(found, seen, around.policy, facts)
    classes = facts.feasible_nodes(pod)
    return _only_pools(pod, classes) if classes else _impossible(seen, pod, around, facts)


def _impossible(seen: ObservedPod, pod: Pod, around: Surroundings, facts: ClusterFacts) -> Explanation | None:
    """The reason by the rule `schedulable`, in whatever mode the policy has it."""
    bound = (one.settings for one in (around.policy.rules if around.policy is not None else ()))
    settings = next(
        (one for one in bound if isinstance(one, schedulable.Settings)), schedulable.Settings(mode=Mode.WARN)
    )
    found = list(schedulable.validate(pod, settings, facts))
    violations = [one for one in found if isinstance(one, Violation)]
    if not violations:
        advice = [Clue("resource claims", str(one)) for one in found]
        by_scheduler = _by_scheduler(seen)
        return by_scheduler.with_evidence(*advice) if advice else None
    first, clues = violations[0], [Clue("nodes", str(one)) for one in found]
    message = f"no node could ever run it: {first.where}: {first.found}; {first.allowed}"
    return Explanation(ReasonCode.FITS_NOWHERE, message, first.remedy, tuple(clues))


def _only_pools(pod: Pod, classes: Sequence[NodeClass]) -> Explanation:
    wanted = few([asked(name, count) for name, count in pod.gpus.items()])
    if any(one.by_claim for one in classes):
        message = f"it requests {wanted}, which only a DeviceClass gives, and no such device is allocated to it"
        return Explanation(ReasonCode.UNSCHEDULABLE, message, f"Wait until devices are free, or {_TELL}")
    if maker := next((one.made_by for one in classes if one.made_by), ""):
        message = f"no node of today fits its {wanted}; one that {maker} makes may"
        remedy = f"Wait until {maker} makes a node; if none comes, see which nodes it may make, or {_TELL}"
        return Explanation(ReasonCode.NODES_UNAVAILABLE, message, remedy)
    message = f"only nodes of a declared pool fit its {wanted}, and no such node is there now"
    remedy = f"Wait until the autoscaler adds a node; if none comes, {_TELL}"
    return Explanation(ReasonCode.NODES_UNAVAILABLE, message, remedy)


def _in_use(seen: ObservedPod, pod: Pod, names: Sequence[str], around: Surroundings) -> Explanation | None:
    """The reason of a pod that fits on some nodes; None if one of them has room now."""
    states = around.states or {}
    known = [states[name] for name in names if name in states]
    demand = {name: amount for name, amount in demand_of(pod).items() if not is_by_dra(pod, name)}
    faults = {state.name: state.fault or _lack(state, demand) for state in known}
    usable = [state for state in known if not faults[state.name]]
    if known and not usable:
        told = [f"{name} ({cut_at_a_word(fault, LONGEST_PART)})" for name, fault in faults.items()]
        message = f"{_all(len(known))} would fit cannot take it: {few(told, 2 * LONGEST_PART)}"
        is_short = any(not state.fault for state in known)
        remedy = f"Wait until a node is back, or {_TELL}"
        if is_short:
            remedy = (
                "Tell the platform team: waiting does not help until the node's device plugin offers its GPUs again"
            )
        return Explanation(ReasonCode.NODES_UNAVAILABLE, message, remedy)
    if around.usage is None or not usable:
        return _insufficient(seen, pod, names)
    if any(around.usage.has_room(state, demand) for state in usable):
        return None
    return _busy(pod, demand, usable, around.usage).with_evidence(*_kept_off(seen, around))


def _lack(state: NodeState, demand: dict[str, int]) -> str:
    """Which device a node has fewer of now than the pod requests, as when GPUs have failed; empty if none."""
    for name, wanted in demand.items():
        left = state.allocatable.get(name, 0)
        if is_extended(name) and left < wanted:
            return f"it offers {offered(name, left)} of its {offered(name, state.capacity.get(name, left))} {name}"
    return ""


def _all(number: int) -> str:
    return "the only node that" if number == 1 else f"all {number} nodes that"


def _insufficient(seen: ObservedPod, pod: Pod, names: Sequence[str]) -> Explanation | None:
    """Busy as the scheduler says it, where nobody may count what is free."""
    said = said_by_scheduler(seen.raw)
    short = [name for name in demand_of(pod) if f"Insufficient {name}" in said]
    if not short:
        return None
    message = f"{counted(len(names), 'node')} would fit, and too little is free on them: {few(short)}"
    return Explanation(ReasonCode.BUSY, message, "Wait until pods on these nodes end")


def _kept_off(seen: ObservedPod, around: Surroundings) -> Iterator[Clue]:
    """The nodes on which the pod would have room, if the policy did not keep it off."""
    if around.policy is not None and around.facts is not None:
        found = kept_off.kept_off(seen, around.policy, around.facts)
        yield from kept_off.clues(found, seen, around.policy, around.facts) if found is not None else ()


def _busy(pod: Pod, demand: dict[str, int], usable: Sequence[NodeState], usage: NodeUsage) -> Explanation:
    """The reason of a pod for which too little is free on the `usable` nodes that fit."""
    clues = [Clue("nodes", _free_by_node(list(pod.gpus), usable, usage))]
    held = [f"namespace {name or '(unknown)'} holds {gpus}" for name, gpus in usage.holders(one.name for one in usable)]
    clues += [Clue("pods on these nodes", few(held))] if held else []
    parts = [_amount(name, count, usable, usage) for name, count in pod.gpus.items()]
    has_gpus = any(all(usage.free(one, name) >= count for name, count in pod.gpus.items()) for one in usable)
    if not has_gpus:
        remedy = "Wait until pods on these nodes end"
        message = f"{'; '.join(parts)}"
        return Explanation(ReasonCode.BUSY, message, remedy, tuple(clues))
    others = [name for name in demand if name not in pod.gpus]
    short = [_amount(name, demand[name], usable, usage) for name in others if _is_short(name, demand, usable, usage)]
    told = "; ".join(short) or "the nodes with free GPUs have no room for another pod"
    message = f"GPUs are free, but not the rest of what it requests: {told}"
    remedy = "Wait until pods on these nodes end, or request less beside the GPUs"
    return Explanation(ReasonCode.BUSY, message, remedy, (Clue("nodes", "; ".join(parts)), *clues))


def _is_short(name: str, demand: dict[str, int], usable: Sequence[NodeState], usage: NodeUsage) -> bool:
    return any(name in one.allocatable and usage.free(one, name) < demand[name] for one in usable)


def _amount(name: str, wanted: int, usable: Sequence[NodeState], usage: NodeUsage) -> str:
    """How much of a resource is free on fitting nodes, in all and on one node."""
    free = [usage.free(one, name) for one in usable]
    total = sum(one.allocatable.get(name, 0) for one in usable)
    return (
        f"{offered(name, sum(free))} of {offered(name, total)} {name} on {counted(len(usable), 'fitting node')} are "
        f"free, at most {offered(name, max(free))} on one node; it requests {asked(name, wanted)}"
    )


def _free_by_node(names: Sequence[str], usable: Sequence[NodeState], usage: NodeUsage) -> str:
    """The free GPUs of each node, those with the most first."""
    free = {one.name: sum(usage.free(one, name) for name in names) for one in usable}
    ordered = sorted(free, key=lambda name: (-free[name], name))
    return few([f"{name} has {free[name]} free" for name in ordered])


def _by_scheduler(seen: ObservedPod) -> Explanation:
    """The reason as the scheduler says it."""
    if said := said_by_scheduler(seen.raw):
        name = seen.scheduler if seen.scheduler != "default-scheduler" else "the scheduler"
        hint = (
            "Look at volumes, affinity to other pods and topology spread"
            if said.startswith(_NO_NODE)
            else "Correct what it names"
        )
        return Explanation(ReasonCode.UNSCHEDULABLE, f"{name} finds no node: {said}", f"{hint}, or {_TELL}")
    message = f"the scheduler {seen.scheduler} has not looked at it yet"
    remedy = f"Wait a moment; if it stays so, see whether a scheduler of this name runs, or {_TELL}"
    return Explanation(ReasonCode.NOT_SCHEDULED, message, remedy)
