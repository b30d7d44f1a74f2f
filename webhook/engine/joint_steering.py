"""Where several enforced rules say which nodes do not suit a pod, their answers are put together.

A pod is kept off all these nodes by exclusions that are computed once, so that together they never exclude the last
node in silence. A pod to which each rule leaves a node, and all of them together none, is refused with one violation
that adds the reasons up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from webhook.engine.running_rules import findings_of
from webhook.model.edits import RequireNodes
from webhook.model.pod import Pod
from webhook.model.requirements import placed
from webhook.model.selectors import Operator
from webhook.model.wording import PLATFORM_TEAM
from webhook.outcome import Finding, Injection
from webhook.policy.policy_set import BoundRule
from webhook.rules.rule import Advice, Facts, Violation
from webhook.rules.unsuited import Judged, excluding

_MOST_REASONS = 8
"""Reasons that a message names."""


class _Opinion(NamedTuple):
    """What one of the rules says of the nodes for a pod."""

    bound: BoundRule
    judged: Judged


def jointly(
    injections: Sequence[Injection], steerers: Sequence[BoundRule], pod: Pod, facts: Facts
) -> Sequence[Injection]:
    """The injections, with the exclusions of several rules replaced by those that all of them together need."""
    opinions = _opinions(steerers, pod, facts)
    if not opinions:
        return injections
    own = {opinion.bound.rule.key for opinion in opinions}
    edits = {
        one.rule: [edit for edit in one.edits if one.rule not in own or not isinstance(edit, RequireNodes)]
        for one in injections
    }
    if not _is_none_left(opinions):
        steering = [opinion for opinion in opinions if opinion.bound.rule.can_mutate(opinion.bound.settings)]
        for edit in excluding(pod, *[opinion.judged for opinion in steering]) if steering else ():
            edits.setdefault(_author(steering, edit), []).append(edit)
    known = {one.rule: (one.origin, one.line) for one in injections}
    known |= {one.bound.rule.key: (one.bound.origin, one.bound.line) for one in opinions}
    return [Injection(rule, tuple(found), *known[rule]) for rule, found in edits.items() if found]


def refusal(steerers: Sequence[BoundRule], pod: Pod, facts: Facts) -> Iterable[Finding]:
    """A violation of a pod to which every rule leaves a node, and all rules together none."""
    opinions = _opinions(steerers, pod, facts)
    if not opinions or any(one.judged.is_none_left for one in opinions) or not _is_none_left(opinions):
        return ()
    ordered = sorted(opinions, key=lambda one: one.judged.of_candidates.count(None))
    reasons = _reasons(ordered)
    violation = Violation(
        "spec",
        f"no node is left that the pod could land on: {reasons}",
        "a node must suit all rules of the policy",
        f"Select other nodes by nodeSelector, affinity or tolerations, or tell {PLATFORM_TEAM}",
        follows_nodes=True,
    )
    # one of the rules says which GPUs are forbidden, so that no update softens it
    return [replace(one, softens_on_update=False) for one in findings_of(ordered[0].bound, [violation])]


def advice_without_room(
    injections: Sequence[Injection], stage: Sequence[BoundRule], pod: Pod, facts: Facts
) -> Iterable[Finding]:
    """Advice about a pod that is kept off every node which has room for it, while nodes are left that are too small."""
    edits = {one.rule: found for one in injections if (found := [e for e in one.edits if isinstance(e, RequireNodes)])}
    if not edits or pod.is_held:
        return ()
    roomy = {id(nodes.labels) for nodes in facts.feasible_nodes(pod)}
    if not roomy or facts.feasible_nodes(placed(pod, chain.from_iterable(edits.values()))):
        return ()
    steerers = [bound for bound in stage if bound.rule.key in edits and bound.rule.unsuited is not None]
    opinions = [_Opinion(bound, judged) for bound in steerers if (judged := _judged(bound, pod, facts)) is not None]
    reasons = [
        unsuited.reason
        for _, judged in opinions
        for nodes, unsuited in zip(judged.nodes, judged.found, strict=True)
        if unsuited is not None and id(nodes.labels) in roomy
    ]
    shortage = f"no node that suits it has room for all that it requests; others do not suit it: {_distinct(reasons)}"
    remedy = f"Request less, or select nodes that suit it, or tell {PLATFORM_TEAM}"
    return findings_of(steerers[0], [Advice("spec", shortage, remedy, follows_nodes=True)]) if steerers else ()


def _judged(bound: BoundRule, pod: Pod, facts: Facts) -> Judged | None:
    return bound.rule.unsuited(pod, bound.settings, facts) if bound.rule.unsuited is not None else None


def _opinions(steerers: Sequence[BoundRule], pod: Pod, facts: Facts) -> list[_Opinion]:
    """What the rules say that have a say, all of the same nodes; nothing if fewer than two of them have a say.

    The first rule is asked last, and only if others have a say: cudaDriver, which takes the longest.
    """
    found: list[_Opinion] = []
    for bound in reversed(steerers):
        if not found and bound is steerers[0]:
            return []
        judged = _judged(bound, pod, facts)
        if judged is not None and (judged.holds or any(judged.found)):
            found.append(_Opinion(bound, judged))
    if not found[1:]:
        return []
    return [one for one in found[::-1] if len(one.judged.found) == len(found[-1].judged.found)]


def _is_none_left(opinions: Sequence[_Opinion]) -> bool:
    return all(any(answers) for answers in zip(*[one.judged.of_candidates for one in opinions], strict=True))


def _author(steering: Sequence[_Opinion], edit: RequireNodes) -> str:
    """The rule that holds the pod to nodes, or the first to which nodes do not suit that the edit excludes."""
    for bound, judged in steering:
        if judged.holds and edit.expression.operator == Operator.IN:
            return bound.rule.key
        for nodes, unsuited in zip(judged.nodes, judged.found, strict=True):
            if unsuited is not None and not edit.expression.accepts(nodes.labels.get(edit.expression.key)):
                return bound.rule.key
    return steering[0].bound.rule.key


def _reasons(opinions: Sequence[_Opinion]) -> str:
    """One reason for each node class: that of the first rule to which it is unsuited. Each reason is named once."""
    firsts = (
        next(one.reason for one in answers if one is not None)
        for answers in zip(*[one.judged.of_candidates for one in opinions], strict=True)
    )
    return _distinct(firsts)


def _distinct(reasons: Iterable[str]) -> str:
    """Reasons in one text, each once."""
    distinct = list(dict.fromkeys(reasons))
    more = len(distinct) - _MOST_REASONS
    return ", ".join(distinct[:_MOST_REASONS]) + (f" and {more} more" if more > 0 else "")
