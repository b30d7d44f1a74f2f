"""What reports use of SARIF 2.1.0, as a JSON schema that allows nothing else, with what GitHub's code scanning demands.

GitHub takes no empty text for a property that it requires, wants a place in a file of every result with all four ends
of its region, and limits the lengths of descriptions.
"""

from typing import Any

_Schema = dict[str, Any]

_TEXT: _Schema = {"type": "string"}
_FILLED: _Schema = {"type": "string", "minLength": 1}
_LINE: _Schema = {"type": "integer", "minimum": 1}


def _object(required: _Schema, optional: _Schema | None = None) -> _Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": required | (optional or {}),
    }


def _list(items: _Schema, least: int = 0, most: int | None = None) -> _Schema:
    return {"type": "array", "items": items, "minItems": least} | ({} if most is None else {"maxItems": most})


def _message(longest: int | None = None) -> _Schema:
    return _object({"text": _FILLED if longest is None else _FILLED | {"maxLength": longest}})


_REGION = _object({"startLine": _LINE, "startColumn": _LINE, "endLine": _LINE, "endColumn": _LINE})
_URI: _Schema = {"type": "string", "minLength": 1, "format": "uri-reference", "pattern": r"^[!#-;=?-\[\]_a-z~%]+$"}
_PHYSICAL = _object(
    {"artifactLocation": _object({"uri": _URI}, {"uriBaseId": {"const": "%SRCROOT%"}}), "region": _REGION}
)
_LOGICAL = _object({"name": _TEXT, "fullyQualifiedName": _TEXT, "kind": {"const": "resource"}})
_LEVEL: _Schema = {"enum": ["error", "warning", "note"]}
_RULE = _object(
    {
        "id": _TEXT,
        "name": {"type": "string", "maxLength": 255},
        "shortDescription": _message(1024),
        "fullDescription": _message(1024),
        "help": _message(),
        "defaultConfiguration": _object({"level": _LEVEL}),
        "properties": _object(
            {
                "tags": _list(_FILLED, 0, 10) | {"uniqueItems": True},
                "precision": {"enum": ["very-high", "high", "medium", "low"]},
                "problem.severity": {"enum": ["error", "warning", "recommendation"]},
            }
        ),
    }
)
_RESULT = _object(
    {
        "ruleId": _TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": _LEVEL,
        "message": _message(),
        "locations": _list(_object({"physicalLocation": _PHYSICAL, "logicalLocations": _list(_LOGICAL, 1)}), 1, 1),
        "partialFingerprints": _object({"primaryLocationLineHash": _FILLED, "gpuPolicyFinding/v1": _FILLED}),
        "properties": {"type": "object"},
    },
    {
        "relatedLocations": _list(
            _object({"id": {"const": 1}, "message": _message(), "physicalLocation": _PHYSICAL}), 1, 1
        ),
        "suppressions": _list(
            _object(
                {
                    "kind": {"enum": ["inSource", "external"]},
                    "status": {"enum": ["accepted", "underReview", "rejected"]},
                    "justification": {"type": "string"},
                }
            ),
            1,
            1,
        ),
    },
)
_NOTIFICATION = _object(
    {"descriptor": _object({"id": _FILLED, "index": {"type": "integer"}}), "level": _LEVEL, "message": _message()},
    {"locations": _list(_object({"physicalLocation": _PHYSICAL}), 1, 1)},
)
_INVOCATION = _object(
    {
        "executionSuccessful": {"type": "boolean"},
        "endTimeUtc": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
        "toolExecutionNotifications": _list(_NOTIFICATION),
    }
)
_DRIVER = _object(
    {
        "name": _FILLED,
        "rules": _list(_RULE),
        "notifications": _list(_object({"id": _FILLED, "shortDescription": _message()})),
    },
    {"version": _FILLED},
)
_RUN = _object(
    {
        "tool": _object({"driver": _DRIVER}),
        "invocations": _list(_INVOCATION, 1, 1),
        "originalUriBaseIds": _object({"%SRCROOT%": _object({"description": _message()})}),
        "results": _list(_RESULT, 0, 5_000),
    }
)
SUBSET: _Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object({"$schema": _FILLED, "version": {"const": "2.1.0"}, "runs": _list(_RUN, 1, 1)}),
}
