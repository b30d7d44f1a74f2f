"""Why a pod that nothing holds back has no node: no node fits, the policy keeps it off, or the nodes are in use.

The engine's facts say which nodes fit, the rule `schedulable` says why none does, and what pods request says what is
free. What the scheduler itself says is evidence, and the reason where nodes may not be read.

Which nodes the policy keeps a pod off is found by asking the engine. A stored pod has the exclusions that the webhook
injected, beside what its author wrote. They are taken out, and the engine is asked again: what it injects a second time
is the policy's. So nothing depends on annotations, which anybody may write.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from webhook import engine
from webhook.audit.node_kinds import node_kinds
from webhook.cuda.cuda_tables import SHIPPED
from webhook.facts.facts import ClusterFacts
from webhook.facts.node_index import is_by_dra
from webhook.model.edits import RequireNodes
from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.node import NodeClass, makers_of
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.requirements import demand_of, is_extended
from webhook.model.selectors import Expression
from webhook.model.wording import asked, counted, cut_at_a_word, few, offered
from webhook.outcome import Injection
from webhook.policy.policy_set import ConfiguredRule, Policy
from webhook.rules import cuda_driver, schedulable
from webhook.rules.rule import Advice, Violation
from webhook.rules.rule_settings import Mode, TableSettings
from webhook.why.explanation import LONGEST_PART, Clue, Explanation, ReasonCode
from webhook.why.observed import (
    NodeState,
    NodeUsage,
    ObservedPod,
    fitting_names,
    reasons_of_scheduler,
    said_by_scheduler,
)

_TELL = "tell the platform team"


def unplaced(seen: ObservedPod) -> Explanation | None:
    """The reason of a pod without a node that no gate and no queue holds back."""
    return None if seen.node else (by_nodes(seen) or _by_scheduler(seen)).with_evidence(*_said(seen))


def _said(seen: ObservedPod) -> Iterator[Clue]:
    if said := said_by_scheduler(seen.raw):
        yield Clue("condition PodScheduled", said)
    for reason in ("NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp", "FailedScheduling"):
        event = seen.event(reason)
        if event is not None and (reason != "FailedScheduling" or not said):
            yield Clue(event.source, reasons_of_scheduler(event.message))
    if node := text(seen.raw, "status", "nominatedNodeName"):
        yield Clue("status.nominatedNodeName", f"pods of lower priority on {node} have to end first")


def by_nodes(seen: ObservedPod) -> Explanation | None:
    """The reason as far as nodes tell; None if they fit and have room, or are not known."""
    facts, pod = seen.around.facts, seen.pod
    if pod is None or facts is None or not facts.knows_nodes():
        return None
    if not pod.gpus:  # GPUs by claims alone: what is free is the scheduler's to say
        return _impossible(seen, pod, facts)
    if names := fitting_names(pod, facts):
        return _that_run_it(seen, pod, names, facts)
    if found := excluded_nodes(seen):
        return found.explanation
    classes = facts.feasible_nodes(pod)
    return _only_pools(pod, classes) if classes else _impossible(seen, pod, facts)


def _impossible(seen: ObservedPod, pod: Pod, facts: ClusterFacts) -> Explanation | None:
    """The reason by the rule `schedulable`, in whatever mode the policy has it."""
    rules = () if seen.around.policy is None else seen.around.policy.rules
    own = (one.settings for one in rules if isinstance(one.settings, schedulable.Settings))
    found = list(schedulable.validate(pod, next(own, schedulable.Settings(mode=Mode.WARN)), facts))
    first = next((one for one in found if isinstance(one, Violation)), None)
    if first is not None:
        return _nowhere(first, *(one for one in found if one is not first))
    return _by_scheduler(seen).with_evidence(*(Clue("resource claims", str(one)) for one in found)) if found else None


def _nowhere(first: Violation, *others: Violation | Advice) -> Explanation:
    message = f"no node could ever run it: {first.where}: {first.message}"
    return Explanation(ReasonCode.FITS_NOWHERE, message, first.remedy, tuple(Clue("nodes", str(one)) for one in others))


def cuda_rules(policy: Policy | None) -> Sequence[ConfiguredRule]:
    """The rule `cudaDriver` as it judges what is certain; empty for a pod with an exception from it."""
    return [
        replace(one, settings=one.settings.model_copy(update={"unknown": "allow"}))
        for one in (() if policy is None else policy.validators)
        if one.rule is cuda_driver.RULE and one.exception is None and one.split_by is None
    ]


def _that_run_it(seen: ObservedPod, pod: Pod, names: Sequence[str], facts: ClusterFacts) -> Explanation | None:
    """The reason of a pod that fits on some nodes. Nodes that certainly cannot run its images do not count."""
    settings: Any = next((one.settings for one in cuda_rules(seen.around.policy)), None)
    survey = settings and cuda_driver.survey_of(pod, settings, facts)
    if not survey:
        return _in_use(seen, pod, names)
    kinds = {name: facts.cluster.nodes[name].kind for name in names}
    unfit = {one.nodes for one in survey.on(tuple(set(kinds.values())), settings).incompatible}
    if able := [name for name in names if kinds[name] not in unfit]:
        return _in_use(seen, pod, able)
    judged = survey.on(facts.feasible_nodes(pod), settings)
    left = [one.nodes for one in judged.verdicts if one not in judged.incompatible]
    if left or (pod.is_held and not survey.assessment.is_none_left):
        return None if pod.is_held or any(one.by_claim for one in left) else _only_pools(pod, left)
    return _nowhere(next(cuda_driver.refusals(replace(survey, assessment=judged))))


def _only_pools(pod: Pod, classes: Sequence[NodeClass]) -> Explanation:
    wanted = few([asked(name, count) for name, count in pod.gpus.items()])
    if any(one.by_claim for one in classes):
        message = f"it requests {wanted}, which only a DeviceClass gives, and no such device is allocated to it"
        return Explanation(ReasonCode.UNSCHEDULABLE, message, f"Wait until devices are free, or {_TELL}")
    if maker := makers_of(classes):
        message = f"no node of today fits its {wanted}; one that {maker} makes may"
        remedy = f"Wait until {maker} makes a node; if none comes, see which nodes it may make, or {_TELL}"
        return Explanation(ReasonCode.NODES_UNAVAILABLE, message, remedy)
    message = f"only nodes of a declared pool fit its {wanted}, and no such node is there now"
    remedy = f"Wait until the autoscaler adds a node; if none comes, {_TELL}"
    return Explanation(ReasonCode.NODES_UNAVAILABLE, message, remedy)


def _in_use(seen: ObservedPod, pod: Pod, names: Sequence[str]) -> Explanation | None:
    """The reason of a pod that fits on some nodes; None if one of them has room now."""
    states, usage = seen.around.states or {}, seen.around.usage
    known = [states[name] for name in names if name in states]
    demand = {name: amount for name, amount in demand_of(pod).items() if not is_by_dra(pod, name)}
    faults = {state.name: state.fault or _lack(state, demand) for state in known}
    usable = [state for state in known if not faults[state.name]]
    if known and not usable:
        told = [f"{name} ({cut_at_a_word(fault, LONGEST_PART)})" for name, fault in faults.items()]
        nodes = "the only node that" if len(known) == 1 else f"all {len(known)} nodes that"
        remedy = f"Wait until a node is back, or {_TELL}"
        if any(not state.fault for state in known):
            remedy = (
                "Tell the platform team: waiting does not help until the node's device plugin offers its GPUs again"
            )
        message = f"{nodes} would fit cannot take it: {few(told, 2 * LONGEST_PART)}"
        return Explanation(ReasonCode.NODES_UNAVAILABLE, message, remedy)
    if usage is None or not usable:
        return _insufficient(seen, pod, names)
    if any(usage.has_room(state, demand) for state in usable):
        return None
    found = excluded_nodes(seen)
    return _busy(pod, demand, usable, usage).with_evidence(*(found.clues if found else ()))


def _lack(state: NodeState, demand: dict[str, int]) -> str:
    """Which device a node has fewer of now than the pod requests, as when GPUs have failed; empty if none."""
    for name, wanted in demand.items():
        left = state.allocatable.get(name, 0)
        if is_extended(name) and left < wanted:
            return f"it offers {offered(name, left)} of its {offered(name, state.capacity.get(name, left))} {name}"
    return ""


def _insufficient(seen: ObservedPod, pod: Pod, names: Sequence[str]) -> Explanation | None:
    """Busy as the scheduler says it, where nobody may count what is free."""
    said = said_by_scheduler(seen.raw)
    short = [name for name in demand_of(pod) if f"Insufficient {name}" in said]
    if not short:
        return None
    message = f"{counted(len(names), 'node')} would fit, and too little is free on them: {few(short)}"
    return Explanation(ReasonCode.BUSY, message, "Wait until pods on these nodes end")


def _busy(pod: Pod, demand: dict[str, int], usable: Sequence[NodeState], usage: NodeUsage) -> Explanation:
    """The reason of a pod for which too little is free on the `usable` nodes that fit."""
    free = {one.name: sum(usage.free(one, name) for name in pod.gpus) for one in usable}
    ordered = sorted(free, key=lambda name: (-free[name], name))
    clues = [Clue("nodes", few([f"{name} has {free[name]} free" for name in ordered]))]
    held = [f"namespace {name or '(unknown)'} holds {gpus}" for name, gpus in usage.holders(one.name for one in usable)]
    clues += [Clue("pods on these nodes", few(held))] if held else []
    gpus = "; ".join(_amount(name, count, usable, usage) for name, count in pod.gpus.items())
    if not any(all(usage.free(one, name) >= count for name, count in pod.gpus.items()) for one in usable):
        return Explanation(ReasonCode.BUSY, gpus, "Wait until pods on these nodes end", tuple(clues))
    short = [
        _amount(name, wanted, usable, usage)
        for name, wanted in demand.items()
        if name not in pod.gpus and any(name in one.allocatable and usage.free(one, name) < wanted for one in usable)
    ]
    told = "; ".join(short) or "the nodes with free GPUs have no room for another pod"
    message = f"GPUs are free, but not the rest of what it requests: {told}"
    remedy = "Wait until pods on these nodes end, or request less beside the GPUs"
    return Explanation(ReasonCode.BUSY, message, remedy, (Clue("nodes", gpus), *clues))


def _amount(name: str, wanted: int, usable: Sequence[NodeState], usage: NodeUsage) -> str:
    """How much of a resource is free on fitting nodes, in all and on one node."""
    free = [usage.free(one, name) for one in usable]
    total = sum(one.allocatable.get(name, 0) for one in usable)
    return (
        f"{offered(name, sum(free))} of {offered(name, total)} {name} on {counted(len(usable), 'fitting node')} are "
        f"free, at most {offered(name, max(free))} on one node; it requests {asked(name, wanted)}"
    )


def _by_scheduler(seen: ObservedPod) -> Explanation:
    if said := said_by_scheduler(seen.raw):
        name = seen.scheduler if seen.scheduler != "default-scheduler" else "the scheduler"
        hint = "Correct what it names"
        if said.startswith("0/"):  # of so many nodes
            hint = "Look at volumes, affinity to other pods and topology spread"
        return Explanation(ReasonCode.UNSCHEDULABLE, f"{name} finds no node: {said}", f"{hint}, or {_TELL}")
    message = f"the scheduler {seen.scheduler} has not looked at it yet"
    remedy = f"Wait a moment; if it stays so, see whether a scheduler of this name runs, or {_TELL}"
    return Explanation(ReasonCode.NOT_SCHEDULED, message, remedy)


# Nodes that only the policy keeps a pod off.

_AFFINITY = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


@dataclass(frozen=True, slots=True)
class ExcludedNodes:
    """What a policy injected to keep a pod off nodes, and the nodes that would have room for it otherwise.

    `bare` is the pod without all that may be injected.
    """

    policy: Policy
    facts: ClusterFacts
    bare: Pod
    injections: tuple[Injection, ...]
    nodes: tuple[str, ...]

    @property
    def explanation(self) -> Explanation:
        """The reason of a pod to which the policy leaves no node with room."""
        rules = few([one.rule for one in self.injections])
        nodes = [self.facts.cluster.nodes[name] for name in self.nodes]
        tables = (one.settings.tables for one in self.policy.rules if isinstance(one.settings, TableSettings))
        kinds = node_kinds(nodes, (), self.policy.accelerators, next(tables, SHIPPED))
        what = few(list(map(str, kinds)), LONGEST_PART) if kinds else few(self.nodes)
        message = f"the policy keeps it off all nodes with room for it ({rules}): {what}"
        remedy = "Use an image or GPUs that the policy allows on these nodes, or ask the platform team"
        return Explanation(ReasonCode.KEPT_OFF, message, remedy, tuple(self.clues))

    @property
    def clues(self) -> Iterator[Clue]:
        """Which rule of which file keeps the pod off which nodes, and why."""
        for one in self.injections:
            labels = few([str(edit) for edit in _required(one)], LONGEST_PART)
            reasons = self._reasons(one.rule)
            because = f" because {few(reasons, LONGEST_PART)}" if reasons else ""
            yield Clue(f"policy {one.origin}:{one.line}", f"{one.rule} requires {labels}{because}")
        yield Clue("nodes", f"kept off {few(self.nodes)}")

    def _reasons(self, rule: str) -> list[str]:
        """The reasons of a rule that steers, for the nodes that it excludes."""
        bound = next((one for one in self.policy.rules if one.rule.key == rule), None)
        if bound is None or bound.rule.unsuited is None:
            return []
        judged = bound.rule.unsuited(self.bare, bound.settings, self.facts)
        return list(
            dict.fromkeys(one.reason for one in (judged.found if judged is not None else ()) if one is not None)
        )


def excluded_nodes(seen: ObservedPod) -> ExcludedNodes | None:
    """The nodes that only the policy keeps the pod off; None if there are none."""
    policy, facts, pod = seen.around.policy, seen.around.facts, seen.pod
    if policy is None or facts is None or pod is None:
        return None
    wanted = {_expression(one) for term in _terms(seen.raw) for one in listed(term, "matchExpressions")}
    if not wanted:
        return None
    bare = _without(seen.raw, wanted)
    try:
        again = engine.mutate(bare, policy, facts, namespace=pod.namespace)
        own = wanted & {edit for one in again.injections for edit in _required(one)}
        if not own:
            return None
        freed = pod_from_raw(_without(seen.raw, own), policy.accelerators, pod.namespace)
        found = tuple(one for one in again.injections if own.intersection(_required(one)))
        left = set(fitting_names(pod, facts))
        nodes = tuple(name for name in fitting_names(freed, facts) if name not in left)
        bare_pod = pod_from_raw(bare, policy.accelerators, pod.namespace)
    except ValueError:
        return None
    return ExcludedNodes(policy, facts, bare_pod, found, nodes) if nodes else None


def _required(injection: Injection) -> list[Expression]:
    return [edit.expression for edit in injection.edits if isinstance(edit, RequireNodes)]


def _terms(raw: Mapping[str, Any]) -> list[Any]:
    return listed(raw, *_AFFINITY, "nodeSelectorTerms")


def _expression(raw: object) -> Expression:
    return Expression(str(part(raw, "key")), str(part(raw, "operator")), tuple(map(str, listed(raw, "values"))))


def _without(raw: Mapping[str, Any], expressions: Set[Expression]) -> dict[str, Any]:
    """The pod without these expressions of its required node affinity. The stored pod is not changed."""
    terms: list[Any] = []
    for term in _terms(raw):
        kept = [one for one in listed(term, "matchExpressions") if _expression(one) not in expressions]
        if not kept and not listed(term, "matchFields"):
            terms = []
            break  # a term that asks for nothing leaves every node
        terms.append({**mapped(term), "matchExpressions": kept})
    affinity = mapped(raw, "spec", "affinity")
    nodes = {key: value for key, value in mapped(affinity, "nodeAffinity").items() if key != _AFFINITY[-1]}
    if terms:
        nodes[_AFFINITY[-1]] = {"nodeSelectorTerms": terms}
    return {**raw, "spec": {**mapped(raw, "spec"), "affinity": {**affinity, "nodeAffinity": nodes}}}
