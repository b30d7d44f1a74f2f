"""Reads `_exceptions.yaml`: rules that some pods are excepted from for a time, and settings that hold for them instead.

The file is read like all others, with every mistake at once, and its settings are tried under each policy that they may
hold over. An end that is in the past is no mistake, because a set of policies must load on the day after.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.model.globs import is_glob, matcher, overlap
from webhook.policy.document import check_names_differ, merge_rule, read_as, read_document
from webhook.policy.error_wording import Mistake, unknown_key
from webhook.policy.exception_format import ExceptionSettings, ExceptionsFile, exceptions_schema
from webhook.policy.exception_times import DAY_SECONDS, Period, read_instant, told
from webhook.policy.exceptions import PolicyException, PolicyExceptions
from webhook.policy.policy_set import Policy, PolicySet
from webhook.policy.schema import EXCEPTIONS_KIND, part_at, rule_schema
from webhook.rules import gpu_limits, gpu_quota
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import Mode, RuleSettings
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

EXCEPTIONS_PATH: KeyPath = ("spec", "exceptions")

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
    file: ExceptionFile, policies: PolicySet, context: Callable[[str], Mapping[str, Any]], faults: Faults
) -> tuple[PolicyExceptions, list[str]]:
    """The exceptions of a file for these policies, and remarks that are no mistakes. Mistakes are added to `faults`.

    `context` is what settings of the policy with a name are validated with.
    """
    found = tuple(_read(file, policies.max_days, faults))
    notices: list[str] = []
    settings: dict[tuple[str, str, str], RuleSettings] = {}
    for one in found:
        trial = _Trial(one, file, context, faults, settings)
        notices += trial.run(policies_of(one.namespaces, policies), has_shared_quotas=bool(policies.shared_quotas))
    if file.now is not None:
        notices += _check_ends(found, file.path, file.now, policies.max_days, faults)
    return PolicyExceptions(found, settings), notices


def _read(file: ExceptionFile, max_days: int, faults: Faults) -> list[PolicyException]:
    """The exceptions in a file, without faulty ones. Their settings are not tried yet."""
    path, rules = file.path, file.rules
    root = read_document(path, file.source, EXCEPTIONS_KIND, _null_fault, faults)
    if root is None:
        return []
    schema, known = exceptions_schema(rules), {rule.key for rule in rules}
    read_as(root, ExceptionsFile, schema, faults)
    check_names_differ(root, EXCEPTIONS_PATH, faults)
    found = []
    for index, node in enumerate(root.at(*EXCEPTIONS_PATH).items):
        place: KeyPath = (*EXCEPTIONS_PATH, index)
        if not isinstance(node.value, dict):
            continue
        settings = read_as(node, ExceptionSettings, part_at(schema, place), faults, place=place)
        unknown = [(key, name, line) for key, name, line in _named_rules(node) if name not in known]
        for key, name, line in unknown:
            faults.add(path, line, (*place, *key), unknown_key(name, known, "rule"))
        if settings is not None and not unknown:
            found.append(_exception(settings, node, place, max_days))
    return found


def _exception(one: ExceptionSettings, node: YamlNode, place: KeyPath, max_days: int) -> PolicyException:
    end = read_instant(one.until)
    begins = read_instant(one.from_).begins if one.from_ is not None else float("-inf")
    weekly = one.weekly.weekly if one.weekly is not None else None
    most_ahead = max_days * DAY_SECONDS + (end.ends - end.begins)  # the last day may be named as a whole
    return PolicyException(
        one.name,
        tuple(dict.fromkeys(one.namespaces)),
        one.match.match,
        tuple(dict.fromkeys(one.rules or ())),
        Mode(one.mode),
        one.settings or {},
        Period(begins, end.ends, end.text, weekly, most_ahead),
        one.reason,
        one.ticket or "",
        one.owner or "",
        node,
        place,
    )


def _check_ends(
    exceptions: Sequence[PolicyException], path: str, now: float, max_days: int, faults: Faults
) -> Iterator[str]:
    """Add a fault for each end that is too far ahead at `now`; yield a remark for each that has passed."""
    for one in exceptions:
        line, end = one.node.at("until").line, one.period.text
        if one.period.ends - now > one.period.most_ahead:
            message = (
                f"{end} is more than {max_days} days ahead; write an earlier end, "
                f"{told(now + max_days * DAY_SECONDS)[:10]} at the latest, or allow more by "
                "spec.exceptions.maxDays of _default.yaml"
            )
            faults.add(path, line, (*one.key, "until"), message)
        if one.period.ends <= now:
            yield f"{path}:{line}: exception {one.name} ended {end}; remove it"


def _named_rules(node: YamlNode) -> Iterator[tuple[KeyPath, str, int]]:
    """Place, name and line of each rule that an exception names."""
    for index, one in enumerate(node.at("rules").items):
        if isinstance(one.value, str):
            yield ("rules", index), one.value, one.line
    for name, one in node.at("settings").entries.items():
        yield ("settings", name), name, one.line


def _null_fault(path: KeyPath) -> str:
    if path == EXCEPTIONS_PATH:
        return "is empty; write a list, or [] for no exceptions"
    return "is empty; write a value, or remove the line"


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
    """Tries the settings of one exception under the policies that it may be about; keeps them in `settings`."""

    exception: PolicyException
    file: ExceptionFile
    context: Callable[[str], Mapping[str, Any]]
    faults: Faults
    settings: dict[tuple[str, str, str], RuleSettings]

    def run(self, policies: list[Policy], *, has_shared_quotas: bool) -> Iterator[str]:
        """Add faults; yield a remark for each rule that none of the policies has."""
        one, quota = self.exception, gpu_quota.RULE.key
        does_nothing = f"{self.file.path}:{one.node.line}: exception {one.name} does nothing about "
        for key in one.concerned:
            having = [policy for policy in policies if any(bound.rule.key == key for bound in policy.rules)]
            if key in one.settings and not self._is_refused(key):
                self._try(next(rule for rule in self.file.rules if rule.key == key), having)
            if not having and not (key == quota and key in one.rules and has_shared_quotas):
                yield f"{does_nothing}{key}, which is disabled in all of its namespaces; remove the rule from it"
            elif key == quota and key in one.settings and not any(policy.quota_of("") for policy in having):
                yield (
                    f"{does_nothing}{key}: none of its namespaces has a quota, and an exception gives them none; set "
                    "one in their policy, or remove the settings"
                )

    def _is_refused(self, key: str) -> bool:
        """Whether the settings have a key that exceptions must not set; adds a fault for each."""
        written = self.exception.node.at("settings", key)
        refused = dict(_REFUSED) if key == gpu_quota.RULE.key else {}
        if written.at("mode").value == str(Mode.DISABLED):
            refused["mode"] = "nothing would be recorded; write audit"
        refused = {name: message for name, message in refused.items() if name in written.entries}
        for name, message in refused.items():
            place = (*self.exception.key, "settings", key, name)
            self.faults.add(self.file.path, written.at(name).line, place, message)
        return bool(refused)

    def _try(self, rule: Rule, having: list[Policy]) -> None:
        """Validate the settings of a rule over those of each policy; alone, if no policy has the rule."""
        own = self.exception.node.at("settings", rule.key)
        if not having:
            mode = YamlNode(str(Mode.AUDIT), own.file, own.line)
            self._validated("", rule, YamlNode({"mode": mode, **own.entries}, own.file, own.line))
        for policy in having:
            bound = next(bound for bound in policy.rules if bound.rule.key == rule.key)
            settings = self._validated(policy.name, rule, merge_rule(rule, bound.node, own))
            if settings is None:
                return
            if isinstance(settings, gpu_limits.Settings) and isinstance(bound.settings, gpu_limits.Settings):
                settings = settings.weighing(bound.settings.weights)
            self.settings[policy.name, self.exception.name, rule.key] = settings

    def _validated(self, policy: str, rule: Rule, merged: YamlNode) -> RuleSettings | None:
        """The settings under a policy, or alone for an empty name: a file may then leave out what it would inherit."""

        def message_of(mistake: Mistake) -> str:
            under = f" (together with policy {policy})" if policy and not mistake.path else ""
            return mistake.message + under if policy or mistake.kind != "missing" else ""

        return read_as(
            merged,
            rule.settings,
            rule_schema(rule),
            self.faults,
            context=self.context(policy),
            place=(*self.exception.key, "settings", rule.key),
            written=self.exception.node.at("settings", rule.key),
            message_of=message_of,
        )
