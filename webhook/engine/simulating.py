"""What becomes of a pod that is about to be created: both phases, one after the other."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from webhook.engine.mutating import complete
from webhook.engine.validating import judge
from webhook.outcome import Outcome
from webhook.policy.policy_set import Policy
from webhook.rules.rule import Facts


def foresee(
    raw: Mapping[str, Any], policy: Policy, facts: Facts, *, completing: Policy | None = None, namespace: str = ""
) -> Outcome:
    """What `complete` and then `judge` say of a pod, in one outcome. Raises ShapeError for a malformed pod.

    `completing` is what completes it, where that is not all of `policy`. `namespace` is as in `complete`.
    """
    completed = complete(raw, completing or policy, facts, namespace=namespace)
    if completed.refusals:
        return completed
    judged = judge(completed.object, policy, facts, namespace=namespace)
    return replace(completed, findings=tuple(dict.fromkeys((*completed.findings, *judged.findings))))
