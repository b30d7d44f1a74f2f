"""What holds of every answer, whatever the rules: asks a world about one case, and says what is wrong."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonpatch

from tests.lab.fuzz.reviews import Case
from tests.lab.fuzz.world import SETTINGS, Reply, World
from tests.rules.validity import lost
from webhook.outcome import MOST_WARNED, Finding, FindingKind, Outcome

LARGEST_ANSWER = 4 * 1024**2
"""Bytes: the 3 MiB of the largest patch that an API server takes, in base64."""
REPLACEABLE = frozenset(
    {
        "/spec/priorityClassName",
        "/spec/priority",
        "/spec/preemptionPolicy",
        "/spec/activeDeadlineSeconds",
        "/metadata/annotations/gpupolicy.dev/policy",
    }
)
"""The only words of an author that are ever replaced, by two rules; the last is the stamp."""
GPU = re.compile(r"(nvidia\.com|amd\.com|gpu\.intel\.com|deviceclass\.resource\.kubernetes\.io)/", re.ASCII)
"""What names of GPUs begin with."""

Raw = dict[str, Any]

Complaint = tuple[str, str]
"""What it is about, the key of a rule or a word, and a sentence."""


def complaints(world: World, case: Case) -> list[Complaint]:
    """Everything that is wrong with how a case is answered."""
    found: list[Complaint] = []
    world.forget()
    try:
        found += _of_case(world, case)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what the fuzzer is looking for
        found.append(("exception", f"{type(error).__name__}: {error}"))
    return found


def _of_case(world: World, case: Case) -> Iterator[Complaint]:
    body = case.body()
    mutated = world.ask("/mutate", body)
    yield from _answer(mutated, case)
    request = case.review.get("request")
    is_update = isinstance(request, dict) and request.get("operation") == "UPDATE"
    if not case.is_sound or is_update or case.number % 4 == 1:
        judged = world.ask("/validate", body)
        yield from _answer(judged, case)
    if mutated.status != 200 or not case.object:
        return
    if is_update:
        yield from _update(world, case, judged)
    elif request.get("operation") == "CREATE" and mutated.decision and mutated.decision.outcome:
        yield from _create(world, case, mutated)


def _answer(reply: Reply, case: Case) -> Iterator[Complaint]:
    """An AdmissionReview of the same uid, or a word about what is no review at all."""
    if len(reply.body) > LARGEST_ANSWER:
        yield "size", f"an answer of {len(reply.body)} bytes"
    if reply.status != 200:
        if reply.status != 400 or case.is_sound:
            yield "status", f"{reply.status}: {reply.body[:300]!r}"
        return
    answer = json.loads(reply.body)
    response = answer["response"]
    if (answer["kind"], answer["apiVersion"]) != ("AdmissionReview", "admission.k8s.io/v1"):
        yield "answer", f"answered by {answer['kind']} of {answer['apiVersion']}"
    if response["uid"] != case.review["request"]["uid"]:
        yield "answer", f"the uid is {response['uid']}"
    if not response["allowed"]:
        status = response["status"]
        if not status["message"] or status["code"] not in (403, 422) or "patch" in response:
            yield "answer", f"refused with {status}"
        if status["code"] == 422 and case.is_sound:
            yield "shape", f"taken for malformed: {status['message'][:300]}"
    warnings = response.get("warnings", ())
    if sum(map(len, warnings)) > MOST_WARNED or not all(one.isascii() for one in warnings):
        yield "answer", "a warning that an API server cuts"


def _create(world: World, case: Case, mutated: Reply) -> Iterator[Complaint]:
    assert mutated.decision is not None
    outcome = mutated.decision.outcome
    assert outcome is not None
    response = json.loads(mutated.body)["response"]
    patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
    settings = SETTINGS.get(case.namespace, SETTINGS["strict"])
    after = jsonpatch.apply_patch(case.object, patch)
    yield from _changes(case.object, after, outcome)
    judged = None
    if response["allowed"]:
        judged = yield from _judged(world, case, after)
        again = world.ask("/mutate", case.body(after))
        if patch and again.decision is not None and again.decision.answer.patch:
            yield "idempotence", f"changed again: {again.decision.answer.patch}"
    for finding in (*outcome.findings, *(judged.findings if judged else ())):
        yield from _violation(finding)
    if case.namespace == "warned" and (outcome.injections or not response["allowed"] or (judged and judged.refusals)):
        yield "mode", "changed or refused where rules only warn"
    if case.is_sound and case.number % 4 == 0:
        yield from _as_a_job(world, case, repairs=settings["gpuLimits"]["requestsOnly"] == "repair")


def _judged(world: World, case: Case, after: Raw) -> Any:
    """The outcome of the validating phase; an injection that it misses was made a moment ago."""
    reply = world.ask("/validate", case.body(after))
    yield from _answer(reply, case)
    outcome: Outcome | None = reply.decision.outcome if reply.decision else None
    missing = [finding for finding in outcome.findings if finding.kind is FindingKind.MISSING] if outcome else []
    if missing:
        yield "consistency", f"injected and then missed: {missing[0]}"
    return outcome


def _changes(before: Raw, after: Raw, outcome: Outcome) -> Iterator[Complaint]:
    for place in lost(before, after):
        if place not in REPLACEABLE:
            yield "author", f"{place} was changed or taken away"
    has_part = '"gpu-' in json.dumps(before.get("metadata"))
    own = set(outcome.injected) - ({"cudaDriver", "gpuTypes"} if has_part else set())
    if own and not _may_have_gpus(before):
        yield "without GPUs", f"changed by {sorted(own)}"


def _may_have_gpus(pod: Raw) -> bool:
    """Whether a container asks for anything that is called like a GPU, or by a claim."""
    spec = pod.get("spec")
    found = [spec.get(key) for key in ("initContainers", "containers")] if isinstance(spec, dict) else []
    asked = json.dumps([one.get("resources") for some in found if isinstance(some, list) for one in some if one])
    return bool(GPU.search(asked)) or '"claims"' in asked or "resourceClaims" in json.dumps(spec)


def _violation(finding: Finding) -> Iterator[Complaint]:
    if finding.kind is not FindingKind.VIOLATION:
        return
    found, separator, allowed = finding.message.partition("; ")
    remedy = allowed if finding.message.startswith("exceeded GPU quota") else finding.remedy  # bound in what was found
    parts = (finding.field, found, separator, allowed, remedy)
    if not all(parts) or not finding.field.startswith(("spec", "metadata")) or len(finding.remedy) > 1000:
        yield "wording", f"{finding.rule} says {parts}"


def _update(world: World, case: Case, judged: Reply) -> Iterator[Complaint]:
    """An update that changes nothing is never refused, and none is for more than a create would be."""
    outcome = judged.decision.outcome if judged.decision else None
    same = world.ask("/validate", case.body(oldObject=case.object))
    if case.is_sound and same.decision and same.decision.outcome and same.decision.outcome.findings:
        yield "update", f"said of an update that changes nothing: {same.decision.outcome.findings[0]}"
    created = world.ask("/validate", case.body(operation="CREATE", oldObject=None))
    allowed = created.decision.outcome if created.decision else None
    if outcome and allowed:
        more = {one.rule for one in outcome.refusals} - {one.rule for one in allowed.refusals}
        if more:
            yield "update", f"refused for {sorted(more)}, which a create is not"


def _as_a_job(world: World, case: Case, *, repairs: bool) -> Iterator[Complaint]:
    """A Job of one such pod is refused by the rules that refuse the pod, and by no others."""
    template = {"metadata": {**case.object["metadata"]}, "spec": case.object["spec"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "p", "namespace": "any"},
        "spec": {"parallelism": 1, "completions": 1, "template": template},
    }
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    reply = world.ask("/workloads", case.body(job, kind=kind))
    yield from _answer(reply, case)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "p", "uid": "1", "controller": True}
    pod = {**case.object, "metadata": {**case.object["metadata"], "ownerReferences": [owner]}}
    of_pod = _refusals_of_pod(world, case, pod)
    outcome = reply.decision.outcome if reply.decision else None
    of_job = {finding.rule for finding in outcome.refusals} if outcome else set()
    repaired = repairs and "gpuLimits" in of_job - of_pod
    if of_pod != of_job - ({"gpuLimits"} if repaired else set()):
        yield "workloads", f"the pod is refused by {sorted(of_pod)}, a Job of it by {sorted(of_job)}"


def _refusals_of_pod(world: World, case: Case, pod: Raw) -> set[str]:
    mutated = world.ask("/mutate", case.body(pod)).decision
    assert mutated is not None
    assert mutated.outcome is not None
    if not mutated.answer.is_allowed:
        return {finding.rule for finding in mutated.outcome.refusals}
    after = jsonpatch.apply_patch(pod, [dict(one) for one in mutated.answer.patch])
    judged = world.ask("/validate", case.body(after)).decision
    assert judged is not None
    return {finding.rule for finding in judged.outcome.refusals} if judged.outcome else set()
