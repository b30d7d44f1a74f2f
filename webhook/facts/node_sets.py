"""Sets of nodes as integers: bit i stands for the i-th node.

Python combines integers 30 bits at a time, so a question about 5,000 nodes costs some hundred nanoseconds, hardly more
than one about 10, and a pod that lists many conditions pays for its own length and not for the cluster's size.
"""

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

    A value that a single node has, such as a host name, is kept as the node's position: as a mask each would be as long
    as the cluster is large.
    """

    def __init__(self, values: Iterable[str | None], size: int) -> None:
        positions: dict[str, list[int]] = {}
        for position, value in enumerate(values):
            if value is not None:
                positions.setdefault(value, []).append(position)
        self._single = {value: places[0] for value, places in positions.items() if len(places) == 1}
        self._several = {value: mask_of(places, size) for value, places in positions.items() if len(places) > 1}
        self.present = mask_of((place for places in positions.values() for place in places), size)

    def equal(self, value: str) -> Mask:
        """The nodes whose label has this value."""
        mask = self._several.get(value)
        if mask is not None:
            return mask
        position = self._single.get(value)
        return 0 if position is None else 1 << position

    @property
    def values(self) -> list[str]:
        """All values, sorted."""
        return sorted([*self._single, *self._several])

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
        """The values that are integers, ascending, and for each the nodes that have it or a larger one; then nobody."""
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
        yield from self._several.items()
        for value, position in self._single.items():
            yield value, 1 << position


NO_COLUMN = LabelColumn((), 0)
"""A label that no node has."""
