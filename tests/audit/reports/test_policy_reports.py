"""PolicyReports and OpenReports: bounded objects for each namespace, as UIs read them, and of that namespace alone."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import orjson
import pytest
import yaml

from tests.audit.sample_report import CREATED, NOTEBOOK, TRAINER, empty, sample, sample_of_files
from tests.audit.sample_report import finding as violation
from tests.e2e.report_cluster import DEFINITIONS
from tests.golden import each
from webhook.audit.documents import DocumentError
from webhook.audit.report import AuditFinding, AuditReport, Level, ObjectReference
from webhook.audit.reports import policy_results
from webhook.audit.reports.policy_results import (
    LABELS,
    OPEN_REPORTS,
    POLICY_REPORTS,
    SOURCE,
    objects,
    render_open_reports,
    render_policy_reports,
)
from webhook.replica.published_reports import ReportKind

FORMATS = [pytest.param(render_policy_reports, id="PolicyReport"), pytest.param(render_open_reports, id="OpenReports")]
REPORTS = [
    pytest.param(sample(), id="of a cluster"),
    pytest.param(sample_of_files(), id="of files"),
    pytest.param(empty(), id="of nothing"),
]
FORM = POLICY_REPORTS

Raw = dict[str, Any]
Render = Callable[[AuditReport], str]


def items(form: Render, report: AuditReport) -> list[Raw]:
    found = json.loads(form(report))
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    return list(found["items"])


def of(namespace: str, report: AuditReport) -> list[Raw]:
    return [raw for raw in objects(report, FORM) if raw["metadata"].get("namespace", "") == namespace]


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def limit(of_an_object: int, number: int) -> None:
        monkeypatch.setattr(policy_results, "RESULTS_OF_AN_OBJECT", of_an_object)
        monkeypatch.setattr(policy_results, "OBJECTS_OF_A_NAMESPACE", number)

    return limit


def finding(number: int, namespace: str = "team-a", **changes: Any) -> AuditFinding:
    owner = ObjectReference(namespace, "Pod", f"pod-{number:05}", "v1", f"uid-{number}")
    message, remedy = "nvidia.com/gpu is 4 in requests but missing in limits", "Move the 4 to resources.limits"
    place = {"field": "spec.containers[main].resources", "file": "policies/_default.yaml"}
    return replace(violation(Level.REFUSE, owner, "gpuLimits", message, remedy, **place), **changes)


def report_of(*findings: AuditFinding) -> AuditReport:
    return replace(empty(), is_of_cluster=True, findings=findings)


# What is in them


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("report", REPORTS)
def test_a_summary_counts_the_results_of_its_object(form: Render, report: AuditReport) -> None:
    for raw in items(form, report):
        counts = Counter(result["result"] for result in raw["results"])
        assert raw["summary"] == {one: counts[one] for one in ("pass", "fail", "warn", "error", "skip")}
        assert raw["results"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("report", REPORTS)
def test_every_finding_and_every_error_is_a_result_that_is_recognised_by_its_id(
    form: Render, report: AuditReport
) -> None:
    found = [result["properties"]["resultID"] for raw in items(form, report) for result in raw["results"]]
    assert len(set(found)) == len(found) == len(report.findings) + len(report.errors)
    assert {one.id for one in report.findings} <= set(found)


@each(
    "level, expected",
    {
        "refuse": (Level.REFUSE, ("fail", "high", True)),
        "warn": (Level.WARN, ("warn", "medium", False)),
        "audit": (Level.AUDIT, ("warn", "low", False)),
        "complete": (Level.COMPLETE, ("pass", "info", False)),
    },
)
def test_a_level_becomes_a_result_and_a_severity(level: Level, expected: tuple[str, str, bool]) -> None:
    (raw,) = of("team-a", report_of(finding(1, level=level)))
    (result,) = raw["results"]
    assert (result["result"], result["severity"], result["scored"]) == expected


def test_a_result_says_what_was_found_where_by_which_policy_and_what_to_do() -> None:
    (raw,) = of("team-a", report_of(finding(1)))
    assert raw["results"] == [
        {
            "source": "gpu-policy",
            "policy": "_default",
            "rule": "gpuLimits",
            "category": "GPU policy",
            "severity": "high",
            "result": "fail",
            "scored": True,
            "message": "spec.containers[main].resources: nvidia.com/gpu is 4 in requests but missing in limits. "
            "Move the 4 to resources.limits.",
            "resources": [
                {"apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": "pod-00001", "uid": "uid-1"}
            ],
            "timestamp": {"seconds": int(CREATED.timestamp()), "nanos": 250_000_000},
            "properties": {
                "resultID": finding(1).id,
                "level": "refuse",
                "mode": "enforce",
                "policyFile": "_default.yaml:9",
            },
        }
    ]


def test_a_report_names_its_namespace_as_its_scope() -> None:
    (raw,) = of("team-a", report_of(finding(1)))
    assert raw["scope"] == {"apiVersion": "v1", "kind": "Namespace", "name": "team-a"}
    assert "source" not in raw
    assert [one["source"] for one in objects(report_of(finding(1)), OPEN_REPORTS)] == [SOURCE]


def fields(schema: Raw, value: Any, path: str = "") -> Iterator[str]:
    """Where a value is not what a schema says, down to types and unknown fields."""
    kinds: dict[str, type | tuple[type, ...]] = {"object": dict, "array": list, "string": str, "integer": int}
    expected = kinds.get(schema["type"], bool)
    if not isinstance(value, expected) or (schema["type"] == "integer" and isinstance(value, bool)):
        yield f"{path} is {value!r}, no {schema['type']}"
    elif isinstance(value, dict) and path != ".metadata":
        inner = schema.get("properties", {})
        yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, one in value.items():
            known = inner.get(name, schema.get("additionalProperties"))
            yield from [f"{path}.{name} is unknown"] if known is None else fields(known, one, f"{path}.{name}")
    elif isinstance(value, list):
        yield from chain.from_iterable(fields(schema["items"], one, f"{path}[]") for one in value)
    elif value not in schema.get("enum", [value]):
        yield f"{path} is {value!r}"


@each(
    "form, kind",
    {
        "PolicyReport": (render_policy_reports, ReportKind.POLICY_REPORTS),
        "OpenReports": (render_open_reports, ReportKind.OPEN_REPORTS),
    },
)
@pytest.mark.parametrize("report", REPORTS)
def test_every_field_is_a_published_one_and_of_its_type(form: Render, kind: ReportKind, report: AuditReport) -> None:
    definitions = yaml.safe_load(DEFINITIONS[kind].read_text())["items"]
    schemas = {
        definition["spec"]["names"]["kind"]: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for definition in definitions
    }
    assert [fault for raw in items(form, report) for fault in fields(schemas[raw["kind"]], raw)] == []


# Whose they are


@pytest.mark.parametrize("form", FORMATS)
def test_objects_have_names_that_an_api_server_takes_and_the_label_of_their_manager(form: Render) -> None:
    for raw in items(form, sample()):
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", raw["metadata"]["name"])
        assert raw["metadata"]["labels"] == LABELS
        is_namespaced = not raw["kind"].startswith("Cluster")
        assert ("namespace" in raw["metadata"]) is ("scope" in raw) is is_namespaced


def test_the_report_of_a_namespace_names_no_other_namespace_and_nothing_in_one() -> None:
    """Not even where a tenant writes references to objects of others into its own."""
    theirs = replace(TRAINER, namespace="team-secret", name="their-trainer")
    node = ObjectReference("", "Node", "node-of-others", "v1", "uid-node")
    findings = (
        finding(1, owner=theirs),
        finding(2, owner=node),
        finding(3, "team-secret"),
        finding(4, owner=replace(NOTEBOOK, namespace="team-a")),
    )
    (raw,) = of("team-a", report_of(*findings))
    assert [one["resources"][0]["name"] for one in raw["results"]] == ["pod-00002", NOTEBOOK.name, "pod-00001"]
    assert not re.search("team-secret|their-trainer|node-of-others", json.dumps(raw))


def test_what_is_said_about_a_namespace_as_a_whole_is_in_its_own_report() -> None:
    namespace = ObjectReference("", "Namespace", "team-a", "v1")
    (raw,) = of("team-a", report_of(finding(1, object=namespace, owner=namespace)))
    assert raw["results"][0]["resources"] == [{"apiVersion": "v1", "kind": "Namespace", "name": "team-a"}]


def test_errors_are_results_of_the_cluster() -> None:
    error = DocumentError("", 0, None, "cannot list pytorchjobs")
    (raw,) = objects(replace(report_of(), errors=(error, error)), FORM)
    assert (raw["kind"], raw["summary"]["error"]) == ("ClusterPolicyReport", 1)
    assert raw["results"][0]["message"].endswith("cannot list pytorchjobs")


# How much there is


@each(
    "findings, limits, expected",
    {
        "none, no object": (0, (500, 8), []),
        "exactly one full": (500, (500, 8), [500]),
        "one over": (501, (500, 8), [500, 1]),
        "exactly all full": (12, (4, 3), [4, 4, 4]),
        "one too many": (13, (4, 3), [4, 4, 4]),
        "many too many": (1000, (4, 1), [4]),
    },
)
def test_a_namespace_gets_as_many_objects_as_it_needs_up_to_a_bound(
    findings: int, limits: tuple[int, int], expected: list[int], limited: Callable[[int, int], None]
) -> None:
    limited(*limits)
    found = of("team-a", report_of(*map(finding, range(findings))))
    assert [len(raw["results"]) for raw in found] == expected
    assert [raw["metadata"]["name"] for raw in found] == [f"gpu-policy-audit.{n + 1}" for n in range(len(expected))]


def test_the_last_result_says_what_was_left_out_which_are_the_least_grave(limited: Callable[[int, int], None]) -> None:
    limited(4, 1)
    findings = [finding(n, level=Level.WARN if n % 2 else Level.REFUSE) for n in range(10)]
    (raw,) = of("team-a", report_of(*findings))
    assert [result["result"] for result in raw["results"]] == ["fail", "fail", "fail", "skip"]
    assert raw["summary"]["skip"] == 1
    last = raw["results"][-1]
    assert last["message"].startswith("results left out of this report: 2 fail, 5 warn; gpu-policy audit --cluster")
    assert "--namespace team-a" in last["message"]
    assert last["severity"] == "high"


def test_no_object_is_too_large_for_etcd_whatever_tenants_write() -> None:
    findings = [finding(n, message="m" * 20_000, field="f" * 5_000, remedy="r" * 5_000) for n in range(600)]
    found = of("team-a", report_of(*findings))
    assert sum(len(raw["results"]) for raw in found) == 600
    assert len(found) > 1
    for raw in found:
        assert len(orjson.dumps(raw)) < policy_results.BYTES_OF_AN_OBJECT + 4096


@pytest.mark.parametrize("hostile", ["\ud800", "\x00\x1b[2J", "\u202e", "\u2028"], ids=ascii)
def test_texts_are_written_on_one_line_and_can_be_encoded(hostile: str) -> None:
    owner = ObjectReference("team-a", "Pod", f"a{hostile}", "v1")
    text = render_policy_reports(report_of(finding(1, message=hostile, policy=hostile, owner=owner, object=owner)))
    assert hostile not in str(yaml.safe_load(text))


def test_only_the_levels_that_are_asked_for_are_written() -> None:
    report = report_of(finding(1), finding(2, level=Level.COMPLETE))
    (raw,) = objects(report, FORM, [Level.REFUSE])
    assert [result["result"] for result in raw["results"]] == ["fail"]
    assert list(objects(report_of(finding(2, level=Level.COMPLETE)), FORM, [Level.REFUSE])) == []
