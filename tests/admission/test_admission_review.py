"""AdmissionReviews on the wire: what is read, what is refused as unreadable and why, what is sent back."""

import base64
import contextlib
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import pod, review
from tests.golden import golden
from tests.strategies import checked, json_values
from webhook.admission.admission_review import AdmissionRequest, AdmissionResponse, UnansweredError, parse, render


def parsed(**changes: Any) -> AdmissionRequest:
    return parse(orjson.dumps(review(pod(1), **changes)))


def refused(body: bytes) -> str:
    with pytest.raises(UnansweredError) as caught:
        parse(body)
    return str(caught.value)


def test_a_review_is_read() -> None:
    found = parsed(old=pod(2), name="trainer", dryRun=True, subResource="resize")
    assert (found.uid, found.operation, found.namespace, found.name, found.subresource, found.is_dry_run) == (
        "705ab4f5-6393-11e8-b7cc-42010a800002",
        "CREATE",
        "team",
        "trainer",
        "resize",
        True,
    )
    assert (found.api_version, found.kind, found.user_groups) == ("v1", "Pod", ["system:authenticated"])
    assert (found.object, found.old_object) == (pod(1), pod(2))


def test_the_group_of_a_kind_stands_before_its_version() -> None:
    assert parsed(kind=("apps", "v1", "Deployment")).api_version == "apps/v1"


def test_the_namespace_is_that_of_the_request_and_never_of_the_object() -> None:
    assert parse(orjson.dumps(review(pod(1, namespace="kube-system"), namespace="team"))).namespace == "team"


def test_null_stands_for_absent() -> None:
    found = parsed(name=None, dryRun=None, subResource=None, userInfo=None)
    assert (found.name, found.is_dry_run, found.subresource, list(found.user_groups)) == ("", False, "", [])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is not JSON"),
        (b"hello", "the body is not JSON"),
        (b'{"kind":', "the body is not JSON"),
        (b"\xff\xfe{}", "the body is not JSON"),
        (b'{"a": "\xff"}', "the body is not JSON"),
        (b'{"a": NaN}', "the body is not JSON"),
        (b'{"a": "\\ud800"}', "the body is not JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "the body is not JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "the body is not JSON"),
        (b"[]", "the body is a list; send an AdmissionReview of admission.k8s.io/v1"),
        (b"null", "the body is null; send an AdmissionReview"),
        (b"7", "the body is 7; send an AdmissionReview"),
        (b"{}", 'kind: found null, expected "AdmissionReview"'),
        (orjson.dumps(pod(1)), 'kind: found "Pod", expected "AdmissionReview"'),
    ],
)
def test_a_body_that_is_no_review_is_refused_with_a_reason(body: bytes, reason: str) -> None:
    assert refused(body).startswith(reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            {"apiVersion": "admission.k8s.io/v1beta1"},
            'apiVersion: found "admission.k8s.io/v1beta1", expected "admission.k8s.io/v1"',
            id="old version",
        ),
        ({"kind": ["AdmissionReview"]}, 'kind: found a list, expected "AdmissionReview"'),
        ({"request": None}, "request: missing"),
        ({"request": {}}, "request: missing"),
        ({"request": []}, "request: found a list, expected a map"),
    ],
)
def test_a_review_that_cannot_be_answered_is_refused_with_a_reason(change: Any, reason: str) -> None:
    assert refused(orjson.dumps(review(pod(1)) | change)).startswith(reason)


@golden
def test_a_request_with_a_part_of_the_wrong_type_is_refused_with_its_place(change: Any, reason: str) -> None:
    with pytest.raises(UnansweredError) as caught:
        _parsed(change)
    assert str(caught.value).startswith(reason)


# The texts of a request are as Kubernetes defines them: they become parts of paths at the API server and of keys.


def _parsed(change: dict[str, Any]) -> Any:
    body = review(pod(1))
    body["request"] |= change
    return parse(orjson.dumps(body))


REFUSED = {
    "namespace": (
        *("tenant-x/../../../api/v1/secrets", "..", "tenant%2fx", "Team", "team\n", "team-", "t" * 64, "té"),
    ),
    "uid": ("u" * 129, "a\nb", "a\x1b[31m"),
    "name": ("n" * 254, "a/b", "..", "a%2fb"),
    "operation": ("C" * 33,),
    "subResource": ("resize/../x", "s" * 64),
    "kind.kind": ("P" * 64, "Pod\n"),
    "kind.version": ("v1/../x", "v" * 64),
    "kind.group": ("apps/v1", "g" * 254),
}
READ = {
    "namespace": ("", "0" + "a" * 61 + "9"),
    "name": ("", "n" * 253, "system:node:a.b", "..."),
    "uid": ("705ab4f5-6393-11e8-b7cc-42010a800002", "u" * 128),
    "operation": ("CONNECT",),
    "subResource": ("ephemeralcontainers",),
    "kind.group": ("kubeflow.org",),
}


def _changed(place: str, text: str) -> dict[str, Any]:
    parent, _, key = place.rpartition(".")
    return {"kind": {"group": "", "version": "v1", "kind": "Pod", key: text}} if parent else {place: text}


@pytest.mark.parametrize(("place", "text"), [(place, text) for place, texts in REFUSED.items() for text in texts])
def test_a_text_that_no_api_server_sends_is_refused_with_place_found_and_allowed(place: str, text: str) -> None:
    with pytest.raises(UnansweredError, match=rf"^request\.{place}: found .*, expected ") as caught:
        _parsed(_changed(place, text))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("place", "text"), [(place, text) for place, texts in READ.items() for text in texts])
def test_what_api_servers_send_is_read(place: str, text: str) -> None:
    assert _parsed(_changed(place, text)) is not None


def test_a_reason_does_not_repeat_what_was_sent_at_length() -> None:
    assert len(refused(orjson.dumps({"kind": "x" * 1_000_000}))) < 200


@pytest.mark.parametrize("number", ["1" * 400, "1e999", "-1e999", "1e-999", "9223372036854775808"])
def test_huge_numbers_are_read_or_refused_but_break_nothing(number: str) -> None:
    body = orjson.dumps(review(pod(1))).replace(b'"nvidia.com/gpu":1', b'"nvidia.com/gpu":' + number.encode())
    try:
        assert parse(body).object is not None
    except UnansweredError as error:
        assert "the body is not JSON" in str(error)  # noqa: PT017  # either outcome is fine, another error is not


@given(json_values(20), st.sampled_from(["whole", "request", "kind", "userInfo"]))
@checked
def test_no_json_raises_anything_but_bad_request(value: Any, place: str) -> None:
    body: Any = review(pod(1))
    if place == "whole":
        body = value
    elif place == "request":
        body["request"] = value
    else:
        body["request"][place] = value
    with contextlib.suppress(UnansweredError):
        parse(json.dumps(body).encode("utf-8", "replace"))


def response(answer: AdmissionResponse) -> dict[str, Any]:
    document = json.loads(render("some-uid", answer))
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    found: dict[str, Any] = document["response"]
    assert found.pop("uid") == "some-uid"
    return found


def test_an_answer_that_allows_says_nothing_else() -> None:
    assert response(AdmissionResponse(is_allowed=True)) == {"allowed": True}


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (422, "Invalid")])
def test_a_refusal_carries_code_message_and_reason(code: int, reason: str) -> None:
    found = response(AdmissionResponse(is_allowed=False, message="because", code=code))
    assert found == {"allowed": False, "status": {"code": code, "message": "because", "reason": reason}}


def test_a_patch_is_a_json_patch_in_base64() -> None:
    patch = [{"op": "add", "path": "/spec/runtimeClassName", "value": "nvidia"}]
    found = response(AdmissionResponse(is_allowed=True, patch=patch, warnings=["w"], audit_annotations={"policy": "p"}))
    assert json.loads(base64.b64decode(found.pop("patch"))) == patch
    assert found == {"allowed": True, "patchType": "JSONPatch", "warnings": ["w"], "auditAnnotations": {"policy": "p"}}
