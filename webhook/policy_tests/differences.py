"""Compares what a test expects of pods with what happened to them.

Maps and lists may hold more than is expected, unless the expectation is an empty map or list. An entry of a list that
has a name is compared with the entry of that name; any other entry has to match some entry of the list. `null` expects
that there is no value.

A `Subject` is what an expectation is about: a pod, the pods that a workload makes, or one group of these pods.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.audit.review_objects import ReviewedObject
from webhook.engine import TemplateOutcome
from webhook.model.edits import apply
from webhook.model.shape import shortened
from webhook.model.wording import few
from webhook.outcome import Finding, printable
from webhook.policy_tests.format import Expectation, ExpectedFinding


@dataclass(frozen=True, slots=True)
class Completion:
    """A pod before and after rules mutated it; `about` is the group of the pod if there are several."""

    about: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """The findings about one resource, or about one group of its pods, and the pods before and after mutation."""

    title: str
    findings: tuple[Finding, ...]
    completions: tuple[Completion, ...]

    @property
    def refusals(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.warns)


def subject_of(item: ReviewedObject, without: Collection[str] = ()) -> Subject:
    """The whole resource, but not the findings about the groups `without`."""
    left_out = {finding for one in item.pods if one.template.group in without for finding in one.findings}
    findings = tuple(finding for finding in item.findings if finding not in left_out)
    if (outcome := item.outcome) is None:
        return Subject(item.title, findings, tuple(_completions(item.pods)))
    pod = Completion("", item.document.object, outcome.object, outcome.injected)
    return Subject(item.title, findings, (pod,))


def group_of(item: ReviewedObject, group: str) -> Subject:
    """The pods of one group of a workload."""
    pods = [one for one in item.pods if one.template.group == group]
    findings = tuple(dict.fromkeys(finding for one in pods for finding in one.findings))
    return Subject(f"{item.title}, pods of {group}", findings, tuple(_completions(pods)))


def names_of(item: ReviewedObject) -> tuple[str, ...]:
    """The names by which a test may refer to the resource."""
    kind = item.document.kind
    return (f"{kind}/{item.name}", f"{kind}/{item.namespace}/{item.name}")


def _completions(pods: Sequence[TemplateOutcome]) -> Iterator[Completion]:
    for one in pods:
        draft = apply(one.template.pod, (edit for injection in one.injections for edit in injection.edits))
        about = one.template.group if len(pods) > 1 else ""
        rules = tuple(injection.rule for injection in one.injections)
        yield Completion(about, one.template.pod, draft.object, rules)


Mismatch = tuple[str, str, str]
"""A place in an object, the expected value, and the value that was found."""


def lacking(expected: Any, found: Any, place: str = "") -> Iterator[Mismatch]:
    """The places at which `found` lacks the expected value.

    >>> pod = {"spec": {"containers": [{"name": "trainer", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}]}}
    >>> env = [{"name": "NCCL_DEBUG", "value": "WARN"}]
    >>> next(lacking({"spec": {"containers": [{"name": "trainer", "env": env}]}}, pod))
    ('spec.containers[trainer].env[NCCL_DEBUG].value', '"WARN"', '"INFO"')
    """
    if expected and isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            yield from lacking(value, found.get(key), _below(place, key))
    elif expected and isinstance(expected, list) and isinstance(found, list):
        for entry in expected:
            yield from _entry_lacking(entry, found, place)
    elif expected != found or isinstance(expected, bool) != isinstance(found, bool):  # in JSON, 1 is 1.0 but not true
        yield place, shown(expected), shown(found)


def own(expected: Any, original: Any, place: str = "") -> Iterator[Mismatch]:
    """The places at which `original`, the pod before mutation, already has the value that should be injected.

    Only values count, not the maps around them, and not the name that identifies an entry of a list.
    """
    if isinstance(expected, dict) and isinstance(original, dict) and expected:
        for key, value in expected.items():
            yield from own(value, original.get(key), _below(place, key))
    elif isinstance(expected, list) and isinstance(original, list) and expected:
        for entry in expected:
            yield from _entry_own(entry, original, place)
    elif expected is not None and type(expected) is type(original) and not any(lacking(expected, original)):
        yield place, f"{shown(expected)} injected", f"{shown(original)} in the resource itself"


def shown(value: Any) -> str:
    """A value in one line; `nothing` for None.

    >>> shown(None), shown({"a": [1, "b"]})
    ('nothing', '{"a": [1, "b"]}')
    """
    text = "nothing" if value is None else printable(json.dumps(value, ensure_ascii=False, default=str))
    return shortened(text, 300)


def _entry_lacking(entry: Any, found: Sequence[Any], place: str) -> Iterator[Mismatch]:
    name = _name(entry)
    named = found if name is None else [one for one in found if _name(one) == name]
    if any(_holds(one, entry) for one in named):
        return
    if name is None:
        yield place, shown(entry), shown(found)
    elif named:
        yield from lacking(entry, named[-1], f"{place}[{name}]")
    else:
        names = [other for one in found if (other := _name(one)) is not None]
        yield f"{place}[{name}]", shown(entry), f"nothing; there are {few(names)}" if names else "nothing"


def _entry_own(entry: Any, original: Sequence[Any], place: str) -> Iterator[Mismatch]:
    name = _name(entry)
    if name is None:
        if (known := next((one for one in original if _holds(one, entry)), None)) is not None:
            yield place, f"{shown(entry)} injected", f"{shown(known)} in the resource itself"
        return
    rest = {key: value for key, value in entry.items() if key != "name"}
    for one in original:
        if _name(one) == name:
            yield from own(rest or entry, one, f"{place}[{name}]")


def _holds(found: Any, expected: Any) -> bool:
    return next(lacking(expected, found), None) is None


def _name(entry: Any) -> str | None:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def _below(place: str, key: str) -> str:
    if not key.replace("_", "").isalnum():
        return f"{place}[{key}]"
    return f"{place}.{key}" if place else key


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. `about` is the resource; `place` is the key of the expectation, and the place in the pod."""

    about: str
    place: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.about}: {self.place}: expected {self.expected}; found {self.found}"


def differences(expected: Expectation, subject: Subject) -> Iterator[Difference]:
    """All differences between the expectation and the subject; none if the expectation is empty."""
    if expected.is_empty:
        return
    yield from (Difference(subject.title, *mismatch) for mismatch in _verdict(expected, subject))
    if subject.refusals:
        return
    for pod in subject.completions:
        about = f"{subject.title}, pods of {pod.about}" if pod.about else subject.title
        yield from (Difference(about, *mismatch) for mismatch in _in_pod(expected, pod))


def _verdict(expected: Expectation, subject: Subject) -> Iterator[Mismatch]:
    if expected.refused or not expected.is_refusal:
        place = "refused" if expected.is_refusal else "allowed"
        for wanted, found in _against(expected.refused or (), subject.refusals, subject.findings, "refused"):
            yield place, wanted, found
    elif not subject.refusals:
        yield "allowed", "refused", "; ".join(["allowed", *map(_with_word, subject.findings)])
    if expected.warned is not None:
        for wanted, found in _against(expected.warned, subject.warnings, subject.findings, "warned"):
            yield "warned", wanted, found


def _against(
    expected: Sequence[ExpectedFinding], found: Sequence[Finding], every: Sequence[Finding], word: str
) -> Iterator[tuple[str, str]]:
    """Pairs of an expected finding and what was found instead, then pairs for findings that were not expected.

    An expected finding is paired with an unexpected one of its rule, if there is one.
    """
    unexpected = [finding for finding in found if not any(_meets(finding, one) for one in expected)]
    for one in expected:
        if any(_meets(finding, one) for finding in found):
            continue
        close = next((finding for finding in unexpected if finding.rule == one.rule), None)
        if close is not None:
            unexpected.remove(close)
        others = "; ".join(_with_word(finding) for finding in every if finding.rule == one.rule)
        yield _described(one), str(close) if close is not None else others or f"not {word} by it"
    for finding in unexpected:
        yield f"{word} by nothing{' else' if expected else ''}", str(finding)


def _meets(finding: Finding, expected: ExpectedFinding) -> bool:
    if finding.rule != expected.rule or (expected.field is not None and finding.field != expected.field):
        return False
    return expected.message is None or _in_one_line(expected.message) in _in_one_line(str(finding))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _described(expected: ExpectedFinding) -> str:
    place = f" at {expected.field}" if expected.field is not None else ""
    message = f' saying "{_in_one_line(expected.message)}"' if expected.message is not None else ""
    return printable(f"{expected.rule}{place}{message}")


def _with_word(finding: Finding) -> str:
    word = "refused" if finding.refuses else "warned" if finding.warns else "recorded only"
    return f"{word}: {finding}"


def _in_pod(expected: Expectation, pod: Completion) -> Iterator[Mismatch]:
    """Expected values that the mutated pod lacks or had before, and injections that were not expected."""
    for key, values in (("result", expected.result), ("injected", expected.injected)):
        for place, wanted, there in lacking(values, pod.after) if values is not None else ():
            yield f"{key} {place}", wanted, there
    for place, wanted, there in own(expected.injected, pod.before):
        yield f"injected {place}", wanted, there
    if expected.unchanged is not None and expected.unchanged == bool(pod.rules):
        found = f"injected by {', '.join(pod.rules)}" if pod.rules else "nothing injected"
        yield "unchanged", "nothing injected" if expected.unchanged else "something injected", found
