"""Node selectors as Kubernetes matches them, and what one expression says about another.

Matching follows k8s.io/component-helpers/scheduling/corev1/nodeaffinity: NotIn and DoesNotExist match a node without
the label, the other operators do not; Gt and Lt compare integers; a term without expressions and fields matches
nothing; the expressions of a term are ANDed and the terms of a selector ORed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """The operators of a node selector requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement on one node label. An operator unknown to us is kept as text and never matched or implied."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            return f"{self.key} {self.operator}"
        return f"{self.key} {self.operator} [{', '.join(self.values)}]"

    def to_raw(self) -> dict[str, object]:
        """The expression as it stands in a pod."""
        raw: dict[str, object] = {"key": self.key, "operator": str(self.operator)}
        if self.values:
            raw["values"] = list(self.values)
        return raw

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels satisfies the expression."""
        return self.accepts(labels.get(self.key))

    def accepts(self, value: str | None) -> bool:
        """Whether a node whose label has this value (None: no such label) satisfies the expression."""
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
                return self._compares(value)
        return False

    @property
    def bound(self) -> int | None:
        """The integer that Gt and Lt compare with; None where there is none, and then they match nothing."""
        return as_integer(self.values[0]) if len(self.values) == 1 else None

    def _compares(self, value: str | None) -> bool:
        bound = self.bound
        number = as_integer(value)
        if bound is None or number is None:
            return False
        return number > bound if self.operator == Operator.GT else number < bound


@dataclass(frozen=True, slots=True)
class Term:
    """One alternative of a node selector: all expressions and all fields must match."""

    expressions: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()

    @property
    def matches_nothing(self) -> bool:
        """Whether Kubernetes never matches this term because it says nothing."""
        return not self.expressions and not self.fields


def implies(stated: Iterable[Expression], wanted: Expression) -> bool:
    """Whether every node that satisfies all of `stated` also satisfies `wanted`; False where that is not certain.

    Where no node satisfies all of `stated`, nothing can be added to them that matters, and the answer is True.

    >>> implies([Expression("zone", "In", ("a",))], Expression("zone", "In", ("a", "b")))
    True
    """
    same_key = [expression for expression in stated if expression.key == wanted.key]
    if not same_key:
        return False
    possible = _possible_values(same_key)
    if possible is not None:
        return all(wanted.accepts(value) for value in possible)
    if wanted.operator == Operator.NOT_IN:
        return all(any(not expression.accepts(value) for expression in same_key) for value in wanted.values)
    return any(_covers(expression, wanted) for expression in same_key)


def contradicts(stated: Iterable[Expression], wanted: Expression) -> tuple[Expression, ...]:
    """The stated expressions that no node can satisfy together with `wanted`; empty where some node could.

    >>> contradicts([Expression("zone", "In", ("a",))], Expression("zone", "In", ("b",)))
    (Expression(key='zone', operator='In', values=('a',)),)
    """
    same_key = tuple(expression for expression in stated if expression.key == wanted.key)
    if not same_key:
        return ()
    together = (*same_key, wanted)
    possible = _possible_values(together)
    if possible is not None:
        return () if possible else same_key
    return same_key if _empty_range(together) else ()


def _possible_values(expressions: Iterable[Expression]) -> set[str | None] | None:
    """The label values that satisfy all expressions, None standing for no label; None where they cannot be listed."""
    expressions = tuple(expressions)
    listed = next((e.values for e in expressions if e.operator == Operator.IN), None)
    if listed is not None:
        candidates: set[str | None] = set(listed)
    elif any(e.operator == Operator.DOES_NOT_EXIST for e in expressions):
        candidates = {None}
    else:
        return None
    return {value for value in candidates if all(e.accepts(value) for e in expressions)}


def _covers(stated: Expression, wanted: Expression) -> bool:
    """Whether one expression that does not list its values implies another on the same key."""
    if stated == wanted:
        return True
    match wanted.operator, stated.operator:
        case Operator.EXISTS, (Operator.GT | Operator.LT):
            return True
        case (Operator.GT, Operator.GT) | (Operator.LT, Operator.LT):
            bound, edge = stated.bound, wanted.bound
            return bound is not None and edge is not None and (wanted.accepts(str(bound)) or bound == edge)
    return False


def _empty_range(expressions: Iterable[Expression]) -> bool:
    """Whether the Gt and Lt bounds leave no integer between them."""
    expressions = tuple(expressions)
    lower = [expression.bound for expression in expressions if expression.operator == Operator.GT]
    upper = [expression.bound for expression in expressions if expression.operator == Operator.LT]
    return any(low is not None and high is not None and high - low <= 1 for low in lower for high in upper)


_LONGEST_NUMBER = 256
"""Most characters that are read as a number. Label values have at most 63, and leading zeros are legal."""


def as_integer(text: str | None) -> int | None:
    """A label value as Kubernetes' integer comparison reads it (strconv.ParseInt, 64 bits), or None."""
    if text is None or len(text) > _LONGEST_NUMBER or not text.isascii() or "_" in text or text != text.strip():
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None
