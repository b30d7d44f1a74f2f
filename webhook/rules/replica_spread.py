"""Replicas on GPUs do not all stand on one node.

Whoever applies a Deployment, ReplicaSet or Argo Rollout of two or more GPU pods is told where these do not say how they
spread; of a pod by itself nothing is said. Any pod anti-affinity, any topology spread constraint and the name of a node
are enough. In mode `enforce` such an object is refused where the policy's `workloads` refuses objects.
"""

from collections.abc import Iterator
from typing import Literal

from webhook.model.edits import SpreadOverNodes
from webhook.model.pod import Pod
from webhook.rules.rule import Example, Facts, InjectionSettings, Mode, Rule, Violation

HOST = "kubernetes.io/hostname"
KARPENTER = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
"""Labels of the nodes that Karpenter makes: from 0.32 on, and before."""


class Settings(InjectionSettings):
    """Settings of `replicaSpread`."""

    inject: Literal["none", "preferred", "always"] = "none"
    """`preferred` has the scheduler spread the GPU pods of a ReplicaSet over nodes where it can, in place of its own
    defaults; where GPUs are short they share a node, as without it. In a cluster with nodes of Karpenter pods are left
    as they are: Karpenter takes the preference for a requirement and makes one node for each pod. `always` spreads them
    there, too. `none` leaves the pods as they are."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[SpreadOverNodes]:
    """Spread replicas that say nothing of it, by the labels that they share."""
    if settings.inject != "none" and _may_crowd(pod) and _is_spread(settings, facts):
        spread = SpreadOverNodes.of(pod.labels)
        if spread is not None:
            yield spread


def judge_replicas(pod: Pod, replicas: int, settings: Settings, facts: Facts) -> Iterator[Violation]:  # noqa: ARG001  # the contract
    """Speak of replicas that nothing keeps apart. How many they are would make the same fault a new one when scaled."""
    if _may_crowd(pod) and not _is_spread(settings, facts):
        yield Violation(
            "spec.topologySpreadConstraints",
            "nothing keeps the replicas apart",
            "one node may get all of them, which then fail with it",
            f"Set it or podAntiAffinity, with topologyKey {HOST}",
        )


def _is_spread(settings: Settings, facts: Facts) -> bool:
    """Whether the policy spreads those that may crowd."""
    if settings.inject != "preferred":
        return settings.inject == "always"
    return not any(facts.label_values(label) for label in KARPENTER)


def _may_crowd(pod: Pod) -> bool:
    """Whether it is a GPU replica about which nobody has said where the others should stand."""
    if pod.owner_kind != "ReplicaSet" or not pod.gpus:
        return False
    return not (pod.says_how_it_spreads or pod.node_name or HOST in pod.node_selector)


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
    promise="Replicas on GPUs do not all stand on one node.",
    settings=Settings,
    mutate=mutate,
    judge_replicas=judge_replicas,
    problem="Nodes with many GPUs take all replicas of a service, and when one of them fails the service is gone.",
    examples=(Example(_DEPLOYMENT, {}, Mode.WARN), Example(_DEPLOYMENT, {"inject": "preferred"})),
)
