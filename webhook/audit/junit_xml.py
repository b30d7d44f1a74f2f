"""JUnit XML as CI systems read it: what Jenkins, GitLab and Ant's schema have in common, with every count.

They differ in where they look for a text, so `message` and the text of an element are both written. Nothing is timed,
and times are 0, which Ant's schema demands; a timestamp is in UTC and does not say so, which is its form there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong: a short `type`, one line, and the whole `text`."""

    type: str
    message: str
    text: str


@dataclass(frozen=True, slots=True)
class JUnitCase:
    """One test. It passed where it has neither failures nor errors.

    `skipped` is a remark in the one place where every consumer shows one that fails nothing, `output` what is told of
    the case besides. `file` is a path from where the command runs, `line` counts from 1; empty and 0 where there is
    none. Of two cases with the same `classname` and `name` GitLab shows the first.
    """

    classname: str
    name: str
    file: str = ""
    line: int = 0
    failures: tuple[Problem, ...] = ()
    errors: tuple[Problem, ...] = ()
    skipped: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class JUnitSuite:
    """Cases that belong together. `timestamp` is when they ran, with its time zone."""

    name: str
    cases: tuple[JUnitCase, ...]
    timestamp: datetime | None = None


def render(name: str, suites: Iterable[JUnitSuite]) -> str:
    """The whole document in plain ASCII, with a newline at its end. Text that XML cannot carry is replaced."""
    suites = tuple(suites)
    root = Element("testsuites", _attributes(name, [case for suite in suites for case in suite.cases]))
    for suite in suites:
        _suite(root, suite)
    indent(root)
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    content: bytes = tostring(root, encoding="us-ascii", xml_declaration=False)
    return declaration + content.decode("ascii") + "\n"


def _attributes(name: str, cases: Iterable[JUnitCase]) -> dict[str, str]:
    cases = tuple(cases)
    return {
        "name": _carried(name),
        "tests": str(len(cases)),
        "failures": str(sum(bool(case.failures) and not case.errors for case in cases)),
        "errors": str(sum(bool(case.errors) for case in cases)),
        "skipped": str(sum(_is_skipped(case) for case in cases)),
        "time": "0",
    }


def _is_skipped(case: JUnitCase) -> bool:
    return bool(case.skipped) and not case.failures and not case.errors


def _suite(root: Element, suite: JUnitSuite) -> None:
    attributes = _attributes(suite.name, suite.cases)
    if suite.timestamp is not None:
        attributes["timestamp"] = suite.timestamp.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    element = SubElement(root, "testsuite", attributes)
    for case in suite.cases:
        _case(element, case)


def _case(suite: Element, case: JUnitCase) -> None:
    attributes = {"classname": _carried(case.classname), "name": _carried(case.name), "time": "0"}
    element = SubElement(suite, "testcase", attributes)
    if case.file:
        element.set("file", _carried(case.file))
    if case.line > 0:
        element.set("line", str(case.line))
    if _is_skipped(case):
        text = _carried(case.skipped)
        SubElement(element, "skipped", {"message": _one_line(text)}).text = text
    for tag, problem in _problems(case):
        head = {"type": _carried(problem.type), "message": _one_line(_carried(problem.message))}
        SubElement(element, tag, head).text = _carried(problem.text)
    if case.output:
        SubElement(element, "system-out").text = _carried(case.output)


def _problems(case: JUnitCase) -> Iterator[tuple[str, Problem]]:
    yield from (("error", problem) for problem in case.errors)
    yield from (("failure", problem) for problem in case.failures)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _carried(text: str) -> str:
    """`text` without what no XML 1.0 document can hold, not even escaped; line ends as XML parsers give them back."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isprintable() else "".join(c if _is_character(c) else _REPLACEMENT for c in text)


def _is_character(c: str) -> bool:
    """Whether XML 1.0 allows it in a document (production 2 of the specification)."""
    return c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000"
