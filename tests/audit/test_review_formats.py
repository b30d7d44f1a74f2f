"""Reports say what was found: for programs word for word, for people in diffs and paragraphs."""

import io
from typing import Any

import pytest
from rich.console import Console

from tests.build import against, pod, policy, requests_only
from webhook.audit.documents import Document, DocumentError
from webhook.audit.review_formats import render_diff, render_text, to_json
from webhook.audit.review_objects import ReviewList, review
from webhook.policy.policy_set import PolicySet

USING = PolicySet.of(policy({"tolerations": {}, "gpuLimits": {"maxPerPod": 4}, "visibleDevices": {"mode": "warn"}}), {})
UNREADABLE = DocumentError("b.yaml", 3, 17, "a git conflict marker; resolve the conflict")
TOLERATION = {"operator": "Exists", "key": "nvidia.com/gpu", "effect": "NoSchedule"}
STAMP = f"_default@{USING.default.short_hash}"
ANNOTATIONS = {"gpupolicy.dev/injected": "tolerations", "gpupolicy.dev/policy": STAMP}


def reviewed(*objects: Any, errors: tuple[DocumentError, ...] = (), using: PolicySet = USING) -> ReviewList:
    documents = [Document("a.yaml", number, 1, obj) for number, obj in enumerate(objects, start=1)]
    return review([*documents, *errors], "default", against(using))


def text(result: ReviewList, width: int = 80) -> str:
    stream = io.StringIO()
    render_text(result, Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


def test_json_is_the_contract_word_for_word() -> None:
    exposed = pod(1)
    exposed["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    patch = [
        {"op": "add", "path": "/spec/tolerations", "value": [TOLERATION]},
        {"op": "add", "path": "/metadata/annotations", "value": {"gpupolicy.dev/injected": "tolerations"}},
        {"op": "add", "path": "/metadata/annotations/gpupolicy.dev~1policy", "value": STAMP},
    ]
    result = pod(1, annotations=ANNOTATIONS, spec={"tolerations": [TOLERATION]})
    result["spec"]["containers"] = exposed["spec"]["containers"]
    message = (
        'is "all" in a container that requests GPUs; the device plugin sets it, and a value in the pod beats the '
        "plugin's. Remove the variable."
    )
    field = "spec.containers[c0].env[NVIDIA_VISIBLE_DEVICES]"
    assert to_json(reviewed(exposed, errors=(UNREADABLE,))) == {
        "apiVersion": "gpupolicy.dev/v1alpha1",
        "kind": "ReviewList",
        "items": [
            {
                "source": "a.yaml",
                "document": 1,
                "object": {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "trainer"},
                "policy": "_default",
                "allowed": True,
                "violations": [{"rule": "visibleDevices", "mode": "warn", "field": field, "message": message}],
                "templates": [],
                "warnings": [f"visibleDevices: {field}: {message}"],
                "patch": patch,
                "result": result,
            }
        ],
        "errors": [
            {"source": "b.yaml", "document": 3, "line": 17, "message": "a git conflict marker; resolve the conflict"}
        ],
    }


def test_json_keeps_every_key_where_there_is_nothing_to_say() -> None:
    document = to_json(reviewed({"apiVersion": "v1", "kind": "Namespace"}))
    assert document["errors"] == []
    assert document["items"][0] | {"result": None} == {
        "source": "a.yaml",
        "document": 1,
        "object": {"apiVersion": "v1", "kind": "Namespace", "namespace": "", "name": ""},
        "policy": "",
        "allowed": True,
        "violations": [],
        "templates": [],
        "warnings": [],
        "patch": [],
        "result": None,
    }


@pytest.mark.parametrize("value", [10**30, -(2**63) - 1, 1.5, "é\u2028", None, {"7": []}], ids=str)
def test_json_renders_whatever_a_manifest_may_hold(value: Any) -> None:
    obj = {"apiVersion": "v1", "kind": "Thing", "spec": value}
    assert to_json(reviewed(obj))["items"][0]["result"] == obj


def test_a_diff_shows_what_is_added_as_yaml() -> None:
    lines = list(render_diff(reviewed(pod(1))))
    assert lines[:2] == ["--- a.yaml Pod team/trainer", "+++ a.yaml Pod team/trainer (completed by _default)"]
    added = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
    assert added == [
        "  annotations:",
        "    gpupolicy.dev/injected: tolerations",
        f"    gpupolicy.dev/policy: {STAMP}",
        "  tolerations:",
        "  - operator: Exists",
        "    key: nvidia.com/gpu",
        "    effect: NoSchedule",
    ]
    assert [line for line in lines if line.startswith("-") and not line.startswith("---")] == []


def test_a_diff_writes_refusals_warnings_and_faults_as_comments() -> None:
    hostile = pod(5, name="a\nb")
    result = reviewed(requests_only(), hostile, errors=(UNREADABLE,))
    (of_requests,), (of_hostile,) = (item.violations for item in result.items)
    assert list(render_diff(result)) == [
        f"# Pod team/trainer: refused: {of_requests}",
        f"# Pod team/a?b: refused: {of_hostile}",
        "# unreadable: b.yaml:17: a git conflict marker; resolve the conflict",
    ]


@pytest.mark.parametrize("width", [20, 80])
def test_text_names_what_became_of_each_object_and_the_total(width: int) -> None:
    result = reviewed(pod(1), pod(0), pod(5), errors=(UNREADABLE,))
    (refusal,) = result.items[2].violations
    assert text(result, width).splitlines() == [
        "completed Pod team/trainer  a.yaml  policy _default",
        '    + /spec/tolerations [{"operator":"Exists","key":"nvidia.com/gpu","effect":"NoSchedule"}]',
        '    + /metadata/annotations {"gpupolicy.dev/injected":"tolerations"}',
        f'    + /metadata/annotations/gpupolicy.dev~1policy "{STAMP}"',
        "allowed   Pod team/trainer  a.yaml  policy _default",
        "refused   Pod team/trainer  a.yaml  policy _default",
        f"    refused: {refusal}",
        "UNREADABLE b.yaml:17: a git conflict marker; resolve the conflict",
        "3 reviewed, 1 refused, 1 completed, 1 unreadable",
    ]


def test_text_does_not_read_markup_in_names() -> None:
    assert "[red]x[/red]" in text(reviewed(pod(1, name="[red]x[/red]")))
