"""Keeps pods off the nodes that do not suit them.

The answers of all enforced rules are put together. A pod is kept off all these nodes by exclusions that are computed
once, so that together they never exclude the last node in silence. A pod to which each rule leaves a node, and all of
them together none, is refused with one violation that adds the reasons up.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from webhook.engine.running_rules import findings_of, would_add
from webhook.model.edits import RequireNodes
from webhook.model.gpu_fractions import with_fractions
from webhook.model.pod import Pod
from webhook.model.selectors import Operator
from webhook.model.wording import PLATFORM_TEAM
from webhook.outcome import Finding, Injection
from webhook.policy.policy_set import ConfiguredRule, Policy
from webhook.rules.rule import Advice, Facts, Violation
from webhook.rules.rule_settings import Mode
from webhook.rules.unsuited import Judged, excluding, steering

_MOST_REASONS = 8
"""Reasons that a message names."""


class _Opinion(NamedTuple):
    """What one of the rules says of the nodes for a pod. Opinions are about the same nodes."""

    active: ConfiguredRule
    judged: Judged

    @property
    def steers(self) -> bool:
        """Whether the rule excludes the nodes; otherwise it only counts where none is left."""
        return self.active.rule.can_mutate(self.active.settings)


def steered(policy: Policy, pod: Pod, facts: Facts, findings: list[Finding]) -> list[Injection]:
    """The exclusions of nodes by the enforced rules. What others would exclude, and advice, goes to `findings`."""
    if not policy.judging_nodes or not (pod.accelerators or pod.resource_claims or pod.fractions):
        return []
    enforced: list[_Opinion] = []
    for one in _opinions(policy.judging_nodes, pod, facts):
        if one.active.mode is Mode.ENFORCE:
            enforced.append(one)
        elif one.steers and (wanted := list(excluding(pod, one.judged))):
            findings.append(replace(would_add(one.active, wanted), is_kept_off=not steering(one.judged).left))
    steers = sorted((one for one in enforced if one.steers), key=lambda one: one.active.rule.key)
    if not steers or _is_none_left(enforced):
        return []
    edits = list(excluding(pod, *[one.judged for one in steers]))
    if not edits:
        return []
    findings += _without_room(edits, steers, pod, facts)
    authors = [_author(steers, edit).rule.key for edit in edits]
    return [
        Injection(active.rule.key, tuple(own), active.origin, active.line)
        for active, _ in enforced
        if (own := [edit for edit, author in zip(edits, authors, strict=True) if author == active.rule.key])
    ]


def refusal(steerers: Sequence[ConfiguredRule], pod: Pod, facts: Facts) -> Iterable[Finding]:
    """A violation of a pod to which every rule leaves a node, and all rules together none."""
    if len(steerers) < 2 or not (pod.accelerators or pod.resource_claims or pod.fractions):
        return ()
    *others, last = steerers  # the last is cudaDriver, which takes the longest
    opinions = [one for one in _opinions(others, pod, facts) if any(one.judged.found)]
    if opinions:
        opinions += _opinions([last], pod, facts)
    if len(opinions) < 2 or any(one.judged.is_none_left for one in opinions) or not _is_none_left(opinions):
        return ()
    ordered = sorted(opinions, key=lambda one: (one.judged.of_candidates.count(None), one.active.rule.key))
    # the first rule to which a class of nodes is unsuited gives the reason for the class
    reasons = [
        next(one.reason for one in answers if one is not None)
        for answers in zip(*[one.judged.of_candidates for one in ordered], strict=True)
    ]
    violation = Violation(
        "spec",
        f"no node is left that the pod could land on: {_distinct(reasons)}",
        "a node must suit all rules of the policy",
        f"Select other nodes by nodeSelector, affinity or tolerations, or tell {PLATFORM_TEAM}",
        follows_nodes=True,
    )
    # one of the rules forbids GPUs, so no update softens the violation
    return [replace(one, softens_on_update=False) for one in findings_of(ordered[0].active, [violation])]


def _opinions(rules: Iterable[ConfiguredRule], pod: Pod, facts: Facts) -> Iterator[_Opinion]:
    whole = with_fractions(pod) if pod.fractions else pod
    for active in rules:
        seen = whole if active.rule.judges_fractions else pod
        judged = active.rule.unsuited(seen, active.settings, facts) if active.rule.unsuited is not None else None
        if judged is not None:
            yield _Opinion(active, judged)


def _without_room(
    edits: Sequence[RequireNodes], steering: Sequence[_Opinion], pod: Pod, facts: Facts
) -> Iterator[Finding]:
    """Advice about a pod that is kept off every node which has room for it, while nodes are left that are too small."""
    expressions = {edit.expression for edit in edits}
    roomy = () if pod.is_held else facts.feasible_nodes(pod)
    if not roomy or any(
        nodes.by_claim
        or nodes.made_by
        or all(expression.accepts(nodes.labels.get(expression.key)) for expression in expressions)
        for nodes in roomy
    ):
        return
    labels = {id(nodes.labels) for nodes in roomy}
    reasons = [
        unsuited.reason
        for _, judged in steering
        for nodes, unsuited in zip(judged.nodes, judged.found, strict=True)
        if unsuited is not None and id(nodes.labels) in labels
    ]
    shortage = (
        "no node that suits the pod has room for all that it requests; the other nodes do not suit it: "
        f"{_distinct(reasons)}"
    )
    remedy = f"Request less, or select nodes that suit it, or tell {PLATFORM_TEAM}"
    yield from findings_of(_author(steering, edits[0]), [Advice("spec", shortage, remedy, follows_nodes=True)])


def _is_none_left(opinions: Sequence[_Opinion]) -> bool:
    answers = [*zip(*[one.judged.of_candidates for one in opinions], strict=True)]
    return bool(answers) and all(map(any, answers))


def _author(steering: Sequence[_Opinion], edit: RequireNodes) -> ConfiguredRule:
    """The rule that holds the pod to nodes, or else the first that finds nodes unsuited which the edit excludes."""
    for active, judged in steering:
        if judged.holds and edit.expression.operator == Operator.IN:
            return active
        for nodes, unsuited in zip(judged.nodes, judged.found, strict=True):
            if unsuited is not None and not edit.expression.accepts(nodes.labels.get(edit.expression.key)):
                return active
    return next((one.active for one in steering if one.judged.anywhere is not None), steering[0].active)


def _distinct(reasons: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(reasons))
    more = len(distinct) - _MOST_REASONS
    return ", ".join(distinct[:_MOST_REASONS]) + (f" and {more} more" if more > 0 else "")
