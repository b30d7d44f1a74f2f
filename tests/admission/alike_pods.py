"""Pods of controllers, and the policies that judge them."""

from collections.abc import Mapping
from typing import Any

from tests.reviews import policy
from tests.rules.every_rule import INJECTING
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.policy.policy_set import PolicySet

Object = dict[str, Any]


INDEX = "batch.kubernetes.io/job-completion-index"


TOKEN = "kube-api-access-abcde"


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


class Images:
    """What is known about images, which tests change, and which images were asked about."""

    def __init__(self, known: Mapping[str, ImageInfo] | None = None) -> None:
        self.known = dict(known or {})
        self.asked: list[str] = []

    def info(self, text: str, asker: str = "") -> ImageInfo:  # noqa: ARG002  # the protocol
        self.asked.append(text)
        return self.known.get(text, NOT_LOOKED_UP)


def owned(raw: Object, kind: str = "ReplicaSet", *, uid: str = "1") -> Object:
    """The pod as one that a controller made, unless it says itself who did."""
    own = [{"kind": kind, "name": "o", "uid": uid, "controller": True}]
    return {**raw, "metadata": {"ownerReferences": own, **(raw.get("metadata") or {})}}
