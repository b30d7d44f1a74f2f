"""Policies that loosen rules for namespaces which nobody has created: whoever may create namespaces can take them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from webhook.model.globs import is_glob, matcher
from webhook.policy.policy_set import BoundRule, Policy, PolicySet
from webhook.rules.rule_settings import Mode

_STRICTNESS = {Mode.ENFORCE: 3, Mode.WARN: 2, Mode.AUDIT: 1, Mode.DISABLED: 0}


def loosened_for_nobody(policies: PolicySet, namespaces: Collection[str]) -> Iterator[tuple[Policy, tuple[str, ...]]]:
    """Each policy that may be looser than that of others, with its names and globs that none of `namespaces` matches.

    Others have the default, or the policy of a glob that is true of the name as well. A policy that only adds rules to
    these is not looser. Whether other settings of a rule are, nobody can tell: they count as such.
    """
    patterns: dict[str, list[str]] = {}
    for pattern in sorted(policies.claims):
        policy = policies.claims[pattern]
        is_there = any(matcher(pattern).fullmatch(namespace) for namespace in namespaces)
        if not is_there and any(_may_be_looser(policy, other) for other in _others(pattern, policies)):
            patterns.setdefault(policy.name, []).append(pattern)
    for policy in policies.policies:
        if policy.name in patterns:
            yield policy, tuple(patterns[policy.name])


def _others(pattern: str, policies: PolicySet) -> Iterator[Policy]:
    """What a namespace of this name, or one that is called nearly so, has without the policy: whoever may create
    namespaces of a prefix has the choice between these.
    """
    yield policies.default
    for other, policy in policies.claims.items():
        if other != pattern and is_glob(other) and matcher(other).fullmatch(pattern):
            yield policy


def _may_be_looser(policy: Policy, default: Policy) -> bool:
    own = {bound.rule.key: bound for bound in policy.rules}
    for bound in default.rules:
        other = own.get(bound.rule.key)
        if other is None or _STRICTNESS[other.mode] < _STRICTNESS[bound.mode] or _said(other) != _said(bound):
            return True
    return False


def _said(bound: BoundRule) -> Mapping[str, Any]:
    """The settings of a rule besides its mode."""
    return bound.settings.model_dump(exclude={"mode"})
