"""What pods request by the ResourceClaims and ResourceClaimTemplates in the input of an audit.

An audit of files reports which devices are claimed: in the finding of `gpuQuota` about claims that it cannot count, or
in a finding that is only recorded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.audit.documents import Document, DocumentError, own_namespace
from webhook.engine import TemplateOutcome
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import CLAIM, GROUP, DeviceRequest, Devices, PodResourceClaim, claim_from, claims_of
from webhook.model.json_parts import mapped
from webhook.model.wording import counted, cut
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_set import Policy
from webhook.quota.demand import BY_CLAIM, CLAIMS
from webhook.rules import resource_claims, tolerations
from webhook.rules.rule_settings import Mode

KEY = resource_claims.RULE.key
"""The rule key of findings about claims where no quota has a finding."""

_SHOWN = 3
"""Most claims of a pod, requests of a claim, and alternatives of a request that a message spells out."""
_UNCOUNTED = "; quotas count only devices of classes that are known to be GPUs"
_TOLERATE = "Add the tolerations of GPU nodes to the pod; the policy adds none for these devices"


@dataclass(frozen=True, slots=True)
class _Asking:
    """A pod that may have claims. `gets_tolerations`: the webhook adds tolerations that are not in `spec`."""

    spec: Mapping[str, Any]
    namespace: str
    policy: Policy
    gets_tolerations: bool = False

    @property
    def tolerates(self) -> bool:
        """Whether the pod has any tolerations in the end."""
        return self.gets_tolerations or bool(self.spec.get("tolerations"))


def with_input_claims(
    facts: ClusterFacts, documents: Iterable[Document | DocumentError], namespace: str
) -> ClusterFacts:
    """The facts with the claims and claim templates among these documents, as if applied before the pods.

    A claim that names no namespace is taken to be in `namespace`. DeviceClasses, RuntimeClasses and PriorityClasses
    among the documents are added to those of the cluster, where these are known.
    """
    documents, cluster = list(documents), facts.cluster
    for one in [one for one in documents if isinstance(one, Document)]:
        match one.kind, one.api_version.partition("/")[0]:
            case "DeviceClass", group if group == GROUP and cluster.device_classes:
                cluster = cluster.with_device_class(one.object)
            case "RuntimeClass", "node.k8s.io" if cluster.runtime_classes:
                cluster = cluster.with_runtime_class(one.object)
            case "PriorityClass", "scheduling.k8s.io" if cluster.priority_classes:
                cluster = cluster.with_priority_class(one.object)
    found = ((one, claim_from(one.object)) for one in documents if isinstance(one, Document))
    named = ((own_namespace(one) or namespace, claim) for one, claim in found if claim is not None)
    return replace(facts, cluster=cluster.with_more_claims(named))


class InputClaims:
    """Adds what pods request by known claims and claim templates to findings."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts

    def pod_with_claims(self, outcome: Outcome, namespace: str) -> Outcome:
        """The outcome of a pod, with findings about its claims."""
        asking = _Asking(mapped(outcome.object, "spec"), namespace, outcome.policy)
        return replace(outcome, findings=self._with_claims(outcome.findings, asking, CLAIMS))

    def template_with_claims(self, outcome: TemplateOutcome, namespace: str, policy: Policy) -> TemplateOutcome:
        """The result for the pods of a template, with findings about their claims."""
        template = outcome.template
        if template.is_unknown(CLAIMS):
            return outcome
        adds = any(one.rule == tolerations.RULE.key for one in outcome.injections)
        asking = _Asking(mapped(template.pod, "spec"), namespace, policy, gets_tolerations=adds)
        return replace(outcome, findings=self._with_claims(outcome.findings, asking, template.place(CLAIMS)))

    def _with_claims(self, findings: Sequence[Finding], asking: _Asking, place: str) -> tuple[Finding, ...]:
        """The findings about a pod, with the devices that it claims; `place` is the place of its claims.

        Nothing is added if no claimed device can be a GPU.
        """
        named = list(claims_of(asking.spec.get("resourceClaims")))
        if not named:
            return tuple(findings)
        found = f"requests {_listed(self._phrases(named, asking.namespace), len(named), 'claim')}"
        if any(one.message.startswith(BY_CLAIM) for one in findings):
            return tuple(replace(one, message=_instead(one.message, found)) for one in findings)
        devices, known = list(self._devices(named, asking.namespace)), asking.policy.accelerators
        if not any(one is None or one.may_be_gpus(known) for one in devices):
            return tuple(findings)
        are_gpus = any(one is not None and one.are_gpus(known) for one in devices)
        is_doubtful = any(one is None or (one.may_be_gpus(known) and not one.are_gpus(known)) for one in devices)
        remedy = _TOLERATE if are_gpus and not asking.tolerates else ""
        return (
            *findings,
            Finding(KEY, Mode.AUDIT, FindingKind.ADVICE, place, f"{found}{_UNCOUNTED if is_doubtful else ''}", remedy),
        )

    def _devices(self, named: Iterable[PodResourceClaim], namespace: str) -> Iterator[Devices | None]:
        """All devices that may satisfy the claims; None for unknown ones."""
        for one in named:
            requests = self._facts.claim(one, namespace)
            for request in requests if requests is not None else ((),):
                yield from request or (None,)

    def _phrases(self, named: Sequence[PodResourceClaim], namespace: str) -> Iterator[str]:
        for one in named[:_SHOWN]:
            if not one.kind:
                yield f"devices by claim {cut(one.name)}, for which the pod names no claim and no template"
                continue
            by = f"by {'claim' if one.kind == CLAIM else 'claim template'} {cut(one.target)}"
            requests = self._facts.claim(one, namespace)
            if requests is None:
                yield f"devices {by}, which is not in the input"
            else:
                yield f"{_requests(requests)} {by}"


def _instead(message: str, found: str) -> str:
    """The message with the claimed devices in place of its general beginning."""
    return found + message.removeprefix(BY_CLAIM) if message.startswith(BY_CLAIM) else message


def _requests(requests: Sequence[DeviceRequest]) -> str:
    """The devices of a claim in words; devices of one class are added up where their numbers are known."""
    exact: dict[str, int] = {}
    others: list[str] = []
    for request in requests:
        first = request[0] if len(request) == 1 else None
        if first is not None and first.number is not None and not first.is_administrative:
            exact[first.device_class] = exact.get(first.device_class, 0) + first.number
        else:
            others.append(_alternatives(request))
    phrases = [*(_phrase(Devices(name, count)) for name, count in exact.items()), *others]
    return _listed(phrases, len(phrases), "request")


def _alternatives(request: DeviceRequest) -> str:
    if not request:
        return "devices in a number that cannot be read"
    if len(request) == 1:
        return _phrase(request[0])
    return f"one of {len(request)} alternatives ({_listed(map(_phrase, request), len(request), 'alternative', 'or')})"


def _phrase(devices: Devices) -> str:
    name = cut(devices.device_class)
    if devices.number is None:
        text = f"all matching devices of {name}"
    else:
        text = f"{devices.number} {'device' if devices.number == 1 else 'devices'} of {name}"
    return f"administrative access to {text}" if devices.is_administrative else text


def _listed(phrases: Iterable[str], count: int, what: str, word: str = "and") -> str:
    """The first phrases in a list, and how many more there are.

    >>> _listed(["1 device of a", "2 devices of b"], 2, "request"), _listed(["a", "b", "c", "d"], 4, "request")
    ('1 device of a and 2 devices of b', 'a, b, c and 1 more request')
    """
    shown = [phrase for phrase, _ in zip(phrases, range(_SHOWN), strict=False)]
    more = count - _SHOWN
    last = counted(more, f"more {what}") if more > 0 else shown.pop()
    return f"{', '.join(shown)} {word} {last}" if shown else last
