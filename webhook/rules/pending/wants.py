"""What a pod wants of its node, taken apart: asking about pods with only some wants shows which of them no node has."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from webhook.model.node import EVERYTHING
from webhook.model.pod import Pod
from webhook.model.requirements import demand_of, living_terms, selector_of
from webhook.model.selectors import Expression, Term
from webhook.model.wording import asked, cut

AFFINITY = "spec.affinity.nodeAffinity"

_SHOWN = 3
"""Values of an expression that a message shows."""

TELL = "tell the platform team"
"""The remedy if the author of the pod cannot do anything."""


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of a resource: cpu in millicores, memory in bytes, others as counts. `where` is a place in the pod."""

    resource: str
    amount: int
    where: str
    is_gpu: bool = False

    def __str__(self) -> str:
        return asked(self.resource, self.amount)


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels that satisfy one expression: an entry of nodeSelector, or a part of the only term of the node affinity."""

    expression: Expression
    where: str

    def __str__(self) -> str:
        key, operator, values = self.expression.key, self.expression.operator, self.expression.values
        if self.is_selector:
            return f"{key}={values[0]}"
        if not values:
            return f"{key} {operator}"
        more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
        return f"{key} {operator} [{', '.join(values[:_SHOWN])}{more}]"

    @property
    def is_selector(self) -> bool:
        return self.where != AFFINITY


@dataclass(frozen=True, slots=True)
class Affinity:
    """The terms of a required node affinity, without terms that match nothing. A node has to meet one of them."""

    terms: tuple[Term, ...]
    where: str = AFFINITY

    def __str__(self) -> str:
        return "the labels of a required term"


@dataclass(frozen=True, slots=True)
class ClassNodes:
    """The nodes that the RuntimeClass of this name selects."""

    runtime_class: str
    where: str = "spec.runtimeClassName"

    def __str__(self) -> str:
        return f"the labels of RuntimeClass {cut(self.runtime_class)}"


Want = Amount | Labels | Affinity | ClassNodes


def wants_of(pod: Pod) -> tuple[Want, ...]:
    """Everything that the pod wants of its node except tolerance of taints, the most telling wants last."""
    demand = demand_of(pod)
    places = _places(pod, demand)
    are_gpus = {gpu.resource for gpu in pod.accelerators if gpu.is_listed}
    amounts = [Amount(name, amount, places.get(name, "spec"), name in are_gpus) for name, amount in demand.items()]
    gpus = [amount for amount in amounts if amount.is_gpu]
    others = [amount for amount in amounts if not amount.is_gpu]
    runtime_class = [ClassNodes(pod.runtime_class)] if pod.runtime_class else []
    selector = [Labels(expression, f"spec.nodeSelector[{expression.key}]") for expression in selector_of(pod)]
    return (*others, *runtime_class, *_affinity(pod), *selector, *gpus)


def weight_of(wants: Iterable[Want]) -> int:
    """The number of parts to compare in all wants. Each value of an expression is a part."""
    weight = 0
    for want in wants:
        terms = want.terms if isinstance(want, Affinity) else ()
        expressions = [expression for term in terms for expression in (*term.expressions, *term.fields)]
        if isinstance(want, Labels):
            expressions.append(want.expression)
        weight += 1 + len(terms) + sum(1 + len(expression.values) for expression in expressions)
    return weight


def only(pod: Pod, wants: Iterable[Want]) -> Pod:
    """A pod like this one that wants only `wants` of its node, and tolerates every taint."""
    wants = tuple(wants)
    expressions = tuple(want.expression for want in wants if isinstance(want, Labels))
    terms = next((want.terms for want in wants if isinstance(want, Affinity)), (Term(),) if expressions else None)
    amounts = {want.resource: want.amount for want in wants if isinstance(want, Amount)}
    gpus = {name: amount for name, amount in amounts.items() if pod.known.of(name) is not None}
    return replace(
        pod,
        containers=(),
        resources={},
        overhead={name: f"{amount}m" if name == "cpu" else amount for name, amount in amounts.items()},
        gpus=gpus,
        accelerators=tuple(gpu for name in gpus if (gpu := pod.known.of(name)) is not None),
        node_selector={},
        required=terms and tuple(replace(term, expressions=(*expressions, *term.expressions)) for term in terms),
        runtime_class=next((want.runtime_class for want in wants if isinstance(want, ClassNodes)), None),
        tolerations=EVERYTHING,
    )


def fewest(wants: Sequence[Want], is_too_much: Callable[[Sequence[Want]], bool]) -> list[Want]:
    """The fewest wants that are too much together, if all of them are. Without any one of them, the rest is not.

    >>> fewest([1, 2, 3, 4], lambda some: 2 in some and 4 in some)
    [2, 4]
    """
    kept = list(wants)
    for want in wants:
        others = [other for other in kept if other is not want]
        if is_too_much(others):
            kept = others
    return kept


def _affinity(pod: Pod) -> Iterator[Want]:
    """The expressions of the only term one by one. Several terms are alternatives, so they are one want."""
    if pod.required is None:
        return
    terms = living_terms(pod)
    if len(terms) == 1 and not terms[0].fields:
        yield from (Labels(expression, AFFINITY) for expression in terms[0].expressions)
    else:
        yield Affinity(terms)


def _places(pod: Pod, demand: Mapping[str, int]) -> dict[str, str]:
    """The place in the pod that requests each resource; `spec` if no single place requests the whole amount."""
    places: dict[str, str] = {}
    for container in pod.lasting_containers():
        if not (container.requests or container.limits):
            continue
        alone = demand_of(replace(pod, containers=(container,), resources={}, overhead={}))
        for resource, amount in alone.items():
            if amount == demand.get(resource):
                places[resource] = "spec" if resource in places else f"{container.path}.resources"
    for part in ("requests", "limits"):
        places.update(dict.fromkeys(pod.resources.get(part) or (), "spec.resources"))
    return places | dict.fromkeys(pod.overhead, "spec")
