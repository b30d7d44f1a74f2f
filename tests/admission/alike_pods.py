"""Pods of controllers, the policies and facts that decide about them, and a phase that counts its decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.reviews import FACTS, pod, policy, request
from tests.rules.every_rule import INJECTING
from webhook.admission import phases
from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.decision_cache import DecisionCache
from webhook.admission.phases import Decision
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.policy.policy_set import PolicySet
from webhook.rules.rule import Facts

Object = dict[str, Any]


INDEX = "batch.kubernetes.io/job-completion-index"


TOKEN = "kube-api-access-abcde"


PHASES = {"mutate": phases.mutate, "validate": phases.validate}


def injecting(**settings_of: Mapping[str, Any]) -> PolicySet:
    """Every rule enforced, with something to inject, and with these settings."""
    rules = {key: {"mode": "enforce", **values, **settings_of.get(key, {})} for key, values in INJECTING.items()}
    others = {key: {"mode": "warn"} for key in ("schedulable", "memoryAndCpu", "imagePinning", "sharedGpus")}
    return PolicySet.of(policy({**others, **rules}), {})


EVERY = injecting()


NOTHING = PolicySet.of(policy({}), {})


BY_INDEX = injecting(timeLimit={"selectors": [{INDEX: "0"}, {"apps.kubernetes.io/pod-index": "0"}]})


WARNING = PolicySet.of(
    policy({"gpuQuota": {"gpus": 1}, **{key: {**INJECTING[key]} for key in INJECTING}}, mode="warn"), {}
)


ALONE = PolicySet.of(policy({"runtimeClass": {"mode": "enforce"}}), {})


class Images:
    """What is known about images, which tests change, and which images were asked about."""

    def __init__(self, known: Mapping[str, ImageInfo] | None = None) -> None:
        self.known = dict(known or {})
        self.asked: list[str] = []

    def info(self, text: str, asker: str = "") -> ImageInfo:  # noqa: ARG002  # the protocol
        self.asked.append(text)
        return self.known.get(text, NOT_LOOKED_UP)


class Counted:
    """A phase that counts how often it has decided."""

    def __init__(self, phase: str) -> None:
        self.times = 0
        self._decide = PHASES[phase]

    def __call__(
        self,
        request: AdmissionRequest,
        policies: PolicySet,
        facts: Facts,
        recent: Sequence[PolicySet] = (),
        now: float = 0.0,
    ) -> Decision:
        self.times += 1
        return self._decide(request, policies, facts, recent, now)


def remembering(phase: str = "mutate", *, uid: str = "1") -> tuple[Counted, DecisionCache]:
    """A cache that has seen the first pod of the controller, and how often its phase decides from now on."""
    decide = Counted(phase)
    memory = DecisionCache(decide)
    for namespace in ("team", "other"):
        memory.decision(request(owned(pod(1), uid=uid), namespace=namespace), (NOTHING,), FACTS)
    assert decide.times == 2
    decide.times = 0
    return decide, memory


def owned(raw: Object, kind: str = "ReplicaSet", *, uid: str = "1") -> Object:
    """The pod as one that a controller made, unless it says itself who did."""
    own = [{"kind": kind, "name": "o", "uid": uid, "controller": True}]
    return {**raw, "metadata": {"ownerReferences": own, **(raw.get("metadata") or {})}}


# Generated pods


def owner_of(kind: str) -> list[Object]:
    return [{"kind": kind, "name": "o", "uid": "1", "controller": True}]


SETS = ((EVERY,), (BY_INDEX,), (WARNING,), (EVERY, BY_INDEX), (ALONE, EVERY))
