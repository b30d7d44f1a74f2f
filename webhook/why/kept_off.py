"""Which nodes the policy keeps a pod off, found by asking the engine what it injects into the pod without them.

A stored pod has the exclusions that the webhook injected, beside what its author wrote. They are taken out, and the
engine is asked again: what it injects a second time is the policy's. So nothing depends on annotations, which anybody
may write.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from webhook import engine
from webhook.audit.node_kinds import node_kinds
from webhook.cuda.cuda_tables import SHIPPED
from webhook.facts.facts import ClusterFacts
from webhook.model.edits import RequireNodes
from webhook.model.json_parts import listed, mapped, part
from webhook.model.pod import Pod
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
        tables = (one.settings.tables for one in self.policy.rules if isinstance(one.settings, SteeringSettings))
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
