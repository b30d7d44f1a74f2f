"""What the scheduler reserves for a pod on its node, of every resource that the pod names.

Source: k8s.io/component-helpers/resource/helpers.go (PodRequests), and pkg/apis/core/v1/defaults.go for what the API
server writes into a pod before it is stored.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from webhook.model.accelerators import GPU_ATTRIBUTES
from webhook.model.container import Container
from webhook.model.pod import Pod, reserved
from webhook.model.quantity import QuantityError, parse_quantity

_HUGE_PAGES = "hugepages-"
"""Prefix of the names of huge pages, such as hugepages-2Mi."""

_LONGEST_KEPT = 32
"""Most characters of a quantity that is remembered once it was computed."""
_OVERCOMMITTED = frozenset({"cpu", "memory"})
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


def demand_of(pod: Pod) -> Mapping[str, int]:
    """Resource name -> amount: cpu in millicores rounded up, memory and other sizes in bytes, all others as counts.

    The scheduler's formula: per resource the larger of what runs together and what each init container needs while it
    runs, plus the overhead; what the pod as a whole requests takes the place of that sum, of cpu, memory and huge
    pages. A limit without a request is a request, as in every pod that the API server stores. Amounts that nobody can
    read, and those that come to 0, are left out.
    """
    demand = reserved(pod.containers, _requests)
    if pod.resources:
        demand.update(_of_the_whole(pod, demand))
    for name, amount in _thousandths(pod.overhead):
        demand[name] = demand.get(name, 0) + amount
    return {name: rounded_up(name, amount) for name, amount in demand.items() if amount > 0}


def is_extended(resource: str) -> bool:
    """Whether a resource is one that a device plugin or an operator adds to nodes, such as a GPU."""
    return "/" in resource and "kubernetes.io/" not in resource


def is_compared(resource: str) -> bool:
    """Whether nodes without enough of a resource are no place for a pod.

    The others concern nobody (pods of a quota), are checked elsewhere (volumes), or mean something only to another
    scheduler, as shares of GPUs do (HAMi), which no node lists.
    """
    if "/" in resource:
        return is_extended(resource) and resource not in GPU_ATTRIBUTES
    return resource in _NATIVE or resource.startswith(_HUGE_PAGES)


def rounded_up(name: str, thousandths: int) -> int:
    """An amount of a resource in its unit: millicores of cpu, whole bytes or pieces of all else."""
    return thousandths if name == "cpu" else -(-thousandths // 1000)


def thousandths_of(quantity: object) -> int | None:
    """A quantity in thousandths, to which the API server rounds it up; None where it is none, 0 where it is negative.

    >>> thousandths_of("1500m"), thousandths_of("2Ki"), thousandths_of("$CPUS")
    (1500, 2048000, None)
    """
    if isinstance(quantity, str) and len(quantity) <= _LONGEST_KEPT:
        return _thousandths_of_text(quantity)
    return _computed(quantity)


def _computed(quantity: object) -> int | None:
    try:
        amount = parse_quantity(quantity)
    except QuantityError:
        return None
    pieces = amount.numerator  # whole numbers are compared many times faster than fractions
    return -(-pieces * 1000 // amount.denominator) if pieces > 0 else 0


_thousandths_of_text = lru_cache(maxsize=4096)(_computed)


def _requests(container: Container) -> Iterator[tuple[str, int]]:
    if container.limits:
        return _thousandths({**container.limits, **container.requests})
    return _thousandths(container.requests)


def _of_the_whole(pod: Pod, of_containers: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """What the pod as a whole requests: what it says, else what its containers do, else its limit.

    The limit comes before the containers where a resource cannot be overcommitted, as huge pages cannot.
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
