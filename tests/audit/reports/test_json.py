"""The report as JSON: all of it, in the shape that its schema describes."""

import json
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from hypothesis import given
from jsonschema import Draft202012Validator

from tests.audit.reports.any_report import REPORTS, SOME
from tests.audit.sample_report import sample
from tests.golden import each
from webhook.audit.report import AuditReport, Level
from webhook.audit.reports import as_json
from webhook.outcome import FindingKind
from webhook.rules.rule_settings import Mode

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "audit-schema.json").read_text())


def closed(schema: Any) -> Any:
    """The same schema, in which an object has no keys but those that are described."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tight = {key: closed(value) for key, value in schema.items()}
    return tight | {"additionalProperties": False} if schema.get("type") == "object" else tight


VALIDATOR = Draft202012Validator(closed(SCHEMA))


def rendered(report: AuditReport) -> Any:
    return json.loads(as_json.render(report))


@SOME
@given(REPORTS)
def test_any_report_has_that_shape_and_is_ascii(report: AuditReport) -> None:
    text = as_json.render(report)
    assert text.isascii()
    VALIDATOR.validate(json.loads(text))
    json.dumps(json.loads(text), ensure_ascii=False).encode()  # no half of a surrogate pair is left


def test_the_schema_is_a_schema_and_describes_every_key() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    undescribed = [path for path, part in parts(SCHEMA, "") if not {"description", "const", "$ref"} & part.keys()]
    assert undescribed == []


def parts(schema: Any, path: str) -> Any:
    for key, part in schema.get("properties", {}).items():
        yield f"{path}.{key}", part
        yield from parts(part, f"{path}.{key}")
    for key, part in schema.get("$defs", {}).items():
        yield from parts(part, key)


@each("key, enum", {"levels": ("level", Level), "modes": ("mode", Mode), "kinds": ("kind", FindingKind)})
def test_the_schema_knows_every_value_of_an_enumeration(key: str, enum: type[StrEnum]) -> None:
    assert list(enum) == SCHEMA["$defs"]["finding"]["properties"][key]["enum"]


def test_nothing_of_a_report_is_missing() -> None:
    """Every text and number of the values that a report is made of stands somewhere in its JSON."""
    report = sample()
    written = set(leaves(rendered(report)))
    assert {leaf for leaf in values(report) if leaf not in written} == set()


def leaves(value: Any) -> Any:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield value


def values(value: Any) -> Any:
    if is_dataclass(value):
        for field in fields(value):
            if field.name not in {"created", "part"}:  # part times gpus is there
                yield from values(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from values(item)
    else:
        yield value


def test_a_finding_reads_like_this() -> None:
    (finding,) = [one for one in rendered(sample())["findings"] if one["owner"]["name"] == "nightly"]
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "namespace": "default", "name": "nightly", "uid": ""}
    assert finding == {
        "id": finding["id"],
        "level": "refuse",
        "severity": "high",
        "rule": "gpuLimits",
        "mode": "enforce",
        "kind": "violation",
        "object": reference,
        "owner": reference,
        "template": {"group": "", "pods": 1, "gpus": 4},
        "field": "spec.jobTemplate.spec.template.spec.containers[main].resources",
        "message": "nvidia.com/gpu is 4 in requests but missing in limits; GPUs are allocated from limits",
        "remedy": "Move the 4 to resources.limits",
        "policy": {"name": "_default", "file": "_default.yaml", "line": 9},
        "source": {"file": "manifests/nightly.yaml", "line": 14},
        "running": None,
        "exception": None,
    }


def test_a_character_in_two_halves_is_made_whole_and_half_a_one_replaced() -> None:
    finding = replace(sample().findings[0], message="\ud83d\ude80 \ud83d.")
    document = rendered(replace(sample(), findings=(finding,)))
    assert document["findings"][0]["message"] == "\N{ROCKET} \N{REPLACEMENT CHARACTER}."
