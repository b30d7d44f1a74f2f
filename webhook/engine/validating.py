"""The validating phase.

`simulate` runs the mutating and the validating phase of a pod that is about to be created.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from webhook.engine.exceptions_used import edits_under, findings_under
from webhook.engine.joint_steering import refusal
from webhook.engine.mutating import STAMP, mutate, stamp_of
from webhook.engine.running_rules import addressed, bounded, edits_of, facts_under, listed, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.pod import Pod, changed
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_set import Policy
from webhook.rules.rule import Facts
from webhook.rules.rule_settings import IfMissing, InjectionSettings, Mode


def validate(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    policy: Policy,
    facts: ClusterFacts,
    *,
    old: Mapping[str, Any] | None = None,
    earlier: Sequence[Policy] = (),
    namespace: str = "",
    of_old: Policy | None = None,
) -> Outcome:
    """Report the violations of a pod.

    On CREATE (`old` is None), injections are reported, too, that the pod lacks under `policy` and under every one of
    the `earlier` policies. A value that an earlier policy injected, or a policy that is not known here, is not a
    violation. On UPDATE, only violations that the old pod did not have are reported. If no image changed, a violation
    of a rule that softens on updates is a warning: a scheduler or a queue may narrow the nodes down. `of_old` is the
    policy of the old pod at this moment, where the namespace has exceptions: what these allow an old image is no
    violation that the pod had. Under a policy with exceptions, what would refuse the pod without them is recorded.
    `namespace` is where the pod is; if empty, the pod itself says it. Raises ShapeError for a malformed pod.
    """
    pod = pod_from_raw(raw, policy.accelerators, namespace)
    if old is not None and of_old is not None:
        before = pod_from_raw(old, policy.accelerators, pod.namespace)
        if _images(pod) != _images(before):
            return Outcome(policy, raw, tuple(_new_by_image(pod, policy, before, of_old, facts)), pod=pod)
    if policy.usual is None:
        return Outcome(policy, raw, tuple(_found(policy, pod, facts, old, earlier, policy)), pod=pod)
    find = partial(_found, pod=pod, facts=facts, old=old, earlier=earlier, stamped=policy)
    return Outcome(policy, raw, findings_under(policy, pod, find), pod=pod)


def _found(  # noqa: PLR0913, PLR0917  # as `validate`
    policy: Policy,
    pod: Pod,
    facts: ClusterFacts,
    old: Mapping[str, Any] | None,
    earlier: Sequence[Policy],
    stamped: Policy,
) -> Iterator[Finding]:
    own = facts_under(policy, facts)
    found = _violations(pod, policy, own)
    if old is None:
        return _of_a_new_pod(pod, bounded(found), policy, facts, earlier, stamped)
    return bounded(_new(found, pod, old, policy, own))


def _violations(pod: Pod, policy: Policy, facts: Facts) -> Iterable[Finding]:
    """What the rules of a policy find in a pod, each by itself and all of them together.

    Where no node is left, that alone is said: findings about some of the nodes are left out.
    """
    found = violations(pod, policy.validators, facts)
    if not policy.steerers or not (pod.accelerators or pod.resource_claims):
        return found
    steering = {bound.rule.key for bound in policy.steerers}
    each, jointly = list(found), list(refusal(policy.steerers, pod, facts))
    of_nodes = [one for one in each if one.follows_nodes and one.rule in steering]
    if not jointly and all(one.kind is FindingKind.ADVICE or one.is_kept_off for one in of_nodes):
        return each
    of_some = [one for one in of_nodes if one.is_kept_off or (jointly and one.kind is FindingKind.ADVICE)]
    return [one for one in each if one not in of_some] + jointly


def _new(
    found: Iterable[Finding], pod: Pod, old: Mapping[str, Any], policy: Policy, facts: ClusterFacts
) -> Iterator[Finding]:
    """The findings that the old pod did not have. Of the old ones only hashes are kept, because they may be many."""
    known: set[int] | None = None
    softens = False
    for finding in found:
        if known is None:
            before = pod_from_raw(old, policy.accelerators, pod.namespace)
            known = set(map(hash, _violations(before, policy, facts)))
            softens = _images(pod) == _images(before)
        if hash(finding) not in known:
            yield replace(finding, refuses=False) if softens and finding.softens_on_update else finding


def _new_by_image(pod: Pod, policy: Policy, before: Pod, of_old: Policy, facts: ClusterFacts) -> Iterator[Finding]:
    """The findings that the old pod did not have, under the exceptions of each.

    Controllers change labels, and may. But an exception to images is worth nothing if a pod that it let through may
    have another image a moment later.
    """
    known = set(map(hash, _under_exceptions(before, of_old, facts)))
    yield from (one for one in _under_exceptions(pod, policy, facts) if hash(one) not in known)


def _under_exceptions(pod: Pod, policy: Policy, facts: ClusterFacts) -> Sequence[Finding]:
    return findings_under(policy, pod, lambda one: bounded(_violations(pod, one, facts_under(one, facts))))


def _images(pod: Pod) -> list[tuple[str, str]]:
    return [(container.path, container.image) for container in pod.containers]


def _of_a_new_pod(  # noqa: PLR0913, PLR0917  # all that decides
    pod: Pod,
    violations: Iterable[Finding],
    policy: Policy,
    facts: ClusterFacts,
    earlier: Sequence[Policy],
    stamped: Policy,
) -> Iterator[Finding]:
    """The findings about a new pod, whichever policy completed it. Its own pods have the stamp of `stamped`.

    A violation in a field that the rule injects counts only if every policy that may have completed the pod finds it,
    too. For a rule that steers this holds only if another policy completed the pod, because that policy may have
    steered it off nodes that fit. If a policy that is not known here completed the pod, such violations and missing
    injections are only recorded.
    """
    stamp = pod.annotations.get(STAMP)
    authors = [policy, *earlier]
    if stamp:
        authors = [one for one in authors if stamp == stamp_of(stamped if one is policy else one)]
    by_another = all(author is not policy for author in authors)
    for finding in violations:
        rule = next(bound.rule for bound in policy.validators if bound.rule.key == finding.rule)
        is_by_steering = rule.depends_on_cluster_state and (by_another or finding.is_kept_off)
        if not (rule.validates_own_injection or is_by_steering):
            yield finding
        elif not authors:
            yield _only_recorded(finding)
        elif all(_finds(author, finding.rule, pod, facts) for author in authors):
            yield finding
    for finding in _missing(pod, policy, facts, earlier):
        yield finding if authors else _only_recorded(finding)


def _missing(pod: Pod, policy: Policy, facts: ClusterFacts, earlier: Sequence[Policy]) -> Iterator[Finding]:
    """Injections that the pod lacks, under every policy that may have completed it.

    What follows from resource claims is never missed: `mutate` may not have known the claims.
    """
    own = facts_under(policy, facts)
    if pod.resource_claims:
        pod = changed(pod, resource_claims=None)
    usual = policy.usual
    known = {} if usual is None else {one.rule.key: one for one in (*usual.injectors, *policy.injectors)}
    for bound in known.values() or policy.injectors:
        if bound.rule.depends_on_cluster_state:
            continue
        lost = edits_of(bound, pod, own) if usual is None else edits_under(policy, bound.rule.key, pod, own)
        if not lost or not all(_lost_under(past, bound.rule.key, pod, facts) for past in earlier):
            continue
        if_missing = bound.settings.if_missing if isinstance(bound.settings, InjectionSettings) else IfMissing.WARN
        yield Finding(
            bound.rule.key,
            bound.mode,
            FindingKind.MISSING,
            "spec",
            f"{listed(lost)} should have been injected but is missing; another webhook removed it or added "
            "the GPUs later, or mutate.gpupolicy.dev was not called",
            addressed(bound, "Create the pod again, or tell the platform team"),
            refuses=if_missing is IfMissing.REFUSE and not all(edit.is_preference for edit in lost),
            origin=bound.origin,
            line=bound.line,
        )


def _lost_under(policy: Policy, key: str, pod: Pod, facts: ClusterFacts) -> bool:
    return any(bound.rule.key == key and edits_of(bound, pod, facts_under(policy, facts)) for bound in policy.injectors)


def _only_recorded(finding: Finding) -> Finding:
    return replace(finding, mode=Mode.AUDIT, refuses=False)


def _finds(policy: Policy, key: str, pod: Pod, facts: ClusterFacts) -> bool:
    """Whether the rule with this key finds a violation under the policy."""
    validators = [bound for bound in policy.validators if bound.rule.key == key]
    own = facts_under(policy, facts)
    found = chain(violations(pod, validators, own), refusal(policy.steerers, pod, own))
    return any(finding.kind is FindingKind.VIOLATION for finding in found)


def simulate(
    raw: Mapping[str, Any],
    policy: Policy,
    facts: ClusterFacts,
    *,
    completing: Policy | None = None,
    namespace: str = "",
) -> Outcome:
    """The outcome of `mutate` and then `validate`, in one. Raises ShapeError for a malformed pod.

    `completing` is the policy that completes the pod, if not `policy` itself. `namespace` is as in `mutate`.
    """
    completed = mutate(raw, completing or policy, facts, namespace=namespace)
    if completed.refusals:
        return completed
    judged = validate(completed.object, policy, facts, namespace=namespace)
    return replace(completed, findings=tuple(dict.fromkeys((*completed.findings, *judged.findings))))
