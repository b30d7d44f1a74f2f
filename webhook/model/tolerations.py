"""Taints and tolerations as the scheduler compares them (k8s.io/component-helpers/scheduling/corev1)."""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.model.selectors import as_integer

COMPARING = frozenset({"Gt", "Lt"})
"""Operators that compare a taint's value as a number (TaintTolerationComparisonOperators, alpha in Kubernetes 1.35)."""


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods away from a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
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
