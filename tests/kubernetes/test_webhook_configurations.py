"""Configurations that mean the same are equal, whatever the API server filled in; each field that differs is named."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.golden import each
from webhook.kubernetes.webhook_configurations import (
    RegistrationError,
    api_path,
    differences,
    load_registration,
    read_registration,
    webhooks_of,
)

MINIMAL = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: gpu-policy}
webhooks:
  - name: mutate.gpupolicy.dev
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig: {service: {namespace: gpu-policy, name: gpu-policy}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gpu-policy}
webhooks:
  - name: validate.gpupolicy.dev
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig: {url: "https://192.0.2.1:8443/validate"}
    namespaceSelector: {matchLabels: {}, matchExpressions: []}
    rules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [pods]}]
"""
"""As little as the API server takes."""

ENTRY = """
    admissionReviewVersions: [v1]
    clientConfig: {service: {namespace: gpu-policy, name: gpu-policy, path: /review, port: 443}}
    failurePolicy: Fail
    matchPolicy: Equivalent
    namespaceSelector:
      matchExpressions:
        - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, gpu-policy]}
    objectSelector: {}
    rules:
      - {apiGroups: [""], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [pods], scope: Namespaced}
      - {apiGroups: [apps], apiVersions: ["*"], operations: [CREATE], resources: [deployments, daemonsets]}
    sideEffects: None
    timeoutSeconds: 5
    matchConditions:
      - {name: changed, expression: "request.operation != 'UPDATE' || object.spec != oldObject.spec"}
      - name: gpus
        expression: |-
          has(object.spec.containers) && object.spec.containers.exists(c,
            has(c.resources) && has(c.resources.limits) && 'nvidia.com/gpu' in c.resources.limits)
"""
FULL = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {{name: gpu-policy, labels: {{app.kubernetes.io/name: gpu-policy}}}}
webhooks:
  - name: mutate.gpupolicy.dev
    reinvocationPolicy: IfNeeded{ENTRY}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: gpu-policy}}
webhooks:
  - name: validate.gpupolicy.dev{ENTRY}
"""
"""With every field that an installation sets."""

Webhook = dict[str, Any]
Change = Callable[[Webhook], object]


def installed(text: str, phase: str) -> dict[str, Any]:
    return copy.deepcopy(dict(read_registration(text, "sample")[phase]))


def as_stored(plane: ControlPlane, document: dict[str, Any], bundle: str = "Q0E=") -> dict[str, Any]:
    """What the API server makes of a configuration with a caBundle, without keeping it."""
    document = copy.deepcopy(document)
    for webhook in document["webhooks"]:
        webhook["clientConfig"]["caBundle"] = bundle
    status, answer = plane.raw("POST", f"{api_path(document).rpartition('/')[0]}?dryRun=All", document)
    assert status == 201, answer
    return dict(answer)


PHASES = [pytest.param(phase, id=phase) for phase in ("mutating", "validating")]


@pytest.mark.parametrize("phase", PHASES)
@each("text", {"minimal": MINIMAL, "full": FULL})
def test_what_the_api_server_fills_in_is_no_difference(control_plane: ControlPlane, text: str, phase: str) -> None:
    expected = installed(text, phase)
    stored = as_stored(control_plane, expected)
    assert differences(expected, stored) == []
    assert differences(stored, stored) == []


@pytest.mark.parametrize("document", shipped().configurations, ids=lambda document: document["kind"])
def test_what_is_shipped_is_no_difference_entry_by_entry(control_plane: ControlPlane, document: Webhook) -> None:
    stored = as_stored(control_plane, document)
    assert differences(document, stored) == []
    gone = copy.deepcopy(document | {"webhooks": document["webhooks"][:-1]})
    name = document["webhooks"][-1]["name"]
    assert differences(document, gone) == [f"webhooks[{name}] is missing"]
    assert differences(gone, document) == [f"webhooks[{name}] is there; it is not expected"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_field_that_is_not_set_counts_as_what_the_api_server_takes(control_plane: ControlPlane, phase: str) -> None:
    """The table of defaults is that of the server, field by field."""
    expected = installed(MINIMAL, phase)
    (completed,) = webhooks_of(expected).values()
    (stored,) = webhooks_of(as_stored(control_plane, expected)).values()
    del stored["clientConfig"]["caBundle"]
    assert completed == stored


@pytest.mark.parametrize("phase", PHASES)
def test_order_labels_and_what_has_no_meaning_are_no_difference(control_plane: ControlPlane, phase: str) -> None:
    expected = installed(FULL, phase)
    edited = copy.deepcopy(expected)
    edited["metadata"] |= {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    (webhook,) = edited["webhooks"]
    webhook["rules"].reverse()
    for rule in webhook["rules"]:
        rule["operations"].reverse()
        rule["resources"].reverse()
    webhook["namespaceSelector"]["matchExpressions"][0]["values"].reverse()
    webhook["matchConditions"].reverse()
    assert differences(expected, as_stored(control_plane, edited)) == []


def put(*path: Any, value: Any) -> Change:
    def change(webhook: Any) -> None:
        for key in path[:-1]:
            webhook = webhook[key]
        webhook[path[-1]] = value

    return change


CHANGES = [
    pytest.param(put("failurePolicy", value="Ignore"), "failurePolicy", id="failurePolicy"),
    pytest.param(put("matchPolicy", value="Exact"), "matchPolicy", id="matchPolicy"),
    pytest.param(put("timeoutSeconds", value=30), "timeoutSeconds", id="timeoutSeconds"),
    pytest.param(put("sideEffects", value="NoneOnDryRun"), "sideEffects", id="sideEffects"),
    pytest.param(
        put("admissionReviewVersions", value=["v1", "v1beta1"]), "admissionReviewVersions", id="admissionReviewVersions"
    ),
    pytest.param(put("objectSelector", "matchLabels", value={"gpu": "yes"}), "objectSelector", id="objectSelector"),
    pytest.param(put("namespaceSelector", value={}), "namespaceSelector", id="namespaceSelector"),
    pytest.param(
        lambda webhook: webhook["namespaceSelector"]["matchExpressions"].append({"key": "a", "operator": "Exists"}),
        "namespaceSelector",
        id="one more namespace selected",
    ),
    pytest.param(put("rules", 1, "operations", value=["DELETE"]), "rules", id="operations of a rule"),
    pytest.param(lambda webhook: webhook["rules"].pop(1), "rules", id="a rule less"),
    pytest.param(put("clientConfig", value={"url": "https://192.0.2.1/"}), "clientConfig", id="url"),
    pytest.param(put("clientConfig", "service", "port", value=8443), "clientConfig", id="port"),
    pytest.param(lambda webhook: webhook["clientConfig"]["service"].pop("path"), "clientConfig", id="path"),
    pytest.param(put("matchConditions", 0, "expression", value="true"), "matchConditions", id="a condition"),
    pytest.param(lambda webhook: webhook["matchConditions"].pop(0), "matchConditions", id="a condition less"),
]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("change", "field"), CHANGES)
def test_a_webhook_is_named_with_the_field_that_differs(
    control_plane: ControlPlane, phase: str, change: Change, field: str
) -> None:
    expected = installed(FULL, phase)
    edited = copy.deepcopy(expected)
    change(edited["webhooks"][0])
    name = expected["webhooks"][0]["name"]
    found = differences(expected, as_stored(control_plane, edited))
    assert [f"webhooks[{name}] differs in {field}"] == found


def test_reinvocation_is_compared_where_it_exists(control_plane: ControlPlane) -> None:
    expected = installed(FULL, "mutating")
    edited = copy.deepcopy(expected)
    del edited["webhooks"][0]["reinvocationPolicy"]
    edited["webhooks"][0]["timeoutSeconds"] = 9
    assert differences(expected, as_stored(control_plane, edited)) == [
        "webhooks[mutate.gpupolicy.dev] differs in reinvocationPolicy, timeoutSeconds"
    ]


def test_webhooks_that_are_missing_or_too_many_are_named() -> None:
    expected = read_registration(FULL, "sample")["validating"]
    edited: Any = copy.deepcopy(expected)
    edited["webhooks"][0]["name"] = "other.example.com"
    assert differences(expected, edited) == [
        "webhooks[other.example.com] is there; it is not expected",
        "webhooks[validate.gpupolicy.dev] is missing",
    ]
    assert differences(expected, {"metadata": {"name": "gpu-policy"}}) == [
        "webhooks[validate.gpupolicy.dev] is missing"
    ]


def test_a_bundle_is_compared_only_where_one_was_installed(control_plane: ControlPlane) -> None:
    """Who keeps the caBundle right says what it has to be."""
    without = installed(MINIMAL, "mutating")
    stored = as_stored(control_plane, without)
    assert differences(without, as_stored(control_plane, without, "T1RIRVI=")) == []
    assert differences(stored, as_stored(control_plane, without, "T1RIRVI=")) == [
        "webhooks[mutate.gpupolicy.dev] differs in clientConfig"
    ]


def test_a_field_that_kubernetes_gains_later_is_compared_where_it_was_installed() -> None:
    expected = read_registration(FULL, "sample")["mutating"]
    newer: Any = copy.deepcopy(expected)
    newer["webhooks"][0]["gainedLater"] = "Default"
    assert differences(expected, newer) == []
    assert differences(newer, expected) == ["webhooks[mutate.gpupolicy.dev] differs in gainedLater"]


MUTATING, VALIDATING = MINIMAL.split("---\n")
KINDS = "MutatingWebhookConfiguration and one ValidatingWebhookConfiguration"
EXPECTED = f"expected one {KINDS} of admissionregistration.k8s.io/v1"


@each(
    "text, found",
    {
        "empty": ("", "found no document"),
        "one of them": (MUTATING, "found only one MutatingWebhookConfiguration"),
        "one too many": (f"{MINIMAL}---\n{MUTATING}", "found two of kind MutatingWebhookConfiguration"),
        "a list": (f"{MINIMAL}---\n[]", "found apiVersion not set and kind not set"),
        "something else": ("{apiVersion: v1, kind: Secret}", "found apiVersion v1 and kind Secret"),
        "another version": (
            MINIMAL.replace(".io/v1", ".io/v1beta1"),
            "found apiVersion admissionregistration.k8s.io/v1beta1 and kind MutatingWebhookConfiguration",
        ),
        "no name": (
            MINIMAL.replace("{name: gpu-policy}\nw", "{}\nw"),
            "found a MutatingWebhookConfiguration that the API server would reject",
        ),
        "no webhooks": (
            MUTATING.partition("webhooks")[0],
            "found a MutatingWebhookConfiguration that the API server would reject",
        ),
        "a rule that is none": (
            VALIDATING.replace("rules: [", "rules: [pods, "),
            "found a ValidatingWebhookConfiguration that the API server would reject",
        ),
    },
)
def test_a_file_that_is_no_registration_is_refused_with_what_was_found(tmp_path: Path, text: str, found: str) -> None:
    file = tmp_path / "webhooks.yaml"
    file.write_text(text)
    with pytest.raises(RegistrationError) as refused:
        load_registration(file)
    assert f"{file}: {found}; {EXPECTED}" == str(refused.value)


@each(
    "content, fault",
    {
        "missing": (None, "cannot be read (No such file or directory)"),
        "no text": (b"\xff", "cannot be read ('utf-8' codec can't decode"),
        "no YAML": (b"{a: ", "not valid YAML (while parsing a flow"),
    },
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None, fault: str) -> None:
    file = tmp_path / "webhooks.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(RegistrationError) as refused:
        load_registration(file)
    assert str(refused.value).startswith(f"{file}: {fault}")
