"""The report as SARIF 2.1.0, for code scanning: one run, a result for each finding.

A refusal is an error, also where an exception suppresses it, a warning is a warning, everything else is a note. The
limits are GitHub's, which shows 5,000 results of a run and accepts files of up to 10 MB, compressed.

SARIF has two kinds of places: a physical location in a file, and a logical location, which is the object.

Code scanning shows no result without a file and a line. So objects of a cluster get a path of their namespace, kind and
name, and input from a pipe gets `stdin`.
"""

import os
import sys
from collections.abc import Iterator
from os.path import join
from typing import Any
from urllib.parse import quote

from webhook.audit.report import AuditFinding, AuditReport, Level, ObjectReference, SourceLine
from webhook.audit.reports import report_wording
from webhook.audit.reports.as_json import dumps
from webhook.audit.reports.report_wording import STDIN, shortened
from webhook.release import version
from webhook.rules import RULES

ROOT = "%SRCROOT%"
"""The base of relative paths: the directory in which the command runs, which in CI is the root of a repository."""


def in_file(path: str, line: int | None) -> dict[str, Any]:
    """A physical location. `line` counts from 1; None is the first line, because code scanning needs a line."""
    return {"artifactLocation": _artifact(path), "region": _region(line)}


def of_object(source: SourceLine, owner: ObjectReference) -> dict[str, Any]:
    """The physical location of an object: where it was read, or a path that stands for it."""
    if source.file == STDIN:
        return {"artifactLocation": {"uri": "stdin"}, "region": _region(source.line)}
    if source.file:
        return in_file(source.file, source.line)
    parts = ("cluster", owner.namespace, owner.kind, owner.name)
    return {"artifactLocation": {"uri": "/".join(_quoted(part) for part in parts if part)}, "region": _region(None)}


def logical(reference: ObjectReference) -> dict[str, Any]:
    """The logical location of an object, named in full by apiVersion, kind, namespace and name."""
    parts = (reference.api_version, reference.kind, reference.namespace, reference.name)
    return {
        "name": shortened(reference.name, LONGEST_MESSAGE),
        "fullyQualifiedName": shortened("/".join(part for part in parts if part), LONGEST_MESSAGE),
        "kind": "resource",
    }


def _region(line: int | None) -> dict[str, int]:
    """The first character of a line; the column of a fault is not known."""
    first = max(line or 1, 1)
    return {"startLine": first, "startColumn": 1, "endLine": first, "endColumn": 2}


def _artifact(path: str) -> dict[str, str]:
    """A file below the working directory by its path from there, any other by its absolute path."""
    relative = os.path.relpath(path)
    if relative.split(os.sep)[0] == os.pardir:
        return {"uri": f"file://{_quoted(os.path.abspath(path), '/')}"}
    return {"uri": _quoted(relative, "/"), "uriBaseId": ROOT}


def _quoted(text: str, safe: str = "") -> str:
    return quote(text.encode(errors="surrogatepass"), safe)


_LONGEST = 1024
"""Characters that GitHub allows in a description."""


def _described(key: str, report: AuditReport) -> dict[str, Any]:
    """The descriptor of a rule: its promise, what goes wrong without it, and the docstring of its module."""
    rule = None if report.subject is not None else next((rule for rule in RULES if rule.key == key), None)
    short, *texts = report_wording.rule_texts(key, report)
    full = next(filter(None, texts), short)
    story = full if rule is None else sys.modules[rule.settings.__module__].__doc__ or full
    return {
        "id": key,
        "name": key[:255],
        "shortDescription": {"text": short[:_LONGEST]},
        "fullDescription": {"text": full[:_LONGEST]},
        "help": {
            "text": "\n\n".join(" ".join(paragraph.split()) for paragraph in story.split("\n\n")).strip() or short
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["gpu", "kubernetes"], "precision": "very-high", "problem.severity": "error"},
    }


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5_000
LONGEST_MESSAGE = 1_000
"""Most characters of a text. Tenants write them, and GitHub refuses a file that is too large."""

_LEVELS = {
    Level.REFUSE: "error",
    Level.WARN: "warning",
    Level.SKIP: "error",
    Level.AUDIT: "note",
    Level.COMPLETE: "note",
}
_NOTICES = {
    "unreadable": "Something could not be read, and was not audited.",
    "left-out": "There is more than this file can hold.",
    "comparison": "What the policies change against others.",
}


def render(report: AuditReport) -> str:
    """The report with the gravest results first. A notification says how many results are left out."""
    ordered = sorted(report.findings, key=lambda finding: finding.level.rank)
    kept = ordered[:MOST_RESULTS]
    rules = sorted({finding.rule for finding in kept})
    newly = frozenset(finding.id for finding in report.comparison.newly_refused) if report.comparison else frozenset()
    driver = {
        "name": "gpu-policy",
        **({"version": version()} if version() else {}),
        "rules": [_described(rule, report) for rule in rules],
        "notifications": [{"id": key, "shortDescription": {"text": text}} for key, text in _NOTICES.items()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": not report.errors,
                "endTimeUtc": report_wording.instant(report.created),
                "toolExecutionNotifications": list(_notifications(report, len(ordered) - len(kept))),
            }
        ],
        "originalUriBaseIds": {ROOT: {"description": {"text": "The directory in which the audit ran."}}},
        "results": [
            _result(finding, report.directory, rules.index(finding.rule), is_new=finding.id in newly)
            for finding in kept
        ],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(finding: AuditFinding, directory: str, number: int, *, is_new: bool) -> dict[str, Any]:
    references = [finding.owner] if finding.object == finding.owner else [finding.owner, finding.object]
    location = {
        "physicalLocation": of_object(finding.source, finding.owner),
        "logicalLocations": [logical(reference) for reference in references],
    }
    text = f"{finding.owner.title}: {report_wording.found(finding)} {report_wording.remedy_text(finding)}".rstrip()
    # That an exception admits the pods, in the file of exceptions (3.27.23 and 3.35 of the specification).
    justification = message(f"Exception {finding.exception}.")
    suppressed = {"kind": "external", "status": "accepted", "justification": justification}
    return {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": _LEVELS[finding.level],
        "message": {"text": message(text)},
        "locations": [location],
        **({"relatedLocations": [_policy(finding, directory)]} if finding.file else {}),
        # All findings about a document have its first line, so GitHub needs an identity that tells them apart.
        "partialFingerprints": {"primaryLocationLineHash": f"{finding.id}:1", "gpuPolicyFinding/v1": finding.id},
        **({"suppressions": [suppressed]} if finding.level is Level.SKIP else {}),
        "properties": {
            "meaning": finding.level,
            "mode": finding.mode,
            "kind": finding.kind,
            "policy": finding.policy,
            **({"newlyRefused": True} if is_new else {}),
            **({"runningPods": finding.running.count} if finding.running is not None else {}),
        },
    }


def _policy(finding: AuditFinding, directory: str) -> dict[str, Any]:
    return {
        "id": 1,
        "message": {"text": message(f"Policy {finding.policy}, rule {finding.rule}.")},
        "physicalLocation": in_file(join(directory, finding.file), finding.line),
    }


def _notifications(report: AuditReport, left_out: int) -> Iterator[dict[str, Any]]:
    for error in report.errors:
        notice = _notice("unreadable", "error", f"{error}.")
        if not report.is_of_cluster and error.source not in ("", STDIN):
            notice["locations"] = [{"physicalLocation": in_file(error.source, error.line)}]
        yield notice
    if report.comparison is not None:
        text = f"Against {report.comparison.directory}: {report_wording.changes(report.comparison)}."
        yield _notice("comparison", "note", text)
    if left_out:
        text = f"{left_out:,} of {len(report.findings):,} results are left out, the least grave"
        yield _notice("left-out", "warning", f"{text}; {report.command} has all.")


def _notice(key: str, level: str, text: str) -> dict[str, Any]:
    descriptor = {"id": key, "index": list(_NOTICES).index(key)}
    return {"descriptor": descriptor, "level": level, "message": {"text": message(text)}}


def message(text: str) -> str:
    """A plain text message: no placeholder and no link can be in it (3.11.5 and 3.11.6 of the specification)."""
    text = report_wording.shortened(text, LONGEST_MESSAGE)
    return text.replace("{", "{{").replace("}", "}}").replace("](", "] (")
