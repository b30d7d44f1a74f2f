"""The report as Markdown: short, in order, and with no text of a manifest as anything but text."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.audit.reports.any_report import NASTY, REPORTS, SOME
from tests.audit.sample_report import HOSTILE, TRAINER, empty, sample
from webhook.audit.report import AuditFinding, AuditReport, ChangedInjection, Comparison, Level, SourceLine
from webhook.audit.reports import as_markdown
from webhook.audit.reports.as_markdown import MOST, code
from webhook.outcome import printable

PARSER = MarkdownIt("commonmark").enable("table")
OURS = re.compile(r"<details><summary>[A-Za-z ]+(: [\d,]+( findings?)?)?</summary>|</details>")
PLAIN = re.compile(r"[\w ,.:;()|-]*")
"""What may stand outside of code spans: words and numbers of the report itself. A pipe only comes from a code span."""
FOUND = next(finding for finding in sample().findings if finding.source.file == "manifests/nightly.yaml")


def tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield from token.children if token.children is not None else [token]


def with_findings(*findings: AuditFinding) -> AuditReport:
    return replace(empty(), findings=findings)


def assert_harmless(text: str) -> None:
    for token in tokens(text):
        assert token.type not in {"link_open", "image", "heading_open", "fence", "code_block", "blockquote_open"}
        if token.type == "html_inline":
            assert token.content == "<br>"
        elif token.type == "html_block":
            assert all(OURS.fullmatch(line) for line in token.content.split("\n") if line)
        elif token.type == "text":
            assert PLAIN.fullmatch(token.content), token.content


@SOME
@given(REPORTS)
def test_any_text_is_nothing_but_text(report: AuditReport) -> None:
    text = as_markdown.render(report)
    assert len(text) <= MOST
    assert_harmless(text)
    text.encode()  # no half of a surrogate pair is left


@SOME
@given(REPORTS)
def test_every_row_has_the_cells_of_its_head(report: AuditReport) -> None:
    """Counted as GitHub splits rows: at each pipe that no backslash stands before."""
    pipes = 0
    previous = ""
    for line in as_markdown.render(report).split("\n"):
        if line.startswith("|"):
            pipes = pipes if previous.startswith("|") else line.count("|")
            assert len(re.findall(r"(?:\\.|[^|\\])*\|", line)) == line.count("|") == pipes
        previous = line


@pytest.mark.parametrize("text", [pytest.param(text, id=ascii(text)[:24]) for text in NASTY if text.strip()])
def test_a_text_is_read_in_code_spans_as_it_is(text: str) -> None:
    row = f"| a |\n| --- |\n| {code(text)} |\n"
    cell = next(token for token in reversed(PARSER.parse(row)) if token.type == "inline")
    assert {child.type for child in cell.children} <= {"code_inline", "text"}
    assert "".join(child.content for child in cell.children) == printable(text)


def test_the_first_line_says_it_all() -> None:
    assert as_markdown.render(sample()).split("\n")[0] == (
        "**GPU policy audit** of 1,200 pods, 340 workloads, 7 other objects: 4 would be refused, 2 only warned, 2 "
        "completed; 3 entries could not be read."
    )


def test_an_audit_that_found_nothing_is_short() -> None:
    assert as_markdown.render(empty()) == (
        "**GPU policy audit** of 0 pods, 0 workloads: 0 would be refused, 0 only warned, 0 completed.\n\n"
        "Policies: `policies` (`000000000000`), 2026-03-09 06:30:05 UTC.\n"
    )


def test_a_finding_is_a_row() -> None:
    rows = as_markdown.render(with_findings(FOUND)).split("\n")
    assert (
        "| `CronJob default/nightly` | `gpuLimits` | `manifests/nightly.yaml:14` | "
        "`pod template (1 pod, 4 GPUs): spec.jobTemplate.spec.template.spec.containers[main].resources: nvidia.com/gpu "
        "is 4 in requests but missing in limits; GPUs are allocated from limits.` | `Move the 4 to resources.limits.` "
        "| `policy _default, _default.yaml:9` |"
    ) in rows


def test_a_report_that_is_too_long_is_cut_and_says_how_much_is_left_out() -> None:
    findings = tuple(replace(FOUND, level=level, message=f"{HOSTILE} {n}") for level in Level for n in range(2_000))
    text = as_markdown.render(with_findings(*findings))
    assert MOST - 2_000 < len(text.encode()) <= MOST
    assert text.count("<details>") == text.count("</details>")
    rows = len(re.findall(r"^\| `+ ?CronJob", text, re.MULTILINE))
    left_out = 4 * 2_000 - rows
    assert f"\n{left_out:,} rows are left out" in text
    assert text.endswith("because a comment holds no more; `gpu-policy audit --format json` has all.\n")


def test_no_part_of_a_report_takes_the_room_of_the_others() -> None:
    """However much of one there is, whether somebody breaks thousands of files or frees thousands of workloads."""
    report = sample()
    assert report.comparison is not None
    parts = {
        "errors": report.errors * 2_000,
        "comparison": replace(report.comparison, no_longer_refused=report.comparison.no_longer_refused * 2_000),
    }
    folds = re.findall("<summary>([A-Za-z ]+)", as_markdown.render(report))
    for name, part in parts.items():
        text = as_markdown.render(replace(report, **{name: part}))
        assert re.findall("<summary>([A-Za-z ]+)", text) == folds
        assert "| Namespace | Rule | Objects refused |" in text


def test_a_row_that_is_too_long_hides_none_of_those_after_it() -> None:
    changed = [
        ChangedInjection(TRAINER, SourceLine(), None, (), (text,) * many) for text, many in (("x", 9_999), ("y", 1))
    ]
    comparison = Comparison("old", "0" * 64, (), (), tuple(changed))
    text = as_markdown.render(replace(empty(), comparison=comparison))
    assert "|  | `+ y` |" in text
    assert text.endswith(
        "1 row is left out, because a comment holds no more; `gpu-policy audit --format json` has all.\n"
    )


def test_one_long_text_does_not_fill_the_page() -> None:
    text = as_markdown.render(with_findings(replace(FOUND, message="é" * 10**6), replace(FOUND, message="last")))
    assert "resources: last.`" in text
    assert "left out" not in text


def test_refusals_are_counted_by_namespace_and_rule_most_first() -> None:
    def refused(namespace: str, name: str) -> AuditFinding:
        owner = replace(TRAINER, namespace=namespace, name=name)
        return replace(FOUND, owner=owner, object=owner)

    text = as_markdown.render(with_findings(refused("a", "x"), refused("b", "x"), refused("b", "y"), refused("b", "y")))
    table = [line for line in text.split("\n") if re.fullmatch(r"\| `[ab]` \| .*", line)]
    assert table == ["| `b` | `gpuLimits` | 2 |", "| `a` | `gpuLimits` | 1 |"]
