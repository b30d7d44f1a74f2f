"""Reads `_exceptions.yaml`: rules that some pods are excepted from for a time, and settings that hold for them instead.

The file is read like all others, with every mistake at once. An end that is in the past is no mistake, because a set of
policies must load on the day after.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from webhook.policy.document import check_names_differ, mapping_at, read_document, read_head
from webhook.policy.error_wording import details_of, locate, message_for, unknown_key
from webhook.policy.exception_format import ExceptionSettings, ExceptionsFile, exceptions_schema
from webhook.policy.exception_match import Match
from webhook.policy.exception_times import DAY_SECONDS, Instant, Period, read_instant, told
from webhook.policy.schema import EXCEPTIONS_KIND, Schema, part_at
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

EXCEPTIONS_IN_FILE: KeyPath = ("spec", "exceptions")


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


@dataclass(frozen=True, slots=True)
class ReadExceptions:
    """The exceptions of a file, each with its node in it, and all of them as written, for hashing."""

    exceptions: tuple[tuple[PolicyException, YamlNode], ...] = ()
    written: tuple[Any, ...] = ()


NONE_READ = ReadExceptions()


def read_exceptions(path: str, source: bytes, rules: Sequence[Rule], max_days: int, faults: Faults) -> ReadExceptions:
    """The exceptions in a file that errors call `path`, without faulty ones. Their settings are not checked yet."""
    root = read_document(path, source, EXCEPTIONS_KIND, _null_fault, faults)
    if root is None:
        return NONE_READ
    schema = exceptions_schema(tuple(rules))
    read_head(root, ExceptionsFile, schema, faults)
    check_names_differ(root, EXCEPTIONS_IN_FILE, faults)
    listed = mapping_at(root, EXCEPTIONS_IN_FILE[:-1]).get("exceptions")
    nodes = listed.value if listed is not None and isinstance(listed.value, list) else []
    found = []
    for index, node in enumerate(nodes):
        place: KeyPath = (*EXCEPTIONS_IN_FILE, index)
        if not isinstance(node.value, dict):
            continue
        settings = _settings(node, place, schema, faults)
        are_known = _check_rules(node, place, rules, faults)
        if settings is not None and are_known:
            found.append((_exception(settings, node, place, max_days), node))
    return ReadExceptions(tuple(found), tuple(node.plain() for _, node in found))


def _exception(one: ExceptionSettings, node: YamlNode, place: KeyPath, max_days: int) -> PolicyException:
    end = read_instant(one.until)
    begins = read_instant(one.from_).begins if one.from_ is not None else float("-inf")
    weekly = one.weekly.weekly if one.weekly is not None else None
    return PolicyException(
        one.name,
        tuple(dict.fromkeys(one.namespaces)),
        one.match.match,
        tuple(dict.fromkeys(one.rules or ())),
        Mode(one.mode),
        one.settings or {},
        Period(begins, end.ends, end.text, weekly, most_ahead(end, max_days)),
        one.reason,
        one.ticket or "",
        one.owner or "",
        node.line,
        mapping_at(node, ()).get("until", node).line,
        place,
    )


def most_ahead(end: Instant, max_days: int) -> float:
    """How many seconds ahead an end may be: that of a day may be at the end of the last day."""
    return max_days * DAY_SECONDS + (end.ends - end.begins)


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


def _settings(node: YamlNode, place: KeyPath, schema: Schema, faults: Faults) -> ExceptionSettings | None:
    try:
        return ExceptionSettings.model_validate_json(json.dumps(node.plain()), by_alias=True, by_name=False)
    except ValidationError as error:
        for detail in details_of(error):
            _record(node, place, detail, schema, faults)
    return None


def _record(root: YamlNode, place: KeyPath, detail: ErrorDetails, schema: Schema, faults: Faults) -> None:
    key, node = locate(root, detail["loc"], detail["type"] == "missing")
    faults.add(node.file, node.line, (*place, *key), message_for(detail, part_at(schema, place), key, node))


def _check_rules(node: YamlNode, place: KeyPath, rules: Sequence[Rule], faults: Faults) -> bool:
    """Add a fault for each unknown rule; whether all are known."""
    known = {rule.key for rule in rules}
    unknown = [one for one in _named_rules(node) if one[1] not in known]
    for key, name, line in unknown:
        faults.add(node.file, line, (*place, *key), unknown_key(name, known, "rule"))
    return not unknown


def _named_rules(node: YamlNode) -> Iterator[tuple[KeyPath, str, int]]:
    """Place, name and line of each rule that an exception names."""
    listed = node.value.get("rules") if isinstance(node.value, dict) else None
    for index, one in enumerate(listed.value if listed is not None and isinstance(listed.value, list) else ()):
        if isinstance(one.value, str):
            yield ("rules", index), one.value, one.line
    for name, one in mapping_at(node, ("settings",)).items():
        yield ("settings", name), name, one.line


def _null_fault(path: KeyPath) -> str:
    if path == EXCEPTIONS_IN_FILE:
        return "is empty; write a list, or [] for no exceptions"
    return "is empty; write a value, or remove the line"
