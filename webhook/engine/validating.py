"""The validating phase.

`foresee` runs both phases one after the other: what becomes of a pod that is about to be created.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.engine.mutating import complete
from webhook.engine.running_rules import STAMP, addressed, bounded, edits_of, facts_under, listed, stamp_of, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.edits import AddToleration, Edit
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_set import Policy
from webhook.rules.rule_settings import IfMissing, InjectionSettings, Mode


def judge(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    policy: Policy,
    facts: ClusterFacts,
    *,
    old: Mapping[str, Any] | None = None,
    earlier: Sequence[Policy] = (),
    namespace: str = "",
) -> Outcome:
    """The validating phase.

    On CREATE (`old` is None) also report enforced injections that the final pod lacks under `policy` and under every
    one of the `earlier` policies. What one of those injected is not held against the pod, and neither is what comes of
    a policy that is not known here. On UPDATE report only what the new pod violates and the old one did not; unless an
    image changed, what follows from the nodes that are left to the pod is a warning. `namespace` is where the pod is;
    empty: where it says. Raises ShapeError for a malformed pod.
    """
    pod = pod_from_raw(raw, policy.accelerators, namespace)
    own = facts_under(policy, facts)
    found = violations(pod, policy.validators, own)
    if old is None:
        findings = _of_a_new_pod(pod, bounded(found), policy, facts, earlier)
    else:
        findings = bounded(_new(found, pod, old, policy, own))
    return Outcome(policy, raw, tuple(findings), pod=pod)


def _new(
    found: Iterable[Finding], pod: Pod, old: Mapping[str, Any], policy: Policy, facts: ClusterFacts
) -> Iterator[Finding]:
    """What was found that does not hold of the old pod; of that only hashes are kept, since it can be much.

    A scheduler or a queue may have narrowed down where an admitted pod can run. It changes no image.
    """
    known: set[int] | None = None
    softened: set[str] = set()
    for finding in found:
        if known is None:
            before = pod_from_raw(old, policy.accelerators, pod.namespace)
            known = set(map(hash, violations(before, policy.validators, facts)))
            if _images(pod) == _images(before):
                softened = {bound.rule.key for bound in policy.validators if bound.rule.follows_nodes}
        if hash(finding) not in known:
            yield replace(finding, refuses=False) if finding.rule in softened else finding


def _images(pod: Pod) -> list[tuple[str, str]]:
    return [(container.path, container.image) for container in pod.containers]


def _of_a_new_pod(
    pod: Pod, violations: Iterable[Finding], policy: Policy, facts: ClusterFacts, earlier: Sequence[Policy]
) -> Iterator[Finding]:
    """What holds of a pod that is created, by whatever policy it was completed.

    A violation of what a rule injects counts only if every policy that may have completed the pod finds it too, and so
    does one of a rule that steers, where another policy than the one in force did: it may have steered the pod off the
    nodes that fit. Where none of those known here did, this and what is missing is only recorded.
    """
    stamp = pod.annotations.get(STAMP)
    authors = [author for author in (policy, *earlier) if not stamp or stamp == stamp_of(author)]
    by_another = all(author is not policy for author in authors)
    for finding in violations:
        rule = next(bound.rule for bound in policy.validators if bound.rule.key == finding.rule)
        if not (rule.validates_own_injection or (rule.depends_on_cluster_state and by_another)):
            yield finding
        elif not authors:
            yield _only_recorded(finding)
        elif all(_finds(author, finding.rule, pod, facts) for author in authors):
            yield finding
    for finding in _missing(pod, policy, facts, earlier):
        yield finding if authors else _only_recorded(finding)


def _missing(pod: Pod, policy: Policy, facts: ClusterFacts, earlier: Sequence[Policy]) -> Iterator[Finding]:
    """Enforced injections that the pod lacks under every policy that may have completed it."""
    own = facts_under(policy, facts)
    for bound in policy.injectors:
        if bound.rule.depends_on_cluster_state:
            continue
        lost = edits_of(bound, pod, own)
        if (
            not lost
            or not (lost := _owed(lost))
            or not all(_lost_under(past, bound.rule.key, pod, facts) for past in earlier)
        ):
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
            brief="what it injects is missing; another webhook removed it, or mutate.gpupolicy.dev was not called",
        )


def _lost_under(policy: Policy, key: str, pod: Pod, facts: ClusterFacts) -> bool:
    return any(
        bound.rule.key == key and _owed(edits_of(bound, pod, facts_under(policy, facts))) for bound in policy.injectors
    )


def _owed(edits: Iterable[Edit]) -> list[Edit]:
    """The edits without those that follow from resource claims, which `complete` may not have known."""
    return [edit for edit in edits if not (isinstance(edit, AddToleration) and edit.depends_on_cluster_state)]


def _only_recorded(finding: Finding) -> Finding:
    return replace(finding, mode=Mode.AUDIT, refuses=False)


def _finds(policy: Policy, key: str, pod: Pod, facts: ClusterFacts) -> bool:
    """Whether the rule of this key has something against the pod under the policy."""
    validators = [bound for bound in policy.validators if bound.rule.key == key]
    found = violations(pod, validators, facts_under(policy, facts))
    return any(finding.kind is FindingKind.VIOLATION for finding in found)


def foresee(
    raw: Mapping[str, Any],
    policy: Policy,
    facts: ClusterFacts,
    *,
    completing: Policy | None = None,
    namespace: str = "",
) -> Outcome:
    """What `complete` and then `judge` say of a pod, in one outcome. Raises ShapeError for a malformed pod.

    `completing` is what completes it, where that is not all of `policy`. `namespace` is as in `complete`.
    """
    completed = complete(raw, completing or policy, facts, namespace=namespace)
    if completed.refusals:
        return completed
    judged = judge(completed.object, policy, facts, namespace=namespace)
    return replace(completed, findings=tuple(dict.fromkeys((*completed.findings, *judged.findings))))
