"""The few lines about a report that is in a file: bounded, and no line is one that a runner of CI obeys."""

from dataclasses import replace

from tests.audit.sample_report import LONG, empty, sample, sample_of_files
from webhook.audit.documents import DocumentError
from webhook.audit.report import Level
from webhook.audit.reports.summary import lines_of

OURS = ("refuse: ", "warn: ", "could not be read: ", "The report is in ")


def test_refusals_warnings_and_unreadable_files_are_told_and_the_total() -> None:
    report = sample_of_files()
    *lines, total, place = lines_of(report, "out.sarif")
    for head, expected in (
        ("refuse: ", len(list(report.at(Level.REFUSE)))),
        ("warn: ", len(list(report.at(Level.WARN)))),
        ("could not be read: ", len(report.errors)),
    ):
        assert len([line for line in lines if line.startswith(head)]) == expected
    assert "would be refused" in total
    assert place == "The report is in out.sarif."


def test_a_finding_says_whose_it_is_where_it_was_read_and_what_was_found() -> None:
    (found,) = (one for one in lines_of(sample(), "f") if one.startswith("refuse: CronJob default/nightly"))
    assert found.startswith(
        "refuse: CronJob default/nightly (manifests/nightly.yaml:14): gpuLimits: pod template (1 pod, 4 GPUs): "
        "spec.jobTemplate.spec.template.spec.containers[main].resources: nvidia.com/gpu is 4 in requests"
    )


def test_lines_are_few_short_and_begin_with_our_words() -> None:
    """GitHub's runner obeys lines that begin with `::`."""
    refusal = next(sample().at(Level.REFUSE))
    hostile = replace(refusal, message=f"\n::add-mask::x\r\n{LONG * 10}", owner=replace(refusal.owner, name="\n::x"))
    errors = tuple(DocumentError("\n::error::.yaml", number, 1, "no\n::x") for number in range(1_000))
    lines = list(lines_of(replace(empty(), findings=(hostile,) * 1_000, errors=errors), "\n::out"))
    assert len(lines) == 2 * 21 + 2
    assert "refuse: 980 more, which the report has" in lines
    assert max(map(len, lines)) <= 500
    assert not [one for one in lines if "\n" in one or "\r" in one]
    assert not [one for one in lines if not one.startswith(OURS) and "would be refused" not in one]
