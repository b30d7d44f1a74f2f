"""Warnings about pods that controllers make. The controller gets them in the answer, and nobody reads them there.

What is said about one pod is collected by rule, so that it can become an Event that people see.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

from webhook.admission.admission_review import AdmissionRequest, objection_to
from webhook.admission.phases import Decision
from webhook.model.json_parts import part
from webhook.model.shape import cut_to_bytes
from webhook.model.workloads import controller_of, is_pod
from webhook.outcome import Finding, Outcome, printable, worst_first
from webhook.policy.policy_set import Policy
from webhook.rules.rule_settings import Mode

LONGEST_MESSAGE = 1024
"""Most bytes of a message in UTF-8; `events.k8s.io/v1` allows no longer ones."""
_LEAST_TEXT = 256
"""Bytes that are left for the warning itself, whatever names the pod and the policy have."""
_LONGEST_UID = 64


@dataclass(frozen=True, slots=True)
class RuleWarning:
    """The worst warning of a rule about a pod, and how many more the rule has."""

    text: str
    more: int = 0

    def about(self, pod: str, policy: str) -> str:
        """The warning with the pod and the policy that it is about.

        >>> RuleWarning("gpuLimits: spec: too many GPUs.", 2).about("bert-x7k2p", "team-nlp")
        'gpuLimits: spec: too many GPUs. (Pod bert-x7k2p, mode warn of policy team-nlp, and 2 more warnings)'
        """
        plural = "warning" if self.more == 1 else "warnings"
        more = f", and {self.more} more {plural}" if self.more else ""
        about = printable(f" (Pod {pod}, mode warn of policy {policy}{more})")
        text = cut_to_bytes(printable(self.text), max(LONGEST_MESSAGE - len(about.encode()), _LEAST_TEXT))
        return cut_to_bytes(f"{text}{about}", LONGEST_MESSAGE)


Warnings = Mapping[str, RuleWarning]
"""Rule -> its warning."""


@dataclass(frozen=True, slots=True)
class WarnedPod:
    """An admitted pod with a controller.

    `controller` is the uid of the controller as the pod has it, which anybody can write. `may_lack` says whether rules
    in mode `warn` could have more to say: what they would inject.
    """

    namespace: str
    name: str
    uid: str
    controller: str
    policy: str
    warnings: Warnings
    may_lack: bool


class DecisionListener(Protocol):
    """Is told of the decisions of the validating phase about pods."""

    def hear(self, request: AdmissionRequest, decision: Decision) -> None:
        """Take note of a decision. Never waits and never raises."""
        ...


@dataclass(frozen=True, slots=True)
class HeardWarnings:
    """A decision with warnings about a pod that has a controller. The texts are made when somebody asks for the pod.

    `rules` are the rules that warn. The other fields are those of WarnedPod.
    """

    request: AdmissionRequest
    outcome: Outcome
    name: str
    uid: str
    controller: str
    rules: tuple[str, ...]
    may_lack: bool

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return self.request.namespace

    def pod(self) -> WarnedPod:
        """The pod with its warnings, which are of a bounded size."""
        return WarnedPod(
            self.namespace,
            self.name,
            self.uid,
            self.controller,
            self.outcome.policy.name,
            warnings_of(self.outcome.findings),
            self.may_lack,
        )


def heard_warnings(request: AdmissionRequest, decision: Decision) -> HeardWarnings | None:
    """What somebody should be told of a decision of the validating phase; None if it is nothing.

    It has to be about a new pod with a controller that is admitted, and no dry run. Only rules in mode `warn` count.
    """
    outcome, raw = decision.outcome, request.object
    if outcome is None or raw is None or request.is_dry_run or not decision.answer.is_allowed:
        return None
    may_lack = would_inject(outcome.policy)
    if not (may_lack or outcome.findings) or request.operation != "CREATE" or request.subresource:
        return None
    controller = controller_of(raw) if is_pod(request.api_version, request.kind) else None
    rules = tuple(dict.fromkeys(finding.rule for finding in outcome.findings if _is_told(finding)))
    if controller is None or not (may_lack or rules):
        return None
    name, uid, owner = (
        request.name or part(raw, "metadata", "name"),
        part(raw, "metadata", "uid"),
        controller.get("uid"),
    )
    if not (_is_uid(uid) and _is_uid(owner) and isinstance(name, str) and name) or objection_to("name", name):
        return None
    return HeardWarnings(request, outcome, name, uid, owner, rules, may_lack)


def would_inject(policy: Policy) -> bool:
    """Whether a policy has rules that would inject something, in mode `warn`."""
    for stage in policy.mutators:
        for bound in stage:
            if bound.mode is Mode.WARN:
                return True
    return False


def warnings_of(findings: Iterable[Finding]) -> Warnings:
    """The warnings of rules in mode `warn`; the worst finding of a rule speaks for the others."""
    found: dict[str, RuleWarning] = {}
    for finding in worst_first(filter(_is_told, findings)):
        known = found.get(finding.rule)
        if known is None:
            found[finding.rule] = RuleWarning(finding.note, finding.number - 1)
        else:
            found[finding.rule] = replace(known, more=known.more + finding.number)
    return found


def _is_told(finding: Finding) -> bool:
    return finding.mode is Mode.WARN and finding.warns


def _is_uid(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and 0 < len(text) <= _LONGEST_UID
