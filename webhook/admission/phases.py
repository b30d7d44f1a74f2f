"""What to ask the engine for each kind of request, and how its outcome becomes an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from webhook import engine
from webhook.admission.review import Answer, Request
from webhook.engine import quotas
from webhook.model.shape import ShapeError
from webhook.model.workload import template_path
from webhook.outcome import Finding, Outcome
from webhook.policy.policy_set import Policy, PolicySet
from webhook.rules import gpu_quota
from webhook.rules.rule import Facts, Mode

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
NODES = "system:nodes"
EPHEMERAL_SUBRESOURCE = "ephemeralcontainers"


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer together with what led to it. `outcome` is None where the request concerns no pod."""

    answer: Answer
    outcome: Outcome | None = None

    @property
    def result(self) -> str:
        """What became of the request in one word: allowed, patched or refused."""
        if not self.answer.is_allowed:
            return "refused"
        return "patched" if self.answer.patch else "allowed"


UNCONCERNED = Decision(Answer(is_allowed=True))


def mutate(request: Request, policies: PolicySet, facts: Facts, earlier: Sequence[PolicySet] = ()) -> Decision:
    """The mutating phase: complete pods on CREATE, check the templates of workloads on CREATE and UPDATE.

    `earlier` are the policy sets that another replica may still use.
    """
    path = template_path(request.api_version, request.kind)
    if path is None or request.object is None or _is_mirror_pod(request):
        return UNCONCERNED
    policy = policies.for_namespace(request.namespace)
    if not path:
        if request.operation != "CREATE" or request.subresource:
            return UNCONCERNED
        return decide(engine.complete(request.object, policy, facts, earlier=_others(policy, request, earlier)))
    if request.subresource:
        return UNCONCERNED
    outcome = engine.check_template(request.object, path, policy, facts, old=request.old_object)
    if any(finding.fails_validation for finding in outcome.findings):
        return decide(outcome)
    told = [finding for finding in outcome.findings if finding.rule == gpu_quota.RULE.key]
    told += quotas.workload_findings(
        request.object,
        path,
        request.namespace,
        policies.quotas_for(request.namespace),
        partial(engine.completed_template, request.object, path, policy, facts),
    )
    return decide(replace(outcome, findings=tuple(map(_only_told, told))))


def _only_told(finding: Finding) -> Finding:
    """What a workload hears of its pods, which are judged when they come."""
    return replace(finding, mode=Mode.WARN if finding.mode is Mode.ENFORCE else finding.mode, refuses=False)


def validate(request: Request, policies: PolicySet, facts: Facts, earlier: Sequence[PolicySet] = ()) -> Decision:
    """The validating phase: judge pods on CREATE, and on UPDATE what is new in them.

    `earlier` are the policy sets that another replica may have used a moment ago.
    """
    raw, old = _as_pod(request, request.object), _as_pod(request, request.old_object)
    if raw is None or request.operation not in ("CREATE", "UPDATE") or _is_mirror_pod(request):
        return UNCONCERNED
    policy = policies.for_namespace(request.namespace)
    if request.operation == "UPDATE":
        return decide(engine.judge(raw, policy, facts, old=old if old is not None else {}))
    return decide(engine.judge(raw, policy, facts, earlier=_others(policy, request, earlier)))


def malformed(error: ShapeError) -> Decision:
    """Refuse an object that no API server would have accepted either."""
    return Decision(Answer(is_allowed=False, message=f"{error}; correct the manifest", code=422))


def _others(policy: Policy, request: Request, earlier: Sequence[PolicySet]) -> list[Policy]:
    """What other sets have for the request's namespace, where it is not the same."""
    others = (policies.for_namespace(request.namespace) for policies in earlier)
    return [other for other in others if other.hash != policy.hash]


def _as_pod(request: Request, raw: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The object as a pod; before 1.23 the subresource ephemeralcontainers sends the list alone. None for others."""
    if raw is None:
        return None
    if (request.api_version, request.kind) == ("v1", "Pod"):
        return raw
    if request.kind == "EphemeralContainers" and request.subresource == EPHEMERAL_SUBRESOURCE:
        return {"metadata": raw.get("metadata"), "spec": {"ephemeralContainers": raw.get("ephemeralContainers")}}
    return None


def _is_mirror_pod(request: Request) -> bool:
    """Whether a kubelet shows its static pod; the annotation alone proves nothing, since anybody can write it."""
    if NODES not in request.user_groups or request.object is None:
        return False
    metadata = request.object.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and MIRROR_ANNOTATION in annotations


def decide(outcome: Outcome) -> Decision:
    """The answer that follows from an outcome."""
    annotations = {"policy": outcome.policy.name, "hash": outcome.policy.hash}
    concerned = dict.fromkeys([*outcome.injected, *[finding.rule for finding in outcome.findings]])
    annotations["rules"] = ",".join(concerned)
    if not outcome.findings:
        return Decision(Answer(is_allowed=True, patch=outcome.patch, audit_annotations=annotations), outcome)
    audited = [f"{f.rule}: {f.field}: {f.message}" for f in outcome.findings if not f.refuses and not f.warns]
    if audited:
        annotations["audited"] = "; ".join(audited)[:4096]
    is_allowed = not outcome.refusals
    answer = Answer(
        is_allowed=is_allowed,
        message=outcome.refusal,
        code=403,
        patch=outcome.patch if is_allowed else (),
        warnings=outcome.warnings,
        audit_annotations=annotations,
    )
    return Decision(answer, outcome)
