"""The doctor names the kinds that make pods and that no rule of the webhook configuration has."""

from typing import Any

import pytest

from tests.doctor.stored import VALIDATING, said
from tests.golden import each
from webhook.doctor import sent_objects
from webhook.doctor.doctor_report import DoctorFinding, Status

RULES = [
    {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "operations": ["CREATE", "UPDATE"]},
    {"apiGroups": ["example.com"], "resources": ["things"], "operations": ["UPDATE"]},
]
CONTAINERS = {"type": "array", "items": {"properties": {"name": {}, "image": {}, "resources": {}, "args": {}}}}
POD = {"properties": {"containers": CONTAINERS}}
TEMPLATE = {"properties": {"template": {"properties": {"spec": POD}}}}


def definition(resource: str, schema: Any, *, group: str = "example.com", **version: Any) -> dict[str, Any]:
    served = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"properties": {"spec": schema}}}, **version}
    old = {"name": "v1alpha1", "served": False, "schema": {"openAPIV3Schema": {"properties": {"spec": TEMPLATE}}}}
    return {"spec": {"group": group, "names": {"plural": resource}, "versions": [old, served]}}


def looked(*definitions: Any, webhooks: list[Any] | None = None) -> list[DoctorFinding]:
    entries = [{"name": sent_objects.WORKLOADS_ENTRY, "rules": RULES}] if webhooks is None else webhooks
    return said(sent_objects.workload_kinds, {VALIDATING: {"webhooks": entries}, sent_objects.CRDS: definitions})


@each(
    "schema, expected",
    {
        "a pod template": (TEMPLATE, True),
        "a bare spec": (POD, True),
        "in a list": ({"properties": {"tasks": {"items": TEMPLATE}}}, True),
        "in a map": ({"properties": {"roles": {"additionalProperties": TEMPLATE}}}, True),
        "a number of containers": ({"properties": {"containers": {"type": "integer"}}}, False),
        "names of containers": ({"properties": {"containers": {"items": {"properties": {"name": {}}}}}}, False),
        "anything": ({"x-kubernetes-preserve-unknown-fields": True}, False),
        "nothing": ({"additionalProperties": True, "items": None, "properties": []}, False),
        "null": (None, False),
    },
)
def test_a_definition_holds_a_template_where_its_schema_does(schema: Any, expected: bool) -> None:
    assert sent_objects.holds_template(definition("things", schema)) is expected


@each(
    "raw",
    {
        "no spec": {},
        "no versions": {"spec": {"versions": None}},
        "no schema": {"spec": {"versions": [{"served": True}]}},
        "null": {"spec": {"versions": [{"served": True, "schema": {"openAPIV3Schema": None}}]}},
        "not served": definition("things", TEMPLATE, served=False),
    },
)
def test_a_definition_without_a_schema_that_is_served_holds_none(raw: dict[str, Any]) -> None:
    assert not sent_objects.holds_template(raw)


def test_what_stands_in_the_status_or_the_metadata_makes_no_pods() -> None:
    schema = {"properties": {"status": TEMPLATE, "metadata": TEMPLATE}}
    versions = [{"served": True, "schema": {"openAPIV3Schema": schema}}]
    assert not sent_objects.holds_template({"spec": {"versions": versions}})


def test_kinds_that_no_rule_has_are_named_with_what_to_add() -> None:
    (finding,) = looked(
        definition("things", TEMPLATE),
        definition("apps", POD),
        definition("jobs", TEMPLATE, group="batch.volcano.sh"),
        definition("settings", {}),
    )
    assert finding.status is Status.WARNING
    assert finding.found == (
        "the schemas of apps, things in example.com have pod templates, and no rule of the webhook configuration "
        "covers these kinds: only their pods are validated, when they are created"
    )
    assert finding.remedy == (
        "where they make GPU pods, add {group: example.com, resources: [apps, things]} to the chart value "
        "workloads.extraRules"
    )


@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": ["example.com"], "resources": ["others", "things"], "operations": ["CREATE"]},
        {"apiGroups": ["*"], "resources": ["*"], "operations": ["*"]},
        {"apiGroups": ["example.com"], "resources": ["*/*"], "operations": ["CREATE"]},
    ],
    ids=["named", "everything", "with subresources"],
)
def test_a_rule_of_any_entry_covers_a_kind(rule: dict[str, Any]) -> None:
    webhooks = [{"name": sent_objects.WORKLOADS_ENTRY, "rules": RULES}, {"name": "mine", "rules": [rule]}]
    (finding,) = looked(definition("things", TEMPLATE), webhooks=webhooks)
    assert (finding.status, finding.found) == (
        Status.OK,
        "the one custom resource that holds pod templates is validated when it is applied",
    )


def test_covered_kinds_are_counted() -> None:
    jobs = definition("jobs", TEMPLATE, group="batch.volcano.sh")
    assert [finding.found for finding in (*looked(), *looked(jobs, jobs))] == [
        "no custom resource holds a pod template",
        "all 2 custom resources that hold pod templates are validated when they are applied",
    ]


def test_kinds_that_controllers_make_for_others_are_not_asked_for() -> None:
    (finding,) = looked(definition("revisions", TEMPLATE, group="serving.knative.dev"))
    assert finding.status is Status.OK


def test_where_workloads_are_not_sent_on_purpose_nothing_is_missing() -> None:
    (finding,) = looked(definition("things", TEMPLATE), webhooks=[{"name": "validate.gpupolicy.dev", "rules": []}])
    assert finding.status is Status.OK
    assert finding.found.startswith("workloads are not validated when they are applied")
