"""What a pod demands of its nodes, and how one more demand is added to it."""

from collections.abc import Iterator

from webhook.model.edits import RequireNodes
from webhook.model.pod import Pod
from webhook.model.selectors import Expression, Operator, Term, implies


def selector_of(pod: Pod) -> tuple[Expression, ...]:
    """The pod's nodeSelector as expressions."""
    return tuple(Expression(key, Operator.IN, (value,)) for key, value in pod.node_selector.items())


def selected(pod: Pod, key: str) -> tuple[Expression, ...]:
    """What the pod's nodeSelector says of one label, as expressions; empty where it says nothing."""
    value = pod.node_selector.get(key)
    return () if value is None else (Expression(key, Operator.IN, (value,)),)


def living_terms(pod: Pod) -> tuple[Term, ...]:
    """The terms of the required node affinity that can match a node."""
    return tuple(term for term in pod.required or () if not term.matches_nothing)


def requiring(pod: Pod, wanted: Expression) -> Iterator[RequireNodes]:
    """The edits that make the pod require `wanted` of every node: in each term, because terms are ORed.

    Nothing where nodeSelector or the term demands it already.
    """
    selector = selected(pod, wanted.key)
    if implies(selector, wanted):
        return
    if pod.required is None:
        yield RequireNodes(wanted, None)
    for index, term in enumerate(pod.required or ()):
        if not term.matches_nothing and not implies((*selector, *term.expressions), wanted):
            yield RequireNodes(wanted, index)
