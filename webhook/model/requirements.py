"""The requirements of a pod on its node: labels, tolerations of taints, and an amount of every resource.

Edits add requirements: `requiring` makes the edits for another label, `placed` reads a pod as if edits were applied.

Source of the amounts: k8s.io/component-helpers/resource/helpers.go (PodRequests), and pkg/apis/core/v1/defaults.go for
the defaults that the API server writes into a pod.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from weakref import ref

from webhook.model.accelerators import GPU_ATTRIBUTES
from webhook.model.edits import AddToleration, Edit, PreferNodes, RequireNodes, SetRuntimeClass
from webhook.model.pod import Container, Pod, changed, reserved
from webhook.model.quantity import parse_quantity
from webhook.model.selectors import Expression, Operator, Term, implies
from webhook.model.shape import FormatError


def selector_of(pod: Pod) -> tuple[Expression, ...]:
    """The pod's nodeSelector as expressions."""
    return tuple(Expression(key, Operator.IN, (value,)) for key, value in pod.node_selector.items())


def selected(pod: Pod, key: str) -> tuple[Expression, ...]:
    """The pod's nodeSelector for one label, as expressions; empty where the selector does not name the label."""
    value = pod.node_selector.get(key)
    return () if value is None else (Expression(key, Operator.IN, (value,)),)


def living_terms(pod: Pod) -> tuple[Term, ...]:
    """The terms of the required node affinity that can match a node."""
    return tuple(term for term in pod.required or () if not term.matches_nothing)


_HOSTNAME = "kubernetes.io/hostname"


def may_get_new_node(pod: Pod) -> bool:
    """Whether a node that does not exist yet may match the pod: it names no nodes, in at least one of its terms."""
    if pod.node_name or _HOSTNAME in pod.node_selector:
        return False
    naming = ((*term.fields, *(one for one in term.expressions if one.key == _HOSTNAME)) for term in living_terms(pod))
    return pod.required is None or any(all(one.operator != Operator.IN for one in term) for term in naming)


def requiring(pod: Pod, wanted: Expression) -> Iterator[RequireNodes]:
    """The edits with which the pod requires `wanted` of every node: one for each term, because terms are ORed.

    There is no edit where nodeSelector or the term requires it already.
    """
    selector = selected(pod, wanted.key)
    if implies(selector, wanted):
        return
    if pod.required is None:
        yield RequireNodes(wanted, None)
    for index, term in enumerate(pod.required or ()):
        if not term.matches_nothing and not implies((*selector, *term.expressions), wanted):
            yield RequireNodes(wanted, index)


def required_label(pod: Pod, wanted: Mapping[str, str]) -> str:
    """The first of these labels that the pod requires with this value; empty for none."""
    named = {*pod.node_selector, *[one.key for term in pod.required or () for one in term.expressions]}
    for key in () if named.isdisjoint(wanted) else wanted:
        if next(requiring(pod, Expression(key, Operator.IN, (wanted[key],))), None) is None:
            return key
    return ""


_HUGE_PAGES = "hugepages-"
"""Prefix of the names of huge pages, such as hugepages-2Mi."""

_LONGEST_KEPT = 32
"""Most characters of a quantity that is cached."""
_OVERCOMMITTED = frozenset({"cpu", "memory"})
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


def demand_of(pod: Pod) -> Mapping[str, int]:
    """Resource name -> amount that the scheduler reserves: cpu in millicores rounded up, sizes in bytes, else counts.

    The scheduler's formula: for each resource the larger of two amounts, the sum of the containers that run together
    and the most that is needed while an init container runs, plus the overhead. For cpu, memory and huge pages a
    request of the pod as a whole replaces the sum of its containers. A limit without a request is a request, as in
    every pod that the API server stores. Amounts that cannot be parsed, and amounts of 0, are left out.

    Several rules ask about one pod, so the last answer is kept.
    """
    for seen, demand in _last:
        if seen() is pod:
            return demand
    amounts = reserved(pod.containers, _requests)
    if pod.resources:
        amounts.update(_of_the_whole(pod, amounts))
    for name, amount in _thousandths(pod.overhead):
        amounts[name] = amounts.get(name, 0) + amount
    demand = {name: rounded_up(name, amount) for name, amount in amounts.items() if amount > 0}
    _last[:] = [(ref(pod), demand)]
    return demand


_last: list[tuple[ref[Pod], Mapping[str, int]]] = []
"""The pod of the last question and its answer."""


def is_extended(resource: str) -> bool:
    """Whether a device plugin or an operator adds the resource to nodes, as it adds GPUs."""
    return "/" in resource and "kubernetes.io/" not in resource


def is_compared(resource: str) -> bool:
    """Whether a pod cannot run on nodes with too little of a resource.

    Other resources are irrelevant here (pods of a quota), checked elsewhere (volumes), or meant for another scheduler
    and listed by no node, such as shares of GPUs (HAMi).
    """
    if "/" in resource:
        return is_extended(resource) and resource not in GPU_ATTRIBUTES
    return resource in _NATIVE or resource.startswith(_HUGE_PAGES)


def rounded_up(name: str, thousandths: int) -> int:
    """An amount of a resource in its unit: millicores of cpu, whole bytes or pieces of all else."""
    return thousandths if name == "cpu" else -(-thousandths // 1000)


def thousandths_of(quantity: object) -> int | None:
    """A quantity in thousandths, rounded up as by the API server; None for no quantity, 0 for a negative one.

    >>> thousandths_of("1500m"), thousandths_of("2Ki"), thousandths_of("$CPUS")
    (1500, 2048000, None)
    """
    if isinstance(quantity, str) and len(quantity) <= _LONGEST_KEPT:
        return _thousandths_of_text(quantity)
    return _computed(quantity)


def _computed(quantity: object) -> int | None:
    try:
        amount = parse_quantity(quantity)
    except FormatError:
        return None
    pieces = amount.numerator  # whole numbers are compared many times faster than fractions
    return -(-pieces * 1000 // amount.denominator) if pieces > 0 else 0


_thousandths_of_text = lru_cache(maxsize=4096)(_computed)


def _requests(container: Container) -> Iterator[tuple[str, int]]:
    if container.limits:
        return _thousandths({**container.limits, **container.requests})
    return _thousandths(container.requests)


def _of_the_whole(pod: Pod, of_containers: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The requests of the pod as a whole: its own request, else the sum of its containers, else its own limit.

    For resources that cannot be overcommitted, such as huge pages, the limit comes before the containers.
    """
    requests, limits = (pod.resources.get(part) or {} for part in ("requests", "limits"))
    defaults = {name: limits[name] for name in limits if name not in _OVERCOMMITTED or name not in of_containers}
    for name, amount in _thousandths({**defaults, **requests}):
        if name in _OVERCOMMITTED or name.startswith(_HUGE_PAGES):
            yield name, amount


def _thousandths(amounts: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    for name, quantity in amounts.items():
        amount = thousandths_of(quantity)
        if amount is not None:
            yield name, amount


_PLACING = frozenset({AddToleration, PreferNodes, RequireNodes, SetRuntimeClass})
"""The edits that decide where a pod may run."""


def placed(pod: Pod, edits: Iterable[Edit]) -> Pod:
    """`pod` with the edits that decide where it may run, as if it were read again after the edits."""
    placing = [edit for edit in edits if edit.__class__ in _PLACING]
    if not placing:
        return pod
    runtime_class, tolerations = pod.runtime_class, list(pod.tolerations)
    terms, preferred = list(pod.required or ()), list(pod.preferred)
    for edit in placing:
        match edit:
            case AddToleration(toleration):
                tolerations.append(toleration)
            case RequireNodes(expression) if not terms:
                terms.append(Term((expression,)))
            case RequireNodes(expression, at):
                term = terms[at or 0]
                terms[at or 0] = replace(term, expressions=(*term.expressions, expression))
            case PreferNodes(expression):
                preferred.append(Term((expression,)))
            case SetRuntimeClass(name):
                runtime_class = name
    return changed(
        pod,
        runtime_class=runtime_class,
        tolerations=tuple(tolerations),
        required=tuple(terms) if terms else pod.required,
        preferred=tuple(preferred),
    )
