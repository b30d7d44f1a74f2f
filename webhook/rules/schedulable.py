"""Pods that no node could ever run are told why, instead of staying Pending for ever.

What a pod wants is compared with what nodes are and have, were nothing else on them: what is in use, cordons and other
pods do not matter, nor do taints of nodes that start, are ill or about to go. Nodes that come on demand are known where
they are declared as `nodePools`, beside the nodes that exist; where those are not known, nothing is said. Of devices
that come from a DeviceClass (`deviceclass.resource.kubernetes.io/...`, or declared with `dra: true`) nothing is said
either: no node lists them. Nor is anything said of pods that wait in a queue, or for a scheduling gate: what the queue
selects and tolerates for them is known once they are let go. Nothing at all is said of pods that ask for an extended
resource which a DeviceClass gives (its `extendedResourceName`), nor where the DeviceClasses of the cluster cannot be
read.

Another value, label or resource is suggested only where the pod would then fit. Where a pod selects a GPU by the label
of a cloud that no node has, it is told what that GPU is called on the nodes there are.
"""

from collections.abc import Iterator
from itertools import islice

from webhook.model.pod import Pod
from webhook.model.selectors import Operator
from webhook.rules.manifests import train
from webhook.rules.rule import Example, Facts, Mode, Rule, RuleSettings, Violation
from webhook.scheduling.why_pending import why_pending

_MOST_REASONS = 8


class Settings(RuleSettings):
    """Settings of `schedulable`. Pools that scale from zero are declared in the policy's `nodePools`."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:  # noqa: ARG001  # the contract
    """Say of a GPU pod that no node could run why that is. Silent where no node is known."""
    if not pod.gpus or pod.node_name or pod.is_held or facts.homes(pod) or not facts.knows_nodes():
        return
    if pod.owner_kind != "DaemonSet" and not _names_nodes(pod):
        for where, found, allowed, remedy, brief in islice(why_pending(pod, facts), _MOST_REASONS):
            yield Violation(where, found, allowed, remedy, brief=brief)


def _names_nodes(pod: Pod) -> bool:
    """Whether the pod is for nodes by their names, as those of DaemonSets are."""
    return any(field.operator == Operator.IN for term in pod.required or () for field in term.fields)


RULE = Rule(
    key="schedulable",
    promise="A pod that no node can ever run is told so when it is created.",
    settings=Settings,
    follows_nodes=True,
    validate=validate,
    problem="A pod that no node can ever run stays Pending, and the one event that says so is read hours later.",
    examples=(
        Example(
            mode=Mode.WARN,
            manifest=train(
                "nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM-80GB}",
                resources="{limits: {nvidia.com/gpu: 16}}",
            ),
        ),
        Example(
            mode=Mode.WARN,
            manifest=train(
                "nodeSelector: {nvidia.com/gpu.product: Tesla-T4}", resources="{limits: {nvidia.com/gpu: 4}}"
            ),
        ),
    ),
)
