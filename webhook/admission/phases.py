"""What the engine is asked for each kind of request, and how its outcome becomes an answer.

ConfigMaps of policies are checked when they are applied, so that their author learns of a mistake at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from webhook import engine
from webhook.admission.admission_review import AdmissionRequest, AdmissionResponse
from webhook.engine.quota_requests import NO_REQUESTS, QuotaRequests, after_update, requests_of_pod
from webhook.engine.running_rules import facts_under
from webhook.facts.facts import ClusterFacts
from webhook.model.json_parts import mapped
from webhook.model.shape import ShapeError, mapping, shortened
from webhook.model.subject import subject_of
from webhook.model.workloads import is_made_or_ending, is_pod
from webhook.outcome import LONGEST_LINE, MOST_REFUSED, MOST_VIOLATIONS, MOST_WARNED, Outcome, printable
from webhook.policy.config_maps import Checked, check_files, files_of
from webhook.policy.policy_set import InForce, PolicySet
from webhook.policy.policy_store import PolicyStore
from webhook.release import version
from webhook.yaml_files.file_errors import FileErrors

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
NODES = "system:nodes"
NO_TIME = 0.0
"""A time at which no exception holds."""
_LONGEST_ANNOTATION = 4096


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer and the outcome that led to it; `outcome` is None where the request concerns no pods.

    `requests` are for the quotas that a new pod or claim counts against. Ledgers are asked later.
    """

    answer: AdmissionResponse
    outcome: Outcome | None = None
    requests: QuotaRequests = NO_REQUESTS

    @property
    def result(self) -> str:
        """The result in one word: allowed, patched or refused. A pod that gets nothing but its stamp is not patched."""
        if not self.answer.is_allowed:
            return "refused"
        return "patched" if self.outcome is not None and self.outcome.injections else "allowed"


UNCONCERNED = Decision(AdmissionResponse(is_allowed=True))


def in_force(request: AdmissionRequest, policies: PolicySet, now: float) -> InForce:
    """What holds for the object of a request at a moment, in seconds since 1970."""
    raw = request.object or request.old_object or {}
    return policies.in_force(request.namespace, lambda: subject_of(raw, request.kind), now)


def mutate(request: AdmissionRequest, policies: PolicySet, facts: ClusterFacts, now: float = NO_TIME) -> Decision:
    """The mutating phase: mutate pods on CREATE. `now` is in seconds since 1970."""
    if not is_pod(request.api_version, request.kind) or request.object is None or _is_mirror_pod(request):
        return UNCONCERNED
    if request.operation != "CREATE" or request.subresource:
        return UNCONCERNED
    policy = in_force(request, policies, now).policy
    return decide(engine.mutate(request.object, policy, facts, namespace=request.namespace))


def workloads(
    request: AdmissionRequest,
    policies: PolicySet,
    facts: ClusterFacts,
    now: float = NO_TIME,
    around: engine.Around = engine.NOTHING_AROUND,
) -> Decision:
    """Validate a workload by the pods that it would make: on CREATE all of them, on UPDATE what is new in them."""
    raw, old = request.object, None
    if raw is None or request.operation not in ("CREATE", "UPDATE") or request.subresource or is_made_or_ending(raw):
        return UNCONCERNED
    if request.operation == "UPDATE":
        old = request.old_object or {}
    if is_pod(request.api_version, request.kind) or not _says_more_than(raw, old):
        return UNCONCERNED
    namespace = request.namespace
    policy, quotas = policies.for_namespace(namespace).at(now), policies.quotas_for(namespace)
    excepting = partial(policies.in_force, namespace, now=now) if policies.exceptions.of(namespace) else None
    return decide(
        engine.validate_workload(raw, namespace, policy, facts, quotas, old=old, excepting=excepting, around=around)
    )


def _says_more_than(raw: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    """Whether a part besides metadata and status changed. These two do not change the pods that are made."""
    try:
        return old is None or any(raw[key] != old.get(key) for key in raw if key not in ("metadata", "status"))
    except RecursionError:  # too deep to be compared: custom resources may hold anything
        return True


def validate(request: AdmissionRequest, policies: PolicySet, facts: ClusterFacts, now: float = NO_TIME) -> Decision:
    """The validating phase: validate pods on CREATE, and on UPDATE what is new in them. `now` is as in `mutate`."""
    raw, old = request.object, request.old_object
    if raw is None or not is_pod(request.api_version, request.kind) or _is_mirror_pod(request):
        return UNCONCERNED
    if request.operation not in ("CREATE", "UPDATE"):
        return UNCONCERNED
    held = in_force(request, policies, now)
    policy, quotas = held.policy, held.quotas
    if request.operation == "UPDATE":
        old = old if old is not None else {}
        of_old = None
        if policies.exceptions.of(request.namespace):
            of_old = policies.in_force(request.namespace, lambda: subject_of(old, "Pod"), now).policy
        outcome = engine.validate(raw, policy, facts, old=old, namespace=request.namespace, of_old=of_old)
        outcome = after_update(outcome, old, quotas)
    else:
        outcome = engine.validate(raw, policy, facts, namespace=request.namespace)
    decision = decide(outcome)
    if not quotas or outcome.refusals or outcome.pod is None or not enters(request):
        return decision
    known, starts = facts_under(policy, facts), request.operation == "UPDATE"
    return replace(decision, requests=requests_of_pod(outcome.pod, request.namespace, quotas, known, starts=starts))


def enters(request: AdmissionRequest) -> bool:
    """Whether the pod of a request begins to count against quotas: it is created, or loses its last scheduling gate.

    A pod that is being deleted is never scheduled, so it may lose its gates.
    """
    if request.subresource:
        return False
    if request.operation == "CREATE":
        return True
    is_kept = mapped(request.object, "metadata").get("deletionTimestamp") is None
    had, has = (mapped(one, "spec").get("schedulingGates") for one in (request.old_object, request.object))
    return bool(had) and not has and is_kept


def malformed(error: ShapeError) -> Decision:
    """Refuse a malformed object, which the API server would refuse, too."""
    message = f"{shortened(printable(str(error)), LONGEST_LINE)}; {error.remedy}"
    return Decision(AdmissionResponse(is_allowed=False, message=message, code=422))


def _is_mirror_pod(request: AdmissionRequest) -> bool:
    """Whether a kubelet reports its static pod. The annotation alone proves nothing, because anybody can write it."""
    if NODES not in request.user_groups or request.object is None:
        return False
    return MIRROR_ANNOTATION in mapped(request.object, "metadata", "annotations")


def decide(outcome: Outcome) -> Decision:
    """The answer to a request with this outcome."""
    annotations = {"policy": outcome.policy.name, "hash": outcome.policy.hash}
    concerned = dict.fromkeys([*outcome.injected, *[finding.rule for finding in outcome.findings]])
    annotations["rules"] = ",".join(concerned)
    if not outcome.findings and not outcome.policy.exceptions:
        return Decision(AdmissionResponse(is_allowed=True, patch=outcome.patch, audit_annotations=annotations), outcome)
    if used := outcome.exceptions:
        annotations["exceptions"] = "; ".join(one.told() for one in used.values())[:_LONGEST_ANNOTATION]
    audited = (f"{f.rule}: {f.where}: {f.message}" for f in outcome.findings if not f.refuses and not f.warns)
    if text := "; ".join(audited):
        annotations["audited"] = text[:_LONGEST_ANNOTATION]
    is_allowed = not outcome.refusals
    answer = AdmissionResponse(
        is_allowed=is_allowed,
        message=outcome.refusal,
        code=min((one.code for one in outcome.refusals), default=403),  # a verdict comes before a fault
        patch=outcome.patch if is_allowed else (),
        warnings=outcome.warnings,
        audit_annotations=annotations,
    )
    return Decision(answer, outcome)


NAME_LABEL, VERSION_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/version"
CHART = "gpu-policy"
"""The value of NAME_LABEL in objects of the chart."""

_BRINGING = frozenset(("CREATE", "UPDATE"))
_CHECK = "gpu-policy policy check DIRECTORY"
_MORE = f"and {{}} more; {_CHECK} names all of them"


def config_maps(request: AdmissionRequest, store: PolicyStore, now: float | None = None) -> Decision:
    """Refuse a ConfigMap whose policies have mistakes, on CREATE, and on UPDATE if its files change.

    Doubts are warnings. `store` has the policies that this replica has mounted. `now` is when the ends of exceptions
    are judged, in seconds since 1970; without it they are not.
    """
    raw = request.object
    is_config_map = (request.api_version, request.kind, request.subresource) == ("v1", "ConfigMap", "")
    if raw is None or not is_config_map or request.operation not in _BRINGING:
        return UNCONCERNED
    new, old = files_of(raw), files_of(request.old_object or {})
    if request.operation == "UPDATE" and new == old:
        return UNCONCERNED  # labels and finalizers may change although stored policies have mistakes
    try:
        checked = check_files(new, old, store.on_disk(), store.current, now)
    except FileErrors:
        return _allowed(["not checked: this replica cannot read the policies that it has mounted"])
    if checked.unchecked:
        return _allowed([f"not checked: {checked.unchecked}; {_CHECK} has no such limit"])
    release = _of_another_release(raw)
    if checked.errors and not release:
        answer = AdmissionResponse(is_allowed=False, message=_refusal(checked))  # older kubectl shows no text of a 422
        return Decision(answer)
    labelled = f"the label says gpu-policy {shortened(release, 63)}; {version()}, which runs here, finds a mistake"
    mistakes = (f"{labelled}: {error}" for error in checked.errors)
    doubts = (f"as things are, the replicas will not use these policies: {doubt}" for doubt in checked.doubts)
    return _allowed([*mistakes, *doubts, *checked.notices])


def _of_another_release(raw: Mapping[str, Any]) -> str:
    """The release of the chart that made the ConfigMap, where it is another release than this one; else empty.

    An upgrade applies the policies of the new release while replicas of the old release still run.
    """
    labels = mapping(mapping(raw.get("metadata"), "metadata").get("labels"), "metadata.labels")
    release = labels.get(VERSION_LABEL)
    is_of_chart = labels.get(NAME_LABEL) == CHART
    return release if is_of_chart and isinstance(release, str) and release != version() else ""


def _refusal(checked: Checked) -> str:
    lines = [shortened(printable(str(error)), LONGEST_LINE) for error in checked.errors[:MOST_VIOLATIONS]]
    if len(checked.errors) == 1:
        return lines[0]
    kept = _fitting(lines, MOST_REFUSED)
    left = len(checked.errors) - len(kept)
    more = [_MORE.format(left)] if left else []
    return "\n".join([f"{len(checked.errors)} mistakes in the policies:", *kept, *more])


def _allowed(warnings: Iterable[str]) -> Decision:
    texts = [shortened("".join(c if " " <= c <= "~" else "?" for c in text), LONGEST_LINE) for text in warnings]
    kept = _fitting(texts, MOST_WARNED - len(_MORE.format(len(texts))))
    left = len(texts) - len(kept)
    return Decision(AdmissionResponse(is_allowed=True, warnings=(*kept, _MORE.format(left)) if left else tuple(kept)))


def _fitting(texts: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for text in texts:
        room -= len(text)
        if room < 0:
            break
        kept.append(text)
    return kept
