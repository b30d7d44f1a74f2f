"""The webhook configurations as they were installed, and how the configurations of a cluster differ from them.

Defaults of the API server and the order of unordered lists make no difference. Unknown fields are compared where the
installed configuration sets them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from webhook.kubernetes.api_paths import path_of
from webhook.model.json_parts import part

Document = Mapping[str, Any]
"""A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration, as JSON has it."""

API = "admissionregistration.k8s.io/v1"
PHASES = {"MutatingWebhookConfiguration": "mutating", "ValidatingWebhookConfiguration": "validating"}
"""Kind -> its short name."""

_EXPECTED = f"expected one {' and one '.join(PHASES)} of {API}"

_DEFAULTS: Mapping[str, Any] = {
    "clientConfig": {},
    "failurePolicy": "Fail",
    "matchConditions": [],
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "reinvocationPolicy": "Never",
    "rules": [],
    "sideEffects": None,
    "timeoutSeconds": 10,
    "admissionReviewVersions": [],
}
"""Every field of a webhook except its name -> the API server's default."""

_SHOWN = 160
"""Characters of a value in a message."""


class RegistrationError(ValueError):
    """A text does not hold the two webhook configurations; the message names the file, what was found and expected."""


Registration = Mapping[str, Document]
"""Both webhook configurations as they were installed, by their short names."""


def load_registration(path: Path | str) -> Registration:
    """The configurations in a file of several YAML documents. Raises RegistrationError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RegistrationError(f"{path}: cannot be read ({getattr(error, 'strerror', '') or error})") from None
    return read_registration(text, str(path))


def read_registration(text: str, where: str) -> Registration:
    """The configurations in a text of several YAML documents that came from `where`. Raises RegistrationError."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RegistrationError(f"{where}: not valid YAML ({' '.join(str(error).split())[:200]})") from None
    found: dict[str, Document] = {}
    for document in documents:
        version, kind = part(document, "apiVersion"), part(document, "kind")
        if version != API or kind not in PHASES:
            fault = f"apiVersion {_shown(version)} and kind {_shown(kind)}"
        elif PHASES[kind] in found:
            fault = f"two of kind {kind}"
        else:
            fault = "" if _is_sound(document) else f"a {kind} that the API server would reject"
            found[PHASES[kind]] = document
        if fault:
            raise RegistrationError(f"{where}: found {fault}; {_EXPECTED}")
    if len(found) != len(PHASES):
        kinds = [f"only one {kind}" for kind, phase in PHASES.items() if phase in found]
        raise RegistrationError(f"{where}: found {kinds[0] if kinds else 'no document'}; {_EXPECTED}")
    return {phase: found[phase] for phase in PHASES.values()}


def api_path(document: Document) -> str:
    """The path of a configuration on the API server."""
    return path_of(f"/apis/{API}", f"{document['kind'].lower()}s", name=document["metadata"]["name"])


def webhooks_of(document: Document, kind: str = "") -> dict[str, dict[str, Any]]:
    """Name -> webhook of a configuration, with the API server's defaults for fields that are not set.

    `kind` is for a configuration that may not say its own.
    """
    entries = document.get("webhooks") or ()
    return {str(entry["name"]): _completed(entry, kind or document["kind"]) for entry in entries}


def differences(expected: Document, live: Document) -> list[str]:
    """One sentence for each webhook of `live` that differs from `expected`; empty where they mean the same.

    Only webhooks are compared, not labels and annotations. Any caBundle is right where `expected` sets none.
    """
    wanted, found = (webhooks_of(document, expected["kind"]) for document in (expected, live))
    sentences = [f"webhooks[{name}] is missing" for name in wanted if name not in found]
    sentences += [f"webhooks[{name}] is there; it is not expected" for name in found if name not in wanted]
    for name in wanted.keys() & found.keys():
        if not wanted[name]["clientConfig"].get("caBundle"):
            for entry in (wanted, found):
                entry[name]["clientConfig"].pop("caBundle", None)
        fields = [field for field, value in wanted[name].items() if value != found[name].get(field)]
        if fields:
            sentences.append(f"webhooks[{name}] differs in {', '.join(sorted(fields))}")
    return sorted(sentences)


def _is_sound(document: Document) -> bool:
    """Whether a configuration has a name and webhooks that can be compared."""
    try:
        return isinstance(document["metadata"]["name"], str) and bool(webhooks_of(document))
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)[:_SHOWN]


def _completed(entry: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """One webhook with all its fields and with unordered lists sorted."""
    webhook = {**_DEFAULTS, **_without_empty(entry)}
    if PHASES[kind] == "validating":
        webhook.pop("reinvocationPolicy")  # known to the other kind only
    client = dict(webhook["clientConfig"])
    if "service" in client:
        client["service"] = {"port": 443, **client["service"]}
    rules = [{"scope": "*", **{key: _ordered(value) for key, value in rule.items()}} for rule in webhook["rules"]]
    return webhook | {
        "clientConfig": client,
        "rules": sorted(rules, key=_canonical),
        "namespaceSelector": _selector(webhook["namespaceSelector"]),
        "objectSelector": _selector(webhook["objectSelector"]),
        "matchConditions": {one["name"]: one["expression"] for one in webhook["matchConditions"]},
    }


def _selector(raw: Mapping[str, Any]) -> dict[str, Any]:
    expressions = [{key: _ordered(value) for key, value in one.items()} for one in raw.get("matchExpressions", ())]
    return {"matchLabels": raw.get("matchLabels", {}), "matchExpressions": sorted(expressions, key=_canonical)}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _without_empty(value: Any) -> Any:
    """The value without null, {} and [] in it: the API server does not keep them."""
    if isinstance(value, Mapping):
        kept = {str(key): _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner is not None and inner not in ({}, [])}
    return [_without_empty(inner) for inner in value] if isinstance(value, list) else value


def _ordered(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, list) else value
