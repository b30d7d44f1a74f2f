"""The report for people: readable at a terminal, whole in a pipe, and no text of a manifest is obeyed."""

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from rich.console import Console

from tests.audit.reports.any_report import REPORTS, SOME
from tests.audit.sample_report import HOSTILE, LONG, NOTEBOOK, TRAINER, empty, sample, sample_of_files
from tests.golden import each
from webhook.audit.documents import DocumentError
from webhook.audit.report import AuditFinding, AuditReport, Capacity, Level
from webhook.audit.reports import as_text
from webhook.outcome import printable

FOUND = next(finding for finding in sample().findings if finding.source.file == "manifests/nightly.yaml")
ESCAPES = re.compile(r"\x1b\[[\d;]*m")


def printed(report: AuditReport, width: int = 80, *, is_terminal: bool = False) -> str:
    stream = io.StringIO()
    colours = "standard" if is_terminal else None
    console = Console(file=stream, width=width, highlight=False, force_terminal=is_terminal, color_system=colours)
    as_text.render(report, console)
    return stream.getvalue()


def with_findings(*findings: AuditFinding) -> AuditReport:
    return replace(empty(), findings=findings)


def test_a_finding_says_who_what_where_how_to_mend_it_and_which_policy_says_so() -> None:
    assert (
        "Would be refused: 1 finding\n"
        "  CronJob default/nightly  gpuLimits  manifests/nightly.yaml:14\n"
        "    pod template (1 pod, 4 GPUs): spec.jobTemplate.spec.template.spec.containers[main].resources: "
        "nvidia.com/gpu is 4 in requests but missing in limits; GPUs are allocated from limits.\n"
        "    Move the 4 to resources.limits.\n"
        "    policy _default, _default.yaml:9\n"
    ) in printed(with_findings(FOUND))


def test_the_pod_of_an_owner_is_told() -> None:
    text = printed(with_findings(replace(FOUND, owner=TRAINER, object=NOTEBOOK)))
    assert "  Deployment team-vision/trainer  gpuLimits" in text
    assert "; found in Pod team-nlp/notebook-x\n" in text


def test_the_total_is_the_last_line() -> None:
    assert printed(sample()).splitlines()[-1] == (
        "1,200 pods, 340 workloads, 7 other objects: 4 would be refused, 2 only warned, 2 completed; "
        "3 entries could not be read."
    )


def test_sections_stand_in_the_order_of_their_weight() -> None:
    heads = [
        "Against policies-in-force",
        "Newly refused: 1 finding\n",
        "No longer refused: 1 finding\n",
        "Changed injections: 2",
    ]
    heads += ["Refusals\n", "Would be refused: 4 findings", "Would be warned about: 3 findings"]
    heads += [
        "Would only be recorded: 2 findings",
        "Would be injected\n",
        "GPU capacity\n",
        "GPU quotas\n",
        "Could not be read: 3",
    ]
    text = printed(sample())
    places = [text.index(f"\n{head}") for head in heads]
    assert places == sorted(places)


def test_a_changed_injection_tells_only_what_differs() -> None:
    assert (
        "  Deployment team-vision/trainer  pod template (4 pods, 8 GPUs)\n"
        "    + toleration nvidia.com/gpu Exists:NoSchedule\n  Deployment"
    ) in printed(sample())


def test_the_gpus_of_nodes_fit_on_a_terminal_of_80_columns() -> None:
    nodes = Capacity("NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu", 100, 800, "535.183.01", "13.0")
    line = "NVIDIA-A100-SXM4-80GB  nvidia.com/gpu    100   800  535.183.01  13.0"
    assert line in printed(replace(empty(), capacity=(nodes,)), 80)


def test_capacity_and_quotas_are_told() -> None:
    text = printed(sample(), 120)
    assert re.search(r"Model +Resource +One unit +Nodes +Units +GPUs +Driver", text)
    assert re.search(r"NVIDIA-H100-80GB-HBM3 +nvidia.com/gpu +a GPU +4 +32 +32 +580.95.05 +13.0", text)
    assert re.search(r"Tesla-T4 +nvidia.com/gpu +shared by 4 \(mps\) +3 +10 +2 1/2 +470.82.01", text)
    assert re.search(r"nvidia.com/mig-1g.5gb +1g.5gb +1 +7 +1 +535.183.01", text)
    assert re.search(r"unknown +amd.com/gpu +a GPU +1 +8 +8", text)
    assert re.search(r"GPUs +10 of 8 +\[#+\] +2 over, 3 by claims\n", text)
    assert re.search(r"H100 +8 of 8 +\[#+\] +full\n", text)
    assert re.search(r"GPUs +12 3/7 of 24 +\[#+-+\] +11 4/7 free, 29 units\n", text)


MANY = as_text.MOST + 7


@each(
    "report",
    {
        "findings": with_findings(*[FOUND] * MANY),
        "a table": replace(empty(), capacity=(Capacity("T4", "r", 1, 1, "", ""),) * MANY),
        "quotas": replace(empty(), quotas=sample().quotas[:1] * MANY),
    },
)
def test_a_long_section_is_cut_and_says_so_once(report: AuditReport) -> None:
    assert printed(report).count("  and 7 more; --format json has all\n") == 1


@pytest.mark.parametrize("is_terminal", [False, True], ids=["in a pipe", "at a terminal"])
def test_hostile_texts_are_shown_and_not_obeyed(is_terminal: bool) -> None:  # a parameter of the test
    text = ESCAPES.sub("", printed(sample(), 200, is_terminal=is_terminal))
    assert printable(HOSTILE) in text
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("width", [20, 80, 300])
def test_lines_are_whole_in_any_width(width: int) -> None:
    lines = printed(sample_of_files(), width).splitlines()
    assert any(line.endswith("GPUs are allocated from limits.") and "spec.jobTemplate" in line for line in lines)


@pytest.mark.parametrize("width", [30, 80, 200])
def test_tables_lose_no_text_in_any_width(width: int) -> None:
    text = printed(sample(), width)
    for name in ("NVIDIA-A100-SXM4-40GB", "nvidia.com/mig-1g.5gb"):
        assert set(name) <= set(text)
    assert "…" not in text


@SOME
@given(REPORTS)
def test_any_report_is_printed_without_control_characters(report: AuditReport) -> None:
    text = printed(report)
    assert all(c.isprintable() or c == "\n" for c in text)
    text.encode()


# The few lines for a log about a report that is in a file

OURS = ("refuse: ", "warn: ", "could not be read: ", "The report is in ")


def test_refusals_warnings_and_unreadable_files_are_told_and_the_total() -> None:
    report = sample_of_files()
    *lines, total, place = as_text.summary(report, "out.sarif")
    for head, expected in (
        ("refuse: ", len(list(report.at(Level.REFUSE)))),
        ("warn: ", len(list(report.at(Level.WARN)))),
        ("could not be read: ", len(report.errors)),
    ):
        assert len([line for line in lines if line.startswith(head)]) == expected
    assert "would be refused" in total
    assert place == "The report is in out.sarif."


def test_a_finding_says_whose_it_is_where_it_was_read_and_what_was_found() -> None:
    (found,) = (one for one in as_text.summary(sample(), "f") if one.startswith("refuse: CronJob default/nightly"))
    assert found.startswith(
        "refuse: CronJob default/nightly: gpuLimits: manifests/nightly.yaml:14: pod template (1 pod, 4 GPUs): "
        "spec.jobTemplate.spec.template.spec.containers[main].resources: nvidia.com/gpu is 4 in requests"
    )


def test_lines_are_few_short_and_begin_with_our_words() -> None:
    """GitHub's runner obeys lines that begin with `::`."""
    refusal = next(sample().at(Level.REFUSE))
    hostile = replace(refusal, message=f"\n::add-mask::x\r\n{LONG * 10}", owner=replace(refusal.owner, name="\n::x"))
    errors = tuple(DocumentError("\n::error::.yaml", number, 1, "no\n::x") for number in range(1_000))
    lines = list(as_text.summary(replace(empty(), findings=(hostile,) * 1_000, errors=errors), "\n::out"))
    assert len(lines) == 2 * 21 + 2
    assert "refuse: 980 more, which the report has" in lines
    assert max(map(len, lines)) <= 500
    assert not [one for one in lines if "\n" in one or "\r" in one]
    assert not [one for one in lines if not one.startswith(OURS) and "would be refused" not in one]
