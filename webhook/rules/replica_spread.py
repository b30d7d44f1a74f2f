"""Replicas of a GPU workload do not all run on one node.

Deployments, ReplicaSets and Argo Rollouts with two or more GPU pods have to say how the pods spread over nodes: by any
topology spread constraint, any pod anti-affinity, or the name of a node. In mode `enforce` others are refused, if
`workloads.mode` is `enforce` as well. Single pods are not validated.
"""

from collections.abc import Iterator
from typing import Literal

from webhook.model.edits import SpreadOverNodes
from webhook.model.pod import Pod
from webhook.rules.rule import Example, Facts, Rule, Violation
from webhook.rules.rule_settings import InjectionSettings, Mode

_HOST = "kubernetes.io/hostname"
_KARPENTER = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
"""Labels of the nodes that Karpenter makes: since 0.32, and before."""


class Settings(InjectionSettings):
    """Settings of `replicaSpread`."""

    inject: Literal["none", "preferred", "always"] = "none"
    """What GPU pods of a ReplicaSet get if they do not say how they spread. `preferred`: a topology spread constraint
    with `ScheduleAnyway`, but not where Karpenter makes nodes, which requires it. `always`: there, too."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[SpreadOverNodes]:
    """Spread replicas over nodes by their labels, if the pod does not say how they spread."""
    if settings.inject != "none" and _may_crowd(pod) and _is_spread(settings, facts):
        spread = SpreadOverNodes.of(pod.labels)
        if spread is not None:
            yield spread


def validate_replicas(pod: Pod, replicas: int, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse replicas that nothing keeps apart. The message has no number, so that scaling brings no new violation."""
    if _may_crowd(pod) and not _is_spread(settings, facts):
        yield Violation(
            "spec.topologySpreadConstraints",
            "nothing keeps the replicas apart",
            "one node may get all of them, which then fail with it",
            f"Set it or podAntiAffinity, with topologyKey {_HOST}",
        )


def _is_spread(settings: Settings, facts: Facts) -> bool:
    if settings.inject != "preferred":
        return settings.inject == "always"
    return not any(facts.label_values(label) for label in _KARPENTER)


def _may_crowd(pod: Pod) -> bool:
    """Whether the pod is a GPU replica that does not say how the replicas spread."""
    if pod.owner_kind != "ReplicaSet" or not pod.gpus:
        return False
    return not (pod.says_how_it_spreads or pod.node_name or _HOST in pod.node_selector)


_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
        - name: server
          image: registry.example.com/chat:1
          resources: {limits: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}}
"""

RULE = Rule(
    key="replicaSpread",
    promise="Replicas of a GPU workload do not all run on one node.",
    problem="One node takes all replicas of a service, and when it fails, the service is down.",
    example=Example(_DEPLOYMENT, {}, Mode.WARN),
    settings=Settings,
    mutate=mutate,
    validate_replicas=validate_replicas,
    can_mutate=lambda settings: settings.inject != "none",
)
