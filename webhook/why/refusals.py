"""Why the API server refused a pod that a controller wanted to make, from the text that the controller kept of it.

Controllers keep the text in an event, which the API server forgets after an hour, and some in a condition.
"""

import re

from webhook.audit.quota_report import ReportedQuota
from webhook.model.wording import cut, few
from webhook.policy.policy_set import BoundRule
from webhook.why.explanation import Clue, Explanation, ReasonCode
from webhook.why.observed import Surroundings

_LOOKED_AT = 30_000
"""Characters of a text that are searched: more than the longest refusal of the webhook."""
_DENIED = re.compile(r'admission webhook "([^"\s]{1,253})" denied the request: ?', re.IGNORECASE)
_NO_ANSWER = re.compile(r'failed calling webhook "([^"\s]{1,253})"')
_POLICY = re.compile(r"ValidatingAdmissionPolicy '([^'\s]{1,253})'[^:]{0,300} denied request: ?")
_EXCEEDED = re.compile(r"exceeded quota: ([^\s,]{1,253}), ?")
_POD_SECURITY = re.compile(r'violates PodSecurity "([^"\s]{1,100})": ?')
_RULE = re.compile(r"^(?:- )?([a-z][A-Za-z]{2,40}): ", re.MULTILINE)
_OURS = ".gpupolicy.dev"
_QUOTA_RULE = "gpuQuota"
_PREFIX = "Error creating: "
_AGAIN = "the controller then tries again by itself"


def refusal(message: str, source: str, around: Surroundings, kind: str) -> Explanation:
    """The reason in a text such as `Error creating: admission webhook "validate.gpupolicy.dev" denied ...`.

    `source` is where the text stood, `kind` that of the workload that people change.
    """
    message = message[:_LOOKED_AT].removeprefix(_PREFIX).strip()
    clue = Clue(source, message)
    if found := _DENIED.search(message):
        return _denied(found[1], message[found.end() :], clue, around, kind)
    if found := _NO_ANSWER.search(message):
        return _no_answer(found[1], clue)
    if found := _EXCEEDED.search(message):
        return _exceeded(found[1], message[found.end() :], clue, around)
    if found := _POLICY.search(message):
        said = message[found.end() :]
        return _by(f"ValidatingAdmissionPolicy {found[1]}", said, clue, kind)
    if found := _POD_SECURITY.search(message):
        return _by(f"Pod Security ({found[1]})", message[found.end() :], clue, kind)
    return _by("the API server", message, clue, kind)


def of_policies(text: str, around: Surroundings, kind: str) -> Explanation:
    """The reason if no event tells of a refusal any more, but the policies would refuse the pods now."""
    said = "the policies as they are now; events are kept for an hour, and none is left"
    return _denied(f"validate{_OURS}", text, Clue(said, text), around, kind)


def _denied(webhook: str, text: str, clue: Clue, around: Surroundings, kind: str) -> Explanation:
    if not webhook.endswith(_OURS):
        return _by(f"the admission webhook {webhook}", text, clue, kind)
    rules = list(dict.fromkeys(_RULE.findall(text)))
    places = [f"{one.rule.key} is set in {one.origin}:{one.line}" for one in _bound(rules, around)]
    clues = [clue, *(Clue("policy", place) for place in places)]
    if rules == [_QUOTA_RULE]:
        return _over_quota(text, clues, around)
    named = f" ({few(rules)})" if rules else ""
    remedy = _other_template(kind, "as the message says")
    return Explanation(ReasonCode.REFUSED, f"gpu-policy refuses its pods{named}: {text}", remedy, tuple(clues))


def _bound(rules: list[str], around: Surroundings) -> list[BoundRule]:
    return [one for one in (around.policy.rules if around.policy is not None else ()) if one.rule.key in rules]


def _over_quota(text: str, clues: list[Clue], around: Surroundings) -> Explanation:
    clues += [Clue(f"GPUQuota {one.name}", _usage(one)) for one in around.quotas]
    clues += _holders(around)
    remedy = f"Let one of the holders end, request fewer GPUs, or ask for a larger quota; {_AGAIN}"
    return Explanation(ReasonCode.OVER_QUOTA, f"the GPU quota refuses its pods: {text}", remedy, tuple(clues))


def _exceeded(quota: str, text: str, clue: Clue, around: Surroundings) -> Explanation:
    remedy = f"Let other pods of the namespace end, request less, or ask for a larger ResourceQuota; {_AGAIN}"
    message = f"the ResourceQuota {quota} refuses its pods: {text}"
    return Explanation(ReasonCode.OVER_QUOTA, message, remedy, (clue, *_holders(around)))


def _usage(quota: ReportedQuota) -> str:
    parts = (f"{part.name or 'GPUs'}: {part.used} of {part.hard} used" for part in quota.parts)
    return cut("; ".join(parts), 500)


def _holders(around: Surroundings) -> list[Clue]:
    held = [f"{name} holds {gpus}" for name, gpus in around.holders]
    return [Clue("pods of the namespace", few(held))] if held else []


def _no_answer(webhook: str, clue: Clue) -> Explanation:
    if webhook.endswith(_OURS):
        remedy = "Tell the platform team, who see the fault by gpu-policy doctor"
        return Explanation(
            ReasonCode.REFUSED, "no pod can be created, because gpu-policy does not answer", remedy, (clue,)
        )
    message = f"no pod can be created, because the admission webhook {webhook} does not answer"
    return Explanation(ReasonCode.REFUSED, message, "Tell the platform team", (clue,))


def _other_template(kind: str, how: str) -> str:
    """How to change the pod template of a workload of this kind: that of a Job is never changed in place."""
    if kind == "JobSet" or (kind.endswith("Job") and kind != "CronJob"):
        return (
            f"Delete the {kind} and create it again with a pod template {how}: a {kind} keeps the template that it has"
        )
    if kind == "CronJob":
        return f"Change the pod template {how}; the next Job has it"
    return f"Change the pod template {how}; {_AGAIN}"


def _by(whom: str, text: str, clue: Clue, kind: str) -> Explanation:
    remedy = f"{_other_template(kind, 'that it admits')}; or ask who runs it"
    if whom == "the API server":
        remedy = f"Correct what the message names; {_AGAIN}"
    return Explanation(ReasonCode.REFUSED, f"{whom} refuses its pods: {text}", remedy, (clue,))
