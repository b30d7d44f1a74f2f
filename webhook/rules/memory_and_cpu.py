"""GPU containers have a memory limit and a CPU request.

A container without a memory limit can use up the memory of its node, and then the kernel kills other containers, too.
One without a CPU request gets only the CPU that others leave, and its GPUs wait for data. A container that only runs
`nvidia-smi` needs neither.

Messages suggest the memory and CPU that go with the container's GPUs on every node that the pod may get. Limits and
requests of the pod as a whole (`spec.resources`) count for its containers. A LimitRange fills in pods before this rule
sees them, but not the templates of workloads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.gpus.gpu_table import GPUS
from webhook.model.pod import Container, Pod
from webhook.model.programs import only_shows_gpus
from webhook.model.quantity import format_bytes, is_some, parse_quantity
from webhook.model.requirements import demand_of
from webhook.model.shape import FormatError, spelled
from webhook.model.wording import counted
from webhook.rules.gpu_parts import unit_name
from webhook.rules.rule import NO_MEMORY_LIMIT, Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import RuleSettings


class Settings(RuleSettings):
    """Settings of `memoryAndCpu`."""

    memory_limit: bool = True
    """Whether GPU containers need a memory limit."""
    cpu_request: bool = True
    """Whether GPU containers need a CPU request. A CPU limit is enough."""
    memory_request_equals_limit: bool = False
    """Whether the memory request of a GPU container must equal its memory limit."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse GPU containers that lack a limit or request, or have a memory request below their limit."""
    containers = [one for one in pod.lasting_containers() if one.gpu_count and not only_shows_gpus(one.words)]
    if not containers:
        return
    whole = _Budget(pod.resources.get("limits") or {}, pod.resources.get("requests") or {})
    has_limit, has_request = is_some(whole.limits.get("memory")), is_some(whole.request_of("cpu"))
    for container in containers:
        own = _Budget(container.limits, container.requests)
        missing = []
        if settings.memory_limit and not has_limit and not is_some(own.limits.get("memory")):
            missing.append((_MEMORY, "memory" in own.limits))
        if settings.cpu_request and not has_request and not is_some(own.request_of("cpu")):
            missing.append((_CPU, "cpu" in own.requests))
        if missing:
            yield _lacks(container, missing, pod, facts)
        if settings.memory_request_equals_limit and not has_limit:
            yield from _unequal(f"{container.path}.resources", own, ", or leave the request out")
    if settings.memory_request_equals_limit:
        yield from _unequal("spec.resources", _completed(pod, whole))


@dataclass(frozen=True, slots=True)
class _Budget:
    """Limits and requests of a container or of a whole pod: resource name -> amount as written."""

    limits: Mapping[str, Any]
    requests: Mapping[str, Any]

    def request_of(self, name: str) -> object:
        """The request as Kubernetes completes it."""
        return self.requests[name] if name in self.requests else self.limits.get(name)


@dataclass(frozen=True, slots=True)
class _Want:
    """A limit or request that containers need: its name, its key, the resource, and what happens without it.

    `unit` is what amounts are rounded to, in bytes or millicores, and `suffix` how a quantity says it.
    """

    what: str
    key: str
    resource: str
    unit: int
    suffix: str
    without: str


_MEMORY = _Want("memory limit", "limits.memory", "memory", 1024**3, "Gi", "it can use up its node's memory")
_CPU = _Want("CPU request", "requests.cpu", "cpu", 1000, "", "its GPUs may wait for data")


def _completed(pod: Pod, whole: _Budget) -> _Budget:
    """The budget of a pod with the memory request that Kubernetes adds: what its containers request together.

    If no container has a memory request or limit, the limit is the request (SetDefaults_Pod in
    pkg/apis/core/v1/defaults.go).
    """
    names_memory = any("memory" in container.requests or "memory" in container.limits for container in pod.containers)
    if "memory" in whole.requests or "memory" not in whole.limits or not names_memory:
        return whole
    together = demand_of(replace(pod, overhead={})).get("memory", 0)
    return _Budget(whole.limits, {**whole.requests, "memory": format_bytes(together)})


def _lacks(container: Container, missing: Sequence[tuple[_Want, bool]], pod: Pod, facts: Facts) -> Violation:
    """The violation of a container without limits or requests. Each flag says whether the amount is written as 0."""
    found = [f"{want.what} (0 is none)" if is_written else want.what for want, is_written in missing]
    shares = _shares([want for want, _ in missing], container, pod, facts)
    keys = [want.key + (f" such as {share}" if share else "") for (want, _), share in zip(missing, shares, strict=True)]
    unit = "GPU share" if any(shares) and unit_name(pod, facts, GPUS) == "share" else "GPU"
    whose = f", the share of {counted(container.gpu_count, unit)} on a node" if any(shares) else ""
    return Violation(
        f"{container.path}.resources",
        f"has no {' and no '.join(found)}",
        " and ".join(want.without for want, _ in missing),
        f"Write {' and '.join(keys)}{whose}",
        fault=NO_MEMORY_LIMIT if any(want is _MEMORY for want, _ in missing) else "",
    )


def _shares(wants: Sequence[_Want], container: Container, pod: Pod, facts: Facts) -> list[str]:
    """How much of each resource goes with the GPUs of a container, as quantities; empty where that is not known.

    The pod keeps all its nodes if each GPU container without an amount requests as much for each of its GPUs.
    """
    own = [request for request in container.gpu_requests if request.count]
    of_nodes = facts.amounts_on(pod, (*[one.resource for one in own], *[want.resource for want in wants]))
    columns = [[amount or 0 for amount in column] for column in zip(*of_nodes, strict=True)]
    if not columns or not all(map(min, columns[: len(own)])):
        return [""] * len(wants)
    all_containers, demand, shares = pod.lasting_containers(), demand_of(pod), []
    for want, amounts in zip(wants, columns[len(own) :], strict=True):
        lacking = [one.gpu_count for one in all_containers if one is container or not _asks(one, want)]
        left = (min(amounts) - demand.get(want.resource, 0)) * container.gpu_count // sum(lacking)
        for use, units in zip(own, columns, strict=False):
            left = min([left, *[amount * use.count // unit for amount, unit in zip(amounts, units, strict=True)]])
        amount = 0 if _asks(container, want) else left // want.unit
        shares.append(f"{amount}{want.suffix}" if amount > 0 else "")
    return shares


def _asks(container: Container, want: _Want) -> bool:
    return is_some(container.limits.get(want.resource)) or is_some(container.requests.get(want.resource))


def _unequal(where: str, budget: _Budget, alternative: str = "") -> Iterator[Violation]:
    limit, request = budget.limits.get("memory"), budget.request_of("memory")
    if limit is None or limit == request:
        return
    try:
        if not parse_quantity(limit) or parse_quantity(limit) == parse_quantity(request):
            return
    except FormatError:
        return
    least, most = spelled(request).strip('"'), spelled(limit).strip('"')
    found = f"requests {least} of memory and may use up to {most}"
    why = "the policy wants both equal, so that the memory is there when it is needed"
    yield Violation(where, found, why, f"Write {most} in requests.memory{alternative}")


RULE = Rule(
    key="memoryAndCpu",
    promise="GPU containers say how much memory and CPU they need.",
    problem="One job takes the memory or the CPU of a whole GPU node, and the jobs beside it are killed, or "
    "cannot keep their GPUs busy.",
    example=Example(training_pod()),
    settings=Settings,
    validate=validate,
    faults=frozenset({NO_MEMORY_LIMIT}),
    why_no_effect=lambda settings: (
        ""
        if settings.memory_limit or settings.cpu_request or settings.memory_request_equals_limit
        else "set one of memoryLimit, cpuRequest and memoryRequestEqualsLimit, or disable the rule"
    ),
)
