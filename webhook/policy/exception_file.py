"""Reads `_exceptions.yaml`: rules that some pods are excepted from for a time, and settings that hold for them instead.

The file is read like all others, with every mistake at once, and its settings are tried under each policy that they may
hold over. An end that is in the past is no mistake, because a set of policies must load on the day after.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webhook.policy.document import check_names_differ, read_as, read_document
from webhook.policy.error_wording import unknown_key
from webhook.policy.exception_format import ExceptionSettings, ExceptionsFile, exceptions_schema
from webhook.policy.exception_match import Match
from webhook.policy.exception_times import DAY_SECONDS, Period, read_instant, told
from webhook.policy.schema import EXCEPTIONS_KIND, part_at
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

EXCEPTIONS_PATH: KeyPath = ("spec", "exceptions")


@dataclass(frozen=True, slots=True)
class PolicyException:
    """An exception as the file has it. `rules` are the rules that it excepts from; `settings` are by rule, as written.

    `key` is its place in the file, `line` the line from 1, and `line_of_end` that of `until`.
    """

    name: str
    namespaces: tuple[str, ...]
    match: Match
    rules: tuple[str, ...]
    mode: Mode
    settings: Mapping[str, Mapping[str, Any]] = field(hash=False)
    period: Period
    reason: str
    ticket: str = ""
    owner: str = ""
    line: int = field(default=0, compare=False)
    line_of_end: int = field(default=0, compare=False)
    key: KeyPath = field(default=(), compare=False)

    @property
    def concerned(self) -> tuple[str, ...]:
        """The rules that it is about."""
        return (*self.rules, *self.settings)


def read_exceptions(
    path: str, source: bytes | YamlNode, rules: Sequence[Rule], max_days: int, faults: Faults
) -> list[tuple[PolicyException, YamlNode]]:
    """The exceptions in a file that errors call `path`, without faulty ones, each with its node in the file.

    Their settings are not tried yet.
    """
    root = read_document(path, source, EXCEPTIONS_KIND, _null_fault, faults)
    if root is None:
        return []
    schema, known = exceptions_schema(tuple(rules)), {rule.key for rule in rules}
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
            found.append((_exception(settings, node, place, max_days), node))
    return found


def _exception(one: ExceptionSettings, node: YamlNode, place: KeyPath, max_days: int) -> PolicyException:
    end = read_instant(one.until)
    begins = read_instant(one.from_).begins if one.from_ is not None else float("-inf")
    weekly = one.weekly.weekly if one.weekly is not None else None
    most_ahead = max_days * DAY_SECONDS + (end.ends - end.begins)  # a day may be that of the last second
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
        node.line,
        node.at("until").line,
        place,
    )


def check_ends(exceptions: Sequence[PolicyException], path: str, now: float, max_days: int, faults: Faults) -> None:
    """Add a fault for each end that is too far ahead at `now`."""
    for one in exceptions:
        if one.period.ends - now > one.period.most_ahead:
            message = (
                f"{one.period.text} is more than {max_days} days ahead; write an earlier end, "
                f"{told(now + max_days * DAY_SECONDS)[:10]} at the latest, or allow more by "
                "spec.exceptions.maxDays of _default.yaml"
            )
            faults.add(path, one.line_of_end, (*one.key, "until"), message)


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
