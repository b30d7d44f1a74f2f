"""Requests of claims, and what is known about DeviceClasses."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from webhook.model.claims import CLAIM, Requests, claim_of_kind
from webhook.model.node import NodeClass
from webhook.quota.demand import looked_up


class Classes:
    """DeviceClasses by name: their extended resource, the most devices of a node, and the memory that claims share."""

    def __init__(
        self,
        extended: Mapping[str, str] | None = None,
        most: Mapping[str, int] | None = None,
        memory: Mapping[str, int] | None = None,
    ) -> None:
        self._extended, self._most, self._memory = extended or {}, most or {}, memory or {}
        self._nodes: dict[str, NodeClass] = {}

    def extended_resource(self, device_class: str) -> str:
        return self._extended.get(device_class, "")

    def part_of_device(self, device_class: str, memory: int) -> Fraction:
        return min(Fraction(memory, self._memory.get(device_class, memory)), Fraction(1))

    def most_devices(self, device_class: str) -> int | None:
        return self._most.get(device_class)

    def node_class(self, name: str) -> NodeClass | None:
        return self._nodes.get(name)


def exactly(count: int = 1, device_class: str = "gpu.nvidia.com", product: str = "", **more: Any) -> dict[str, Any]:
    """One request; `product` is the productName that its selector names."""
    found = {"deviceClassName": device_class, "count": count, **more}
    if product:
        expression = f'device.attributes["gpu.nvidia.com"].productName == "{product}"'
        found["selectors"] = [{"cel": {"expression": expression}}]
    return {"exactly": found}


def first_of(*alternatives: dict[str, Any]) -> dict[str, Any]:
    """One request with these alternatives."""
    return {"firstAvailable": [{"name": f"a{at}", **one["exactly"]} for at, one in enumerate(alternatives)]}


def claimed(*requests: dict[str, Any], classes: Classes | None = None) -> Requests:
    """The requests of a claim, looked up."""
    named = [{"name": f"r{at}", **one} for at, one in enumerate(requests)]
    claim = claim_of_kind(CLAIM, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": named}}})
    assert claim is not None
    return looked_up(claim.requests, classes or Classes())
