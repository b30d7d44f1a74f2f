"""Where a pod can be, asked of all nodes at once."""

from collections.abc import Iterable
from weakref import ref

from webhook.facts.node_index import NodeTable
from webhook.facts.node_sets import Mask
from webhook.model.demand import demand_of, is_compared
from webhook.model.node import RuntimeClass
from webhook.model.pod import Pod
from webhook.model.selectors import Expression, Term

NAME_FIELD = "metadata.name"
"""The only field of a node that a pod can select by."""


def matching_nodes(table: NodeTable, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
    """The nodes that the pod, as it stands, could be scheduled to.

    A pod that names its node bypasses the scheduler, so taints do not matter to it. What the pod's own RuntimeClass
    adds (node selector and tolerations) counts as if it stood in the pod. Several rules ask about the same pod one
    after the other, so the last answer is kept.
    """
    last = table.last_asked
    if last is not None and last[0]() is pod and last[1] is runtime_class:
        return last[2]
    mask = _candidates(table, pod, runtime_class)
    table.last_asked = ref(pod), runtime_class, mask
    return mask


def _candidates(table: NodeTable, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
    mask = table.everything
    for gpu in pod.accelerators:
        if gpu.is_listed:
            mask &= table.with_gpu(gpu.resource)
    for key, value in pod.node_selector.items():
        if not mask:
            return mask
        mask &= table.column(key).equal(value)
    if pod.required is not None:
        mask &= _any_of(table, pod.required)
    if runtime_class is not None:
        mask &= _all_of(table, runtime_class.node_selector)
    if pod.node_name:
        mask &= table.names.equal(pod.node_name)
    elif mask:
        added = runtime_class.tolerations if runtime_class is not None else ()
        mask &= ~table.repelling((*pod.tolerations, *added))
    return mask


def feasible_nodes(table: NodeTable, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
    """The matching nodes that have room for all that the pod requests, were nothing else on them."""
    mask = matching_nodes(table, pod, runtime_class)
    if mask:
        for resource, amount in demand_of(pod).items():
            if is_compared(resource) and not ("/" in resource and _is_by_dra(pod, resource)):
                mask &= table.amounts(resource).at_least(amount)
                if not mask:
                    return mask
    return mask


def _is_by_dra(pod: Pod, resource: str) -> bool:
    """Whether no node lists a resource, since a DRA driver gives it."""
    gpu = pod.known.of(resource)
    return gpu is not None and gpu.by_dra


def _any_of(table: NodeTable, terms: Iterable[Term]) -> Mask:
    mask = 0
    for term in terms:
        if not term.matches_nothing:
            mask |= _all_of(table, term.expressions) & _all_fields_of(table, term.fields)
    return mask


def _all_of(table: NodeTable, expressions: Iterable[Expression]) -> Mask:
    mask = everything = table.everything
    for expression in expressions:
        mask &= table.column(expression.key).matching(expression, everything)
    return mask


def _all_fields_of(table: NodeTable, fields: Iterable[Expression]) -> Mask:
    mask = everything = table.everything
    for field in fields:
        mask &= table.names.matching(field, everything) if field.key == NAME_FIELD else 0
    return mask
