"""AdmissionReview v1 on the wire: bytes to a request, an answer to bytes. No decisions are made here."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

API_VERSION = "admission.k8s.io/v1"


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
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        found = review.get("kind") if isinstance(review, dict) else type(review).__name__
        raise BadRequestError(f"kind: found {found!r}, expected 'AdmissionReview'")
    if review.get("apiVersion") != API_VERSION:
        raise BadRequestError(f"apiVersion: found {review.get('apiVersion')!r}, expected {API_VERSION!r}")
    request = _part(review, "request", dict)
    if not request:
        raise BadRequestError("request: missing; an AdmissionReview without a request cannot be answered")
    kind = _part(request, "kind", dict)
    user = _part(request, "userInfo", dict)
    group, version = _part(kind, "group", str), _part(kind, "version", str)
    uid = _part(request, "uid", str)
    if not uid:
        raise BadRequestError("request.uid: missing or empty; the answer must repeat it")
    return Request(
        uid=uid,
        operation=_part(request, "operation", str),
        namespace=_part(request, "namespace", str),
        name=_part(request, "name", str),
        api_version=f"{group}/{version}" if group else version,
        kind=_part(kind, "kind", str),
        subresource=_part(request, "subResource", str),
        user_groups=_part(user, "groups", list),
        is_dry_run=request.get("dryRun") is True,
        object=_part(request, "object", dict) or None,
        old_object=_part(request, "oldObject", dict) or None,
    )


def _part(parent: Mapping[str, Any], key: str, kind: type) -> Any:
    value = parent.get(key)
    if value.__class__ is kind:
        return value
    if value is None:
        return kind()
    raise BadRequestError(f"request.{key}: found {type(value).__name__}, expected {kind.__name__}")


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
