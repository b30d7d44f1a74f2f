"""What the page draws and counts is what the report says."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.audit.reports.large_report import large
from tests.audit.reports.parsed_page import ParsedPage
from tests.audit.sample_report import empty, sample, sample_of_files
from webhook.audit.documents import DocumentError
from webhook.audit.quota_report import LimitUsage, ReportedQuota
from webhook.audit.report import AuditFinding, AuditReport, Comparison, Counts, Level, ObjectReference, PodGroup
from webhook.audit.reports.html import figures
from webhook.audit.reports.html.figures import bar, quota_bar, quota_style
from webhook.audit.reports.html.page import MOST_SHOWN, MOST_WITHOUT_SCRIPT, pods, render
from webhook.outcome import printable

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


@pytest.mark.parametrize("key", ["namespace", "rule"])
@pytest.mark.parametrize("report", REPORTS)
def test_the_charts_have_every_refusal_and_every_warning(report: Callable[[], AuditReport], key: str) -> None:
    levels = Counter(finding.level for finding in report().findings)
    ranked = figures.by_namespace(report().findings) if key == "namespace" else figures.by_rule(report().findings)
    assert sum(one.refusals for one in ranked) == levels[Level.REFUSE]
    assert sum(one.warnings for one in ranked) == levels[Level.WARN]
    assert all((a.refusals, a.warnings) >= (b.refusals, b.warnings) for a, b in pairwise(ranked))


@pytest.mark.parametrize("report", REPORTS)
def test_every_finding_is_in_the_table_in_its_order(report: Callable[[], AuditReport]) -> None:
    rows = ParsedPage(render(report())).data
    expected = [(f.level, f.rule, printable(f.message), f.mode) for f in report().findings]
    assert expected == [(row["level"], row["rule"], row["message"], row["mode"]) for row in rows]


def test_what_is_newly_refused_is_marked() -> None:
    report = sample()
    assert report.comparison is not None
    rows = ParsedPage(render(report)).data
    marked = [finding for finding, row in zip(report.findings, rows, strict=True) if row["change"] == "new"]
    assert marked == list(report.comparison.newly_refused)


@pytest.mark.parametrize(
    ("counts", "levels", "sentence"),
    [
        pytest.param(Counts(3, 2, 0, 1), [Level.REFUSE], "1 of 5 pods and workloads would be refused", id="refused"),
        pytest.param(
            Counts(3, 0), [Level.REFUSE],
            "None of 3 pods and workloads would be refused, but 1 other finding is a refusal",
            id="a quota that is passed",
        ),
        pytest.param(
            Counts(2000, 0, 0, 0, 1500), [Level.WARN],
            "None of 2,000 pods and workloads would be refused, 1,500 would get a warning", id="warned",
        ),
        pytest.param(
            Counts(3, 2, refused=2, claims=4), [Level.REFUSE],
            "2 of 9 pods, workloads and resource claims would be refused", id="claims, too",
        ),
        pytest.param(Counts(claims=1), [], "None of 1 resource claim would be refused", id="a claim alone"),
        pytest.param(Counts(1), [], "None of 1 pod or workload would be refused", id="fine"),
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
    assert re.search(r"a\.yaml:7\s+not YAML", text)
    assert "Nothing was found in what could be read" in text


def test_what_was_found_comes_before_what_could_not_be_read_and_before_the_cluster() -> None:
    """A reader of a report with a thousand broken files sees first what to mend; a line at the top tells the rest."""
    errors = tuple(DocumentError("a.yaml", at, at, "not YAML") for at in range(1, 40))
    page = ParsedPage(render(replace(sample(), errors=errors)))
    sections = [one.attributes["id"] for one in page.all("section") if "id" in one.attributes]
    assert sections == ["overview", "comparison", "findings", "errors", "pending", "capacity", "quotas"]
    linked = [one.attributes["href"].removeprefix("#") for one in page.all("a")]
    assert [one for one in dict.fromkeys(linked) if one in sections] == ["findings", *sections[:2], *sections[3:]]
    text = page.one("main").text
    assert text.index("39 inputs could not be read") < text.index("Where it fails") < text.index("a.yaml:7")


def test_what_was_not_read_from_a_file_has_no_file() -> None:
    """Of a cluster the message says what is meant, and `-` is standard input."""
    errors = (DocumentError("", 0, None, "Pod a/b: no map"), DocumentError("-", 1, 7, "not YAML"))
    page = ParsedPage(render(replace(empty(), errors=errors)))
    assert [one.text for one in page.all("code")] == ["policies", "standard input:7"]


def test_one_of_each_is_told_as_one() -> None:
    page = ParsedPage(render(replace(empty(), counts=Counts(1, 1, 1))))
    assert page.all("dd")[0].text == "Manifests: 1 pod, 1 workload, 1 other object"


def test_a_shared_quota_of_many_namespaces_names_the_first_ones() -> None:
    spaces = tuple(f"team-{number:02}" for number in range(99))
    shared_quota = ReportedQuota("research", "shared", "warn", spaces, LimitUsage("", "8", "1"), (), ())
    text = ParsedPage(render(replace(empty(), quotas=(shared_quota,)))).one("main").text
    assert "team-08, team-09 and 89 more" in text
    assert "team-10" not in text


def test_a_namespace_counts_under_its_own_name() -> None:
    quota = sample().findings[0]
    assert quota.owner.kind == "Namespace"
    assert [one.name for one in figures.by_namespace([quota])] == ["team-nlp"]


def test_a_link_of_a_chart_names_what_the_table_is_filtered_by() -> None:
    finding = replace(sample().findings[1], owner=ObjectReference("a&b=c #%?\x1b", "Pod", "x", "v1"))
    assert figures.by_namespace([finding])[0].link == "#findings?namespace=a%26b%3Dc%20%23%25%3F%3F&level=refuse%2Cwarn"


def test_the_worst_workloads_have_most_refusals_then_most_gpus() -> None:
    finding = sample().findings[1]

    def refused(name: str, gpus: int, **other: object) -> AuditFinding:
        owner = ObjectReference("n", "Job", name, "batch/v1")
        return replace(finding, owner=owner, pod_group=PodGroup("", 2, gpus), **other)

    found = [
        refused("small", 1),
        refused("large", 8),
        refused("twice", 1),
        refused("twice", 1, rule="cudaDriver"),
        refused("warned", 64, level=Level.WARN),
    ]
    worst = figures.worst(found)
    assert [(one.owner.name, one.refusals, one.gpus) for one in worst] == [
        ("twice", 2, 2),
        ("large", 1, 16),
        ("small", 1, 2),
    ]
    assert worst[0].rules == ("cudaDriver", "gpuLimits")


def test_long_lists_say_how_many_they_leave_out() -> None:
    finding = sample().findings[1]
    many = tuple(replace(finding, line=line) for line in range(1, MOST_SHOWN + 11))
    comparison = Comparison("old", "0" * 64, (), many, ())
    errors = tuple(DocumentError("a.yaml", at, at, "not YAML") for at in range(1, MOST_SHOWN + 3))
    found = tuple(replace(finding, field=str(at)) for at in range(MOST_WITHOUT_SCRIPT + 1))
    text = ParsedPage(render(replace(empty(), findings=found, comparison=comparison, errors=errors))).one("main").text
    assert "And 10 more" in text
    assert "And 2 more" in text
    assert f"The first {MOST_WITHOUT_SCRIPT} of {MOST_WITHOUT_SCRIPT + 1} findings" in text


def test_ten_thousand_findings_are_a_page_of_two_megabytes_at_most() -> None:
    assert len(render(large(10_000)).encode()) < 2_000_000


@pytest.mark.parametrize(
    ("pod_group", "text"),
    [
        pytest.param(None, "", id="not said"),
        pytest.param(PodGroup("", 1, 1), "1 pod with 1 GPU", id="one"),
        pytest.param(PodGroup("Worker", 4, 8), "Worker: 4 pods with 8 GPUs each, 32 GPUs", id="a group"),
        pytest.param(PodGroup("", None, 2), "any number of pods with 2 GPUs each", id="as many as wanted"),
        pytest.param(PodGroup("", 0, 2), "0 pods with 2 GPUs each, 0 GPUs", id="none"),
        pytest.param(PodGroup("", 2000, 1), "2,000 pods with 1 GPU each, 2,000 GPUs", id="many"),
    ],
)
def test_pods_are_told_in_words(pod_group: PodGroup | None, text: str) -> None:
    assert pods(pod_group) == text


@pytest.mark.parametrize(
    ("used", "hard", "style", "widths"),
    [
        pytest.param("0", "8", "some", [], id="unused"),
        pytest.param("1/1000", "8", "some", [("some", "0.600%")], id="hardly used"),
        pytest.param("4", "8", "some", [("some", "50.000%")], id="half"),
        pytest.param("2 3/7", "3", "some", [("some", "80.952%")], id="a fraction"),
        pytest.param("9", "10", "near", [("near", "90.000%")], id="nearly full"),
        pytest.param("8", "8", "full", [("full", "100.000%")], id="full"),
        pytest.param("10", "8", "over", [("full", "80.000%"), ("over", "20.000%")], id="over"),
        pytest.param("1", "0", "over", [("over", "100.000%")], id="over none at all"),
        pytest.param("0", "0", "full", [("full", "100.000%")], id="none at all"),
        pytest.param("many", "8", "unknown", [], id="no number"),
        pytest.param("1e999999999", "8", "unknown", [], id="a number too long to be read"),
    ],
)  # fmt: skip
def test_the_bar_of_a_quota_shows_how_full_it_is(
    used: str, hard: str, style: str, widths: list[tuple[str, str]]
) -> None:
    part = LimitUsage("", hard, used)
    assert quota_style(part) == style
    assert [(one.style, one.width) for one in quota_bar(part)] == widths


def test_quotas_are_shown_as_exact_numbers_the_fullest_first() -> None:
    page = ParsedPage(render(sample()))
    names = [one.text for one in page.all("h3")]
    assert names.index("team-nlp") < names.index("research")
    amounts = ["".join(one.text.split()) for one in page.all("span", **{"class": "amount"})]
    assert amounts[:3] == ["10of8", "8of8", "123/7of24"]
    states = [one.text.strip() for one in page.all("span", **{"class": "state"})]
    assert states[:3] == ["2 over, 3 by claims", "full", "11 4/7 free, 29 units"]


@example(amounts=[1321, 1235, 21708, 392335, 90, 1700], spare=683)  # the last segment would be 0.000% wide
@given(amounts=st.lists(st.integers(0, 10**6), max_size=6), spare=st.integers(0, 10**6))
def test_a_bar_never_ends_outside_itself(amounts: list[int], spare: int) -> None:
    segments = bar([("some", amount) for amount in amounts], sum(amounts) + spare)
    ends = [float(one.start[:-1]) + float(one.width[:-1]) for one in segments]
    assert all(0 < end < 100.0015 for end in ends)  # both are rounded to thousandths
    assert all(float(one.width[:-1]) > 0 for one in segments)


def test_a_segment_is_as_wide_as_its_share() -> None:
    assert [one.width for one in bar([("a", 1), ("b", Fraction(1, 2))], 2)] == ["50.000%", "25.000%"]


def test_units_stand_beside_gpus_where_some_are_parts_of_a_gpu() -> None:
    def heads(report: AuditReport) -> list[str]:
        section = render(report).partition('id="capacity"')[2].partition("</thead>")[0]
        return re.findall(r"<th [^>]*>([^<]*)</th>", section)

    assert heads(sample()) == ["Model", "Driver", "Newest CUDA", "Resource", "One unit", "Nodes", "Units", "GPUs"]
    whole = replace(sample(), capacity=sample().capacity[:1])
    assert heads(whole) == ["Model", "Driver", "Newest CUDA", "Resource", "Nodes", "GPUs"]
    assert figures.gpus(sample().capacity) == [
        ("nvidia.com/gpu", 42, "34 1/2"),
        ("amd.com/gpu", 8, ""),
        ("nvidia.com/mig-1g.5gb", 7, "1"),
    ]
    assert [one.physical for one in figures.nodes(sample().capacity)] == ["32", "2 1/2", "8", "1"]
