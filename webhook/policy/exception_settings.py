"""Reads the exceptions of a set of policies, and tries their settings under each policy that they may hold over."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from webhook.policy.error_wording import details_of, locate, message_for
from webhook.policy.exception_file import PolicyException, check_ends, read_exceptions
from webhook.policy.exception_match import holds_for_all, may_hold_for
from webhook.policy.exceptions import ExceptionSettingsReader, PolicyExceptions, merged
from webhook.policy.policy_set import BoundRule, Policy, PolicySet
from webhook.policy.schema import rule_schema
from webhook.rules import gpu_quota
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.file_errors import Faults
from webhook.yaml_files.yaml_lines import YamlNode

_COUNTING = ("models", "weights")
"""Settings of gpuQuota that say how pods count. All entries of a ledger count alike."""


@dataclass(frozen=True, slots=True)
class ExceptionFile:
    """The file with exceptions: its path, its bytes, the known rules, and when its ends are judged, if ever."""

    path: str
    source: bytes
    rules: tuple[Rule, ...]
    now: float | None


def load_exceptions(
    file: ExceptionFile,
    policies: PolicySet,
    context: Mapping[str, Any],
    contexts: Mapping[str, Mapping[str, Any]],
    faults: Faults,
) -> tuple[PolicyExceptions, tuple[str, ...]]:
    """The exceptions of a file for these policies, and remarks that are no mistakes. Mistakes are added to `faults`.

    `context` is what settings are validated with; `contexts` has that of policies with another one, by name.
    """
    read = read_exceptions(file.path, file.source, file.rules, policies.max_days, faults)
    reader = ExceptionSettingsReader(context, contexts)
    listed = tuple(one for one, _ in read.exceptions)
    notices: list[str] = []
    concerned: dict[tuple[str, ...], list[Policy]] = {}
    for one, node in read.exceptions:
        trial = _Trial(one, node, file, reader, faults)
        if one.namespaces not in concerned:
            concerned[one.namespaces] = _may_be_about(one.namespaces, policies)
        notices += trial.run(concerned[one.namespaces], has_shared_quotas=bool(policies.shared_quotas))
    if file.now is not None:
        check_ends(listed, file.path, file.now, policies.max_days, faults)
        notices += _ended(listed, file.path, file.now)
    return PolicyExceptions(listed, read.written, reader), tuple(notices)


def _may_be_about(namespaces: Sequence[str], policies: PolicySet) -> list[Policy]:
    """The policies that a namespace of these names and globs may have.

    The default is left out only if it is certain that other policies claim all of these namespaces.
    """
    others = {id(other) for claim, other in policies.claims.items() if may_hold_for(namespaces, claim)}
    if not all(any(holds_for_all(claim, pattern) for claim in policies.claims) for pattern in namespaces):
        others.add(id(policies.default))
    return [policy for policy in policies.policies if id(policy) in others]


def _ended(exceptions: tuple[PolicyException, ...], path: str, now: float) -> Iterator[str]:
    for one in exceptions:
        if one.period.ends <= now:
            yield f"{path}:{one.line_of_end}: exception {one.name} ended {one.period.text}; remove it"


def _limits(found: tuple[Policy, BoundRule]) -> bool:
    """Whether a policy with gpuQuota sets a quota."""
    settings = found[1].settings
    return isinstance(settings, gpu_quota.Settings) and bool(settings.limits)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Tries the settings of one exception under the policies that it may be about."""

    exception: PolicyException
    node: YamlNode
    file: ExceptionFile
    read: ExceptionSettingsReader
    faults: Faults

    def run(self, policies: list[Policy], *, has_shared_quotas: bool) -> Iterator[str]:
        """Add faults; yield a remark for each rule that none of the policies has."""
        one = self.exception
        for key in one.concerned:
            found = [(policy, bound) for policy in policies for bound in policy.rules if bound.rule.key == key]
            if key in one.settings and not self._is_refused(key):
                self._try(key, found)
            if not found and not (key == gpu_quota.RULE.key and key in one.rules and has_shared_quotas):
                yield (
                    f"{self.file.path}:{one.line}: exception {one.name} does nothing about {key}, which is disabled in "
                    "all of its namespaces; remove the rule from it"
                )
            elif key == gpu_quota.RULE.key and key in one.settings and not any(map(_limits, found)):
                yield (
                    f"{self.file.path}:{one.line}: exception {one.name} does nothing about {key}: none of its "
                    "namespaces has a quota, and an exception gives them none; set one in their policy, or remove the "
                    "settings"
                )

    def _is_refused(self, key: str) -> bool:
        """Whether the settings have a key that exceptions must not set; adds a fault for each."""
        written = self._written(key)
        refused = []
        if written.get("mode", None) is not None and written["mode"].value == str(Mode.DISABLED):
            refused.append(("mode", "nothing would be recorded; write audit"))
        if key == gpu_quota.RULE.key:
            text = (
                "says how pods count, which has to be the same for all of them; set it in the policy of the namespace"
            )
            refused += [(name, text) for name in _COUNTING if name in written]
        for name, message in refused:
            place = (*self.exception.key, "settings", key, name)
            self.faults.add(self.file.path, written[name].line, place, message)
        return bool(refused)

    def _try(self, key: str, found: list[tuple[Policy, BoundRule]]) -> None:
        """Validate the settings of a rule over those of each policy; alone, if no policy has the rule."""
        rule = next(rule for rule in self.file.rules if rule.key == key)
        own = self.exception.settings[key]
        if not found:
            self._validate("", rule, {"mode": str(Mode.AUDIT), **own}, is_whole=False)
        tried: set[tuple[str, int]] = set()
        for policy, bound in found:
            done = repr(bound.written), id(self.read.contexts.get(policy.name))
            if done not in tried:
                tried.add(done)
                if not self._validate(policy.name, rule, merged(rule, bound.written or {}, own)):
                    return

    def _validate(self, policy: str, rule: Rule, written: Mapping[str, Any], *, is_whole: bool = True) -> bool:
        try:
            self.read(policy, rule, written)
        except ValidationError as error:
            details = [one for one in details_of(error) if is_whole or one["type"] != "missing"]
            root = YamlNode(self._written(rule.key), self.file.path, self._line(rule.key))
            for detail in details:
                path, node = locate(root, detail["loc"], detail["type"] == "missing")
                under = f" (together with policy {policy})" if policy and not path else ""
                message = message_for(detail, rule_schema(rule), path, node) + under
                place = (*self.exception.key, "settings", rule.key, *path)
                self.faults.add(self.file.path, node.line, place, message)
            return not details
        return True

    def _written(self, key: str) -> dict[str, YamlNode]:
        value = self._rule(key).value
        return value if isinstance(value, dict) else {}

    def _line(self, key: str) -> int:
        return self._rule(key).line

    def _rule(self, key: str) -> YamlNode:
        settings = self.node.value["settings"].value if isinstance(self.node.value, dict) else {}
        found = settings.get(key) if isinstance(settings, dict) else None
        return found if found is not None else self.node
