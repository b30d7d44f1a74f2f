"""The stamp: which version of which policy completed a pod.

Policies reach replicas at different moments: `judge` learns from it that the pod was completed by one that it does not
have yet. Whatever else stands in the annotation when the pod is completed is replaced.
"""

from collections.abc import Sequence

from webhook.engine.running_rules import edits_of, violations
from webhook.model.pod import Pod
from webhook.outcome import FindingKind
from webhook.policy.policy_set import Policy
from webhook.rules.rule import Facts

STAMP = "gpupolicy.dev/policy"
"""Names the policy, with its version, by which a pod was last completed."""


def due_stamp(pod: Pod, policy: Policy, facts: Facts, earlier: Sequence[Policy], *, injected: bool) -> str | None:
    """What to write of the policy into a pod that it completed, or that another one would have; None for nothing.

    A pod whose own words contradict what would be injected gets no name to hide behind.
    """
    found = pod.annotations.get(STAMP)
    if found is None:
        is_due = injected or any(_completes(other, pod, facts) for other in earlier)
    else:
        is_due = any(one.is_injecting for one in (policy, *earlier))
    if not is_due:
        return None
    stamp = "" if _contradicts(pod, policy, facts) else stamp_of(policy)
    return None if stamp == (found or "") else stamp


def stamp_of(policy: Policy) -> str:
    """The policy with its version, as pods carry it."""
    return f"{policy.name}@{policy.short_hash}"


def _contradicts(pod: Pod, policy: Policy, facts: Facts) -> bool:
    """Whether the pod says something against what an enforced rule of the policy would inject."""
    return any(finding.kind is FindingKind.VIOLATION for finding in violations(pod, policy.contradicted, facts))


def _completes(policy: Policy, pod: Pod, facts: Facts) -> bool:
    """Whether an enforced rule of the policy would inject something."""
    return any(edits_of(bound, pod, facts) for bound in policy.injectors)
