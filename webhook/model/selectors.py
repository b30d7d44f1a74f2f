"""Node selectors as Kubernetes matches them, and whether expressions imply or contradict each other.

Matching follows k8s.io/component-helpers/scheduling/corev1/nodeaffinity: NotIn and DoesNotExist match a node without
the label, the other operators do not; Gt and Lt compare integers; a term without expressions and fields matches
nothing; the expressions of a term are ANDed and the terms of a selector ORed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Operator(StrEnum):
    """The operators of a node selector requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Expression(NamedTuple):
    """One requirement on one node label. An unknown operator is kept as text; it matches and implies nothing."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            return f"{self.key} {self.operator}"
        return f"{self.key} {self.operator} [{', '.join(self.values)}]"

    def to_raw(self) -> dict[str, object]:
        raw: dict[str, object] = {"key": self.key, "operator": str(self.operator)}
        if self.values:
            raw["values"] = list(self.values)
        return raw

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.accepts(labels.get(self.key))

    def accepts(self, value: str | None) -> bool:
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                bound, number = self.bound, as_integer(value)
                if bound is not None and number is not None:
                    return number > bound if self.operator == Operator.GT else number < bound
        return False

    @property
    def bound(self) -> int | None:
        """The integer that Gt and Lt compare with; None where the value is no integer, and then they match nothing."""
        return as_integer(self.values[0]) if len(self.values) == 1 else None


@dataclass(frozen=True, slots=True)
class Term:
    """One alternative of a node selector: all expressions and all fields must match."""

    expressions: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()

    @property
    def matches_nothing(self) -> bool:
        """Whether Kubernetes never matches the term because it is empty."""
        return not self.expressions and not self.fields


def implies(stated: Iterable[Expression], wanted: Expression) -> bool:
    """Whether every node that satisfies all of `stated` also satisfies `wanted`; False where that is not certain.

    True where no node satisfies all of `stated`. Takes time linear in the number of values.

    >>> implies([Expression("zone", "In", ("a",))], Expression("zone", "In", ("a", "b")))
    True
    """
    same_key = [expression for expression in stated if expression.key == wanted.key]
    if not same_key:
        return False
    if wanted in same_key:
        return True
    said = _Combined(same_key)
    possible = said.possible
    if possible is not None:
        accepts = _Combined((wanted,)).accepts
        return all(accepts(value) for value in possible)
    if wanted.operator == Operator.NOT_IN:
        return not any(said.accepts(value) for value in wanted.values)
    return any(_covers(expression, wanted) for expression in same_key)


def contradicts(stated: Iterable[Expression], wanted: Expression) -> tuple[Expression, ...]:
    """The stated expressions that no node can satisfy together with `wanted`; empty where some node could.

    Takes time linear in the number of values.

    >>> contradicts([Expression("zone", "In", ("a",))], Expression("zone", "In", ("b",)))
    (Expression(key='zone', operator='In', values=('a',)),)
    """
    same_key = tuple(expression for expression in stated if expression.key == wanted.key)
    if not same_key:
        return ()
    together = _Combined((*same_key, wanted))
    possible = together.possible
    is_empty = together.is_range_empty if possible is None else not possible
    return same_key if is_empty else ()


class _Combined:
    """The meaning of several expressions on one label together. Each of their values is read once."""

    __slots__ = ("_barred", "_is_absent", "_is_present", "_is_unmet", "_listed", "_lower", "_upper")

    def __init__(self, expressions: Iterable[Expression]) -> None:
        self._listed: set[str] | None = None
        self._barred: set[str] = set()
        self._is_present = self._is_absent = self._is_unmet = False
        self._lower: int | None = None
        self._upper: int | None = None
        for expression in expressions:
            match expression.operator:
                case Operator.IN:
                    values = set(expression.values)
                    self._listed = values if self._listed is None else self._listed & values
                case Operator.NOT_IN:
                    self._barred.update(expression.values)
                case Operator.EXISTS:
                    self._is_present = True
                case Operator.DOES_NOT_EXIST:
                    self._is_absent = True
                case Operator.GT | Operator.LT:
                    self._compare(expression)
                case _:
                    self._is_unmet = True

    def _compare(self, expression: Expression) -> None:
        bound = expression.bound
        if bound is None:
            self._is_unmet = True
        elif expression.operator == Operator.GT:
            self._lower = bound if self._lower is None else max(self._lower, bound)
        else:
            self._upper = bound if self._upper is None else min(self._upper, bound)

    @property
    def _is_range(self) -> bool:
        return self._lower is not None or self._upper is not None

    @property
    def possible(self) -> set[str | None] | None:
        """The values that satisfy all expressions, None standing for no label; None where they cannot be listed."""
        if self._listed is None and not self._is_absent:
            return None
        candidates: Iterable[str | None] = (None,) if self._listed is None else self._listed
        return {value for value in candidates if self.accepts(value)}

    @property
    def is_range_empty(self) -> bool:
        return self._lower is not None and self._upper is not None and self._upper - self._lower <= 1

    def accepts(self, value: str | None) -> bool:
        if self._is_unmet:
            return False
        if value is None:
            return self._listed is None and not self._is_present and not self._is_range
        if self._is_absent or value in self._barred or (self._listed is not None and value not in self._listed):
            return False
        if not self._is_range:
            return True
        if (number := as_integer(value)) is None:
            return False
        return (self._lower is None or number > self._lower) and (self._upper is None or number < self._upper)


def _covers(stated: Expression, wanted: Expression) -> bool:
    """Whether `stated`, which does not list its values, implies `wanted`; both are about the same key."""
    match wanted.operator, stated.operator:
        case Operator.EXISTS, (Operator.GT | Operator.LT):
            return True
        case (Operator.GT, Operator.GT) | (Operator.LT, Operator.LT):
            bound, edge = stated.bound, wanted.bound
            return bound is not None and edge is not None and (wanted.accepts(str(bound)) or bound == edge)
    return False


def as_integer(text: str | None) -> int | None:
    """A label value as an integer, as Kubernetes reads it (strconv.ParseInt, 64 bits); None for other values."""
    if text is None or not text.isascii() or "_" in text or text != text.strip():
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None
