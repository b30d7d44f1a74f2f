"""What the page draws and counts is what the report says."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.audit.reports.large_report import large
from tests.audit.reports.parsed_page import ParsedPage
from tests.audit.sample_report import empty, sample, sample_of_files
from webhook.audit.documents import DocumentError
from webhook.audit.report import AuditReport, Comparison, Counts, Level
from webhook.audit.reports.html.page import MOST_SHOWN, render

REPORTS = [
    pytest.param(sample, id="of a cluster, with everything"),
    pytest.param(sample_of_files, id="of files"),
    pytest.param(empty, id="of nothing"),
    pytest.param(lambda: large(300), id="of a large cluster"),
]


@pytest.mark.parametrize("report", REPORTS)
def test_the_totals_are_the_counts_of_the_report(report: Callable[[], AuditReport]) -> None:
    counts = report().counts
    page = ParsedPage(render(report()))
    spans = [one for one in page.all("span") if "data-total" in one.attributes]
    shown = {one.attributes["data-total"]: int(one.text.replace(",", "")) for one in spans}
    rest = counts.pods + counts.workloads - counts.refused - counts.warned - counts.completed
    assert shown == {"refuse": counts.refused, "warn": counts.warned, "complete": counts.completed, "rest": rest}


def test_what_is_newly_refused_is_marked() -> None:
    report = sample()
    assert report.comparison is not None
    rows = ParsedPage(render(report)).data
    marked = [finding for finding, row in zip(report.findings, rows, strict=True) if row["change"] == "new"]
    assert marked == list(report.comparison.newly_refused)


@pytest.mark.parametrize(
    ("counts", "levels", "sentence"),
    [
        pytest.param(Counts(3, 2, 0, 1), [Level.REFUSE], "1 of 5 objects would be refused", id="refused"),
        pytest.param(
            Counts(3, 0), [Level.REFUSE],
            "None of 3 objects would be refused, but 1 other finding is a refusal",
            id="a quota that is passed",
        ),
        pytest.param(
            Counts(2000, 0, 0, 0, 1500), [Level.WARN],
            "None of 2,000 objects would be refused, 1,500 would get a warning", id="warned",
        ),
        pytest.param(
            Counts(3, 2, refused=2, claims=4), [Level.REFUSE],
            "2 of 9 objects would be refused", id="claims, too",
        ),
        pytest.param(Counts(claims=1), [], "None of 1 object would be refused", id="a claim alone"),
        pytest.param(Counts(1), [], "None of 1 object would be refused", id="fine"),
        pytest.param(Counts(0, 0, 4), [], "No pod and no workload was looked at", id="others only"),
    ],
)  # fmt: skip
def test_the_page_says_the_gravest_first(counts: Counts, levels: list[Level], sentence: str) -> None:
    found = tuple(replace(sample().findings[0], level=level) for level in levels)
    page = ParsedPage(render(replace(empty(), counts=counts, findings=found)))
    assert page.one("h1").text == sentence
    assert page.one("title").text == f"{sentence} · GPU policy audit"


def test_errors_are_named_and_said_at_the_top() -> None:
    text = ParsedPage(render(replace(empty(), errors=(DocumentError("a.yaml", 1, 7, "not YAML"),)))).one("main").text
    assert "1 input could not be read" in text
    assert "a.yaml:7: not YAML" in text
    assert "Nothing was found in what could be read" in text


def test_what_was_found_comes_before_what_could_not_be_read_and_before_the_cluster() -> None:
    """A reader of a report with a thousand broken files sees first what to mend; a line at the top tells the rest."""
    errors = tuple(DocumentError("a.yaml", at, at, "not YAML") for at in range(1, 40))
    page = ParsedPage(render(replace(sample(), errors=errors)))
    sections = [one.attributes["id"] for one in page.all("section") if "id" in one.attributes]
    before = ["newly-refused", "no-longer-refused", "changed", "refusals"]
    assert sections == ["overview", *before, "findings", "errors", "injected", "pending", "capacity", "quotas", "rules"]
    text = page.one("main").text
    assert text.index("39 inputs could not be read") < text.index("Refusals") < text.index("a.yaml:7")


def test_long_lists_say_how_many_they_leave_out() -> None:
    finding = sample().findings[1]
    many = tuple(replace(finding, line=line) for line in range(1, MOST_SHOWN + 11))
    comparison = Comparison("old", "0" * 64, (), many, ())
    errors = tuple(DocumentError("a.yaml", at, at, "not YAML") for at in range(1, MOST_SHOWN + 3))
    found = tuple(replace(finding, field=str(at)) for at in range(MOST_SHOWN + 1))
    text = ParsedPage(render(replace(empty(), findings=found, comparison=comparison, errors=errors))).one("main").text
    assert "And 10 more" in text
    assert "And 2 more" in text
    assert f"The first {MOST_SHOWN} of {MOST_SHOWN + 1} findings" in text


def test_ten_thousand_findings_are_a_page_of_two_megabytes_at_most() -> None:
    assert len(render(large(10_000)).encode()) < 2_000_000


def test_quotas_are_shown_as_exact_numbers_with_a_meter() -> None:
    page = ParsedPage(render(sample()))
    text = " ".join(page.one("section", id="quotas").text.split())
    assert "namespace team-nlp GPUs 10 8 125% 2 over 3 10 enforce" in text
    assert "shared research GPUs 12 3/7 24 52% 11 4/7 free 0 29 warn" in text
    assert [one.attributes["value"] for one in page.all("meter")][:2] == ["1.25", "1.0"]
