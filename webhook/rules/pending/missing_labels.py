"""Labels that a pod wants and no node has: what nodes have instead, and what was probably meant.

If a pod names a GPU model by the label of another platform, the message says what the model is called on these nodes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice

from webhook.gpus.gpu_names import AMD_PRODUCT, GKE_ACCELERATOR, IN_WORDS, INTEL_PRODUCT, NVIDIA_PRODUCT, base_name
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.node import GPU_LABELS
from webhook.model.selectors import Expression, Operator, Term
from webhook.model.wording import cut, few, nearest
from webhook.model.workloads.template import FILL_IN, is_placeholder
from webhook.rules.pending.wants import AFFINITY, TELL, Affinity, Labels, Want
from webhook.rules.rule import Facts, Violation

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
"""Labels in which the name of a GPU model is looked for. Labels that the vendors write come first."""

_TRIED = 3
"""Values of one expression, terms of one affinity, and values of a label for one GPU model, that are tried at most."""

_GIGABYTES = re.compile(r"[0-9]{1,4}gb")

_LONGEST_NAME, _LIKENESS = 63, 0.75
"""Most characters of a label key after its prefix, and the least ratio of difflib for a misspelling of another key."""

_KNOWN = (
    *GPU_LABELS,
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.present",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
"""Label keys that authors may misspell. None of them is a misspelling of another one."""

_DISTINCT = frozenset(
    {
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Label keys whose values differ in one character on purpose, such as zones."""

_WRITE_THAT = "Write that instead"

_EXCLUDING = frozenset({Operator.NOT_IN, Operator.DOES_NOT_EXIST})
_OWN = {"cloud.google.com/": "gke-nodepool", "kubernetes.azure.com/": "agentpool", "eks.amazonaws.com/": "nodegroup"}
"""Prefix of a cloud's labels, which may name pools without a node -> a label of all nodes in the cloud's pools."""


Fits = Callable[[Want], bool]
"""Whether the pod would fit on some node if it wanted this instead."""
ExpressionFits = Callable[[Expression], bool]
"""Whether the pod would fit on some node with this expression in the place of another one."""


@dataclass(frozen=True, slots=True)
class LabelHints:
    """Finds the labels of nodes that a pod probably meant. `gpus` are the GPU models that are known."""

    nodes: Facts
    gpus: GpuTable = GPUS

    def no_node_has(self, want: Labels, fits: Fits) -> Violation:
        """Why no node satisfies an entry of nodeSelector, or an expression of the only term of the node affinity."""

        def corrected(expression: Expression) -> bool:
            return fits(replace(want, expression=expression))

        if _is_open(want.expression):
            return Violation(want.where, f"no node meets {cut(str(want), 120)}", *FILL_IN)
        if name := self._local_name(want.expression, corrected):
            return Violation(want.where, *name, _WRITE_THAT)
        values = self.nodes.label_values(want.expression.key)
        found = f"no node meets {cut(str(want), 120)}"
        if want.is_selector:
            found = f"no node has the value {cut(want.expression.values[0])}" if values else "no node has this label"
        return Violation(want.where, found, *self._instead(want, corrected))

    def no_node_meets(self, want: Affinity, is_too_much: Callable[[Sequence[Want]], bool], fits: Fits) -> Violation:
        """Why no node meets any term of a node affinity. `is_too_much` says whether no node has all of some wants."""
        if not want.terms:
            remedy = "Write an expression into one, or remove the affinity"
            return Violation(want.where, "requires empty terms only", "an empty term matches no node", remedy)
        guilty = [_guilty(term, is_too_much) for term in want.terms[:_TRIED]]
        terms = f"any of its {len(want.terms)} required terms" if len(want.terms) > 1 else "its required term"
        found = f"no node meets {terms}: {few([str(one) for one in guilty])}"
        if any(_is_open(one) for term in want.terms for one in (*term.expressions, *term.fields)):
            return Violation(want.where, found, *FILL_IN)
        missing = [(one, term) for one, term in zip(guilty, want.terms, strict=False) if isinstance(one, Labels)]
        for labels, term in missing:
            if name := self._local_name(labels.expression, _corrected(labels, term, fits)):
                return Violation(want.where, found, "; ".join(name), _WRITE_THAT)
        for labels, term in missing[:1]:
            return Violation(want.where, found, *self._instead(labels, _corrected(labels, term, fits)))
        if len(want.terms) > 1:
            return Violation(want.where, found, "a node has to meet all of one term", f"Change one of them, or {TELL}")
        is_met = "a node has to meet all of it" if want.terms[0].fields else "each part of it is met by some node"
        return Violation(want.where, found, is_met, f"Change or remove a part, or {TELL}")

    def _local_name(self, expression: Expression, fits: ExpressionFits) -> tuple[str, str] | None:
        """The GPU that an expression names by a label which no node has: whose label that is, and its name here."""
        if expression.operator != Operator.IN or self.nodes.label_values(expression.key):
            return None
        for value in expression.values[:_TRIED]:
            models = self.gpus.models_at(expression.key, value)
            for key in self._searched() if models else ():
                values = self.nodes.label_values(key)
                alike = (one for one in values if (named := self.gpus.models_at(key, one)) and named <= models)
                for found in islice(alike, _TRIED):
                    if fits(Expression(key, Operator.IN, (found,))):
                        label, owner = f"{expression.key}={cut(value)}", OWNERS.get(expression.key)
                        written = f"{label} is {owner}" if owner else f"no node has {label}"
                        return written, f"here it is {key}={cut(found)}"
        return None

    def _searched(self) -> Sequence[str]:
        """The labels in which the name of a GPU is looked for. Labels that only the platform's rows have come last."""
        return (*_SEARCHED, *sorted(self.gpus.keys - GPUS.keys))

    def _instead(self, want: Labels, fits: ExpressionFits) -> tuple[str, str]:
        """What nodes have, and what to do. Another expression is suggested only if it fits."""
        expression, values = want.expression, self.nodes.label_values(want.expression.key)
        if values and expression.operator in _EXCLUDING:
            return f"nodes have {few(values)}", f"Remove it, or {TELL}"
        if values:
            meant = self._meant_value(expression, values, fits) if expression.key not in _DISTINCT else None
            remedy = f"Did you mean {cut(meant)}? Correct the value" if meant else f"Choose what nodes have, or {TELL}"
            return f"nodes have {few(values)}", remedy
        meant = self._meant_key(expression.key)
        if meant:
            correct = expression._replace(key=meant)
            if fits(correct):
                return f"nodes have {meant}", f"Did you mean {meant}? Correct the key"
            value = self._meant_value(correct, self.nodes.label_values(meant), fits)
            if value:
                return f"nodes have {meant}", f"Did you mean {meant}={cut(value)}? Correct the key and the value"
        wanted = f"{cut(str(want))} is wanted" if want.is_selector else "no node has that label"
        names = {key: found for key in self._searched() if (found := self.nodes.label_values(key))}
        here = [f"{key}={cut(value)}" for key in islice(names, 1) for value in names[key]]
        is_of_gpus = expression.key in OWNERS or "gpu" in expression.key or "accelerator" in expression.key
        is_own = any(expression.key.startswith(one) and self.nodes.label_values(one + _OWN[one]) for one in _OWN)
        remedy = "Keep it if a pool that scales from zero has it, or" if is_own else "Remove it, or"
        return f"{wanted}, and nodes have {few(here)}" if here and is_of_gpus else wanted, f"{remedy} {TELL}"

    def _meant_value(self, expression: Expression, values: Sequence[str], fits: ExpressionFits) -> str | None:
        """The value that was probably meant, if the pod would fit with it."""
        wanted = expression.values[:_TRIED] if expression.operator == Operator.IN else ()
        alike = (found for value in wanted if (found := self._nearest_value(value, values)))
        return next((found for found in alike if fits(expression._replace(values=(found,)))), None)

    def _nearest_value(self, written: str, values: Sequence[str]) -> str | None:
        """The value that was probably meant. A name of a GPU is only ever replaced by another name of that GPU, with
        as much memory if both names say it.
        """
        traits = self.gpus.traits_of(written)
        if traits is None:
            return nearest(written, values)
        sizes = {one: set(_GIGABYTES.findall(base_name(one).lower())) for one in (written, *values)}
        known = [value for value in values if self.gpus.traits_of(value) == traits]
        alike = [value for value in known if sizes[value] == sizes[written] or not (sizes[value] and sizes[written])]
        return nearest(written, alike) or next(iter(alike), None)

    def _meant_key(self, key: str) -> str | None:
        """The label of nodes whose key is spelled most like this one, without its prefix: many keys share one."""
        name = key.rpartition("/")[2]
        if key in _KNOWN or key in OWNERS or len(name) > _LONGEST_NAME:
            return None
        names = {known.rpartition("/")[2]: known for known in _KNOWN if self.nodes.label_values(known)}
        close = get_close_matches(name.lower(), names, n=1, cutoff=_LIKENESS)
        return names[close[0]] if close else None


def _is_open(expression: Expression) -> bool:
    return any(map(is_placeholder, (expression.key, *expression.values)))


def _corrected(labels: Labels, term: Term, fits: Fits) -> ExpressionFits:
    """Whether the pod would fit if another expression stood in the place of this one in its term."""

    def is_met(expression: Expression) -> bool:
        expressions = tuple(expression if one == labels.expression else one for one in term.expressions)
        return fits(Affinity((replace(term, expressions=expressions),)))

    return is_met


def _guilty(term: Term, is_too_much: Callable[[Sequence[Want]], bool]) -> Labels | str:
    """The expression of a term that no node satisfies, or the text of the whole term."""
    labels = [Labels(expression, AFFINITY) for expression in term.expressions]
    whole = " and ".join(str(Labels(expression, AFFINITY)) for expression in (*term.expressions, *term.fields))
    return next((one for one in labels if is_too_much([one])), whole)
