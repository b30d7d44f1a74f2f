"""AdmissionReview v1: reads the bytes of a request, writes the bytes of an answer. No decisions are made here.

Texts of a review become parts of paths and keys, and anybody who reaches the port can write them. So they are checked
here by the rules of Kubernetes.

Sources: ValidateNamespaceName, IsDNS1123Subdomain, IsValidPathSegmentName and IsDNS1035Label of
k8s.io/apimachinery (pkg/api/validation, pkg/util/validation), and AdmissionRequest of k8s.io/api/admission/v1.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from webhook.model.edits import LONGEST_PATCH
from webhook.model.shape import SizeError, spelled

_MOST_SHOWN = 200
"""Characters of a found text that are looked at for a message."""

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"

FORMS: Mapping[str, tuple[str, str]] = {
    "uid": (r"[ -~]{0,128}", "up to 128 letters, digits and signs of ASCII"),
    "operation": (r"(?s).{0,32}", "CREATE, UPDATE, DELETE or CONNECT"),
    "namespace": (
        r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?",
        "the name of a namespace: up to 63 small letters, digits and inner hyphens, or nothing",
    ),
    "name": (r"(?!\.{1,2}\Z)[^/%]{0,253}", 'up to 253 characters without "/" and "%", other than "." and ".."'),
    "subResource": (r"[A-Za-z0-9-]{0,63}", "up to 63 letters, digits and hyphens"),
    "kind.group": (rf"({_SUBDOMAIN})?", "a DNS name of up to 253 characters, or nothing"),
    "kind.version": (r"[a-z0-9.-]{0,63}", "up to 63 small letters, digits, dots and hyphens"),
    "kind.kind": (r"[A-Za-z0-9-]{0,63}", "up to 63 letters, digits and hyphens"),
}
"""Place below `request` -> a pattern for the whole text, and what it may be. A missing text counts as empty."""


def objection_to(place: str, text: str) -> str:
    """What is wrong with the text at a place of `FORMS`: place, found and allowed; empty where nothing is wrong."""
    pattern, allowed = FORMS[place]
    if re.fullmatch(pattern, text, re.ASCII):
        return ""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[:_MOST_SHOWN])
    return f"request.{place}: found {spelled(shown)} ({len(text)} characters), expected {allowed}"


API_VERSION = "admission.k8s.io/v1"

_REASONS = {
    403: "Forbidden",
    409: "AlreadyExists",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
"""HTTP status -> reason of a refusal, which clients compare; other statuses have the reason Invalid."""

_EXPECTED: Mapping[type, str] = {dict: "a map", list: "a list", str: "a string"}


class UnansweredError(Exception):
    """A request that gets no decision. `reason` is for the metric, the text for people: found, expected, remedy."""

    def __init__(
        self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, reason: str = "bad_request", **headers: str
    ) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.headers = [(name.replace("_", "-"), value) for name, value in headers.items()]


def unavailable(text: str, reason: str) -> UnansweredError:
    """The error for a request that the API server should repeat in a second, possibly at another replica."""
    return UnansweredError(text, HTTPStatus.SERVICE_UNAVAILABLE, reason, Retry_After="1")


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """The request of the API server. `name` is empty in the mutating phase of an object with generateName."""

    uid: str
    operation: str
    namespace: str
    name: str
    api_version: str
    kind: str
    subresource: str
    user: str
    user_groups: Sequence[str]
    is_dry_run: bool
    object: Mapping[str, Any] | None
    old_object: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """The answer for the API server. `code` and `message` are sent with a refusal only."""

    is_allowed: bool
    message: str = ""
    code: int = 403
    patch: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)


def parse(body: bytes) -> AdmissionRequest:
    """Read an AdmissionReview. Raises UnansweredError for any other body."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UnansweredError(f"the body is not JSON ({error}); send an AdmissionReview of {API_VERSION}") from None
    if not isinstance(review, dict):
        raise UnansweredError(f"the body is {spelled(review)}; send an AdmissionReview of {API_VERSION}")
    for key, expected in (("kind", "AdmissionReview"), ("apiVersion", API_VERSION)):
        if review.get(key) != expected:
            raise UnansweredError(f"{key}: found {spelled(review.get(key))}, expected {spelled(expected)}")
    request = _part(review, "request", dict, "")
    if not request:
        raise UnansweredError("request: missing; an AdmissionReview without a request cannot be answered")
    kind = _part(request, "kind", dict)
    user = _part(request, "userInfo", dict)
    group, version = _text(kind, "group", "kind."), _text(kind, "version", "kind.")
    uid = _text(request, "uid")
    if not uid:
        raise UnansweredError("request.uid: missing or empty; the answer must repeat it")
    return AdmissionRequest(
        uid=uid,
        operation=_text(request, "operation"),
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        api_version=f"{group}/{version}" if group else version,
        kind=_text(kind, "kind", "kind."),
        subresource=_text(request, "subResource"),
        user=_part(user, "username", str, "request.userInfo."),
        user_groups=_part(user, "groups", list, "request.userInfo."),
        is_dry_run=request.get("dryRun") is True,
        object=_part(request, "object", dict) or None,
        old_object=_part(request, "oldObject", dict) or None,
    )


def _part(parent: Mapping[str, Any], key: str, kind: type, path: str = "request.") -> Any:
    value = parent.get(key)
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    raise UnansweredError(f"{path}{key}: found {spelled(value)}, expected {_EXPECTED[kind]}")


def _text(parent: Mapping[str, Any], key: str, path: str = "") -> str:
    """A text of the request; raises UnansweredError where Kubernetes does not allow it."""
    text: str = _part(parent, key, str, f"request.{path}")
    if text and (objection := objection_to(path + key, text)):
        raise UnansweredError(objection)
    return text


def render(uid: str, answer: AdmissionResponse) -> bytes:
    """The AdmissionReview that answers request `uid`. Raises ShapeError for a patch too long for the API server."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.is_allowed}
    if not answer.is_allowed:
        reason = _REASONS.get(answer.code, "Invalid")
        response["status"] = {"code": answer.code, "message": answer.message, "reason": reason}
        if answer.code == HTTPStatus.TOO_MANY_REQUESTS:  # clients of Kubernetes then try again by themselves
            response["status"]["details"] = {"retryAfterSeconds": 1}
    if answer.patch:
        response["patchType"] = "JSONPatch"
        patch = orjson.dumps(answer.patch)
        if len(patch) > LONGEST_PATCH:
            most = f"{LONGEST_PATCH}, since the API server accepts no longer patch"
            raise SizeError(f"so much to add that the patch has {len(patch)} bytes", most, "spec")
        response["patch"] = base64.b64encode(patch).decode("ascii")
    if answer.warnings:
        response["warnings"] = answer.warnings
    if answer.audit_annotations:
        response["auditAnnotations"] = answer.audit_annotations
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
