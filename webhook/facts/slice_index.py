"""The GPUs that nodes offer by ResourceSlices (DRA): for each node the kinds of devices and their number.

A pool is the slices of one driver that belong together. Only its newest generation counts, and where some of its slices
are missing, its number of devices is unknown. So it is where devices belong to no single node, or may be allocated
several times. An unknown number of one node makes the largest number unknown.

Drivers write slices, so memory for them is bounded, for each node and for the cluster. What does not fit makes numbers
unknown. A driver that restarts may take its slices away for a while: the largest numbers that were seen are kept.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from webhook.model.resource_slices import (
    GPU_DRIVERS,
    CountedDevices,
    DeviceKind,
    ResourceSlice,
    SliceDriver,
    driver_of_slices,
    slice_from_raw,
)

MOST_OF_NODE = 64
"""Most slices of one node that are kept, and most that belong to no node."""
MOST_NODES = 20_000
"""Most nodes whose slices are kept."""
MOST_TYPES = 256
"""Most types of devices, and products of each, whose largest numbers are kept."""
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
    """The slices of one node, and what follows from them. `is_overfull`: there were more slices than are kept."""

    slices: tuple[ResourceSlice, ...] = ()
    devices: NodeDevices = NO_DEVICES
    is_overfull: bool = False

    def having(self, slices: tuple[ResourceSlice, ...], *, is_overfull: bool) -> "_OfNode":
        is_overfull = is_overfull or self.is_overfull
        return _OfNode(slices, _devices(slices, is_overfull=is_overfull), is_overfull)

    def without(self, name: str) -> tuple[ResourceSlice, ...]:
        return tuple(one for one in self.slices if one.name != name)


_NOTHING = _OfNode()


class SliceTable:
    """All ResourceSlices of drivers of GPUs. A table is immutable: a change makes another one, which shares the rest.

    `earlier` are the largest numbers that were seen before. `is_overfull`: there were slices of more nodes, or devices
    of more types, than are kept, so that no number is known.
    """

    def __init__(
        self,
        nodes: Mapping[str, _OfNode] = MappingProxyType({}),
        earlier: Mapping[_Type, int] = MappingProxyType({}),
        *,
        is_overfull: bool = False,
    ) -> None:
        self._nodes = nodes
        self._earlier = earlier
        self._is_overfull = is_overfull or len(earlier) > MOST_TYPES

    @classmethod
    def of(cls, raws: Iterable[object]) -> "SliceTable":
        by_node: dict[str, dict[str, ResourceSlice]] = {}
        overfull: set[str] = set()
        is_overfull = False
        for found in filter(None, map(slice_from_raw, raws)):
            if found.node not in by_node and len(by_node) >= MOST_NODES:
                is_overfull = True
                continue
            here = by_node.setdefault(found.node, {})
            if found.name in here or len(here) < MOST_OF_NODE:
                here[found.name] = found
            else:
                overfull.add(found.node)
        nodes = {
            node: _NOTHING.having(tuple(here.values()), is_overfull=node in overfull) for node, here in by_node.items()
        }
        return cls(nodes, is_overfull=is_overfull)

    def __len__(self) -> int:
        return sum(len(one.slices) for one in self._nodes.values())

    def devices(self, node: str) -> NodeDevices:
        return self._nodes.get(node, _NOTHING).devices

    def driver(self, node: str) -> SliceDriver | None:
        """What the slices of a node say of its NVIDIA driver; None where they offer no GPU for containers."""
        return driver_of_slices(self.devices(node).kinds)

    def most(self, driver: str, kind: str = "") -> int | None:
        """The largest number of devices of a driver, and of this type, that one node offers or offered.

        None where it is unknown. Devices of which no type is known count as of every type.
        """
        if self._is_overfull or driver in self._unknown:
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
        return Fraction(1) if self._is_overfull else max(parts, default=Fraction(1))

    @cached_property
    def _kinds(self) -> Set[DeviceKind]:
        return {kind for kinds in {one.devices.kinds for one in self._nodes.values()} for kind, _ in kinds}

    def products(self, driver: str, kind: str = "") -> frozenset[str]:
        """The products of the devices that `most` counts, of all nodes; the empty text for a device that says none."""
        of_driver = [place for place in self._largest if place[0] == driver]
        return frozenset([place[2] for place in of_driver if place[2:] and (not kind or place[1] in {kind, _UNTYPED})])

    def is_local(self, driver: str) -> bool:
        return not self._is_overfull and all(one.driver != driver for one in self._nodes.get("", _NOTHING).slices)

    @cached_property
    def _unknown(self) -> frozenset[str]:
        return frozenset().union(*{one.devices.unknown for one in self._nodes.values()})

    @cached_property
    def _largest(self) -> Mapping[_Type, int]:
        of_nodes = {one.devices.kinds for one in self._nodes.values()}
        return _raised(self._earlier, *map(_numbers, of_nodes))

    def with_slice(self, raw: object) -> "SliceTable":
        found = slice_from_raw(raw)
        if found is None:
            return self
        here = self._nodes.get(found.node, _NOTHING)
        if found in here.slices:
            return self
        if found.node not in self._nodes and len(self._nodes) >= MOST_NODES:
            return self if self._is_overfull else SliceTable(self._nodes, self._earlier, is_overfull=True)
        others = here.without(found.name)
        if len(others) >= MOST_OF_NODE:
            return self if here.is_overfull else self._with(found.node, here.having(here.slices, is_overfull=True))
        return self._with(found.node, here.having((*others, found), is_overfull=False))

    def without(self, raw: object) -> "SliceTable":
        found = slice_from_raw(raw)
        here = _NOTHING if found is None else self._nodes.get(found.node, _NOTHING)
        if found is None or all(one.name != found.name for one in here.slices):
            return self
        return self._with(found.node, here.having(here.without(found.name), is_overfull=False))

    def after(self, earlier: "SliceTable") -> "SliceTable":
        return SliceTable(self._nodes, earlier._largest, is_overfull=self._is_overfull)

    def with_nodes_of(self, other: "SliceTable | None", gone: Collection[str] = ()) -> "SliceTable":
        """The table with the nodes of another one, and without those that are `gone`. Earlier numbers are forgotten."""
        nodes = {name: found for name, found in self._nodes.items() if name not in gone}
        added = {} if other is None else other._nodes
        return SliceTable(
            {**added, **nodes}, is_overfull=self._is_overfull or (other is not None and other._is_overfull)
        )

    def _with(self, node: str, of_node: _OfNode) -> "SliceTable":
        earlier = self._earlier if self._is_overfull else _raised(self._earlier, _numbers(self.devices(node).kinds))
        nodes = {**self._nodes, node: of_node}
        if not of_node.slices and not of_node.is_overfull:
            del nodes[node]
        return SliceTable(nodes, earlier, is_overfull=self._is_overfull)


def _devices(slices: Iterable[ResourceSlice], *, is_overfull: bool) -> NodeDevices:
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        pools.setdefault((one.driver, one.pool), []).append(one)
    kinds: Counter[DeviceKind] = Counter()
    unknown = set(GPU_DRIVERS) if is_overfull else set()
    for (driver, _), pool in pools.items():
        newest = max(one.generation for one in pool)
        current = [one for one in pool if one.generation == newest]
        if len(current) != current[0].pool_slices or not all(one.is_bounded and one.node for one in current):
            unknown.add(driver)
        for one in current:
            kinds.update(dict(one.devices))
    return _alike(NodeDevices(tuple(sorted(kinds.items(), key=str)), frozenset(unknown)))


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
