"""Whichever format somebody reads, it tells of the same findings, in the same bytes in every process."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.reports.large_report import large
from tests.audit.reports.parsed_page import ParsedPage
from tests.audit.sample_report import empty, finding, sample, sample_of_files
from webhook.audit.report import AuditFinding, AuditReport, Comparison, Level, ObjectReference, Running
from webhook.audit.writing import rendered

SAMPLES = [
    pytest.param(sample(), id="a cluster"),
    pytest.param(sample_of_files(), id="files"),
    pytest.param(large(200), id="many findings"),
    pytest.param(empty(), id="nothing"),
]
TITLES = {"Would be refused": "refuse", "Would be warned about": "warn", "Would only be recorded": "audit"}


def in_sections(text: str) -> dict[str, int]:
    """The findings that a report for people counts in the titles of its sections."""
    found = re.findall(f"({'|'.join(TITLES)}): ([\\d,]+) finding", text)
    return {TITLES[title]: int(number.replace(",", "")) for title, number in found}


@pytest.mark.parametrize("report", SAMPLES)
def test_every_format_for_programs_has_every_finding_once(report: AuditReport) -> None:
    expected = sorted(finding.id for finding in report.findings)
    (run,) = json.loads(rendered(report, "sarif"))["runs"]
    found = {
        "json": [one["id"] for one in json.loads(rendered(report, "json"))["findings"]],
        "sarif": [one["partialFingerprints"]["gpuPolicyFinding/v1"] for one in run["results"]],
    }
    for form in ("policyreport", "openreports"):
        results = [one for item in json.loads(rendered(report, form))["items"] for one in item["results"]]
        found[form] = [one["properties"]["resultID"] for one in results if one["result"] != "error"]
    assert {form: sorted(ids) for form, ids in found.items()} == dict.fromkeys(found, expected)


@pytest.mark.parametrize("report", SAMPLES)
def test_every_format_for_people_counts_as_many_findings_of_each_level(report: AuditReport) -> None:
    levels = Counter(str(finding.level) for finding in report.findings)
    assert Counter(row["level"] for row in ParsedPage(rendered(report, "html")).data) == levels
    levels.pop(Level.COMPLETE, None)
    assert {form: in_sections(rendered(report, form)) for form in ("text", "markdown")} == {
        "text": levels,
        "markdown": levels,
    }


def test_equal_bare_pods_of_a_namespace_are_one_row_for_people_and_each_by_itself_for_programs() -> None:
    def found(name: str, namespace: str = "team", message: str = "m") -> AuditFinding:
        owner = ObjectReference(namespace, "Pod", name, "v1", uid=name)
        return finding(Level.REFUSE, owner, "gpuLimits", message, running=Running(1, (name,)))

    findings = (*map(found, "abcd"), found("e", "other"), found("f", message="n"))
    newly = Comparison("old", "0" * 64, findings[1:3], (), ())
    report = replace(empty(), is_of_cluster=True, findings=findings, comparison=newly)
    rows = [(row["name"], row["names"], row["change"]) for row in ParsedPage(rendered(report, "html")).data]
    assert rows == [
        ("a and 1 pod like it", "a, d", ""),
        ("b and 1 pod like it", "b, c", "new"),
        ("e", "e", ""),
        ("f", "f", ""),
    ]
    text = rendered(report, "text")
    assert "  Pod team/a and 3 pods like it  gpuLimits\n" in text
    assert "4 running pods: a, b, c and 1 more" in text
    assert [one["owner"]["name"] for one in json.loads(rendered(report, "json"))["findings"]] == [*"abcdef"]


SCRIPT = """
import sys
from tests.audit.sample_report import sample
from webhook.audit.writing import FORMATS, rendered
sys.stdout.reconfigure(encoding="utf-8")
print(*(rendered(sample(), form) for form in FORMATS))
"""


def written(seed: str) -> bytes:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=root, check=True, capture_output=True
    ).stdout


def test_the_same_report_has_the_same_bytes_however_python_hashes() -> None:
    first = written("1")
    assert len(first) > 10_000
    assert first == written("2")
