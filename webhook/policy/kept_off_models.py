"""The GPU models that policies keep pods off, as quotas count them.

A pod that selects no model counts against the limits of all models that it could get. Where `gpuTypes` is enforced, it
gets none of those that the rule rules out, so it does not count against them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from webhook.gpus.gpu_catalogue import Models
from webhook.model.accelerators import Accelerator
from webhook.policy.policy_set import BoundRule, Policy, policy_finder
from webhook.quota.quotas import KeptOff
from webhook.rules import gpu_quota, gpu_types
from webhook.rules.rule_settings import Mode


def kept_off_by(rules: Sequence[BoundRule]) -> KeptOff | None:
    """The models that the rules of one policy keep pods off; None if there are none."""
    for bound in rules:
        if isinstance(bound.settings, gpu_types.Settings) and bound.mode is Mode.ENFORCE and bound.settings.usable:
            return bound.settings
    return None


def with_kept_off(rules: tuple[BoundRule, ...]) -> tuple[BoundRule, ...]:
    """The rules of one policy, in which the quota knows what the others keep pods off."""
    kept_off = kept_off_by(rules)
    if kept_off is None:
        return rules
    return tuple(
        replace(bound, settings=bound.settings.beside(kept_off))
        if isinstance(bound.settings, gpu_quota.Settings) and bound.settings.limits
        else bound
        for bound in rules
    )


@dataclass(frozen=True, slots=True)
class KeptOffByNamespace:
    """The models that the policy of each namespace keeps its pods off, for quotas that namespaces share.

    `by_claim` is name or glob of namespaces -> what its policy keeps pods off, `others` what the default does.
    """

    by_claim: Mapping[str, KeptOff | None]
    others: KeptOff | None
    _policy: Callable[[str], Policy] = field(compare=False, repr=False)

    @classmethod
    def of(cls, default: Policy, claims: Mapping[str, Policy]) -> "KeptOffByNamespace | None":
        """None if no policy keeps pods off any model."""
        by_claim = {claim: kept_off_by(policy.rules) for claim, policy in claims.items()}
        others = kept_off_by(default.rules)
        if others is None and not any(by_claim.values()):
            return None
        return cls(by_claim, others, policy_finder(claims, default))

    def models(self, namespace: str, gpu: Accelerator) -> Models:
        """The models of which pods of a namespace get no units of this resource; empty if they may get any."""
        kept_off = kept_off_by(self._policy(namespace).rules)
        return frozenset() if kept_off is None else kept_off.models(namespace, gpu)
