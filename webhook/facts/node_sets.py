"""Sets of nodes as integers: bit i stands for the i-th node.

Python combines integers 30 bits at a time. So a question about 5,000 nodes takes some hundred nanoseconds, hardly more
than a question about 10 nodes. The time for a pod with many conditions grows with the conditions, not with the cluster.

`AmountColumn` has the nodes with at least some amount of a resource. Every node may have another amount of memory; one
set for each amount would take memory that grows with the square of the number of nodes. So sets are kept for some
amounts, and the few nodes between two of them are added when a question needs them.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property

from webhook.model.selectors import Expression, Operator, as_integer

Mask = int
"""A set of nodes."""


def mask_of(positions: Iterable[int], size: int) -> Mask:
    """The set of the nodes at these positions, all below `size`."""
    bits = bytearray(size // 8 + 1)
    for position in positions:
        bits[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(bits, "little")


class LabelColumn:
    """The values that one label has over all nodes.

    For a value of a single node, such as a host name, the complement of the node's position is kept, which is negative,
    and shorter than a mask.
    """

    def __init__(self, values: Iterable[str | None], size: int) -> None:
        positions: dict[str, list[int]] = {}
        for position, value in enumerate(values):
            if value is not None:
                positions.setdefault(value, []).append(position)
        self._kept = {
            value: ~places[0] if len(places) == 1 else mask_of(places, size) for value, places in positions.items()
        }
        self.present = mask_of((place for places in positions.values() for place in places), size)

    def equal(self, value: str) -> Mask:
        kept = self._kept.get(value, 0)
        return kept if kept >= 0 else 1 << ~kept

    @property
    def values(self) -> list[str]:
        """All values, sorted."""
        return sorted(self._kept)

    def matching(self, expression: Expression, everything: Mask) -> Mask:
        """The nodes of `everything` that satisfy an expression on this label."""
        match expression.operator:
            case Operator.IN:
                return self._one_of(expression.values)
            case Operator.NOT_IN:
                return everything & ~self._one_of(expression.values)
            case Operator.EXISTS:
                return self.present
            case Operator.DOES_NOT_EXIST:
                return everything & ~self.present
            case Operator.GT | Operator.LT:
                return self._compared(expression)
        return 0

    def _one_of(self, values: Iterable[str]) -> Mask:
        mask = 0
        for value in values:
            mask |= self.equal(value)
        return mask

    def _compared(self, expression: Expression) -> Mask:
        bound = as_integer(expression.values[0]) if len(expression.values) == 1 else None
        if bound is None:
            return 0
        numbers, from_here_up = self._numbers
        if expression.operator == Operator.GT:
            return from_here_up[bisect_right(numbers, bound)]
        return from_here_up[0] & ~from_here_up[bisect_left(numbers, bound)]

    @cached_property
    def _numbers(self) -> tuple[list[int], list[Mask]]:
        """The integers among the values, ascending; and for each the nodes with this value or a larger one, then 0."""
        by_number: dict[int, Mask] = {}
        for value, mask in self._each():
            number = as_integer(value)
            if number is not None:
                by_number[number] = by_number.get(number, 0) | mask
        numbers = sorted(by_number)
        masks = [0]
        for number in reversed(numbers):
            masks.append(masks[-1] | by_number[number])
        masks.reverse()
        return numbers, masks

    def _each(self) -> Iterator[tuple[str, Mask]]:
        for value in self._kept:
            yield value, self.equal(value)


NO_COLUMN = LabelColumn((), 0)
"""A label that no node has."""


_MOST_BETWEEN = 32
"""Least number of nodes between two sets that are kept."""


class AmountColumn:
    """The amounts of one resource over all nodes. None stands for an unknown amount."""

    def __init__(self, amounts: Iterable[int | None], size: int) -> None:
        placed = dict(enumerate(amounts))
        known = {place: amount for place, amount in placed.items() if amount is not None}
        order = sorted(known, key=known.__getitem__)
        self._amounts = [known[position] for position in order]
        self._positions = array("I", order)
        self._unknown = mask_of(placed.keys() - known.keys(), size)
        self._kept = dict(self._sets(size))
        self._starts = sorted(self._kept)

    def at_least(self, amount: int) -> Mask:
        """The nodes with this amount or more, and the nodes with an unknown amount."""
        place = bisect_left(self._amounts, amount)
        above = self._starts[bisect_left(self._starts, place)]
        mask = self._kept[above]
        for between in range(place, above):
            mask |= 1 << self._positions[between]
        return mask

    def largest(self, among: Mask) -> int | None:
        """The largest amount on one of these nodes; 0 where they have none, None where an amount is unknown."""
        if among & self._unknown:
            return None
        above = len(self._amounts)
        for place, mask in self._kept.items():
            if mask & among:
                between = reversed(range(place, above))
                return next(self._amounts[at] for at in between if among >> self._positions[at] & 1)
            above = place
        return 0

    def _sets(self, size: int) -> Iterator[tuple[int, Mask]]:
        """Places in the amounts, from the last to the first, each with the nodes from there on and the unknown ones."""
        mask = self._unknown
        above = place = len(self._amounts)
        yield place, mask
        while place:
            place = bisect_left(self._amounts, self._amounts[place - 1])
            if not place or above - place >= _MOST_BETWEEN:
                mask |= mask_of(self._positions[place:above], size)
                above = place
                yield place, mask


NO_AMOUNTS = AmountColumn((), 0)
"""A GPU resource that no node has."""
