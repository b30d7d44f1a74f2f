"""The largest number of GPUs of one node is known where ResourceSlices leave no doubt, within bounds of memory."""

from fractions import Fraction
from typing import Any

import pytest

from tests.facts.samples import device_class, node, resource_slice
from webhook.facts.facts import ClusterFacts
from webhook.facts.slice_index import SliceTable
from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.model.node import NodePool
from webhook.model.resource_slices import SliceDriver

NVIDIA = "gpu.nvidia.com"


def table(*raws: Any) -> SliceTable:
    return SliceTable.of(raws)


def test_the_node_with_most_devices_counts_and_types_count_apart() -> None:
    found = table(
        resource_slice("a", "a", gpus=8, pool_slices=2),
        resource_slice("b", "b", gpus=4),
        resource_slice("a-mig", "a", type="mig", gpus=7, pool_slices=2),
    )
    assert (found.most(NVIDIA, "gpu"), found.most(NVIDIA, "mig"), found.most(NVIDIA)) == (8, 7, 15)
    assert (found.most(NVIDIA, "vfio"), found.most("gpu.amd.com")) == (0, 0)
    assert sum(number for _, number in found.devices("a").kinds) == 15
    assert found.devices("c").kinds == ()


def test_the_products_of_a_driver_and_type_are_remembered_as_numbers_are() -> None:
    h100 = resource_slice("a", "a", attributes={"productName": "H100"})
    mig = resource_slice("b", "b", type="mig", attributes={"productName": "A100"})
    found = table(h100, mig, resource_slice("c", "c"), resource_slice("d", "d", driver="gpu.amd.com", type="amdgpu"))
    assert (found.products(NVIDIA, "gpu"), found.products(NVIDIA, "mig")) == ({"H100", ""}, {"A100"})
    assert found.products(NVIDIA) == {"H100", "A100", ""}
    assert found.without(h100).products(NVIDIA, "gpu") == {"H100", ""}


def test_devices_of_no_known_type_count_as_of_every_type() -> None:
    found = table(resource_slice("a", "a", gpus=3, type="", pool_slices=2), resource_slice("b", "a", pool_slices=2))
    assert (found.most(NVIDIA, "gpu"), found.most(NVIDIA, "mig")) == (3 + 1, 3)


@pytest.mark.parametrize(
    "raws",
    [
        pytest.param([resource_slice("a", "a", pool_slices=2)], id="a slice is missing"),
        pytest.param([resource_slice("a", "a", pool_slices=0)], id="a pool of no slices"),
        pytest.param([resource_slice("a", "a"), resource_slice("b", "a")], id="a slice too many"),
        pytest.param(
            [resource_slice("a", "a", pool_slices=2), resource_slice("b", "a", pool_slices=2, generation=2)],
            id="a generation that is being written",
        ),
        pytest.param([resource_slice("a", "", allNodes=True)], id="devices of all nodes"),
        pytest.param([resource_slice("a", "", nodeSelector={"nodeSelectorTerms": []})], id="devices of some nodes"),
        pytest.param([resource_slice("a", "", perDeviceNodeSelection=True)], id="each device has its own nodes"),
    ],
)
def test_a_doubt_about_one_node_leaves_the_largest_number_unknown(raws: list[Any]) -> None:
    assert table(*raws, resource_slice("other", "other", gpus=4)).most(NVIDIA) is None
    by_event = table(resource_slice("other", "other", gpus=4))
    for raw in raws:
        by_event = by_event.with_slice(raw)
    assert by_event.most(NVIDIA) is None


def test_a_doubt_is_of_one_driver() -> None:
    found = table(
        resource_slice("a", "a", pool_slices=2), resource_slice("b", "a", driver="gpu.amd.com", type="amdgpu")
    )
    assert (found.most(NVIDIA), found.most("gpu.amd.com", "amdgpu")) == (None, 1)
    assert found.devices("a").unknown == {NVIDIA}


def test_only_the_newest_generation_counts() -> None:
    old = [resource_slice(name, "a", gpus=8, pool_slices=2) for name in ("a", "b")]
    assert table(*old, resource_slice("c", "a", gpus=2, generation=2)).most(NVIDIA) == 2


def test_a_driver_that_restarts_takes_nothing_from_the_largest_number() -> None:
    one, other = resource_slice("a", "a", gpus=8), resource_slice("b", "b", gpus=2)
    found = table(one, other)
    assert found.without(one).most(NVIDIA, "gpu") == found.without(one).without(other).most(NVIDIA) == 8
    assert found.without(one).devices("a").kinds == ()
    fewer = resource_slice("a", "a", gpus=7, generation=2)
    assert found.with_slice(fewer).most(NVIDIA) == 8
    listed_again = EMPTY.with_slices([one]).with_slices([other]).slices
    assert listed_again is not None
    assert listed_again.most(NVIDIA) == 8
    assert len(found.without(one).without(other)) == 0


def test_a_file_without_slices_need_not_have_all() -> None:
    assert Snapshot.of().slices is None
    found = Snapshot.of(slices=[resource_slice("a", "a", gpus=8)]).slices
    assert found is not None
    assert found.most(NVIDIA) == 8


SELECTED = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
CLASSES = [
    device_class("gpu.nvidia.com", selector=SELECTED),
    device_class("any.nvidia.com", selector="device.driver == 'gpu.nvidia.com'"),
    device_class("odd", selector="true"),
]
SLICES = [resource_slice("a", "a", gpus=8), resource_slice("b", "b", type="mig", gpus=14)]


def test_the_largest_number_of_a_device_class_follows_from_what_it_certainly_selects() -> None:
    facts = ClusterFacts.of(device_classes=CLASSES, slices=SLICES)
    assert facts.device_classes() == ["any.nvidia.com", "gpu.nvidia.com", "odd"]
    found = [facts.most_devices(name) for name in ("gpu.nvidia.com", "any.nvidia.com", "odd", "missing")]
    assert found == [8, 14, None, None]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ClusterFacts.of(device_classes=CLASSES), id="no slices are known"),
        pytest.param(ClusterFacts.of(slices=SLICES), id="no classes are known"),
        pytest.param(
            ClusterFacts.of(device_classes=CLASSES, slices=SLICES).with_pools(
                (NodePool("p", gpu_resources=frozenset({"nvidia.com/gpu"}), gpus=4),)
            ),
            id="a pool has GPUs, and perhaps more of them",
        ),
    ],
)
def test_without_slices_or_with_a_pool_of_gpus_the_largest_number_is_unknown(facts: ClusterFacts) -> None:
    assert facts.most_devices("gpu.nvidia.com") is None


VERSIONS = {"driverVersion": "580.65.6", "cudaDriverVersion": "13.0.0"}
SAID = SliceDriver("580.65.6", "13.0.0")
SLICE = resource_slice("a", "a", attributes=VERSIONS)


def said(snapshot: Snapshot, name: str = "a") -> SliceDriver | None:
    return snapshot.nodes[name].kind.by_slices


def test_a_node_has_the_driver_that_its_slices_say_whichever_comes_first() -> None:
    nodes = [node("a", capacity={"nvidia.com/gpu": "8"}), node("b")]
    assert said(EMPTY.with_nodes(nodes).with_slices([SLICE])) == SAID
    assert said(EMPTY.with_slices([SLICE]).with_nodes(nodes)) == SAID
    assert said(EMPTY.with_slices([]).with_nodes(nodes).with_slice(SLICE)) == SAID
    assert said(EMPTY.with_slices([SLICE]).with_node(nodes[0])) == SAID
    listed_before = EMPTY.with_nodes(nodes)
    assert said(EMPTY.with_slices([SLICE]).with_nodes_of(listed_before)) == SAID
    assert said(EMPTY.with_nodes(nodes).with_slices([SLICE]), "b") is None


def test_a_node_keeps_nothing_of_slices_that_are_gone() -> None:
    snapshot = EMPTY.with_nodes([node("a")]).with_slices([SLICE])
    assert said(snapshot.without_slice(SLICE)) is None
    assert said(snapshot.with_slices([])) is None
    assert said(snapshot.with_slices(None)) is None
    newer = resource_slice("a", "a", attributes={"driverVersion": "590.1.1"}, generation=2)
    assert said(snapshot.with_slice(newer)) == SliceDriver("590.1.1")


@pytest.mark.parametrize(
    ("slices", "driver"),
    [
        pytest.param([resource_slice("a", "a", type="vfio", attributes=VERSIONS)], None, id="for virtual machines"),
        pytest.param([resource_slice("a", "a", driver="gpu.amd.com", attributes=VERSIONS)], None, id="of AMD"),
        pytest.param([resource_slice("a", "a")], SliceDriver(), id="nothing said"),
        pytest.param(
            [
                resource_slice("a", "a", attributes=VERSIONS, pool_slices=2),
                resource_slice("b", "a", attributes={"driverVersion": "570.1.1"}, pool_slices=2),
            ],
            SliceDriver(),
            id="two drivers",
        ),
    ],
)
def test_only_what_all_devices_for_containers_say_is_known(slices: list[Any], driver: SliceDriver | None) -> None:
    assert table(*slices).driver("a") == driver


def tainted(name: str, *taints: tuple[str, str], **slice_: Any) -> Any:
    """A slice with two devices, of which the first has these taints: keys with their effects."""
    raw = resource_slice(name, name, gpus=2, **slice_)
    raw["spec"]["devices"][0]["taints"] = [{"key": key, "effect": effect} for key, effect in taints]
    return raw


@pytest.mark.parametrize(
    ("slices", "tolerated", "expected"),
    [
        pytest.param([tainted("a", ("x/hot", "NoSchedule"))], [], (1, {"x/hot"}), id="one of two"),
        pytest.param([tainted("a", ("x/hot", "NoExecute"))], [], (1, {"x/hot"}), id="evicted as well"),
        pytest.param([tainted("a", ("x/hot", "None"))], [], (2, set()), id="for people to read"),
        pytest.param([tainted("a", ("x/hot", "Surprise"))], [], (2, set()), id="an unknown effect"),
        pytest.param([tainted("a", ("x/hot", "NoSchedule"))], ["x/hot"], (2, set()), id="tolerated"),
        pytest.param([tainted("a", ("x/hot", "NoSchedule"))], [""], (2, set()), id="all are tolerated"),
        pytest.param(
            [tainted("a", ("x/hot", "NoSchedule"), ("x/old", "NoSchedule"))],
            ["x/hot"],
            (1, {"x/old"}),
            id="one of them",
        ),
        pytest.param(
            [tainted("a", ("x/hot", "NoSchedule")), resource_slice("b", "b", gpus=2)],
            [],
            (2, {"x/hot"}),
            id="another node",
        ),
    ],
)
def test_tainted_devices_are_not_offered_to_those_who_do_not_tolerate_them(slices, tolerated, expected) -> None:
    facts = ClusterFacts.of(device_classes=CLASSES, slices=slices)
    assert facts.untainted_devices("gpu.nvidia.com", tolerated) == expected
    assert facts.most_devices("gpu.nvidia.com") == 2
    assert facts.untainted_devices("odd", tolerated) is None


def shared(name: str, memory: str, policy: Any = None, **device: Any) -> Any:
    """A slice with a device that several claims may share."""
    raw = resource_slice(name, name)
    capacity = {"memory": {"value": memory} | ({"requestPolicy": policy} if policy else {})}
    raw["spec"]["devices"][0] |= {"capacity": capacity, "allowMultipleAllocations": True, **device}
    return raw


@pytest.mark.parametrize(
    ("slices", "memory", "expected"),
    [
        pytest.param([shared("a", "80Gi")], 10, Fraction(1, 8), id="a part"),
        pytest.param([shared("a", "80Gi"), shared("b", "40Gi")], 10, Fraction(1, 4), id="the smallest device"),
        pytest.param([shared("a", "30Gi")], 10, Fraction(334, 1000), id="rounded up"),
        pytest.param([shared("a", "80Gi")], 100, 1, id="more than there is"),
        pytest.param([shared("a", "80Gi", {"validValues": ["20Gi", "40Gi"]})], 10, Fraction(1, 4), id="the next"),
        pytest.param([shared("a", "80Gi", {"validValues": ["5Gi"]})], 10, 1, id="no amount is enough"),
        pytest.param([shared("a", "80Gi", {"validRange": {"min": "16Gi"}})], 10, Fraction(1, 5), id="the least amount"),
        pytest.param(
            [shared("a", "80Gi", {"validRange": {"min": "4Gi", "step": "8Gi"}})], 10, Fraction(3, 20), id="a step"
        ),
        pytest.param([shared("a", "80Gi", allowMultipleAllocations=False)], 10, 1, id="not shared"),
        pytest.param([shared("a", "80Gi"), resource_slice("b", "b")], 10, 1, id="beside one that is not shared"),
        pytest.param([shared("a", "lots")], 10, 1, id="of no known whole"),
        pytest.param([], 10, 1, id="no device"),
    ],
)
def test_memory_of_a_device_is_a_part_of_it_where_slices_say_the_whole(slices, memory, expected) -> None:
    facts = ClusterFacts.of(device_classes=CLASSES, slices=slices)
    assert facts.part_of_device("gpu.nvidia.com", memory * 2**30) == expected
    assert facts.part_of_device("odd", memory * 2**30) == 1
