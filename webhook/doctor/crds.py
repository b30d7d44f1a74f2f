"""Custom kinds that make pods and are not validated when they are applied."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.doctor.cluster import Object, UnavailableError
from webhook.doctor.doctor_report import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation

ENTRY = "workloads.gpupolicy.dev"
"""The entry of the webhook configuration that sends workloads."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PAGE = "5"
"""Definitions in one answer; a definition with pod templates may have a megabyte."""
_MOST_PARTS = 500_000
"""Most parts of one schema that are searched."""

_CONTAINER = frozenset({"name", "image", "resources"})
"""Fields that every schema of a container has."""
_NOT_ASKED = frozenset({"metadata", "status"})
_MADE_BY_OTHERS = frozenset(
    {
        ("argoproj.io", "workflowartifactgctasks"),
        ("argoproj.io", "workflowtasksets"),
        ("serving.knative.dev", "configurations"),
        ("serving.knative.dev", "revisions"),
    }
)
"""Resources that controllers make for objects that are validated themselves."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Every kind whose schema has a pod template is validated when it is applied."""
    rules = _rules(installation)
    if rules is None:
        yield ok("workloads are not validated when they are applied; their pods are, when they are created")
        return
    uncovered: defaultdict[str, list[str]] = defaultdict(list)
    holding = 0
    for definition in installation.cluster.items(CRDS, {"limit": _PAGE}):
        group, resource = _resource(definition)
        if holds_template(definition):
            holding += 1
            if (group, resource) not in _MADE_BY_OTHERS and not any(_covers(rule, group, resource) for rule in rules):
                uncovered[group].append(resource)
    for group, resources in sorted(uncovered.items()):
        listed = ", ".join(sorted(resources))
        yield warning(
            f"{listed} of {group} hold pod templates by their schema, and no rule of the webhook configuration covers "
            "them: they are not validated when they are applied, and their pods only when they are created",
            "a rule for each kind that makes GPU pods",
            f"where they make GPU pods, add {{group: {group}, resources: [{listed}]}} to the chart value "
            "workloads.extraRules",
        )
    if not uncovered:
        yield ok(_all_covered(holding))


def _all_covered(holding: int) -> str:
    if not holding:
        return "no custom resource holds a pod template"
    if holding == 1:
        return "the one custom resource that holds pod templates is validated when it is applied"
    return f"all {holding} custom resources that hold pod templates are validated when they are applied"


def _rules(installation: Installation) -> list[Mapping[str, Any]] | None:
    """The rules that send workloads; None where workloads are not sent."""
    live = installation.configurations["validating"]
    if live is None:
        raise UnavailableError(f"there is no validating webhook configuration {installation.place.name}")
    entries = live.get("webhooks") or ()
    if not any(entry.get("name") == ENTRY for entry in entries):
        return None
    return [rule for entry in entries for rule in entry.get("rules") or ()]


def _covers(rule: Mapping[str, Any], group: str, resource: str) -> bool:
    return (
        not {group, "*"}.isdisjoint(rule.get("apiGroups") or ())
        and not {resource, "*", "*/*"}.isdisjoint(rule.get("resources") or ())
        and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
    )


def _resource(definition: Object) -> tuple[str, str]:
    spec = definition.get("spec") or {}
    return str(spec.get("group")), str((spec.get("names") or {}).get("plural"))


def holds_template(definition: Mapping[str, Any]) -> bool:
    """Whether the schema of any served version has a pod spec, by its list of containers."""
    versions = (definition.get("spec") or {}).get("versions") or ()
    return any(_has_containers(_schema(version)) for version in versions if version.get("served"))


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a version, without metadata and status."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    properties = {key: part for key, part in (schema.get("properties") or {}).items() if key not in _NOT_ASKED}
    return {**schema, "properties": properties}


def _has_containers(schema: Mapping[str, Any]) -> bool:
    rest: list[Any] = [schema]
    looked_at = 0
    while rest and looked_at < _MOST_PARTS:
        part = rest.pop()
        looked_at += 1
        if isinstance(part, dict):
            properties = part.get("properties")
            if isinstance(properties, dict):
                if _is_list_of_containers(properties.get("containers")):
                    return True
                rest.extend(properties.values())
            rest.extend((part.get("items"), part.get("additionalProperties")))
    return False


def _is_list_of_containers(schema: object) -> bool:
    items = schema.get("items") if isinstance(schema, dict) else None
    properties = items.get("properties") if isinstance(items, dict) else None
    return isinstance(properties, dict) and properties.keys() >= _CONTAINER
