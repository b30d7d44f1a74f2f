"""Labels that a pod wants and no node has: what nodes have instead, and what was probably meant.

Where a pod calls a GPU model as another platform does, the message says what it is called here.

Whose the labels are is known from where `webhook/gpus/gpu_names.py` has them: GKE, the autoscalers of AWS and
Azure, Karpenter, CoreWeave, and what NVIDIA, AMD and Intel run on nodes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from webhook.gpus.gpu_names import AMD_PRODUCT, GKE_ACCELERATOR, IN_WORDS, INTEL_PRODUCT, NVIDIA_PRODUCT, base_name
from webhook.gpus.gpu_table import GPUS
from webhook.model.node import GPU_LABELS
from webhook.model.selectors import Expression, Operator, Term
from webhook.model.wording import cut, few, nearest
from webhook.rules.pending.reasons import TELL, NodeFacts, Reason
from webhook.rules.pending.wants import AFFINITY, Affinity, Labels, Want

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
        models = GPUS.models_at(expression.key, value)
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
    named = GPUS.models_at(key, value)
    return bool(named) and named <= models


"""Values and terms that one message goes into."""

"""Values of a label of which it is asked whether they name a GPU."""

_GIGABYTES = re.compile(r"[0-9]{1,4}gb")

_LONGEST_NAME = 63
"""Characters of what follows the prefix of a key."""

_LIKENESS = 0.75
"""From 0 to 1, as difflib measures it, from which one name is probably another one misspelled."""

_KNOWN = (
    *GPU_LABELS,
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.present",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
"""Keys that somebody may have misspelled. None of them is another one misspelled."""

_DISTINCT = frozenset(
    {
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Keys of which a value that differs in one character is meant to, such as another zone."""

_WRITE_THAT = "Write that instead"

_EXCLUDING = frozenset({Operator.NOT_IN, Operator.DOES_NOT_EXIST})


Fits = Callable[[Want], bool]
"""Whether the pod would fit on some node if it wanted this instead."""


def no_node_has(want: Labels, nodes: NodeFacts, fits: Fits) -> Reason:
    """Why an entry of nodeSelector, or an expression that every node has to satisfy, selects none."""
    corrected = _fitting(want, fits)
    if name := local_name(want.expression, nodes, corrected):
        return Reason(want.where, *name, _WRITE_THAT)
    values = nodes.label_values(want.expression.key)
    found = f"no node meets {cut(str(want), 120)}"
    if want.is_selector:
        found = f"no node has the value {cut(want.expression.values[0])}" if values else "no node has this label"
    return Reason(want.where, found, *_instead(want, nodes, corrected))


def _fitting(want: Labels, fits: Fits) -> Callable[[Expression], bool]:
    return lambda expression: fits(replace(want, expression=expression))


def no_node_meets(
    want: Affinity, nodes: NodeFacts, is_too_much: Callable[[Sequence[Want]], bool], fits: Fits
) -> Reason:
    """Why alternatives select no node. `is_too_much` says of wants that no node has them together."""
    if not want.terms:
        remedy = "Write an expression into one, or remove the affinity"
        return Reason(want.where, "requires empty terms only", "an empty term matches no node", remedy)
    guilty = [_guilty(term, is_too_much) for term in want.terms[:_TRIED]]
    terms = f"any of its {len(want.terms)} required terms" if len(want.terms) > 1 else "its required term"
    found = f"no node meets {terms}: {few([str(one) for one in guilty])}"
    missing = [(one, term) for one, term in zip(guilty, want.terms, strict=False) if isinstance(one, Labels)]
    for labels, term in missing:
        if name := local_name(labels.expression, nodes, _corrected(labels, term, fits)):
            return Reason(want.where, found, "; ".join(name), _WRITE_THAT, brief="; ".join(name))
    for labels, term in missing[:1]:
        return Reason(want.where, found, *_instead(labels, nodes, _corrected(labels, term, fits)))
    if len(want.terms) > 1:
        return Reason(want.where, found, "a node has to meet all of one term", f"Change one of them, or {TELL}")
    return Reason(want.where, found, "each part of it is met by some node", f"Change or remove a part, or {TELL}")


def _corrected(labels: Labels, term: Term, fits: Fits) -> Callable[[Expression], bool]:
    """Whether the pod would fit with another expression in the place of one of a term."""

    def is_met(expression: Expression) -> bool:
        expressions = tuple(expression if one == labels.expression else one for one in term.expressions)
        return fits(Affinity((replace(term, expressions=expressions),)))

    return is_met


def _guilty(term: Term, is_too_much: Callable[[Sequence[Want]], bool]) -> Labels | str:
    """The expression of a term that no node satisfies, or all of it."""
    labels = [Labels(expression, AFFINITY) for expression in term.expressions]
    whole = " and ".join(str(Labels(expression, AFFINITY)) for expression in (*term.expressions, *term.fields))
    return next((one for one in labels if is_too_much([one])), whole)


def _instead(want: Labels, nodes: NodeFacts, fits: Callable[[Expression], bool]) -> tuple[str, str]:
    """What nodes have, and what to do. `fits` says whether another expression would do; no other is suggested."""
    expression, values = want.expression, nodes.label_values(want.expression.key)
    if values and expression.operator in _EXCLUDING:
        return f"nodes have {few(values)}", f"Remove it, or {TELL}"
    if values:
        meant = _meant_value(expression, values, fits) if expression.key not in _DISTINCT else None
        remedy = f"Did you mean {cut(meant)}? Correct the value" if meant else f"Choose what nodes have, or {TELL}"
        return f"nodes have {few(values)}", remedy
    meant = _meant(expression.key, nodes)
    if meant:
        correct = expression._replace(key=meant)
        if fits(correct):
            return f"nodes have {meant}", f"Did you mean {meant}? Correct the key"
        value = _meant_value(correct, nodes.label_values(meant), fits)
        if value:
            return f"nodes have {meant}", f"Did you mean {meant}={cut(value)}? Correct the key and the value"
    needed = "a node has to have every label of nodeSelector" if want.is_selector else "no node has that label"
    return needed, f"Remove it, or {TELL}"


def _meant_value(expression: Expression, values: Sequence[str], fits: Callable[[Expression], bool]) -> str | None:
    """The value that was probably meant, of those with which the pod would fit."""
    wanted = expression.values[:_TRIED] if expression.operator == Operator.IN else ()
    alike = (found for value in wanted if (found := _nearest_value(value, values)))
    return next((found for found in alike if fits(expression._replace(values=(found,)))), None)


def _nearest_value(written: str, values: Sequence[str]) -> str | None:
    """What was probably meant: of the name of a GPU only another name of that GPU, of as much memory if both say it."""
    traits, size = GPUS.traits_of(written), _memory(written)
    if traits is None:
        return nearest(written, values)
    known = [value for value in values[:_MOST_VALUES] if GPUS.traits_of(value) == traits]
    alike = [value for value in known if _memory(value) in (size, "") or not size]
    return nearest(written, alike) or next(iter(alike), None)


def _memory(product: str) -> str:
    """The memory that the name of a GPU tells, empty where it tells none; that of a MIG slice is not meant."""
    found = _GIGABYTES.search(base_name(product).lower())
    return found[0] if found else ""


def _meant(key: str, nodes: NodeFacts) -> str | None:
    """The label of nodes that is named nearly as this one; prefixes are not compared, as they make all alike."""
    name = key.rpartition("/")[2]
    if key in _KNOWN or key in OWNERS or len(name) > _LONGEST_NAME:
        return None
    names = {known.rpartition("/")[2]: known for known in _KNOWN if nodes.label_values(known)}
    close = get_close_matches(name.lower(), names, n=1, cutoff=_LIKENESS)
    return names[close[0]] if close else None
