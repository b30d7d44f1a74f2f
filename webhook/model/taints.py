"""Taints and tolerations as the scheduler compares them (k8s.io/component-helpers/scheduling/corev1)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from webhook.model.selectors import as_integer

COMPARING = frozenset({"Gt", "Lt"})
"""Operators that compare a taint's value as a number (TaintTolerationComparisonOperators, alpha in Kubernetes 1.35)."""


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods away from a node."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """What lets a pod onto a tainted node. `seconds` is None where the toleration does not end."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    def to_raw(self) -> dict[str, object]:
        """The toleration as it stands in a pod."""
        raw: dict[str, object] = {"operator": self.operator}
        if self.key:
            raw["key"] = self.key
        if self.operator != "Exists":
            raw["value"] = self.value
        if self.effect:
            raw["effect"] = self.effect
        if self.seconds is not None:
            raw["tolerationSeconds"] = self.seconds
        return raw

    def tolerates(self, taint: Taint) -> bool:
        """Whether the scheduler lets a pod with this toleration onto a node with this taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        if self.operator in COMPARING:
            mine, other = as_integer(self.value), as_integer(taint.value)
            if not self.key or mine is None or other is None:
                return False
            return other > mine if self.operator == "Gt" else other < mine
        return self.operator == "Equal" and bool(self.key) and self.value == taint.value

    def covers(self, other: "Toleration") -> bool:
        """Whether everything that `other` tolerates is tolerated by this one for at least as long."""
        if self.effect and self.effect != other.effect:
            return False
        if self.key and self.key != other.key:
            return False
        if not self.key and self.operator != "Exists":
            return False
        if self.seconds is not None and (other.seconds is None or other.seconds > self.seconds):
            return False
        return self.operator == "Exists" or (self.operator == other.operator and self.value == other.value)


def toleration_from_raw(raw: Mapping[str, object]) -> Toleration:
    """A pod's toleration; missing parts take the API server's defaults."""
    seconds = raw.get("tolerationSeconds")
    return Toleration(
        str(raw.get("key") or ""),
        str(raw.get("operator") or "Equal"),
        str(raw.get("value") or ""),
        str(raw.get("effect") or ""),
        seconds if isinstance(seconds, int) else None,
    )


def distinct(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """One of all those that tolerate the same taints, and of those that compare numbers only the loosest.

    What is left of thousands are those with a value, of which a taint has one, and a few for each key.

    >>> [one.value for one in distinct([Toleration("sku", "Gt", bound) for bound in ("7", "3", "5")])]
    ['3']
    """
    found: dict[tuple[str, ...], Toleration] = {}
    for one in tolerations:
        compares = one.operator in COMPARING
        place = (one.key, one.operator, "" if compares or one.operator == "Exists" else one.value, one.effect)
        if place not in found or (compares and _is_looser(one, found[place])):
            found[place] = one
    return tuple(found.values())


def _is_looser(one: Toleration, other: Toleration) -> bool:
    """Whether one of two that compare alike tolerates more numbers. One without a number tolerates none."""
    mine, theirs = as_integer(one.value), as_integer(other.value)
    if mine is None or theirs is None:
        return theirs is None
    return mine < theirs if one.operator == "Gt" else mine > theirs
