"""The indexes find the feasible nodes that asking every node finds, for any nodes, pods and order of changes."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.facts.samples import facts_of, housed, node, pod
from tests.facts.test_matching_nodes_properties import NAMES, RUNTIME_CLASSES, TERMS, TOLERATIONS, fits
from tests.strategies import checked
from webhook.facts.snapshot import Snapshot
from webhook.model.accelerators import accelerator
from webhook.model.pod import Pod
from webhook.model.quantity import parse_quantity
from webhook.model.requirements import demand_of

NATIVE = ("cpu", "memory", "hugepages-2Mi")
EXTENDED = ("nvidia.com/gpu", "amd.com/gpu", "rdma/hca", "example.com/fpga")
QUANTITIES = st.sampled_from(["1", "2", "3", "4", "2500m", "1k"])
WHOLE = st.sampled_from(["1", "2", "3", "4", "1k"])
AMOUNTS = st.builds(
    lambda native, extended: native | extended,
    st.dictionaries(st.sampled_from(NATIVE), QUANTITIES, max_size=3),
    st.dictionaries(st.sampled_from(EXTENDED), WHOLE, max_size=3),
)
NODES = st.lists(
    st.builds(
        node,
        NAMES,
        labels=st.dictionaries(st.sampled_from(["zone", "rack"]), st.sampled_from(["a", "b"]), max_size=2),
        capacity=AMOUNTS,
        allocatable=st.none() | AMOUNTS,
    ),
    max_size=8,
    unique_by=lambda raw: raw["metadata"]["name"],
)
PODS = st.builds(
    pod,
    asks=AMOUNTS,
    terms=st.none() | st.lists(TERMS, max_size=2),
    nodeSelector=st.dictionaries(st.just("zone"), st.sampled_from(["a", "b"]), max_size=1),
    tolerations=TOLERATIONS,
    nodeName=st.just("") | NAMES,
    runtimeClassName=st.sampled_from([None, "nvidia"]),
    overhead=st.dictionaries(st.just("cpu"), QUANTITIES, max_size=1),
)


def has(raw: Mapping[str, Any], resource: str) -> int | None:
    """The amount on a node, read as plainly as possible; None where it is unknown."""
    capacity, allocatable = raw["status"]["capacity"], raw["status"].get("allocatable") or {}
    first, second = (capacity, allocatable) if "/" in resource else (allocatable, capacity)
    found = first.get(resource, second.get(resource))
    if found is not None:
        return ceil(parse_quantity(found) * (1000 if resource == "cpu" else 1))
    if accelerator(resource) is None and (resource in ("cpu", "memory") or not {**capacity, **allocatable}):
        return None
    return 0


def has_room(raw: Mapping[str, Any], asking: Pod) -> bool:
    amounts = ((wanted, has(raw, resource)) for resource, wanted in demand_of(asking).items())
    return all(amount is None or wanted <= amount for wanted, amount in amounts)


@checked
@given(nodes=NODES, runtime_classes=st.lists(RUNTIME_CLASSES, max_size=1), pods=st.lists(PODS, min_size=1, max_size=4))
def test_homes_and_the_most_are_those_of_the_nodes_one_by_one(nodes, runtime_classes, pods):
    snapshot = Snapshot.of(nodes, runtime_classes)
    facts = facts_of(snapshot)
    for asking in pods:
        possible = [raw for raw in nodes if fits(snapshot.nodes[raw["metadata"]["name"]], asking, snapshot)]
        assert sum(has_room(raw, asking) for raw in possible) == housed(snapshot, asking)
        for resource in (*NATIVE, *EXTENDED):
            for among, found in ((possible, facts.largest(resource, asking)), (nodes, facts.largest(resource))):
                amounts = [has(raw, resource) for raw in among]
                assert found == (None if None in amounts else max(amounts, default=0))
