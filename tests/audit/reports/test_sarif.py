"""The report as SARIF, as the standard and GitHub's code scanning read it."""

import gzip
import json
import random
from base64 import b85encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from tests.audit.reports.any_report import REPORTS, SOME
from tests.audit.reports.sarif_subset import SUBSET
from tests.audit.sample_report import EVIL, NOTEBOOK, TRAINER, empty, sample, sample_of_files
from tests.golden import each, golden
from webhook.audit.documents import DocumentError
from webhook.audit.report import AuditFinding, AuditReport, Level, SourceLine
from webhook.audit.reports import as_sarif
from webhook.rules import RULES

VALIDATOR = Draft202012Validator(SUBSET)
FOUND = next(finding for finding in sample().findings if finding.source.file == "manifests/nightly.yaml")
LIMIT = 10 * 10**6
"""Bytes, compressed, that GitHub takes."""


def run_of(report: AuditReport) -> Any:
    document = json.loads(as_sarif.render(report))
    VALIDATOR.validate(document)
    return document["runs"][0]


def result_of(finding: AuditFinding, directory: str = "policies") -> Any:
    (result,) = run_of(replace(empty(), directory=directory, findings=(finding,)))["results"]
    return result


def place_of(finding: AuditFinding) -> Any:
    return result_of(finding)["locations"][0]["physicalLocation"]


@SOME
@given(REPORTS)
def test_any_report_is_valid_and_ascii(report: AuditReport) -> None:
    assert as_sarif.render(report).isascii()
    run = run_of(report)
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


@each(
    "level, written",
    {
        "pods would be refused": (Level.REFUSE, "error"),
        "their author would be warned": (Level.WARN, "warning"),
        "it would be recorded": (Level.AUDIT, "note"),
        "they would be completed": (Level.COMPLETE, "note"),
    },
)
def test_the_level_says_what_would_become_of_the_pods(level: Level, written: str) -> None:
    assert result_of(replace(FOUND, level=level))["level"] == written


def test_a_result_tells_object_pods_field_fault_and_remedy() -> None:
    assert result_of(FOUND)["message"]["text"] == (
        "CronJob default/nightly: pod template (1 pod, 4 GPUs): spec.jobTemplate.spec.template.spec.containers[main]"
        ".resources: nvidia.com/gpu is 4 in requests but missing in limits; GPUs are allocated from limits. Move the 4 "
        "to resources.limits."
    )


REGION = {"startLine": 14, "startColumn": 1, "endLine": 14, "endColumn": 2}


def test_a_result_is_where_its_document_begins() -> None:
    artifact = {"uri": "manifests/nightly.yaml", "uriBaseId": "%SRCROOT%"}
    assert place_of(FOUND) == {"artifactLocation": artifact, "region": REGION}


@golden
def test_paths_are_uris_from_the_working_directory(path: str, uri: str) -> None:
    artifact = place_of(replace(FOUND, source=SourceLine(path, 14)))["artifactLocation"]
    assert artifact == {"uri": uri, "uriBaseId": "%SRCROOT%"}


@each(
    "source, uri",
    {
        "relative": (SourceLine("../elsewhere/a b.yaml"), "file://{parent}/elsewhere/a%20b.yaml"),
        "absolute": (SourceLine("/elsewhere/a b.yaml"), "file:///elsewhere/a%20b.yaml"),
        "standard input": (SourceLine("-", 14), "stdin"),
        "of a cluster": (SourceLine(), "cluster/team-nlp/Pod/notebook-x"),
    },
)
def test_what_is_not_below_the_working_directory_has_a_path_of_its_own(
    source: SourceLine, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code scanning shows nothing without one."""
    monkeypatch.chdir(tmp_path)
    place = place_of(replace(FOUND, owner=NOTEBOOK, object=NOTEBOOK, source=source))
    assert place["artifactLocation"] == {"uri": uri.format(parent=tmp_path.parent)}
    assert place["region"]["startLine"] == (source.line or 1)


def test_the_owner_is_named_before_the_pod_that_it_made() -> None:
    (location,) = result_of(replace(FOUND, owner=TRAINER, object=NOTEBOOK))["locations"]
    assert [place["name"] for place in location["logicalLocations"]] == ["trainer", "notebook-x"]


def test_the_policy_is_a_related_location() -> None:
    (related,) = result_of(FOUND, "deploy/policies")["relatedLocations"]
    place = related["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "deploy/policies/_default.yaml", "uriBaseId": "%SRCROOT%"}
    assert place["region"]["startLine"] == 9
    assert "relatedLocations" not in result_of(replace(FOUND, file=""))


def test_fingerprints_stay_the_same_where_lines_move_and_differ_where_faults_do() -> None:
    moved = replace(FOUND, source=SourceLine("manifests/nightly.yaml", 99))
    other = replace(FOUND, message="asks for 9")
    prints = [result_of(finding)["partialFingerprints"] for finding in (FOUND, moved, other)]
    assert prints[0] == prints[1] != prints[2]


def test_a_text_cannot_be_a_link_or_a_placeholder() -> None:
    text = result_of(replace(FOUND, message="[see](https://example.com) {0}"))["message"]["text"]
    assert "[see] (https://example.com) {{0}}" in text


def test_rules_that_have_results_are_described_and_no_others() -> None:
    assert run_of(empty())["tool"]["driver"]["rules"] == []
    found = run_of(replace(empty(), findings=(FOUND, replace(FOUND, rule="gpuPolicy"))))
    known, unknown = sorted(found["tool"]["driver"]["rules"], key=lambda rule: rule["id"] == "gpuPolicy")
    rule = next(rule for rule in RULES if rule.key == FOUND.rule)
    assert (known["id"], known["shortDescription"]["text"]) == (rule.key, rule.promise)
    assert known["fullDescription"]["text"] == rule.problem
    assert unknown["id"] == "gpuPolicy"


def test_what_could_not_be_read_is_told_with_its_place() -> None:
    invocation = run_of(replace(sample_of_files(), comparison=None))["invocations"][0]
    assert invocation["executionSuccessful"] is False
    told = invocation["toolExecutionNotifications"][1]
    assert (told["level"], told["descriptor"]["id"]) == ("error", "unreadable")
    assert told["message"]["text"] == "manifests/broken.yaml:17: a git conflict marker; resolve the conflict."
    (location,) = told["locations"]
    assert location["physicalLocation"]["region"]["startLine"] == 17


@each("report", {"of a cluster": replace(empty(), is_of_cluster=True), "from a pipe": empty()})
def test_what_is_no_file_is_told_without_a_place(report: AuditReport) -> None:
    error = DocumentError("apis/batch/v1/jobs" if report.is_of_cluster else "-", 0, None, "forbidden")
    (told,) = run_of(replace(report, errors=(error,)))["invocations"][0]["toolExecutionNotifications"]
    assert "locations" not in told


def test_an_audit_that_could_read_everything_is_successful_whatever_it_found() -> None:
    invocation = run_of(replace(empty(), findings=(FOUND,)))["invocations"][0]
    assert (invocation["executionSuccessful"], invocation["toolExecutionNotifications"]) == (True, [])


def test_a_comparison_is_told_and_what_is_newly_refused_is_marked() -> None:
    run = run_of(sample())
    texts = [told["message"]["text"] for told in run["invocations"][0]["toolExecutionNotifications"]]
    assert "Against policies-in-force: 1 newly refused, 1 no longer refused, 2 changed injections." in texts
    marked = [result for result in run["results"] if result["properties"].get("newlyRefused")]
    assert [result["partialFingerprints"]["gpuPolicyFinding/v1"] for result in marked] == [
        finding.id for finding in sample().comparison.newly_refused
    ]


def test_the_gravest_are_kept_and_what_is_left_out_is_told() -> None:
    mild = tuple(replace(FOUND, level=Level.COMPLETE, message=f"m{number}") for number in range(as_sarif.MOST_RESULTS))
    text = as_sarif.render(replace(empty(), findings=(*mild, replace(FOUND, level=Level.WARN), FOUND)))
    (run,) = json.loads(text)["runs"]
    assert [result["level"] for result in run["results"][:3]] == ["error", "warning", "note"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == (
        "2 of 5,002 results are left out, the least grave; gpu-policy audit --format json has all."
    )


def test_a_report_of_long_texts_that_cannot_be_compressed_is_small_enough_for_github() -> None:
    dice = random.Random(7)

    def noise(length: int) -> str:
        return b85encode(dice.randbytes(length)).decode()

    findings = tuple(
        replace(
            FOUND,
            owner=replace(EVIL, name=noise(1_000)),
            message=noise(1_000),
            source=SourceLine(f"{noise(60)}.yaml", 1),
        )
        for _ in range(as_sarif.MOST_RESULTS // 10)
    )
    errors = tuple(DocumentError(f"{noise(60)}.yaml", 1, 1, noise(1_000)) for _ in range(500))
    told_of_findings = as_sarif.render(replace(empty(), findings=findings))
    told_of_errors = as_sarif.render(replace(empty(), errors=errors))
    assert 10 * len(gzip.compress(told_of_findings.encode())) + len(gzip.compress(told_of_errors.encode())) < LIMIT
