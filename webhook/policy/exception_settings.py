"""Reads the exceptions of a set of policies, and tries their settings under each policy that they may hold over."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from webhook.model.globs import is_glob, matcher, overlap
from webhook.policy.error_wording import mistakes_in
from webhook.policy.exception_file import PolicyException, check_ends, read_exceptions
from webhook.policy.exceptions import ExceptionSettingsReader, PolicyExceptions, merged
from webhook.policy.policy_set import BoundRule, Policy, PolicySet
from webhook.policy.schema import rule_schema
from webhook.rules import gpu_quota
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

_HOW_PODS_COUNT = "says how pods count, which has to be the same for all of them; set it in the policy of the namespace"
_REFUSED = {"models": _HOW_PODS_COUNT, "weights": _HOW_PODS_COUNT}
"""Settings of gpuQuota that no exception may have."""


@dataclass(frozen=True, slots=True)
class ExceptionFile:
    """The file with exceptions: its path, its content, the known rules, and when its ends are judged, if ever."""

    path: str
    source: bytes | YamlNode
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
    listed = tuple(one for one, _ in read)
    notices: list[str] = []
    for one, node in read:
        about = policies_of(one.namespaces, policies)
        notices += _Trial(one, node, file, reader, faults).run(about, has_shared_quotas=bool(policies.shared_quotas))
    if file.now is not None:
        check_ends(listed, file.path, file.now, policies.max_days, faults)
        notices += [
            f"{file.path}:{one.line_of_end}: exception {one.name} ended {one.period.text}; remove it"
            for one in listed
            if one.period.ends <= file.now
        ]
    return PolicyExceptions(listed, tuple(node.plain() for _, node in read), reader), tuple(notices)


def policies_of(namespaces: Sequence[str], policies: PolicySet) -> list[Policy]:
    """The policies that a namespace of these names and globs may have.

    The default is left out for a glob only if one claim surely holds for all of these namespaces.
    """
    found: list[Policy] = []
    for pattern in namespaces:
        if not is_glob(pattern):
            found.append(policies.for_namespace(pattern))
            continue
        found += [policy for claim, policy in policies.claims.items() if overlap(pattern, claim)]
        # a star of a claim may stand for any text, so also for the wildcards of the glob
        if not any(c == pattern or ("?" not in c and matcher(c).fullmatch(pattern)) for c in policies.claims):
            found.append(policies.default)
    return [policy for policy in policies.policies if any(policy is one for one in found)]


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
        one, quota = self.exception, gpu_quota.RULE.key
        does_nothing = f"{self.file.path}:{one.line}: exception {one.name} does nothing about "
        for key in one.concerned:
            found = [(policy, bound) for policy in policies for bound in policy.rules if bound.rule.key == key]
            if key in one.settings and not self._is_refused(key):
                self._try(key, found)
            if not found and not (key == quota and key in one.rules and has_shared_quotas):
                yield f"{does_nothing}{key}, which is disabled in all of its namespaces; remove the rule from it"
            elif key == quota and key in one.settings and not any(policy.quota_of("") for policy, _ in found):
                yield (
                    f"{does_nothing}{key}: none of its namespaces has a quota, and an exception gives them none; set "
                    "one in their policy, or remove the settings"
                )

    def _is_refused(self, key: str) -> bool:
        """Whether the settings have a key that exceptions must not set; adds a fault for each."""
        written = self.node.at("settings", key)
        refused = dict(_REFUSED) if key == gpu_quota.RULE.key else {}
        if written.at("mode").value == str(Mode.DISABLED):
            refused["mode"] = "nothing would be recorded; write audit"
        refused = {name: message for name, message in refused.items() if name in written.entries}
        for name, message in refused.items():
            self.faults.add(self.file.path, written.at(name).line, (*self._place(key), name), message)
        return bool(refused)

    def _try(self, key: str, found: list[tuple[Policy, BoundRule]]) -> None:
        """Validate the settings of a rule over those of each policy; alone, if no policy has the rule."""
        rule = next(rule for rule in self.file.rules if rule.key == key)
        own = self.exception.settings[key]
        if not found:
            self._validate("", rule, {"mode": str(Mode.AUDIT), **own}, is_whole=False)
        for policy, bound in found:
            if not self._validate(policy.name, rule, merged(rule, bound.written or {}, own)):
                return

    def _validate(self, policy: str, rule: Rule, written: Mapping[str, Any], *, is_whole: bool = True) -> bool:
        try:
            self.read(policy, rule, written)
        except ValidationError as error:
            found = list(mistakes_in(self.node.at("settings", rule.key), error, rule_schema(rule)))
            found = [mistake for mistake in found if is_whole or mistake.kind != "missing"]
            for mistake in found:
                under = f" (together with policy {policy})" if policy and not mistake.path else ""
                place = (*self._place(rule.key), *mistake.path)
                self.faults.add(self.file.path, mistake.node.line, place, mistake.message + under)
            return not found
        return True

    def _place(self, rule: str) -> KeyPath:
        return (*self.exception.key, "settings", rule)
