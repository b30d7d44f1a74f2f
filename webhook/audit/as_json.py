"""The review as JSON, for programs. The shape is a contract; its version is in `apiVersion`."""

import json
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.audit.simulate import Item, ReviewList

API_VERSION = "gpupolicy.dev/v1alpha1"


def render(reviewed: ReviewList) -> str:
    """A ReviewList, indented, with a newline at its end, in plain ASCII so that any pipe carries it."""
    document = {
        "apiVersion": API_VERSION,
        "kind": "ReviewList",
        "items": [_item(item) for item in reviewed.items],
        "errors": [_error(error) for error in reviewed.errors],
    }
    return json.dumps(document, indent=2) + "\n"


def _item(item: Item) -> dict[str, Any]:
    return {
        "source": item.document.source,
        "document": item.document.number,
        "object": {
            "apiVersion": item.document.api_version,
            "kind": item.document.kind,
            "namespace": item.namespace,
            "name": item.name,
        },
        "policy": item.policy,
        "allowed": item.is_allowed,
        "violations": [
            {"rule": f.rule, "mode": f.mode, "field": f.field, "message": f"{f.message}. {f.remedy}."}
            for f in item.violations
        ],
        "warnings": list(item.warnings),
        "patch": list(item.patch),
        "result": item.result,
    }


def _error(error: DocumentError) -> dict[str, Any]:
    return {"source": error.source, "document": error.number, "line": error.line, "message": error.message}
