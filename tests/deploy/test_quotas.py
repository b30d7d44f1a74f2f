"""What quotas of GPUs take of a cluster: a custom resource, rights, and a place in the API server's queues."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.manifests import Objects, Raw, needs_helm, rendered, shipped
from tests.deploy.value_sets import SILENT, UNCOUNTED, UNSHOWN
from tests.golden import each

LEDGER_VERBS = ("get", "list", "create", "update", "delete")
QUOTA = shipped().one("CustomResourceDefinition", "gpuquotas.gpupolicy.dev")


def version(definition: Raw) -> Raw:
    (one,) = definition["spec"]["versions"]
    found: Raw = one
    return found


def schemas(schema: Raw, path: str = "") -> Iterator[tuple[str, Raw]]:
    """Every field of a custom resource, as kubectl explain names it."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if inner is not None:
            yield from schemas(inner, f"{path}[]")


FIELDS = [
    pytest.param(schema, id=f"GPUQuota{path}") for path, schema in schemas(version(QUOTA)["schema"]["openAPIV3Schema"])
]


@pytest.mark.parametrize("schema", FIELDS)
def test_every_field_has_a_type_and_none_lets_unknown_ones_through(schema: Raw) -> None:
    """Structural, so that the API server drops what nobody knows."""
    assert schema["type"] in {"array", "integer", "object", "string"}
    assert not [key for key in schema if key.startswith("x-kubernetes-")]
    assert (schema["type"] == "object") is ("properties" in schema or "additionalProperties" in schema)


def test_whoever_may_view_a_namespace_may_read_its_quotas_and_nobody_may_write_them() -> None:
    role = shipped().one("ClusterRole", "gpu-policy-view")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert role["rules"] == [
        {"apiGroups": ["gpupolicy.dev"], "resources": [shown], "verbs": ["get", "list", "watch"]}
        for shown in ("gpuquotas", "gpupolicies")
    ]


def test_a_dry_run_is_said_to_leave_no_trace() -> None:
    """The validating phase writes entries, and none on a dry run."""
    assert {entry["name"]: entry["sideEffects"] for entry in shipped().entries} == {
        "mutate.gpupolicy.dev": "None",
        "validate.gpupolicy.dev": "NoneOnDryRun",
        "workloads.gpupolicy.dev": "None",
        "policies.gpupolicy.dev": "None",
        "claims.gpupolicy.dev": "NoneOnDryRun",
        "drivers.gpupolicy.dev": "None",
    }


@needs_helm
def test_the_ledgers_are_in_the_namespace_of_the_release() -> None:
    objects = rendered({"quota": {"inFlightSeconds": 330}}, namespace="platform")
    assert ("--quota-ledgers", "platform") in objects.options
    assert ("--quota-in-flight-seconds", "330") in objects.options
    (role,) = objects.of("Role")
    assert role["metadata"]["namespace"] == "platform"
    assert {"apiGroups": [""], "resources": ["configmaps"], "verbs": list(LEDGER_VERBS)} in role["rules"]


@needs_helm
def test_without_quotas_nothing_is_left_of_them() -> None:
    objects = rendered(UNCOUNTED | SILENT | UNSHOWN)
    assert not {"CustomResourceDefinition", "FlowSchema", "PriorityLevelConfiguration"} & {
        one["kind"] for one in objects
    }
    assert not [name for name, _ in objects.options if name.startswith("--quota")]
    assert {entry["sideEffects"] for entry in objects.entries} == {"None"}
    assert [role["metadata"]["name"] for role in objects.of("ClusterRole")] == ["gpu-policy"]


# Queues in the API server


@needs_helm
@each(
    "kubernetes, expected",
    {
        "1.28, which knows only versions that later ones do not": ("1.28.3", False),
        "1.29": ("1.29.0", True),
        "1.36": ("1.36.0", True),
    },
)
def test_the_replicas_have_queues_of_their_own_where_the_stable_api_is(kubernetes: str, *, expected: bool) -> None:
    """Helm could not upgrade a release that holds objects of an API which its cluster has dropped since."""
    objects = rendered(version=kubernetes)
    for kind in ("FlowSchema", "PriorityLevelConfiguration"):
        assert [one["apiVersion"] for one in objects.of(kind)] == ["flowcontrol.apiserver.k8s.io/v1"] * expected


def is_served_by_its_own_queues(objects: Objects, account: Raw) -> bool:
    """Whether all that a service account asks for is of the level that the objects define."""
    schema, level = objects.one("FlowSchema")["spec"], objects.one("PriorityLevelConfiguration")
    (rule,) = schema["rules"]
    subjects = [one["serviceAccount"] for one in rule["subjects"] if one["kind"] == "ServiceAccount"]
    everything: dict[str, Any] = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    return (
        subjects == [{key: account["metadata"][key] for key in ("name", "namespace")}]
        and rule["resourceRules"] == [everything]
        and schema["priorityLevelConfiguration"]["name"] == level["metadata"]["name"]
        and 900 < schema["matchingPrecedence"] < 9000
    )


@needs_helm
def test_what_the_replicas_ask_for_never_waits_behind_pods() -> None:
    objects = rendered({"flowControl": {"concurrencyShares": 30}}, namespace="platform")
    limited = objects.one("PriorityLevelConfiguration")["spec"]["limited"]
    assert is_served_by_its_own_queues(objects, objects.one("ServiceAccount"))
    assert (limited["nominalConcurrencyShares"], limited["lendablePercent"]) == (30, 0)
