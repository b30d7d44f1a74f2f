"""Quotas: what a pod requests of them, and the findings that verdicts of ledgers become.

Nothing here reads or writes a ledger, because that waits: the caller does so with a function of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import nsmallest
from http import HTTPStatus
from typing import Any

from webhook.engine.running_rules import addressed, told
from webhook.facts.claim_index import bounded
from webhook.facts.facts import ClusterFacts
from webhook.ledger.gpu_pods import extended_pod, reservation_of
from webhook.ledger.group_reader import FoundGroup
from webhook.ledger.ledger_store import GpuPod, LedgerError, entered_demand
from webhook.ledger.remainders import GroupRequest, PartRequest, key_of
from webhook.ledger.verdicts import (
    AlreadyStored,
    Exceeded,
    Granted,
    LedgerFull,
    QuotaRequest,
    TooManyUnconfirmed,
    Unanswered,
    Verdict,
)
from webhook.model.claims import CLAIM, claim_of_kind
from webhook.model.gpu_fractions import DEVICES, changed_fraction, changed_key, fraction_faults
from webhook.model.json_parts import mapped
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import shortened
from webhook.model.subject import Member, makers_of
from webhook.model.violation import Violation
from webhook.model.wording import PLATFORM_TEAM
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.quota import quota_wording
from webhook.quota.amounts import amounts
from webhook.quota.demand import PodDemand, claim_demand, looked_up, pod_demand
from webhook.quota.objections import objections, uncounted, uncounted_claim
from webhook.quota.quota_wording import is_unspecified
from webhook.quota.quotas import ClaimsMode, Counting, Demand, Gated, Groups, Limit, OnLedgerFailure, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode

KEY = gpu_quota.RULE.key
"""The rule that findings about quotas belong to."""
_MOST_NAMES = 3
"""Pods that a refusal names."""
_LONGEST_NAME = 40
"""Characters of a pod's name in a refusal."""


@dataclass(frozen=True, slots=True)
class QuotaRequests:
    """What a pod or claim requests of the quotas of its namespace. `findings` are true whatever else is in use.

    `takes_over` is the key of the entry that the entry of a claim replaces; empty for a pod. `stands_for` says that the
    replaced entry belongs to a pod. `starts` says that the pod is stored already, and loses its last scheduling gate.
    `made_alike` says what a pod of a template would request, for pods whose group has to fit as a whole; None for
    others.
    """

    requests: tuple[tuple[ConfiguredQuota, QuotaRequest], ...] = ()
    findings: tuple[Finding, ...] = ()
    takes_over: bytes = b""
    stands_for: bool = False
    starts: bool = False
    made_alike: Callable[[Mapping[str, Any], Counting], Demand | None] | None = field(default=None, compare=False)

    def together(self, found: FoundGroup | None, at: float = 0) -> list[QuotaRequest]:
        """The requests of a pod together with the group that was found for it; `at` is in seconds since 1970."""
        requests = [request for _, request in self.requests]
        if found is None:
            return requests
        return [replace(one, group=self._group(one, found, int(at))) if _is_whole(one) else one for one in requests]

    def _group(self, request: QuotaRequest, found: FoundGroup, at: int) -> GroupRequest | None:
        parts: list[PartRequest] = []
        for part in found.group.parts:
            demand = None if parts else request.demand
            if parts and part.template is not None and self.made_alike is not None:
                demand = self.made_alike(part.template, request.quota.counting)
            if demand is not None and not demand.is_too_large:
                of = f"{found.named.text}/{part.name}"
                key = key_of(found.group.uid, of)
                parts.append(PartRequest(of, key, demand, found.needed(part, demand), found.present(part)))
        group = found.group
        return GroupRequest(found.named.called, tuple(parts), at, group.is_lasting, group.has_begun)


NO_REQUESTS = QuotaRequests()


def requests_of_pod(
    pod: Pod, namespace: str, quotas: Sequence[ConfiguredQuota], facts: ClusterFacts, *, starts: bool = False
) -> QuotaRequests:
    """What a pod requests, and why it never fits into a shared quota. The rule judges the namespace's own quota.

    `starts`: the pod is stored, and loses its last scheduling gate now.
    """
    requests: list[tuple[ConfiguredQuota, QuotaRequest]] = []
    findings: list[Finding] = []
    faults = list(fraction_faults(pod)) if pod.fractions or DEVICES in pod.annotations else ()
    for active in quotas:
        quota, is_shared = active.quota, active.quota.scope is QuotaScope.SHARED
        if is_shared:
            findings += _uncounted(uncounted(pod, quota, facts), active)
            findings += [finding_of(active, fault) for fault in faults]
        whole = pod_demand(pod, namespace, quota.counting, facts)
        if is_shared and not faults and (demand := whole.all) is not None:
            findings += [finding_of(active, objection) for objection in objections(demand, quota)]
        entering = _entering(whole, quota.counting, is_gated=pod.is_gated, starts=starts)
        demand = entering.all
        if demand is not None and not demand.is_too_large:
            own = entering.own if entering.reserved else None
            requests.append((active, QuotaRequest(quota, demand, active.mode is Mode.ENFORCE, entering.reserved, own)))
    if starts:
        findings = []  # said when the pod was created
    if not requests and not findings:
        return NO_REQUESTS

    def made_alike(template: Mapping[str, Any], counting: Counting) -> Demand | None:
        return pod_demand(pod_from_raw(template, pod.known, namespace), namespace, counting, facts).all

    is_whole = not pod.is_gated and any(_is_whole(request) for _, request in requests)
    return QuotaRequests(tuple(requests), tuple(findings), starts=starts, made_alike=made_alike if is_whole else None)


def _is_whole(request: QuotaRequest) -> bool:
    return request.enforced and request.quota.counting.groups is Groups.WHOLE


def _entering(whole: PodDemand, counting: Counting, *, is_gated: bool, starts: bool) -> PodDemand:
    """What is entered now. Kubernetes makes the claims of a gated pod at once, so these do not wait for its gates."""
    if counting.gated is Gated.NOW:
        return PodDemand(None) if starts else whole
    if starts:
        return PodDemand(whole.own)
    return replace(whole, own=None) if is_gated else whole


def after_update(outcome: Outcome, old: Mapping[str, Any], quotas: Sequence[ConfiguredQuota]) -> Outcome:
    """The outcome of an update of a pod. Its entries do not change, and so its annotations must not."""
    pod, was = outcome.pod, mapped(old, "metadata", "annotations")
    key = "" if pod is None or not quotas else changed_key(pod.annotations, was)
    if pod is None or not key or pod_from_raw(old, pod.known, pod.namespace).fractions == pod.fractions:
        return outcome
    strictest = max(quotas, key=lambda active: active.mode is Mode.ENFORCE)
    return _with_findings(outcome, [finding_of(strictest, changed_fraction(key, pod.annotations, was))])


def requests_of_claim(
    raw: Mapping[str, Any], namespace: str, quotas: Sequence[ConfiguredQuota], facts: ClusterFacts
) -> QuotaRequests:
    """What a ResourceClaim that is about to be created requests."""
    claim = claim_of_kind(CLAIM, raw)
    devices = looked_up(bounded(claim.requests), facts) if claim is not None else ()
    requests: list[tuple[ConfiguredQuota, QuotaRequest]] = []
    findings: list[Finding] = []
    for active in quotas:
        findings += _uncounted(uncounted_claim(devices, active.quota), active)
        demand = claim_demand(devices, namespace, active.quota.counting)
        if demand is not None:
            requests.append((active, QuotaRequest(active.quota, demand, active.mode is Mode.ENFORCE)))
            findings += [finding_of(active, one) for one in objections(demand, active.quota, namespace)]
    return QuotaRequests(tuple(requests), tuple(findings), reservation_of(raw))


def requests_of_scheduler(
    raw: Mapping[str, Any], namespace: str, quotas: Sequence[ConfiguredQuota], facts: ClusterFacts
) -> QuotaRequests:
    """What a ResourceClaim that the scheduler makes for extended resources of a pod requests.

    The claim takes over the entry of the pod. If the pod was deleted meanwhile, its entry is gone, and the claim has to
    fit. While ledgers cannot be reached the claim is admitted, because its pod was, and waits for it.
    """
    found = requests_of_claim(raw, namespace, quotas, facts).requests
    lenient = tuple((replace(active, on_ledger_failure=OnLedgerFailure.ALLOW), request) for active, request in found)
    return QuotaRequests(lenient, takes_over=extended_pod(raw), stands_for=True)


def reserved(  # noqa: PLR0913, PLR0917  # what is reserved, and who is asked
    outcome: Outcome,
    namespace: str,
    quotas: Sequence[ConfiguredQuota],
    facts: ClusterFacts,
    ask: Callable[[Sequence[QuotaRequest]], Sequence[Verdict]],
    seen: Callable[[str], Iterable[GpuPod]] | None,
    group: Callable[[], FoundGroup | None] = lambda: None,
) -> Outcome:
    """The outcome of a pod after what it requests was entered, as by `entered`; a refused pod requests nothing.

    `group` returns the group of the pod; it may raise LedgerError.
    """
    if outcome.refusals or not quotas:
        return outcome
    pod = outcome.pod or pod_from_raw(outcome.object, outcome.policy.accelerators, namespace)
    wanted = requests_of_pod(pod, namespace, quotas, facts)

    def answers(requests: Sequence[QuotaRequest]) -> Sequence[Verdict]:
        try:
            found = group() if wanted.made_alike is not None else None
        except LedgerError as error:
            return [Unanswered(error.for_authors, error.code)] * len(requests)
        return ask(wanted.together(found))

    return entered(outcome, namespace, wanted, answers, seen)


def entered(
    outcome: Outcome,
    namespace: str,
    wanted: QuotaRequests,
    ask: Callable[[Sequence[QuotaRequest]], Sequence[Verdict]],
    seen: Callable[[str], Iterable[GpuPod]] | None,
) -> Outcome:
    """The outcome of a pod after its requests were entered in the ledgers of its quotas.

    `ask` enters requests and returns the verdicts; it is called only for a pod that nothing refuses. `seen` returns the
    pods of a namespace; if it is None, a refusal does not say what is in use.
    """
    outcome = _with_findings(outcome, wanted.findings)
    if outcome.refusals or not wanted.requests:
        return outcome
    verdicts = ask([request for _, request in wanted.requests])
    is_over = any(isinstance(verdict, Exceeded) for verdict in verdicts)
    pods = None if seen is None else seen(namespace) if is_over else ()
    answers = zip(wanted.requests, verdicts, strict=True)
    makers = makers_of(outcome.object) if pods else ()
    findings = (finding_for(active, request.demand, verdict, pods, makers) for (active, request), verdict in answers)
    return _with_findings(outcome, [finding for finding in findings if finding is not None])


def _with_findings(outcome: Outcome, findings: Sequence[Finding]) -> Outcome:
    """The outcome with more findings, which name the contact of the policy."""
    if not findings:
        return outcome
    contact = outcome.policy.contact
    own = [replace(one, remedy=addressed(one.remedy, contact)) for one in findings]
    return replace(outcome, findings=(*outcome.findings, *own))


def finding_for(
    active: ConfiguredQuota,
    demand: Demand,
    verdict: Verdict,
    pods: Iterable[GpuPod] | None,
    makers: Sequence[Member] = (),
) -> Finding | None:
    """The finding that the verdict on a demand becomes; None for a pod that fits.

    `pods` are the pods of the namespace; messages name the largest. If None, messages do not say what is in use.
    `makers` are what made the pod.
    """
    quota = active.quota
    if isinstance(verdict, Granted):
        return None
    if isinstance(verdict, Unanswered):
        found = f"the ledger of GPU quota '{quota.name}' cannot be reached, so it is not known what is free: "
        is_passing = verdict.code == HTTPStatus.SERVICE_UNAVAILABLE
        remedy = f"Try again in a moment, or tell {PLATFORM_TEAM}" if is_passing else f"Tell {PLATFORM_TEAM}"
        finding = finding_of(replace(active, exception=None), Violation("spec", found + verdict.reason, "", remedy))
        is_denied = active.on_ledger_failure is OnLedgerFailure.DENY
        return replace(finding, refuses=finding.refuses and is_denied, code=verdict.code)
    if isinstance(verdict, Exceeded):
        holders = _holders(pods or (), verdict.excesses[0].limit, quota)
        largest, kin = None if pods is None else _named(holders), _kin(makers, holders)
        is_open = is_unspecified(demand, quota)
        if verdict.group:
            message = quota_wording.group_exceeded(quota, verdict.excesses, verdict.group, verdict.pods, largest)
            return finding_of(active, Violation("spec", message, "", ""))
        message = quota_wording.exceeded(quota, verdict.excesses, largest, kin=kin, is_unspecified=is_open)
        return finding_of(active, Violation("spec", message, "", ""))
    finding = finding_of(active, _WITHOUT_USAGE if pods is None else _kept_out(verdict, quota))
    passes = isinstance(verdict, TooManyUnconfirmed) and verdict.excess.used  # those pods are stored in a moment
    return replace(finding, code=HTTPStatus.TOO_MANY_REQUESTS) if passes else finding


def _kept_out(verdict: TooManyUnconfirmed | LedgerFull | AlreadyStored, quota: Quota) -> Violation:
    if isinstance(verdict, AlreadyStored):
        found = f"there is already a pod {verdict.name}"
        return Violation("metadata.name", found, "no two pods of a namespace have one name", "Choose another name")
    if isinstance(verdict, LedgerFull):
        return Violation("spec", *quota_wording.ledger_full(quota, verdict.demands, verdict.most))
    return Violation("spec", *quota_wording.too_many_unconfirmed(quota, verdict.excess, verdict.most))


_WITHOUT_USAGE = Violation(
    "spec", "does not fit beside the pods of its namespace", "a GPU quota is used up", "Free some or request less"
)
"""Stands for the particular reason where refusals do not say what is in use."""


def finding_of(active: ConfiguredQuota, violation: Violation, kind: FindingKind = FindingKind.VIOLATION) -> Finding:
    """What is found about a quota, in its mode; advice refuses nothing."""
    is_violation = kind is FindingKind.VIOLATION
    finding = Finding(
        KEY,
        active.mode,
        kind,
        violation.where,
        violation.message,
        violation.remedy,
        refuses=is_violation and active.mode is Mode.ENFORCE,
        origin=active.origin,
        line=active.line,
        exception=active.exception if is_violation else None,
    )
    return told(finding)


def _uncounted(violations: Iterable[Violation], active: ConfiguredQuota) -> Iterator[Finding]:
    is_denied = active.quota.counting.claims is ClaimsMode.DENY
    for violation in violations:
        yield finding_of(active, violation, FindingKind.VIOLATION if is_denied else FindingKind.ADVICE)


def largest_of(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> list[tuple[str, Fraction]]:
    """The pods that count most against a limit, and by name if several count alike."""
    return _named(_holders(pods, limit, quota))


def _holders(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> list[tuple[Fraction, GpuPod]]:
    counting = ((amount, pod) for pod in pods if (amount := amount_of_stored(pod, limit, quota)))
    return nsmallest(_MOST_NAMES, counting, key=lambda one: (-one[0], one[1].called))


def _named(holders: Sequence[tuple[Fraction, GpuPod]]) -> list[tuple[str, Fraction]]:
    return [(shortened(pod.called, _LONGEST_NAME), amount) for amount, pod in holders]


_HELPS = {"Deployment": "set strategy Recreate, or maxSurge: 0", "Rollout": "set maxSurge: 0"}
"""Kind that starts new pods beside old ones -> how not to."""


def _kin(makers: Sequence[Member], holders: Sequence[tuple[Fraction, GpuPod]]) -> tuple[str, str]:
    """What the largest holder has in common with a pod, and what helps: the last common maker; empty for none."""
    shared = [one for one in makers if holders and one in holders[0][1].makers]
    if not shared:
        return "", ""
    kind = shared[-1][0]
    if kind in _HELPS and makers[0] not in shared:
        return f", the old pod of the same {kind}", _HELPS[kind]
    return f", a pod of the same {kind}", ""


def amount_of_stored(seen: GpuPod, limit: Limit, quota: Quota) -> Fraction:
    """What a stored pod or claim counts against a limit."""
    demand = entered_demand(seen, quota.counting)
    return Fraction(0) if demand is None else amounts(demand, quota).get(limit, Fraction(0))
