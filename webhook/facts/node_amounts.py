"""Which nodes have how much of one resource, as sets of nodes.

Every node may have another amount of memory, so that one set for each amount would be as many sets as there are nodes,
each as long as the cluster is large. Sets are kept for some of the amounts, and the few nodes between two of them are
added when they are asked for.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from webhook.facts.node_sets import Mask, mask_of

_MOST_BETWEEN = 32
"""So many nodes, or fewer, are added one by one."""


class AmountColumn:
    """The amounts of one resource over all nodes. None stands for an amount that nobody knows."""

    def __init__(self, amounts: Iterable[int | None], size: int) -> None:
        placed = dict(enumerate(amounts))
        known = {place: amount for place, amount in placed.items() if amount is not None}
        order = sorted(known, key=known.__getitem__)
        self._amounts = [known[position] for position in order]
        self._positions = array("I", order)
        self._unknown = mask_of(placed.keys() - known.keys(), size)
        self._kept = dict(self._sets(size))

    def at_least(self, amount: int) -> Mask:
        """The nodes that have so much or more, and those of which nobody knows."""
        place = above = bisect_left(self._amounts, amount)
        while (mask := self._kept.get(above)) is None:
            above += 1
        for between in range(place, above):
            mask |= 1 << self._positions[between]
        return mask

    def largest(self, among: Mask) -> int | None:
        """The most that one of these nodes has, 0 where none has any, None where nobody knows it of one."""
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
        """Places in the amounts, from the last to the first, and the nodes that are there or later, or unknown."""
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
