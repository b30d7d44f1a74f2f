"""The affinity of a pod as it is written: the terms about nodes, and whether there are any about other pods."""

from collections.abc import Mapping
from typing import Any

from webhook.model.selectors import Expression, Term
from webhook.model.shape import ShapeError, each, mapping, text

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_terms(affinity: Mapping[str, Any]) -> tuple[tuple[Term, ...] | None, tuple[Term, ...]]:
    """Required terms, None where there is no required node affinity, and preferred ones.

    Raises ShapeError, which names the place in the spec.
    """
    nodes = mapping(affinity.get("nodeAffinity"), "affinity", "nodeAffinity")
    if not nodes:
        return None, ()
    try:
        return _required(nodes), each(nodes, _PREFERRED, _preference)
    except ShapeError as error:
        raise error.inside("affinity", "nodeAffinity") from None


def has_anti_affinity(affinity: Mapping[str, Any]) -> bool:
    """Whether there is any term about pods to stay away from; empty lists say nothing.

    Raises ShapeError, which names the place in the spec.
    """
    terms = affinity.get("podAntiAffinity")
    return bool(terms) and any(mapping(terms, "affinity", "podAntiAffinity").values())


def _required(nodes: Mapping[str, Any]) -> tuple[Term, ...] | None:
    selector = nodes.get(_REQUIRED)
    if selector is None:
        return None
    try:
        return each(mapping(selector), "nodeSelectorTerms", _term)
    except ShapeError as error:
        raise error.inside(_REQUIRED) from None


def _preference(raw: object) -> Term:
    try:
        return _term(mapping(raw).get("preference"))
    except ShapeError as error:
        raise error.inside("preference") from None


def _term(raw: object) -> Term:
    term = mapping(raw)
    return Term(each(term, "matchExpressions", _expression), each(term, "matchFields", _expression))


def _expression(raw: object) -> Expression:
    expression = mapping(raw)
    return Expression(
        text(expression.get("key"), "key"),
        text(expression.get("operator"), "operator"),
        each(expression, "values", text),
    )
