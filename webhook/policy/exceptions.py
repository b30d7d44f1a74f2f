"""Which exceptions hold for a pod at a moment, and the policy that it has by them. This is the only place that decides.

Of several exceptions about one rule, the first in the file that holds for the pod holds alone.
"""

import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.pod import Container
from webhook.model.subject import PodSubject
from webhook.policy.exception_file import PolicyException
from webhook.policy.exception_match import Patterns
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import RuleSettings

REMEMBERED = 10_000
"""Namespaces whose exceptions are remembered after globs were compared with their names."""


@dataclass(frozen=True, slots=True)
class AppliedException:
    """An exception that holds for a pod: for which `rules` it is the one that counts, and until when.

    If it is not about the pod as a whole (`is_whole`), it covers findings about the containers that it means, alone.
    """

    exception: PolicyException
    rules: tuple[str, ...]
    until: str
    is_whole: bool = True

    def covers(self, container: Container | None) -> bool:
        """Whether it is about a container of the pod; None asks about the pod as a whole."""
        if container is None:
            return self.is_whole
        match = self.exception.match
        return not match.is_about_containers or match.is_about(container.name, container.image)

    @property
    def name(self) -> str:
        """Name of the exception."""
        return self.exception.name

    def told(self, what: str = "admitted") -> str:
        """What messages say of it.

        `admitted until 2026-12-01 by exception bert-legacy, OPS-123`
        """
        ticket = f", {self.exception.ticket}" if self.exception.ticket else ""
        return f"{what} until {self.until} by exception {self.name}{ticket}"


ReadSettings = Callable[[str, Rule, Mapping[str, Any]], RuleSettings]
"""Validates settings of a rule as written, under the policy with this name. Raises pydantic's ValidationError."""


def _no_settings(policy: str, rule: Rule, written: Mapping[str, Any]) -> RuleSettings:  # noqa: ARG001  # as ReadSettings
    raise AssertionError(f"no exception has settings of {rule.key}")


@dataclass(frozen=True, slots=True, eq=False)
class PolicyExceptions:
    """The exceptions of a set of policies, in the order of the file, and how their settings are read."""

    all: tuple[PolicyException, ...] = ()
    written: tuple[Any, ...] = ()
    read: ReadSettings = _no_settings
    _of: Callable[[str], tuple[PolicyException, ...]] = field(init=False)

    def __post_init__(self) -> None:
        about = [(one, Patterns(one.namespaces)) for one in self.all]

        @lru_cache(maxsize=REMEMBERED)
        def of(namespace: str) -> tuple[PolicyException, ...]:
            return tuple(one for one, patterns in about if namespace and patterns.match((namespace,)))

        object.__setattr__(self, "_of", of)

    def are_in(self, namespace: str) -> bool:
        """Whether there are exceptions for a namespace, at whatever time."""
        return bool(self.all and self._of(namespace))

    def may_hold(self, namespace: str, rules: Set[str], now: float) -> bool:
        """Whether an exception about one of these rules is in force in a namespace, for whatever pods."""
        return any(not rules.isdisjoint(one.concerned) and one.period.until(now) for one in self._of(namespace))

    def is_in(self, namespace: str, exception: PolicyException) -> bool:
        """Whether an exception is for a namespace."""
        return any(one is exception for one in self._of(namespace))

    def applied(
        self, namespace: str, subject: PodSubject, now: float, accelerators: Accelerators = BUILT_IN
    ) -> tuple[AppliedException, ...]:
        """The exceptions that hold for a pod at a moment, in seconds since 1970. `accelerators` says what GPUs are."""
        taken: set[str] = set()
        applied = []
        for one in self._of(namespace):
            rules = tuple(rule for rule in one.concerned if rule not in taken)
            if rules and (until := one.period.until(now)) and one.match.holds(subject):
                taken.update(rules)
                is_whole = one.match.is_about_all_of(subject, accelerators)
                applied.append(AppliedException(one, rules, until, is_whole))
        return tuple(applied)


def merged(rule: Rule, base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as written, merged as `webhook.policy.document.merge_rule` merges them."""
    dropped = {key for group in rule.settings.exclusive if group & over.keys() for key in group - over.keys()}
    return _merged({key: value for key, value in base.items() if key not in dropped}, over)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for key, value in over.items():
        below = found.get(key)
        is_merged = isinstance(below, Mapping) and isinstance(value, Mapping)
        found[key] = _merged(below or {}, value) if is_merged else value
    return found


@dataclass(frozen=True, slots=True)
class ExceptionSettingsReader:
    """Reads settings under exceptions, each text once. `contexts` are by name of a policy; others have `context`."""

    context: Mapping[str, Any] = field(hash=False)
    contexts: Mapping[str, Mapping[str, Any]] = field(hash=False)
    _known: dict[tuple[str, str, int], RuleSettings] = field(default_factory=dict, hash=False)

    def __call__(self, policy: str, rule: Rule, written: Mapping[str, Any]) -> RuleSettings:
        """The settings as values. Raises ValidationError."""
        context = self.contexts.get(policy, self.context)
        text = json.dumps(written, sort_keys=True)
        key = rule.key, text, id(context)
        known = self._known.get(key)
        if known is None:
            known = rule.settings.model_validate_json(text, by_alias=True, by_name=False, context=dict(context))
            self._known[key] = known
        return known


NO_EXCEPTIONS = PolicyExceptions()
"""A set of policies without exceptions."""
