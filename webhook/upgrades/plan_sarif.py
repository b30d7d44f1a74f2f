"""A plan as SARIF 2.1.0, for code scanning: a result for each workload that changes, and for GPUs without a driver.

What breaks is an error, what may break or loses is a warning, everything else a note. Limits and places are those of
the reports of audits: workloads of a cluster get a path of their namespace, kind and name.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.audit.report import ObjectReference, SourceLine
from webhook.audit.reports.as_json import dumps
from webhook.audit.reports.as_sarif import (
    MOST_ERRORS,
    MOST_RESULTS,
    ROOT,
    SCHEMA,
    descriptor,
    in_file,
    logical,
    message,
    of_object,
)
from webhook.audit.reports.report_wording import STDIN, instant
from webhook.release import version
from webhook.upgrades import plan_wording
from webhook.upgrades.driver_plan import DriverPlan, PlannedPool, PlannedWorkload, WorkloadChange

_LEVELS = {
    WorkloadChange.BREAKS: "error",
    WorkloadChange.UNKNOWN: "warning",
    WorkloadChange.LOSES_NODES: "warning",
    WorkloadChange.COMPAT_ONLY: "warning",
    WorkloadChange.UNBLOCKED: "note",
    WorkloadChange.GAINS: "note",
}
_ABOUT = {
    WorkloadChange.BREAKS: "With the planned drivers, the workload runs on none of its nodes.",
    WorkloadChange.UNKNOWN: "It is not known whether the workload runs with the planned drivers.",
    WorkloadChange.LOSES_NODES: "With the planned drivers, the workload runs on fewer nodes.",
    WorkloadChange.COMPAT_ONLY: "With the planned drivers, the workload runs by forward compatibility only.",
    WorkloadChange.UNBLOCKED: "The workload runs nowhere now, and does with the planned drivers.",
    WorkloadChange.GAINS: "With the planned drivers, the workload runs on more nodes.",
}
_UNDRIVEN = "undriven"
_NOTICES = {
    "unreadable": "Something could not be read, and was not planned.",
    "left-out": "There is more than this file can hold.",
}


def render(plan: DriverPlan) -> str:
    """The plan with the gravest results first. A notification says how many results are left out."""
    found = [*_of_pools(plan.pools), *(_of_workload(one) for one in plan.workloads if one.change in _LEVELS)]
    kept = found[:MOST_RESULTS]
    rules = _rules({one.rule for one in kept})
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    run = {
        "tool": {"driver": _driver(rules)},
        "invocations": [
            {
                "executionSuccessful": not plan.errors,
                "endTimeUtc": instant(plan.created),
                "toolExecutionNotifications": list(_notifications(plan, len(found) - len(kept), len(found))),
            }
        ],
        "originalUriBaseIds": {ROOT: {"description": {"text": "The directory in which the plan was made."}}},
        "results": [{**_result(one), "ruleIndex": numbers[one.rule]} for one in kept],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _driver(rules: list[dict[str, Any]]) -> dict[str, Any]:
    notices = [{"id": key, "shortDescription": {"text": text}} for key, text in _NOTICES.items()]
    known = {"version": version()} if version() else {}
    return {"name": "gpu-policy-plan", **known, "rules": rules, "notifications": notices}


def _rules(found: Collection[str]) -> list[dict[str, Any]]:
    undriven = "The planned driver does not drive the GPUs."
    texts = {_UNDRIVEN: undriven, **{change.value: text for change, text in _ABOUT.items()}}
    levels = {_UNDRIVEN: "error", **{change.value: level for change, level in _LEVELS.items()}}
    return [descriptor(key, text, text, text, levels[key]) for key, text in texts.items() if key in found]


@dataclass(frozen=True, slots=True)
class _Found:
    """One result. `identity` distinguishes results about one object by one rule."""

    rule: str
    level: str
    source: SourceLine
    owner: ObjectReference
    text: str
    identity: str = ""
    properties: Mapping[str, object] = field(default_factory=dict)


def _of_pools(pools: Sequence[PlannedPool]) -> Iterator[_Found]:
    """GPUs that their new driver does not drive; the option stands for its nodes, which no file has."""
    for pool in pools:
        owner = ObjectReference("", "NodePool", pool.selector, "")
        for one in pool.undriven:
            text = f"{pool.selector}: {plan_wording.undriven(one)}."
            yield _Found(_UNDRIVEN, "error" if one.is_certain else "warning", SourceLine(), owner, text, one.product)


def _of_workload(one: PlannedWorkload) -> _Found:
    remedy = f" {one.remedy}." if one.remedy else ""
    text = f"{one.owner.title}{plan_wording.in_use(one.gpus)}: {plan_wording.moves(one)}. {one.reason}.{remedy}"
    properties = {"change": one.change, "gpus": one.gpus}
    return _Found(one.change, _LEVELS[one.change], one.source, one.owner, text, "", properties)


def _result(one: _Found) -> dict[str, Any]:
    named = "\0".join((one.rule, *one.owner.identity, *one.source.identity, one.identity))
    identity = sha256(named.encode(errors="surrogatepass")).hexdigest()[:32]
    return {
        "ruleId": one.rule,
        "level": one.level,
        "message": {"text": message(one.text)},
        "locations": [{"physicalLocation": of_object(one.source, one.owner), "logicalLocations": [logical(one.owner)]}],
        # Workloads of one file may share a line, so GitHub needs an identity that tells them apart.
        "partialFingerprints": {"primaryLocationLineHash": f"{identity}:1", "gpuPolicyPlan/v1": identity},
        "properties": dict(one.properties),
    }


def _notifications(plan: DriverPlan, left_out: int, whole: int) -> Iterator[dict[str, Any]]:
    for error in plan.errors[:MOST_ERRORS]:
        yield _unreadable(error)
    if left_out:
        text = f"{left_out:,} of {whole:,} results are left out, the least grave"
        yield _notice("left-out", "warning", f"{text}; gpu-policy cuda plan --format json has all.")
    if len(plan.errors) > MOST_ERRORS:
        text = f"{len(plan.errors) - MOST_ERRORS:,} more entries could not be read"
        yield _notice("left-out", "error", f"{text}; gpu-policy cuda plan --format json has all.")


def _unreadable(error: DocumentError) -> dict[str, Any]:
    notice = _notice("unreadable", "error", f"{error}.")
    if error.number == 0 or error.source in ("", STDIN):
        return notice
    return {**notice, "locations": [{"physicalLocation": in_file(error.source, error.line)}]}


def _notice(key: str, level: str, text: str) -> dict[str, Any]:
    descriptor_of = {"id": key, "index": list(_NOTICES).index(key)}
    return {"descriptor": descriptor_of, "level": level, "message": {"text": message(text)}}
