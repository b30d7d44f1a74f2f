"""Which nodes the policy keeps a pod off, found by asking the engine what it injects into the pod without them.

A stored pod has the exclusions that the webhook injected, beside what its author wrote. They are taken out, and the
engine is asked again: what it injects a second time is the policy's. So nothing depends on annotations, which anybody
may write.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook import engine
from webhook.audit.node_kinds import NodeKind, node_kinds
from webhook.cuda.cuda_tables import SHIPPED
from webhook.facts.facts import ClusterFacts
from webhook.model.edits import RequireNodes
from webhook.model.json_parts import listed, mapped, part
from webhook.model.pod_reader import pod_from_raw
from webhook.model.selectors import Expression
from webhook.model.wording import few
from webhook.outcome import Injection
from webhook.policy.policy_set import Policy
from webhook.rules.unsuited import SteeringSettings
from webhook.why.explanation import LONGEST_PART, Clue, Explanation, ReasonCode
from webhook.why.node_usage import fitting_names
from webhook.why.observed import ObservedPod

_AFFINITY = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_MOST_EXPRESSIONS = 200
"""Expressions of a pod's terms that are compared; a pod with more is left as it is."""


@dataclass(frozen=True, slots=True)
class ExcludedNodes:
    """What a policy injected to keep a pod off nodes, and the nodes that would have room for it otherwise."""

    injections: tuple[Injection, ...]
    nodes: tuple[str, ...]


def kept_off(seen: ObservedPod, policy: Policy, facts: ClusterFacts) -> ExcludedNodes | None:
    """The nodes that only the policy keeps the pod off; None if there are none. `facts` have the policy's pools."""
    if seen.pod is None:
        return None
    wanted = {one for term in _terms(seen.raw) for one in _expressions(term)}
    if not 0 < len(wanted) <= _MOST_EXPRESSIONS:
        return None
    bare = _without(seen.raw, wanted)
    try:
        again = engine.mutate(bare, policy, facts, namespace=seen.pod.namespace)
        found = [one for one in again.injections if any(edit in wanted for edit in _required(one))]
        own = {edit for one in found for edit in _required(one) if edit in wanted}
        freed = pod_from_raw(_without(seen.raw, own), policy.accelerators, seen.pod.namespace)
    except ValueError:
        return None
    if not own:
        return None
    left = set(fitting_names(seen.pod, facts))
    nodes = tuple(name for name in fitting_names(freed, facts) if name not in left)
    return ExcludedNodes(tuple(found), nodes) if nodes else None


def explained(found: ExcludedNodes, seen: ObservedPod, policy: Policy, facts: ClusterFacts) -> Explanation:
    """The reason of a pod to which the policy leaves no node with room."""
    rules = few([one.rule for one in found.injections])
    kinds = few([str(kind) for kind in _kinds(found.nodes, policy, facts)], LONGEST_PART) or few(found.nodes)
    message = f"the policy keeps it off all nodes with room for it ({rules}): {kinds}"
    remedy = "Use an image or GPUs that the policy allows on these nodes, or ask the platform team"
    return Explanation(ReasonCode.KEPT_OFF, message, remedy, tuple(clues(found, seen, policy, facts)))


def clues(found: ExcludedNodes, seen: ObservedPod, policy: Policy, facts: ClusterFacts) -> Iterator[Clue]:
    """Which rule of which file keeps the pod off which nodes, and why."""
    for one in found.injections:
        labels = few([str(edit) for edit in _required(one)], LONGEST_PART)
        why = few(list(_reasons(one.rule, seen, policy, facts)), LONGEST_PART)
        said = f"{one.rule} requires {labels}" + (f" because {why}" if why != "none" else "")
        yield Clue(f"policy {one.origin}:{one.line}", said)
    yield Clue("nodes", f"kept off {few(found.nodes)}")


def _kinds(names: Iterable[str], policy: Policy, facts: ClusterFacts) -> list[NodeKind]:
    nodes = [facts.cluster.nodes[name] for name in names]
    tables = (one.settings.tables for one in policy.rules if isinstance(one.settings, SteeringSettings))
    return node_kinds(nodes, (), policy.accelerators, next(tables, SHIPPED))


def _reasons(rule: str, seen: ObservedPod, policy: Policy, facts: ClusterFacts) -> Iterator[str]:
    """The reasons of a rule that steers, for the nodes that it excludes."""
    bound = next((one for one in policy.rules if one.rule.key == rule), None)
    if bound is None or bound.rule.unsuited is None or seen.pod is None:
        return
    wanted = {one for term in _terms(seen.raw) for one in _expressions(term)}
    pod = pod_from_raw(_without(seen.raw, wanted), policy.accelerators, seen.pod.namespace)
    judged = bound.rule.unsuited(pod, bound.settings, facts)
    yield from dict.fromkeys(one.reason for one in (judged.found if judged is not None else ()) if one is not None)


def _required(injection: Injection) -> list[Expression]:
    return [edit.expression for edit in injection.edits if isinstance(edit, RequireNodes)]


def _terms(raw: Mapping[str, Any]) -> list[Any]:
    return listed(raw, *_AFFINITY, "nodeSelectorTerms")


def _expressions(term: object) -> Iterator[Expression]:
    for one in listed(term, "matchExpressions"):
        yield _expression(one)


def _expression(raw: object) -> Expression:
    return Expression(str(part(raw, "key")), str(part(raw, "operator")), tuple(map(str, listed(raw, "values"))))


def _without(raw: Mapping[str, Any], expressions: set[Expression]) -> dict[str, Any]:
    """The pod without these expressions of its required node affinity. The stored pod is not changed."""
    terms: list[Any] = []
    for term in _terms(raw):
        kept = [one for one in listed(term, "matchExpressions") if _expression(one) not in expressions]
        if kept or listed(term, "matchFields"):
            terms.append({**mapped(term), "matchExpressions": kept})
        else:
            terms = []
            break  # a term that asks for nothing leaves every node
    spec, affinity = mapped(raw, "spec"), mapped(raw, "spec", "affinity")
    nodes = {key: value for key, value in mapped(affinity, "nodeAffinity").items() if key != _AFFINITY[-1]}
    if terms:
        nodes[_AFFINITY[-1]] = {"nodeSelectorTerms": terms}
    return {**raw, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": nodes}}}
