"""JUnit XML, read by a parser of it and by one of XML."""

from datetime import UTC, datetime, timedelta, timezone
from xml.etree.ElementTree import Element, fromstring

from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase

from tests.audit.reports.any_report import MAYBE_LINES, SOME, TEXTS, lists_of
from tests.golden import each
from webhook.audit.reports.as_junit import JUnitCase, JUnitSuite, Problem, junit_xml

WRONG = Problem("gpuLimits", "asks for 9", "asks for 9; at most 8 are allowed")
BROKEN = Problem("unreadable", "not YAML", "a.yaml:3: not YAML", is_error=True)
CASES = {
    "passed": JUnitCase("a", "passed", output="looked at 3 pods"),
    "failed": JUnitCase("a", "failed", "a.yaml", 7, problems=(WRONG, WRONG)),
    "broken": JUnitCase("a", "broken", problems=(BROKEN,)),
    "failed and broken": JUnitCase("a", "failed and broken", problems=(WRONG, BROKEN)),
    "remarked": JUnitCase("a", "remarked", skipped="would warn\nabout it"),
    "failed with a remark": JUnitCase("a", "failed with a remark", problems=(WRONG,), skipped="and warn"),
}
WHEN = datetime(2026, 3, 9, 7, 30, 5, tzinfo=timezone(timedelta(hours=1)))


def parsed(*suites: JUnitSuite) -> Element:
    return fromstring(junit_xml("all", suites))  # noqa: S314  # our own output


def case(name: str) -> TestCase:
    (suite,) = JUnitXml.fromstring(junit_xml("all", [JUnitSuite("s", (CASES[name],))]).encode())
    (only,) = suite
    assert isinstance(only, TestCase)
    return only


@each(
    "name, results",
    {
        "nothing is a pass": ("passed", []),
        "each failure is one": ("failed", [Failure, Failure]),
        "an error": ("broken", [Error]),
        "both": ("failed and broken", [Error, Failure]),
        "a remark fails nothing": ("remarked", [Skipped]),
        "what fails is not skipped": ("failed with a remark", [Failure]),
    },
)
def test_a_consumer_sees_what_became_of_a_case(name: str, results: list[type]) -> None:
    assert [type(result) for result in case(name).result] == results


def test_counts_are_of_cases_and_each_case_counts_once() -> None:
    root = parsed(JUnitSuite("one", tuple(CASES.values())), JUnitSuite("none", ()))
    counts = {"tests": "6", "failures": "2", "errors": "2", "skipped": "1", "time": "0"}
    assert root.attrib == {"name": "all", **counts}
    assert root[0].attrib == {"name": "one", **counts}
    assert root[1].attrib == {"name": "none", **dict.fromkeys(counts, "0")}


def test_a_timestamp_is_in_utc_without_saying_so() -> None:
    assert parsed(JUnitSuite("s", (), WHEN))[0].get("timestamp") == "2026-03-09T06:30:05"


@each(
    "text, read",
    {
        "control characters": ("a\x00b\x1b", "a�b�"),
        "what is no character": ("\ud800\ufffe", "��"),
        "line ends": ("a\r\nb\rc", "a\nb\nc"),
        "markup": ("<b> & ]]> \"'", "<b> & ]]> \"'"),
        "all other characters": ("é 🚀\t\u202e\x85", "é 🚀\t\u202e\x85"),
    },
)
def test_text_is_read_as_it_was_but_for_what_xml_cannot_carry(text: str, read: str) -> None:
    problem = Problem("t", "m", text)
    root = parsed(JUnitSuite(text, (JUnitCase(text, text, text, problems=(problem,), output=text),)))
    (found,) = root[0]
    assert root[0].get("name") == read
    assert (found.get("classname"), found.get("name"), found.get("file")) == (read, read, read)
    assert [child.text for child in found] == [read, read]


PROBLEMS = st.builds(Problem, TEXTS, TEXTS, TEXTS, st.booleans())
ANY_CASE = st.builds(JUnitCase, TEXTS, TEXTS, TEXTS, MAYBE_LINES.map(lambda n: n or 0), lists_of(PROBLEMS, 4), TEXTS)


@SOME
@given(
    TEXTS, lists_of(st.builds(JUnitSuite, TEXTS, lists_of(ANY_CASE), st.none() | st.datetimes(timezones=st.just(UTC))))
)
def test_whatever_the_texts_say_a_consumer_reads_it(name: str, suites: tuple[JUnitSuite, ...]) -> None:
    text = junit_xml(name, suites)
    assert text.isascii()
    read = JUnitXml.fromstring(text.encode())
    assert [len(suite.cases) for suite in suites] == [len(list(suite)) for suite in read]
