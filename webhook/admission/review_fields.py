"""What the texts of an AdmissionReview may hold, as Kubernetes defines them: they become parts of paths and keys, and
whoever reaches the port can write them.

Sources: ValidateNamespaceName, IsDNS1123Subdomain, IsValidPathSegmentName and IsDNS1035Label of
k8s.io/apimachinery (pkg/api/validation, pkg/util/validation), and AdmissionRequest of k8s.io/api/admission/v1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.model.shape import spelled

_MOST_SHOWN = 200
"""Characters of what was found, before it is cut for a message."""

MOST_GROUPS = 10_000
"""Groups of one user. Directories give people hundreds."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a text may be: a pattern for all of it, and the same in words."""

    pattern: re.Pattern[str]
    allowed: str


def _form(pattern: str, allowed: str) -> Form:
    return Form(re.compile(pattern, re.ASCII), allowed)


_SUBDOMAIN = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"

FORMS: Mapping[str, Form] = {
    "uid": _form(r"[ -~]{0,128}", "up to 128 letters, digits and signs of ASCII"),
    "operation": _form(r"(?s).{0,32}", "CREATE, UPDATE, DELETE or CONNECT"),
    "namespace": _form(
        r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?",
        "the name of a namespace: up to 63 small letters, digits and inner hyphens, or nothing",
    ),
    "name": _form(r"(?!\.{1,2}\Z)[^/%]{0,253}", 'up to 253 characters without "/" and "%", other than "." and ".."'),
    "subResource": _form(r"[A-Za-z0-9-]{0,63}", "up to 63 letters, digits and hyphens"),
    "kind.group": _form(rf"({_SUBDOMAIN})?", "a DNS name of up to 253 characters, or nothing"),
    "kind.version": _form(r"[a-z0-9.-]{0,63}", "up to 63 small letters, digits, dots and hyphens"),
    "kind.kind": _form(r"[A-Za-z0-9-]{0,63}", "up to 63 letters, digits and hyphens"),
}
"""What each text of a request may be, by its place below `request`. An empty one stands for a text that is absent."""


def objection_to(place: str, text: str) -> str:
    """What is wrong with the text at a place of `FORMS`: where, found and allowed; empty where nothing is."""
    form = FORMS[place]
    if form.pattern.fullmatch(text):
        return ""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[:_MOST_SHOWN])
    return f"request.{place}: found {spelled(shown)} ({len(text)} characters), expected {form.allowed}"
