"""GPU pods run only on the nodes that the platform names.

What the policy requires is added to the pod's own nodeSelector and affinity, which keep their meaning. A pod whose own
placement contradicts the policy is refused, with both in the message.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from webhook.model.edits import PreferNodes, RequireNodes
from webhook.model.pod import Pod
from webhook.model.requirements import living_terms, requiring, selected
from webhook.model.selectors import Expression, contradicts, implies
from webhook.model.wording import cut
from webhook.rules.claimed_gpus import certain_claims, gets_any
from webhook.rules.names import LabelKey, LabelValue, ResourceGlobs
from webhook.rules.rule import Example, Facts, Rule, Stage, Violation, training_pod
from webhook.rules.rule_settings import IfMissing, InjectionSettings
from webhook.yaml_files.camel_model import CamelModel

_MOST_SHOWN, _LONGEST_SHOWN = 8, 500
"""Expressions of a pod that a message shows, and characters of each."""


class NodeExpression(CamelModel):
    """One requirement on a node label, as it would stand in a node affinity."""

    model_config = ConfigDict(populate_by_name=True)

    key: LabelKey
    """Node label key, such as `nvidia.com/gpu.present`."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """Operator of a node selector requirement."""
    values: tuple[LabelValue, ...] = ()
    """Label values: one or more for `In` and `NotIn`, one integer for `Gt` and `Lt`, none for others."""

    @model_validator(mode="after")
    def _is_valid_in_a_pod(self) -> "NodeExpression":
        match self.operator:
            case "In" | "NotIn" if not self.values:
                raise ValueError(f"operator {self.operator} needs values, a list of label values")
            case "Exists" | "DoesNotExist" if self.values:
                raise ValueError(f"operator {self.operator} takes no values; remove them")
            case "Gt" | "Lt" if self.expression.bound is None:
                raise ValueError(f"operator {self.operator} needs one value, an integer in quotes")
        return self

    @cached_property
    def expression(self) -> Expression:
        return Expression(self.key, self.operator, self.values)


class NodePreference(NodeExpression):
    """A requirement that the scheduler tries to meet."""

    weight: Annotated[int, Field(ge=1, le=100)] = 1
    """Weight of the preference, 1 to 100."""
    resources: ResourceGlobs = ()
    """Globs of GPU resource names, such as `amd.com/*`: for pods that request one. Empty: for every GPU pod."""


class Settings(InjectionSettings):
    """Settings of `nodeAffinity`."""

    required: tuple[NodeExpression, ...] = ()
    """Expressions that every node of a GPU pod must satisfy. They are added to each nodeSelectorTerm of the pod,
    because terms are ORed."""
    preferred: tuple[NodePreference, ...] = ()
    """Expressions that nodes of a GPU pod should satisfy, with weights. Karpenter treats these as requirements."""
    if_missing: IfMissing = IfMissing.REFUSE
    """What happens to a pod that reaches validation without a required expression, because another webhook removed it.
    A missing preference only warns."""

    @model_validator(mode="after")
    def _leaves_nodes(self) -> "Settings":
        required = [entry.expression for entry in self.required]
        for index, wanted in enumerate(required):
            if stated := contradicts(required[:index], wanted):
                raise ValueError(f"required: no node satisfies {' and '.join(map(str, (*stated, wanted)))}; remove one")
        return self


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[RequireNodes | PreferNodes]:
    """Add the required expressions to every term, and the preferences that the pod does not have."""
    claimed = certain_claims(pod, facts)
    if not pod.gpus and not claimed:
        return
    edits = [edit for entry in settings.required for edit in requiring(pod, entry.expression)]
    if edits:
        excluded = _excluded(pod, settings)
        yield from (edit for edit in edits if edit.expression not in excluded)
    for preference in settings.preferred:
        wanted = preference.expression
        stated = any(wanted in term.expressions for term in pod.preferred)
        if gets_any(pod, claimed, preference.resources) and not stated and not _implied_by_all(pod, wanted):
            yield PreferNodes(wanted, preference.weight)


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse a pod whose own placement contradicts a required expression."""
    if not pod.gpus and not certain_claims(pod, facts):
        return
    for wanted, (place, stated) in _excluded(pod, settings).items():
        yield Violation(
            f"spec.{place}",
            f"requires {_shown(stated)}",
            f"the policy requires {wanted}",
            f"Change or remove {wanted.key} in {place.rpartition('.')[2]}",
        )


def _shown(stated: Sequence[Expression]) -> str:
    shown = [cut(str(expression), _LONGEST_SHOWN) for expression in stated[:_MOST_SHOWN]]
    if len(stated) > _MOST_SHOWN:
        shown.append(f"{len(stated) - _MOST_SHOWN} more")
    return " and ".join(shown)


def _implied_by_all(pod: Pod, wanted: Expression) -> bool:
    selector = selected(pod, wanted.key)
    terms = living_terms(pod)
    return implies(selector, wanted) or (
        bool(terms) and all(implies((*selector, *term.expressions), wanted) for term in terms)
    )


def _excluded(pod: Pod, settings: Settings) -> Mapping[Expression, tuple[str, Sequence[Expression]]]:
    """The required expressions that the pod contradicts, each with a place in the pod and the expressions there.

    Terms are alternatives: as long as one of them contradicts no required expression, none counts as contradicted.
    """
    required = [entry.expression for entry in settings.required]
    by_selector = {one: stated for one in required if (stated := contradicts(selected(pod, one.key), one))}
    by_terms: dict[Expression, dict[Expression, None]] = {}
    for term in living_terms(pod):
        found = {
            one: stated
            for one in required
            if one not in by_selector and (stated := contradicts((*selected(pod, one.key), *term.expressions), one))
        }
        if not found:
            by_terms = {}
            break
        for wanted, stated in found.items():
            by_terms.setdefault(wanted, {}).update(dict.fromkeys(stated))
    of_terms = {wanted: ("affinity.nodeAffinity", list(stated)) for wanted, stated in by_terms.items()}
    return {wanted: ("nodeSelector", stated) for wanted, stated in by_selector.items()} | of_terms


_POOL = {"required": [{"key": "example.com/pool", "operator": "In", "values": ["training"]}]}

RULE = Rule(
    key="nodeAffinity",
    promise="GPU pods run only on the nodes that the platform names.",
    problem="Training lands on the nodes that were kept for inference, and the other way round.",
    example=Example(training_pod("nodeSelector: {example.com/pool: inference}"), _POOL),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    stage=Stage.PLACEMENT,
    validates_own_injection=True,
    can_mutate=lambda settings: bool(settings.required or settings.preferred),
    can_validate=lambda settings: bool(settings.required),
    references=lambda settings: [entry.expression for entry in (*settings.required, *settings.preferred)],
)
