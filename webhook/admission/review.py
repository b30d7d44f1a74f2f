"""AdmissionReview v1 on the wire: bytes to a request, an answer to bytes. No decisions are made here."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from webhook.model.shape import spelled

API_VERSION = "admission.k8s.io/v1"

_EXPECTED: Mapping[type, str] = {dict: "a map", list: "a list", str: "a text"}


class BadRequestError(ValueError):
    """The body is not an AdmissionReview that we can answer; the text says what was found and what is expected."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the API server asks. `name` is empty in the mutating phase of an object made with generateName."""

    uid: str
    operation: str
    namespace: str
    name: str
    api_version: str
    kind: str
    subresource: str
    user_groups: Sequence[str]
    is_dry_run: bool
    object: Mapping[str, Any] | None
    old_object: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server gets. `code` and `message` are sent only with a refusal."""

    is_allowed: bool
    message: str = ""
    code: int = 403
    patch: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)


def parse(body: bytes) -> Request:
    """Read an AdmissionReview; raises BadRequestError where `body` is anything else."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequestError(f"the body is not JSON ({error}); send an AdmissionReview of {API_VERSION}") from None
    if not isinstance(review, dict):
        raise BadRequestError(f"the body is {spelled(review)}; send an AdmissionReview of {API_VERSION}")
    for key, expected in (("kind", "AdmissionReview"), ("apiVersion", API_VERSION)):
        if review.get(key) != expected:
            raise BadRequestError(f"{key}: found {spelled(review.get(key))}, expected {spelled(expected)}")
    request = _part(review, "request", dict, "")
    if not request:
        raise BadRequestError("request: missing; an AdmissionReview without a request cannot be answered")
    kind = _part(request, "kind", dict)
    user = _part(request, "userInfo", dict)
    group, version = _part(kind, "group", str, "request.kind."), _part(kind, "version", str, "request.kind.")
    uid = _part(request, "uid", str)
    if not uid:
        raise BadRequestError("request.uid: missing or empty; the answer must repeat it")
    return Request(
        uid=uid,
        operation=_part(request, "operation", str),
        namespace=_part(request, "namespace", str),
        name=_part(request, "name", str),
        api_version=f"{group}/{version}" if group else version,
        kind=_part(kind, "kind", str, "request.kind."),
        subresource=_part(request, "subResource", str),
        user_groups=_part(user, "groups", list, "request.userInfo."),
        is_dry_run=request.get("dryRun") is True,
        object=_part(request, "object", dict) or None,
        old_object=_part(request, "oldObject", dict) or None,
    )


def _part(parent: Mapping[str, Any], key: str, kind: type, path: str = "request.") -> Any:
    value = parent.get(key)
    if value.__class__ is kind:
        return value
    if value is None:
        return kind()
    raise BadRequestError(f"{path}{key}: found {spelled(value)}, expected {_EXPECTED[kind]}")


def render(uid: str, answer: Answer) -> bytes:
    """The AdmissionReview that answers request `uid`."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.is_allowed}
    if not answer.is_allowed:
        reason = "Forbidden" if answer.code == 403 else "Invalid"
        response["status"] = {"code": answer.code, "message": answer.message, "reason": reason}
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(answer.patch)).decode("ascii")
    if answer.warnings:
        response["warnings"] = answer.warnings
    if answer.audit_annotations:
        response["auditAnnotations"] = answer.audit_annotations
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
