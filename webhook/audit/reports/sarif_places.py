"""Where a finding is, in the words of SARIF: a place in a file, and an object.

Code scanning shows nothing without a file and a line, so objects of a cluster, which have neither, get a path made of
their namespace, kind and name, and input from a pipe gets `stdin`.
"""

import os
from typing import Any
from urllib.parse import quote

from webhook.audit.report import ObjectReference, SourceLine
from webhook.audit.reports.report_wording import STDIN, shortened

ROOT = "%SRCROOT%"
"""What paths are relative to: the directory in which the command runs, which is the root of a repository in CI."""

LONGEST_NAME = 1_000
"""Characters; only files have longer ones."""

_CLUSTER = "cluster"


def in_file(path: str, line: int | None) -> dict[str, Any]:
    """A physical location. `line` counts from 1; without one the first is meant, as code scanning wants to have one."""
    return {"artifactLocation": _artifact(path), "region": _region(line)}


def of_object(source: SourceLine, owner: ObjectReference) -> dict[str, Any]:
    """The physical location of an object: where it was read, or a path that stands for it."""
    if source.file == STDIN:
        return {"artifactLocation": {"uri": "stdin"}, "region": _region(source.line)}
    if source.file:
        return in_file(source.file, source.line)
    parts = (_CLUSTER, owner.namespace, owner.kind, owner.name)
    return {"artifactLocation": {"uri": "/".join(_quoted(part) for part in parts if part)}, "region": _region(None)}


def logical(reference: ObjectReference) -> dict[str, Any]:
    """The logical location of an object, named in full by apiVersion, kind, namespace and name."""
    parts = (reference.api_version, reference.kind, reference.namespace, reference.name)
    return {
        "name": shortened(reference.name, LONGEST_NAME),
        "fullyQualifiedName": shortened("/".join(part for part in parts if part), LONGEST_NAME),
        "kind": "resource",
    }


def _region(line: int | None) -> dict[str, int]:
    """The first character of a line: where in it the fault is, nobody knows."""
    first = max(line or 1, 1)
    return {"startLine": first, "startColumn": 1, "endLine": first, "endColumn": 2}


def _artifact(path: str) -> dict[str, str]:
    """A file below the working directory by its path from there, any other by its absolute path."""
    relative = os.path.normpath(path)
    if os.path.isabs(relative) or _leaves(relative):
        relative = os.path.relpath(relative)
    if _leaves(relative):
        return {"uri": f"file://{_quoted(os.path.abspath(path), '/')}"}
    return {"uri": _quoted(relative, "/"), "uriBaseId": ROOT}


def _leaves(relative: str) -> bool:
    return relative == os.pardir or relative.startswith(os.pardir + os.sep)


def _quoted(text: str, safe: str = "") -> str:
    return quote(text.encode(errors="surrogatepass"), safe)
