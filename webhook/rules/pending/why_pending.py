"""Why no node could ever run a pod, in words for its author.

Each thing that the pod wants is first looked for alone. A thing that no node has is a reason by itself. Things that no
node has together are reduced to as few as possible. If some node has everything, the taints keep the pod away: the
message names the taints that the pod would have to tolerate.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from webhook.gpus.gpu_shares import share_of
from webhook.gpus.gpu_table import GpuTable
from webhook.model.accelerators import Share
from webhook.model.node import EVERYTHING, NodeClass, Taint, Toleration
from webhook.model.pod import Pod
from webhook.model.selectors import Expression
from webhook.model.wording import cut, few, is_size, nearest, offered
from webhook.rules.pending.missing_labels import LabelHints
from webhook.rules.pending.wants import (
    TELL,
    Affinity,
    Amount,
    ClassNodes,
    Labels,
    Want,
    fewest,
    only,
    wants_of,
    weight_of,
)
from webhook.rules.rule import Facts, Violation

_TEXT = re.compile(r"(?!(true|false|yes|no|on|off|null|y|n)$)[a-z][a-z0-9._-]*", re.IGNORECASE)
"""Values that YAML reads as a string without quotes. The value of a taint may also be true or 1, which needs them."""


def intolerance(tolerations: Sequence[Toleration], fitting: Sequence[NodeClass]) -> tuple[str, str, str] | None:
    """Which taints keep a pod with these tolerations off all `fitting` nodes: found, allowed, remedy. None if one lets
    it in.

    The message names the taints of the node class with the fewest such taints; of several, of the one with most nodes.
    """
    taints = {taint for node in fitting for taint in node.taints}
    repelling = {taint for taint in taints if not any(toleration.tolerates(taint) for toleration in tolerations)}
    nodes: dict[tuple[Taint, ...], int] = {}
    for node in fitting:
        lacking = tuple(taint for taint in node.taints if taint in repelling)
        nodes[lacking] = nodes.get(lacking, 0) + node.count
    chosen = min(nodes, key=lambda lacking: (len(lacking), -nodes[lacking], str(lacking)))
    if not chosen:
        return None
    these = "this taint" if len(chosen) == 1 else "these taints"
    every = f"every node that fits has {these}{'' if len(nodes) == 1 else ', or others'}"
    add = f"the toleration {_toleration(chosen[0])}" if len(chosen) == 1 else "tolerations for them"
    return f"does not tolerate {few(list(map(_name, chosen)))}", every, f"Add {add} if those nodes are for this pod"


def _name(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{cut(taint.key)}{'=' + cut(taint.value) if taint.value else ''}:{taint.effect}"


def _toleration(taint: Taint) -> str:
    """The toleration of one taint and no other, as a manifest has it."""
    quoted = cut(taint.value) if _TEXT.fullmatch(taint.value) else f'"{cut(taint.value)}"'
    value = f"operator: Equal, value: {quoted}" if taint.value else "operator: Exists"
    return f"{{key: {cut(taint.key)}, {value}, effect: {taint.effect}}}"


_ON_EVERY_NODE = frozenset({"kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os"})
"""Labels that the kubelet writes on every node."""

_MOST_WEIGHT = 300
"""Weight of a pod's wants up to which single reasons are looked for."""


def why_pending(pod: Pod, nodes: Facts, gpus: GpuTable) -> Iterator[Violation]:
    """The reasons why no node can run a pod, single wants first. `gpus` are the GPU models that are known."""
    fitting = nodes.feasible_nodes(replace(pod, tolerations=EVERYTHING))
    if fitting:
        runtime_class = nodes.runtime_class(pod.runtime_class) if pod.runtime_class else None
        tolerations = (*pod.tolerations, *(runtime_class.tolerations if runtime_class else ()))
        found = intolerance(tolerations, fitting)
        yield from [Violation("spec.tolerations", *found)] if found else []
    else:
        yield from _Hopeless(pod, nodes, LabelHints(nodes, gpus)).reasons()


@dataclass(frozen=True, slots=True)
class _Hopeless:
    """A pod that no node could run even without taints."""

    pod: Pod
    nodes: Facts
    hints: LabelHints

    def reasons(self) -> Iterator[Violation]:
        found = wants_of(self.pod)
        if not found or weight_of(found) > _MOST_WEIGHT:
            why = "it wants too many things to name them"
            yield Violation("spec", "no node has everything that the pod wants", why, "Remove some of them")
            return
        if any(self._is_left_out(want) for want in found):
            return
        wants = [want for want in found if not self._is_said_twice(want)]
        hopeless = [want for want in wants if self._is_too_much([want])]
        gpus = [want for want in wants if isinstance(want, Amount) and want.is_gpu]
        others = [want for want in wants if want not in hopeless]
        yield from (self._alone(want, gpus, others) for want in hopeless)
        if self._is_too_much(others):
            yield self._together(fewest(others, self._is_too_much))

    def _is_too_much(self, wants: Sequence[Want]) -> bool:
        return not self.nodes.feasible_nodes(only(self.pod, wants))

    def _is_left_out(self, want: Want) -> bool:
        """Whether the want is a label of every node that no known node has: their labels were written by hand."""
        key = want.expression.key if isinstance(want, Labels) else ""
        return key in _ON_EVERY_NODE and not self.nodes.label_values(key)

    def _is_said_twice(self, want: Want) -> bool:
        """Whether the want is the nodeSelector of a RuntimeClass that Kubernetes has also added to the pod's own."""
        selected = self._selected_by(want.runtime_class) if isinstance(want, ClassNodes) else ()
        stated = self.pod.node_selector
        return bool(selected) and all((stated.get(one.key),) == one.values for one in selected)

    def _selected_by(self, runtime_class: str) -> Sequence[Expression]:
        found = self.nodes.runtime_class(runtime_class)
        return found.node_selector if found is not None else ()

    def _alone(self, want: Want, gpus: Sequence[Want], others: Sequence[Want]) -> Violation:
        """The reason for one thing that no node has. An amount of cpu or memory is compared with nodes that have the
        `gpus`, and a suggestion has to fit together with the `others`.
        """

        def fits(instead: Want) -> bool:
            return not self._is_too_much([instead, *others])

        match want:
            case Amount(is_gpu=True):
                is_unknown = want.resource not in self.nodes.gpu_resources()
                return self._unknown_gpu(want, fits) if is_unknown else self._too_large(want, [])
            case Amount():
                has_some = not self._is_too_much(gpus) and self.nodes.largest(want.resource, only(self.pod, gpus))
                return self._too_large(want, gpus if has_some else [])
            case Labels():
                return self.hints.no_node_has(want, fits)
            case Affinity():
                return self.hints.no_node_meets(want, self._is_too_much, fits)
            case ClassNodes():
                selected = few([str(Labels(one, want.where)) for one in self._selected_by(want.runtime_class)])
                return Violation(
                    want.where, f"no node has {want}", f"they are {selected}", f"Choose another RuntimeClass, or {TELL}"
                )

    def _unknown_gpu(self, want: Amount, fits: Callable[[Want], bool]) -> Violation:
        known, own = sorted(self.nodes.gpu_resources()), self.pod.known.of(want.resource)
        alike = self._of_the_vendor(want.resource, known)
        used = [name for name in alike if self._is_used_alike(want.resource, name)]
        meant = nearest(want.resource, [name for name in used if not self._are_other_parts(want.resource, name)])
        small = want.resource.lower()
        remedy = f"Request what nodes offer, or {TELL}"
        if not known:
            remedy = "Ask the platform team to declare pools that scale from zero in the policy's nodePools"
        elif small in known and fits(replace(want, resource=small)):
            remedy = f"Did you mean {small}? Request that"
        elif own is not None and own.share is Share.PASSTHROUGH:
            remedy = f"For a virtual machine, {TELL}; containers request what nodes offer"
        elif meant and fits(replace(want, resource=meant)):
            remedy = f"Did you mean {meant}? Request that"
        offers = f"nodes offer {few(alike or known)}" if known else "nodes offer no GPUs"
        return Violation(want.where, f"requests {cut(want.resource)}, which no node offers", offers, remedy)

    def _are_other_parts(self, one: str, other: str) -> bool:
        """Whether one of two GPU resources is slices or shares: whoever wrote it did not mean the other one."""
        known = [self.pod.known.of(name) for name in (one, other)]
        return any(gpu is not None and (gpu.is_shared or gpu.share is Share.SLICE) for gpu in known)

    def _is_used_alike(self, one: str, other: str) -> bool:
        """Whether both GPU resources are for containers, or both for virtual machines."""
        shares = [gpu.share for name in (one, other) if (gpu := self.pod.known.of(name)) is not None]
        return len({share is Share.PASSTHROUGH for share in shares}) == 1

    def _too_large(self, want: Amount, others: Sequence[Want]) -> Violation:
        """The reason for an amount that is more than the largest node with the `others` has."""
        most = self.nodes.largest(want.resource, only(self.pod, others)) or 0
        found = f"requests {want}{' in all' if want.where == 'spec' else ''}"
        is_divided = want.is_gpu and self.nodes.divides_gpus()
        having = self.nodes.feasible_nodes(only(self.pod, [replace(want, amount=1), *others])) if is_divided else ()
        if having and all(share_of(one.labels, self.hints.gpus).is_shared(want.resource) for one in having):
            found += ", which are shares of GPUs"
        instead = "choose other nodes" if _labelled(others) else TELL
        if not most:
            offers = self._offered_instead(want, others)
            if offers:
                offer = f"nodes{_with(others)} offer {few(offers)}"
                return Violation(want.where, found, offer, f"Request what they offer, or {instead}")
            is_misplaced = want.is_gpu and len(_labelled(others)) == len(others)
            remedy = f"Choose other nodes, or {TELL}" if is_misplaced else f"Remove it, or {instead}"
            return Violation(want.where, found, f"no node{_with(others)} offers any", remedy)
        has = offered(want.resource, most)
        fewer = "less" if want.resource == "cpu" or is_size(want.resource) else "fewer"
        remedy = f"Request {has} or {fewer} in one pod, or {instead}"
        return Violation(want.where, found, f"the largest node{_with(others)} has {has}", remedy)

    def _offered_instead(self, want: Amount, others: Sequence[Want]) -> list[str]:
        """Other GPU resources of the vendor that the pod does not request, on the nodes that have the `others`."""
        pod = only(self.pod, others)
        known = {name for node in self.nodes.feasible_nodes(pod) for name in node.gpu_resources}
        alike = self._of_the_vendor(want.resource, sorted(known.difference(self.pod.gpus)))
        used = [name for name in alike if self._is_used_alike(want.resource, name)]
        return [name for name in used if self.nodes.largest(name, pod) != 0]

    def _of_the_vendor(self, resource: str, names: Sequence[str]) -> list[str]:
        own = self.pod.known.of(resource)
        return [name for name in names if own and (gpu := self.pod.known.of(name)) and gpu.vendor is own.vendor]

    def _together(self, wants: Sequence[Want]) -> Violation:
        amounts = [want for want in wants if isinstance(want, Amount)]
        if not amounts:
            found = f"no node has {few([str(want) for want in wants])} together"
            return Violation(_place(wants), found, "some node has each", f"Change or remove one of them, or {TELL}")
        others = [want for want in wants if want is not amounts[0]]
        most = self.nodes.largest(amounts[0].resource, only(self.pod, others))
        if most is not None and most < amounts[0].amount:
            return self._too_large(amounts[0], others)
        found = f"requests {few([str(want) for want in amounts])}"
        has = f"no node{_with(_labelled(wants))} has {'all of that' if len(amounts) > 1 else 'that'}"
        return Violation(_place(amounts), found, has, f"Request less of one of them in one pod, or {TELL}")


def _labelled(wants: Sequence[Want]) -> list[Want]:
    return [want for want in wants if not isinstance(want, Amount)]


def _with(wants: Sequence[Want]) -> str:
    """Which nodes a message means: ` with ` the GPUs and labels among the wants; empty for all nodes."""
    gpus = [cut(want.resource) for want in wants if isinstance(want, Amount) and want.is_gpu]
    names = [*gpus, *map(str, _labelled(wants))]
    return f" with {few(names)}" if names else ""


def _place(wants: Sequence[Want]) -> str:
    places = {want.where for want in wants}
    return places.pop() if len(places) == 1 else "spec"
