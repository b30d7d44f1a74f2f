"""The review as JSON, for programs. The shape is a contract; its version is in `apiVersion`."""

import json
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.audit.review_objects import Item, ReviewList, injected
from webhook.engine import Foreseen

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
        "policy": item.policy.name if item.policy is not None else "",
        "allowed": item.is_allowed,
        "violations": [
            {"rule": f.rule, "mode": f.mode, "field": f.field, "message": f"{f.message}. {f.remedy}."}
            for f in item.violations
        ],
        "templates": [_template(pods) for pods in item.pods],
        "warnings": list(item.warnings),
        "patch": list(item.patch),
        "result": item.result,
    }


def _template(pods: Foreseen) -> dict[str, Any]:
    """What would become of the pods of one template; `pods` is how many run at a time, null where it does not say."""
    template = pods.template
    return {
        "path": template.path,
        "group": template.group,
        "pods": template.pods,
        "gpus": pods.gpus,
        "allowed": not pods.is_refused,
        "injected": [{"rule": one.rule, "edits": list(map(str, one.edits))} for one in injected(pods)],
    }


def _error(error: DocumentError) -> dict[str, Any]:
    return {"source": error.source, "document": error.number, "line": error.line, "message": error.message}
