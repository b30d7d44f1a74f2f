"""values.yaml and its schema: everything is documented, typos are refused, contradictions are explained."""

import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
import yaml

from deploy.generate import CHART, HelmError, render
from tests.deploy.manifests import needs_helm
from tests.deploy.value_sets import AUTHORITY, VALUE_SETS
from tests.golden import each

TEXT = (CHART / "values.yaml").read_text()
LINES = TEXT.splitlines()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())

Key = tuple[str, ...]


def keys(node: yaml.MappingNode, path: Key = ()) -> Iterator[tuple[Key, int]]:
    """Every key of values.yaml outside of lists, with the number of its line from 0."""
    for key, value in node.value:
        here = (*path, key.value)
        yield here, key.start_mark.line
        if isinstance(value, yaml.MappingNode):
            yield from keys(value, here)


KEYS = dict(keys(yaml.compose(TEXT)))
EXAMPLES = {("resources",), ("audit", "resources"), ("grafanaDashboard", "labels"), ("topologySpreadConstraints",)}
"""Values that are written as Kubernetes writes them: what is inside is documented there."""


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").removeprefix("#/definitions/")
    return resolved(SCHEMA["definitions"][name]) if name else schema


def schema_of(key: Key) -> dict[str, Any]:
    return reduce(lambda schema, part: resolved(schema["properties"][part]), key, SCHEMA)


def leaves(values: dict[str, Any], path: Key = ()) -> Iterator[Key]:
    for key, value in values.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))


def is_inside(key: Key, others: set[Key]) -> bool:
    return any(key[: len(other)] == other and key != other for other in others)


@pytest.mark.parametrize("key", [key for key in KEYS if not is_inside(key, EXAMPLES)], ids=".".join)
def test_every_value_is_described_in_the_line_above_it(key: Key) -> None:
    above = LINES[KEYS[key] - 1].strip()
    assert above.startswith("# ")


@pytest.mark.parametrize("key", [key for key in KEYS if not is_inside(key, EXAMPLES)], ids=".".join)
def test_every_value_is_in_the_schema(key: Key) -> None:
    assert schema_of(key)


def test_the_value_sets_of_the_tests_leave_no_value_out() -> None:
    set_somewhere = {leaf for values in VALUE_SETS.values() for leaf in leaves(values)}
    lists_and_scalars = {key for key in KEYS if not is_inside(key, EXAMPLES)} - {key[:-1] for key in KEYS}
    assert lists_and_scalars - set_somewhere == set()


@needs_helm
@each(
    "values, said",
    {
        "typo at the top": ({"replcas": 3}, "replcas"),
        "typo inside": ({"webhook": {"validate": {"failurepolicy": "Fail"}}}, "failurepolicy"),
        "a word unknown here": ({"webhook": {"mutate": {"failurePolicy": "fail"}}}, "failurePolicy"),
        "too patient": ({"webhook": {"mutate": {"timeoutSeconds": 31}}}, "timeoutSeconds"),
        "no TLS": ({"webhook": {"url": "http://example.com"}}, "url"),
        "a version without quotes": ({"kubeVersion": 1.30}, "kubeVersion"),
        "a port of root": ({"port": 443}, "port"),
        "a file without ending": ({"policies": {"inline": {"team-vision": TEXT}}}, "team-vision"),
        "a source unknown here": ({"certificates": {"source": "cert-manager"}}, "source"),
        "no node could be drained": ({"podDisruptionBudget": {"maxUnavailable": 0}}, "maxUnavailable"),
        "less than an admission may take": ({"quota": {"inFlightSeconds": 5}}, "inFlightSeconds"),
        "no part at all": ({"flowControl": {"concurrencyShares": 0}}, "concurrencyShares"),
        "no patience": ({"workloads": {"timeoutSeconds": 0}}, "timeoutSeconds"),
        "resources of no group": ({"workloads": {"extraRules": [{"resources": ["a"]}]}}, "group"),
        "no resources": ({"workloads": {"extraRules": [{"group": "a.example"}]}}, "resources"),
        "none of them": ({"workloads": {"extraRules": [{"group": "a", "resources": []}]}}, "resources"),
        "typo in a list": ({"registries": {"extra": [{"hots": "a.example"}]}}, "hots"),
        "no preset": ({"registries": {"presets": ["docker.oi"]}}, "docker.io"),
        "a URL for a host": ({"registries": {"extra": [{"host": "https://a.example"}]}}, "host"),
        "a part of a registry": ({"registries": {"extra": [{"host": "a.example/team"}]}}, "host"),
        "no certificate": ({"registries": {"authorities": {"a.pem": "hello"}}}, "a.pem"),
        "the list": ({"registries": {"authorities": {"registries.yaml": AUTHORITY}}}, "registries.yaml"),
        "a label that whoever owns a namespace may set": (
            {"webhook": {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}},
            "key",
        ),
    },
)
def test_the_schema_refuses_what_cannot_be_meant(values: dict[str, Any], said: str) -> None:
    with pytest.raises(HelmError, match=said):
        render(values)


@needs_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param(
            {"certificates": {"source": "existing"}},
            "certificates.source is existing, but certificates.existing.secretName is empty",
            id="existing without a Secret",
        ),
        pytest.param(
            {"certificates": {"existing": {"secretName": "mine"}}},
            "certificates.existing is set, but certificates.source is self",
            id="a Secret for nothing",
        ),
        pytest.param(
            {"certificates": {"existing": {"caBundle": AUTHORITY}}},
            "certificates.existing is set, but certificates.source is self",
            id="a caBundle that replicas would replace",
        ),
        pytest.param(
            {"certificates": {"certManager": {"issuerRef": {"name": "corporate"}}}},
            "certificates.certManager.issuerRef is set, but certificates.source is self",
            id="an issuer for nothing",
        ),
        pytest.param(
            {"certificates": {"clientCA": {"configMap": "a", "secret": "b"}}}, "name one of them", id="two client CAs"
        ),
        pytest.param({"certificates": {"clientNames": ["api"]}}, "without certificates.clientCA", id="names alone"),
        pytest.param({"policies": {"defaults": False}}, "there are no policies", id="no policies"),
        pytest.param({"hostNetwork": True, "port": 10250}, "and port is 10250", id="the kubelet's port"),
        pytest.param(
            {"hostNetwork": True, "metrics": {"port": 10250}},
            "and metrics.port is 10250, which the kubelet",
            id="the kubelet's port for metrics",
        ),
        pytest.param(
            {"registries": {"enabled": True, "presets": []}}, "no registry may be asked", id="look-ups of nothing"
        ),
        pytest.param(
            {"registries": {"enabled": True, "extra": [{"host": "quay.io"}]}},
            "registries.extra lists quay.io, which is in registries.presets too",
            id="a registry twice, on which no replica would start",
        ),
        pytest.param(
            {"registries": {"credentialsSecret": "logins"}}, "registries.enabled is not", id="logins for nobody"
        ),
        pytest.param(
            {"registries": {"extra": [{"host": "a.example", "caFile": "a.pem"}]}},
            "caFile a.pem for a.example, which is not in registries.authorities",
            id="an authority that is not there",
        ),
        *(
            pytest.param({"workloads": {"extraRules": [{"group": group, "resources": ["fine", name]}]}}, said, id=case)
            for group, name, said, case in (
                ("*", "fine", 'has the resource "fine" of group "\\*"; name each resource', "every group"),
                ("a.example", "*", "asked about every lease and event", "every resource"),
                ("a.example", "*/*", "asked about every lease and event", "everything"),
                ("a.example", "jobs/status", "which is a subresource; name resources alone", "a subresource"),
                ("", "pods", "pods are judged by an entry of their own", "pods"),
                ("a.example", "Training", "write its plural in lower case", "a kind for a resource"),
            )
        ),
        pytest.param({"extraArgs": ["--port=9"]}, "extraArgs has --port", id="an argument twice"),
        pytest.param({"extraArgs": ["--quota-ledgers=a"]}, "extraArgs has --quota-ledgers", id="another namespace"),
    ],
)
def test_values_that_contradict_each_other_are_explained(values: dict[str, Any], said: str) -> None:
    with pytest.raises(HelmError, match=said):
        render(values)
