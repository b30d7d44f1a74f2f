"""What a GPU model is called on the nodes that there are, where a pod calls it as another platform does.

Whose the labels are is known from where `webhook/quota/product_labels.py` has them: GKE, the autoscalers of AWS and
Azure, Karpenter, CoreWeave, and what NVIDIA, AMD and Intel run on nodes.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple

from webhook.model.selectors import Expression, Operator
from webhook.model.wording import cut
from webhook.quota.models import AMD_PRODUCT, INTEL_PRODUCT, NVIDIA_PRODUCT
from webhook.quota.product_labels import GKE_ACCELERATOR, IN_WORDS, models_at
from webhook.rules.pending.reasons import NodeFacts

OWNERS: Mapping[str, str] = {
    GKE_ACCELERATOR: "GKE's label",
    "k8s.amazonaws.com/accelerator": "the label of AWS' autoscaler",
    "eks.amazonaws.com/instance-gpu-name": "EKS Auto Mode's label",
    "karpenter.k8s.aws/instance-gpu-name": "Karpenter's label on AWS",
    "karpenter.azure.com/sku-gpu-name": "Karpenter's label on Azure",
    "kubernetes.azure.com/accelerator": "AKS' label",
    "gpu.nvidia.com/class": "CoreWeave's label",
    "gpu.nvidia.com/model": "CoreWeave's label",
    NVIDIA_PRODUCT: "the label of GPU Feature Discovery",
    AMD_PRODUCT: "the label of AMD's node labeller",
    INTEL_PRODUCT: "the label of Intel's device plugin",
}
"""Labels by which a platform or a vendor names GPUs, and whose they are."""

_PRODUCTS = (NVIDIA_PRODUCT, AMD_PRODUCT, INTEL_PRODUCT)
_SEARCHED = (*_PRODUCTS, *sorted(IN_WORDS.difference(_PRODUCTS)))
"""Labels that may say the model here, those first that the vendors themselves write."""

_TRIED = 3
"""Values of an expression, and of a label that name one model, that are tried."""
_MOST_VALUES = 256
"""Values of a label of which it is asked which model they name."""


class LocalName(NamedTuple):
    """What the pod wrote and whose that is, and what the nodes have instead."""

    written: str
    here: str


def local_name(expression: Expression, nodes: NodeFacts, fits: Callable[[Expression], bool]) -> LocalName | None:
    """What the GPU that an expression names is called here, where no node has its label; None where nobody knows.

    `fits` says of another expression in its place whether some node would then do.
    """
    if expression.operator != Operator.IN or nodes.label_values(expression.key):
        return None
    for value in expression.values[:_TRIED]:
        models = models_at(expression.key, value)
        for key in _SEARCHED if models else ():
            alike = (one for one in nodes.label_values(key)[:_MOST_VALUES] if _names(key, one, models))
            for found in islice(alike, _TRIED):
                if fits(Expression(key, Operator.IN, (found,))):
                    label, owner = f"{expression.key}={cut(value)}", OWNERS.get(expression.key)
                    written = f"{label} is {owner}" if owner else f"no node has {label}"
                    return LocalName(written, f"here it is {key}={cut(found)}")
    return None


def _names(key: str, value: str, models: frozenset[str]) -> bool:
    """Whether a label names one of these models, and no other."""
    named = models_at(key, value)
    return bool(named) and named <= models
