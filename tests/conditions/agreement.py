"""What the engine says of a pod, every rule on, beside what the conditions of the shipped registration say of it."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonpatch

from tests.build import WORKLOADS, workload
from tests.conditions import pods
from tests.conditions.evaluator import Evaluator, Said, built
from tests.deploy.manifests import shipped
from tests.lab.fuzz.world import Reply, World

Raw = dict[str, Any]

NAMESPACES = ("strict", "helpful")
"""Of the fuzzer's world: every rule is on, injects and refuses."""
OF_PODS = ("mutate", "validate")


def evaluator(entries: Iterable[Raw] | None = None) -> Evaluator:
    """For the conditions of webhooks, of deploy/install.yaml if none are given, by phase. Raises MissingError."""
    conditions = {
        entry["name"].partition(".")[0]: entry.get("matchConditions", [])
        for entry in (shipped().entries if entries is None else entries)
    }
    return Evaluator(built(), conditions)


@dataclass(frozen=True)
class Question:
    """A request, the phases that it is registered for, and whether it may have anything to do with GPUs."""

    phases: tuple[str, ...]
    request: Raw
    may_signal: bool

    def __str__(self) -> str:
        request = self.request
        old = f"\nbefore: {json.dumps(request['oldObject'])}" if request.get("oldObject") else ""
        return f"{request['operation']} {request['kind']['kind']}: {json.dumps(request['object'])}{old}"


def question(seed: int, number: int) -> Question:
    """The one of this number: a pod, an update of one, or a workload of a built-in kind."""
    draw = random.Random(f"{seed}/{number}")
    may_signal = draw.random() < 0.8
    one = pods.pod(draw, may_signal=may_signal)
    kind = draw.choice(list(WORKLOADS)) if draw.random() < 0.3 else "Pod"
    if kind == "Pod":
        old = pods.updated(draw, one) if draw.random() < 0.25 else None
        return Question(OF_PODS, pod_request(one, old), may_signal)
    made = workload(kind, one)
    made["metadata"] = {"name": "w"}
    return Question(("workloads",), _request(made["apiVersion"], kind, made, None), may_signal)


def pod_request(one: Raw, old: Raw | None = None) -> Raw:
    """What an API server asks of a pod that is created, or updated where `old` is given."""
    return _request("v1", "Pod", one, old)


def workload_request(kind: str, spec: Raw) -> Raw:
    """What an API server asks of a workload that is created with pods of this spec."""
    made = workload(kind, {"spec": spec})
    return _request(made["apiVersion"], kind, {**made, "metadata": {"name": "w"}}, None)


def config_map_request(name: str, operation: str = "CREATE") -> Raw:
    """What an API server asks of a ConfigMap that is created, or updated."""
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a.yaml": "a"}}
    return _request("v1", "ConfigMap", raw, None if operation == "CREATE" else raw)


def claim_request(version: str, requests: list[Raw]) -> Raw:
    """What an API server asks of a ResourceClaim that is created, in a version of `resource.k8s.io`."""
    spec: Raw = {"devices": {"requests": requests}} if requests else {}
    raw = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    return _request(f"resource.k8s.io/{version}", "ResourceClaim", raw, None)


def _request(api_version: str, kind: str, obj: Raw, old: Raw | None) -> Raw:
    group, _, version = api_version.rpartition("/")
    return {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": f"{kind.lower()}s"},
        "namespace": "strict",
        "name": "p",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "dryRun": True,
    }


def faults(conditions: Evaluator, world: World, seed: int, numbers: range) -> Iterator[str]:
    """Everything that is wrong with the conditions for these questions, in sentences with the request."""
    asked = [question(seed, number) for number in numbers]
    answers = conditions.ask([(one.phases, one.request) for one in asked])
    for number, one, said in zip(numbers, asked, answers, strict=True):
        for fault in _faults(world, one, said):
            yield f"{fault}\nseed {seed}, request {number}: {one}"


def _faults(world: World, one: Question, said: Mapping[str, Said]) -> Iterator[str]:
    for phase, found in said.items():
        if found.error:
            yield f"{phase}: a condition errs: {found.error}"
        if found.matches and not one.may_signal:
            yield f"{phase}: sent, although nothing in it is about GPUs"
    for namespace in NAMESPACES if one.may_signal else NAMESPACES[:1]:
        for phase, matter in _matters(world, one.request, namespace).items():
            if not said[phase].matches:
                yield f"{phase}: kept away by {said[phase].failed}, although {matter}"


def _matters(world: World, request: Raw, namespace: str) -> dict[str, str]:
    """The phases in which the engine would change, refuse or warn, and what it would do."""
    if request["kind"]["kind"] != "Pod":
        return _matter("workloads", _asked(world, "/workloads", request, namespace))
    mutated = _asked(world, "/mutate", request, namespace)
    found = _matter("mutate", mutated)
    patch = [dict(operation) for operation in mutated.decision.answer.patch] if mutated.decision else []
    after = jsonpatch.apply_patch(request["object"], patch)
    return found | _matter("validate", _asked(world, "/validate", {**request, "object": after}, namespace))


def _asked(world: World, path: str, request: Raw, namespace: str) -> Reply:
    world.forget()
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return world.ask(path, json.dumps({**review, "request": {**request, "namespace": namespace}}).encode())


def _matter(phase: str, reply: Reply) -> dict[str, str]:
    decision = reply.decision
    if decision is None or decision.outcome is None:
        return {}
    outcome = decision.outcome
    if outcome.findings:
        return {phase: f"it is told: {outcome.findings[0]}"}
    if outcome.patch:
        return {phase: f"it is changed by {', '.join(outcome.injected) or 'its stamp'}"}
    return {}
