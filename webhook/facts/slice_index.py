"""The GPUs that nodes offer by ResourceSlices (DRA): for each node the kinds of devices and their number.

A pool is the slices of one driver that belong together. Only its newest generation counts, and where some of its slices
are missing, its number of devices is unknown. It is unknown as well where devices belong to no single node, or may be
allocated several times. An unknown number of one node makes the largest number unknown.

A driver that restarts may take its slices away for a while: the largest numbers that were seen are kept.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from webhook.model.resource_slices import (
    CountedDevices,
    DeviceKind,
    ResourceSlice,
    SliceDriver,
    driver_of_slices,
    slice_from_raw,
)

_UNTYPED = "-"
"""Stands for the type of devices whose type is not known."""

_Type = tuple[str, ...]
"""A driver, a type of its devices (`_UNTYPED` where it is not known), and perhaps a product of these."""


class NodeDevices(NamedTuple):
    """The GPUs that one node offers. `unknown` are the drivers that may offer more."""

    kinds: CountedDevices = ()
    unknown: frozenset[str] = frozenset()


NO_DEVICES = NodeDevices()


class _OfNode(NamedTuple):
    slices: tuple[ResourceSlice, ...] = ()
    devices: NodeDevices = NO_DEVICES

    def without(self, name: str) -> tuple[ResourceSlice, ...]:
        return tuple(one for one in self.slices if one.name != name)


_NOTHING = _OfNode()


class SliceTable:
    """All ResourceSlices of drivers of GPUs. A table is immutable: a change makes another one, which shares the rest.

    `earlier` are the largest numbers that were seen before.
    """

    def __init__(
        self, nodes: Mapping[str, _OfNode] = MappingProxyType({}), earlier: Mapping[_Type, int] = MappingProxyType({})
    ) -> None:
        self._nodes = nodes
        self._earlier = earlier

    @classmethod
    def of(cls, raws: Iterable[object]) -> "SliceTable":
        by_node: dict[str, dict[str, ResourceSlice]] = {}
        for found in filter(None, map(slice_from_raw, raws)):
            by_node.setdefault(found.node, {})[found.name] = found
        return cls({node: _of_node(tuple(here.values())) for node, here in by_node.items()})

    def __len__(self) -> int:
        return sum(len(one.slices) for one in self._nodes.values())

    def devices(self, node: str) -> NodeDevices:
        return self._nodes.get(node, _NOTHING).devices

    def driver(self, node: str) -> SliceDriver | None:
        """What the slices of a node say of its NVIDIA driver; None where they offer no GPU for containers."""
        return driver_of_slices(self.devices(node).kinds)

    def most(self, driver: str, kind: str = "") -> int | None:
        """The largest number of devices of a driver, and of this type, that one node offers or offered.

        None where it is unknown. Devices of an unknown type count as of every type.
        """
        if driver in self._unknown:
            return None
        return max(self._largest.get((driver, kind), 0), self._largest.get((driver, _UNTYPED), 0))

    def untainted(self, driver: str, kind: str, tolerated: Collection[str]) -> tuple[int, Set[str]]:
        """As `most`, but now and of devices without other taints than `tolerated` ones; and the keys of all others."""
        most, taints = 0, set[str]()
        for kinds in {one.devices.kinds for one in self._nodes.values()}:
            of_type = [one for one in kinds if one[0].driver == driver and (not kind or one[0].type in (kind, ""))]
            bars = [set() if "" in tolerated else set(one.taints).difference(tolerated) for one, _ in of_type]
            most = max(most, sum(number for (_, number), bar in zip(of_type, bars, strict=True) if not bar))
            taints.update(*bars)
        return most, taints

    def part(self, driver: str, kind: str, memory: int) -> Fraction:
        """The largest part of a device that so much of its memory is; 1 where it may be a whole one."""
        parts = [
            one.part(memory) for one in self._kinds if one.driver == driver and (not kind or one.type in (kind, ""))
        ]
        return max(parts, default=Fraction(1))

    @cached_property
    def _kinds(self) -> Set[DeviceKind]:
        return {kind for kinds in {one.devices.kinds for one in self._nodes.values()} for kind, _ in kinds}

    def products(self, driver: str, kind: str = "") -> frozenset[str]:
        """The products of the devices that `most` counts, of all nodes; the empty text for a device that says none."""
        of_driver = [place for place in self._largest if place[0] == driver]
        return frozenset([place[2] for place in of_driver if place[2:] and (not kind or place[1] in {kind, _UNTYPED})])

    def is_local(self, driver: str) -> bool:
        return all(one.driver != driver for one in self._nodes.get("", _NOTHING).slices)

    @cached_property
    def _unknown(self) -> frozenset[str]:
        return frozenset().union(*{one.devices.unknown for one in self._nodes.values()})

    @cached_property
    def _largest(self) -> Mapping[_Type, int]:
        of_nodes = {one.devices.kinds for one in self._nodes.values()}
        return _raised(self._earlier, *map(_numbers, of_nodes))

    def with_slice(self, raw: object) -> "SliceTable":
        """The table with a slice added or changed; the table itself where its content stays the same."""
        found = slice_from_raw(raw)
        if found is None or found in (here := self._nodes.get(found.node, _NOTHING)).slices:
            return self
        return self._with(found.node, (*here.without(found.name), found))

    def without(self, raw: object) -> "SliceTable":
        found = slice_from_raw(raw)
        here = _NOTHING if found is None else self._nodes.get(found.node, _NOTHING)
        if found is None or all(one.name != found.name for one in here.slices):
            return self
        return self._with(found.node, here.without(found.name))

    def after(self, earlier: "SliceTable") -> "SliceTable":
        """The table, which remembers the largest numbers of an earlier one."""
        return SliceTable(self._nodes, earlier._largest)

    def with_nodes_of(self, other: "SliceTable | None", gone: Collection[str] = ()) -> "SliceTable":
        """The table with the nodes of another one, and without nodes that are `gone`. Earlier numbers are forgotten."""
        nodes = {name: found for name, found in self._nodes.items() if name not in gone}
        return SliceTable({**({} if other is None else other._nodes), **nodes})

    def _with(self, node: str, slices: tuple[ResourceSlice, ...]) -> "SliceTable":
        nodes = {**self._nodes, node: _of_node(slices)}
        if not slices:
            del nodes[node]
        return SliceTable(nodes, _raised(self._earlier, _numbers(self.devices(node).kinds)))


def _of_node(slices: tuple[ResourceSlice, ...]) -> _OfNode:
    """What the newest generations of the pools of one node offer."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        pools.setdefault((one.driver, one.pool), []).append(one)
    kinds: Counter[DeviceKind] = Counter()
    unknown: set[str] = set()
    for (driver, _), pool in pools.items():
        newest = max(one.generation for one in pool)
        current = [one for one in pool if one.generation == newest]
        if len(current) != current[0].pool_slices or not all(one.is_bounded and one.node for one in current):
            unknown.add(driver)
        for one in current:
            kinds.update(dict(one.devices))
    return _OfNode(slices, _alike(NodeDevices(tuple(sorted(kinds.items(), key=str)), frozenset(unknown))))


@lru_cache(maxsize=4096)
def _alike(devices: NodeDevices) -> NodeDevices:
    return devices


@lru_cache(maxsize=4096)
def _numbers(kinds: CountedDevices) -> Mapping[_Type, int]:
    """The devices of each driver and type, and of their products; an untyped one counts for each type, too."""
    numbers: Counter[_Type] = Counter()
    for kind, number in kinds:
        numbers[kind.driver, ""] += number
        numbers[kind.driver, kind.type or _UNTYPED] += number
    for driver, kind_name in [one for one in numbers if one[1] not in {"", _UNTYPED}]:
        numbers[driver, kind_name] += numbers.get((driver, _UNTYPED), 0)
    return {**numbers, **{(kind.driver, kind.type or _UNTYPED, kind.product): number for kind, number in kinds}}


def _raised(numbers: Mapping[_Type, int], *others: Mapping[_Type, int]) -> Mapping[_Type, int]:
    """The larger one of all numbers; `numbers` itself where no number is larger."""
    raised = dict(numbers)
    for other in others:
        for key, number in other.items():
            raised[key] = max(number, raised.get(key, 0))
    return numbers if raised == numbers else raised
