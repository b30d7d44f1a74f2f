"""What the scheduler reserves for a pod, against its own code read line by line."""

from fractions import Fraction
from math import ceil
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
from tests.strategies import checked
from webhook.model.pod_reader import pod_from_raw
from webhook.model.quantity import parse_quantity
from webhook.model.requirements import demand_of, is_compared

GI = 1024**3


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, *, sidecar: bool = False
) -> dict[str, Any]:
    raw = {"name": "c", "resources": {"requests": requests, "limits": limits}}
    return {**raw, "restartPolicy": "Always"} if sidecar else raw


def demand(*apps: dict[str, Any], **spec: Any) -> dict[str, int]:
    return dict(demand_of(pod_from_raw({"spec": {"containers": list(apps), **spec}})))


@each(
    "requests, limits, expected",
    {
        "requests": ({"cpu": "500m", "memory": "1Gi"}, None, {"cpu": 500, "memory": GI}),
        "limits are requests": (None, {"cpu": 2, "memory": "1Gi"}, {"cpu": 2000, "memory": GI}),
        "each by itself": ({"cpu": "1"}, {"cpu": "4", "memory": "1k"}, {"cpu": 1000, "memory": 1000}),
        "a request of null is one of 0": ({"cpu": None}, {"cpu": "4"}, {}),
        "a request of 0": ({"cpu": "0"}, {"cpu": "4"}, {}),
        "amounts that cannot be parsed": ({"cpu": "$CPUS"}, {"memory": "lots"}, {}),
        "what the API server refuses": ({"cpu": "-1", "memory": "-1Gi"}, None, {}),
        "cpu is rounded up to a thousandth": ({"cpu": "0.1u"}, None, {"cpu": 1}),
        "memory is rounded up to a byte": ({"memory": "1500m"}, None, {"memory": 2}),
        "every resource": (
            {"ephemeral-storage": "1Mi", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "2", "rdma/hca": "1e0"},
            None,
            {"ephemeral-storage": 2**20, "hugepages-2Mi": 2**22, "nvidia.com/gpu": 2, "rdma/hca": 1},
        ),
        "more than there can be": ({"memory": "9999999999999E"}, None, {"memory": 2**63 - 1}),
    },
)
def test_what_a_container_asks_for_is_read_from_requests_and_then_from_limits(requests, limits, expected) -> None:
    assert expected == demand(container(requests, limits))


def test_amounts_are_added_exactly_and_rounded_once() -> None:
    assert demand(container({"memory": "1500m"}), container({"memory": "1500m"})) == {"memory": 3}
    assert demand(*[container({"cpu": "0.1"})] * 3) == {"cpu": 300}


def of_cpu(cores: int, *, sidecar: bool = False) -> dict[str, Any]:
    return container({"cpu": cores}, sidecar=sidecar)


def test_ephemeral_containers_reserve_nothing() -> None:
    assert demand(of_cpu(1), ephemeralContainers=[of_cpu(4)]) == {"cpu": 1000}


HUGE = {"hugepages-2Mi": "4Mi"}


@each(
    "whole, of_container, expected",
    {
        "more than the container": ({"requests": {"cpu": "8"}}, {"cpu": "2"}, {"cpu": 8000}),
        "less, which is refused elsewhere": ({"requests": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": 1000}),
        "a limit where a container requests": ({"limits": {"cpu": "8"}}, {"cpu": "2"}, {"cpu": 2000}),
        "or requests 0": ({"limits": {"cpu": "8"}}, {"cpu": "0"}, {}),
        "where none does": ({"limits": {"cpu": "8"}}, {"memory": "1"}, {"cpu": 8000, "memory": 1}),
        "a request and a limit": ({"limits": {"cpu": "8"}, "requests": {"cpu": "4"}}, {}, {"cpu": 4000}),
        "huge pages by the limit": ({"limits": {"hugepages-2Mi": "8Mi"}}, HUGE, {"hugepages-2Mi": 2**23}),
        "amounts that cannot be parsed": ({"requests": {"memory": "?"}}, {"memory": "1Ki"}, {"memory": 1024}),
        "what the API server refuses for pods as a whole": (
            {"requests": {"nvidia.com/gpu": "8", "ephemeral-storage": "1Gi"}},
            {"nvidia.com/gpu": "2"},
            {"nvidia.com/gpu": 2},
        ),
        "null": ({"limits": None, "requests": None}, {"cpu": "2"}, {"cpu": 2000}),
    },
)
def test_what_the_pod_as_a_whole_requests_takes_the_place_of_the_sum(whole, of_container, expected) -> None:
    assert expected == demand(container(of_container), resources=whole)


def test_overhead_is_added_to_what_the_pod_as_a_whole_requests() -> None:
    assert demand(of_cpu(2), resources={"requests": {"cpu": "4"}}, overhead={"cpu": "1"}) == {"cpu": 5000}


@golden
def test_only_what_the_scheduler_compares_decides_where_a_pod_can_run(resource: str, expected: bool) -> None:
    assert expected is is_compared(resource)


Amounts = dict[str, Fraction]
NAMES = ("cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu", "rdma/hca")
OF_THE_WHOLE = ("cpu", "memory", "hugepages-2Mi")
QUANTITIES = st.sampled_from(["0", "1", "2", "3", "100m", "1500m", "0.5", "2Ki", "1k", 4, None])
RESOURCES = st.fixed_dictionaries(
    {part: st.dictionaries(st.sampled_from(NAMES), QUANTITIES, max_size=3) for part in ("requests", "limits")}
)
CONTAINERS = st.builds(lambda resources: {"name": "c", "resources": resources}, RESOURCES)
INIT_CONTAINERS = st.builds(
    lambda raw, policy: {**raw, "restartPolicy": policy}, CONTAINERS, st.sampled_from(["Always", None])
)


def stored(amounts: dict[str, Any]) -> Amounts:
    """Amounts as the API server stores them: rounded up to thousandths."""
    return {name: Fraction(ceil(Fraction(parse_quantity(value)) * 1000), 1000) for name, value in amounts.items()}


def defaulted(resources: dict[str, Any]) -> Amounts:
    """The requests of a container after its limits were copied to where there is none."""
    return stored({**resources["limits"], **resources["requests"]})


def add(to: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, Fraction()) + amount


def aggregate_container_requests(spec: dict[str, Any]) -> Amounts:
    """AggregateContainerRequests of k8s.io/component-helpers/resource, statement by statement."""
    reqs: Amounts = {}
    for entry in spec["containers"]:
        add(reqs, defaulted(entry["resources"]))
    restartable: Amounts = {}
    init: Amounts = {}
    for entry in spec["initContainers"]:
        container_reqs = defaulted(entry["resources"])
        if entry["restartPolicy"] == "Always":
            add(reqs, container_reqs)
            add(restartable, container_reqs)
            container_reqs = restartable
        else:
            temporary: Amounts = {}
            add(temporary, container_reqs)
            add(temporary, restartable)
            container_reqs = temporary
        for name, amount in container_reqs.items():
            init[name] = max(init.get(name, Fraction()), amount)
    for name, amount in init.items():
        reqs[name] = max(reqs.get(name, Fraction()), amount)
    return reqs


def default_pod_requests(spec: dict[str, Any]) -> Amounts:
    """What defaultPodRequests of pkg/apis/core/v1/defaults.go makes of them, statement by statement."""
    whole = spec["resources"]
    requests, limits = stored(whole["requests"]), stored(whole["limits"])
    if not limits:
        return requests
    for name, amount in aggregate_container_requests(spec).items():
        if name not in requests and name in ("cpu", "memory"):
            requests[name] = amount
    for name, amount in limits.items():
        if name not in requests and name in OF_THE_WHOLE:
            requests[name] = amount
    return requests


def pod_requests(spec: dict[str, Any]) -> dict[str, int]:
    """PodRequests of k8s.io/component-helpers/resource, and what the scheduler makes of it (Resource.Add)."""
    reqs = aggregate_container_requests(spec)
    for name, amount in default_pod_requests(spec).items():
        if name in OF_THE_WHOLE:
            reqs[name] = amount
    add(reqs, stored(spec["overhead"]))
    return {name: ceil(amount * 1000) if name == "cpu" else ceil(amount) for name, amount in reqs.items() if amount}


@checked
@given(
    spec=st.fixed_dictionaries(
        {
            "containers": st.lists(CONTAINERS, max_size=3),
            "initContainers": st.lists(INIT_CONTAINERS, max_size=3),
            "resources": RESOURCES,
            "overhead": st.dictionaries(st.sampled_from(NAMES), QUANTITIES, max_size=2),
        }
    )
)
def test_the_formula_is_the_schedulers(spec: dict[str, Any]) -> None:
    assert pod_requests(spec) == dict(demand_of(pod_from_raw({"spec": spec})))
