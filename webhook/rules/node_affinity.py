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
from webhook.rules.claimed_gpus import Alternatives, all_are_of, certain_of, claimed_gpus
from webhook.rules.names import LabelKey, LabelValue, ResourceGlobs, requests_any
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
    """Label values: one or more for `In` and `NotIn`, one integer for `Gt` and `Lt`, none for the others."""

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
        """The requirement as a value."""
        return Expression(self.key, self.operator, self.values)


class NodePreference(NodeExpression):
    """A requirement that the scheduler tries to meet."""

    weight: Annotated[int, Field(ge=1, le=100)] = 1
    """Weight of the preference, 1 to 100."""
    resources: ResourceGlobs = ()
    """Globs of GPU resource names, such as `amd.com/*`; only pods that request one of these resources get the
    preference. Empty: every GPU pod."""


class Settings(InjectionSettings):
    """Settings of `nodeAffinity`."""

    required: tuple[NodeExpression, ...] = ()
    """Expressions that every node of a GPU pod must satisfy. They are added to each nodeSelectorTerm of the pod,
    because terms are ORed, and left out where the pod's nodeSelector or the term implies them already."""
    preferred: tuple[NodePreference, ...] = ()
    """Expressions that nodes of a GPU pod should satisfy, each with a `weight` from 1 to 100. Karpenter treats
    preferences as requirements; where no node satisfies all of them, it drops the pod's own preferences before
    these."""
    if_missing: IfMissing = IfMissing.REFUSE
    """What happens to a pod that reaches validation without a required expression, because another webhook removed it:
    `refuse` or `warn`. A missing preference brings a warning only."""

    @model_validator(mode="after")
    def _leaves_nodes(self) -> "Settings":
        required = [entry.expression for entry in self.required]
        for index, wanted in enumerate(required):
            if stated := contradicts(required[:index], wanted):
                raise ValueError(f"required: no node satisfies {' and '.join(map(str, (*stated, wanted)))}; remove one")
        return self


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[RequireNodes | PreferNodes]:
    """Add the required expressions to every term, and the preferences that the pod does not have."""
    claimed = _claimed(pod, facts)
    if not pod.gpus and not claimed:
        return
    edits = [edit for entry in settings.required for edit in requiring(pod, entry.expression)]
    if edits:
        excluded = _excluded(pod, settings)
        yield from (edit for edit in edits if edit.expression not in excluded)
    for preference in settings.preferred:
        wanted = preference.expression
        stated = any(wanted in term.expressions for term in pod.preferred)
        is_due = (requests_any(pod, preference.resources) if pod.gpus else False) or any(
            all_are_of(alternatives, preference.resources) for alternatives in claimed
        )
        if is_due and not stated and not _implied_by_all(pod, wanted):
            yield PreferNodes(wanted, preference.weight)


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse a pod whose own placement contradicts a required expression."""
    if not pod.gpus and not _claimed(pod, facts):
        return
    for wanted, (place, stated) in _excluded(pod, settings).items():
        yield Violation(
            f"spec.{place}",
            f"requires {_shown(stated)}",
            f"the policy requires {wanted}",
            f"Change or remove {wanted.key} in {place.rpartition('.')[2]}",
        )


def _claimed(pod: Pod, facts: Facts) -> Sequence[Alternatives]:
    """The GPUs that the pod is certain to get by resource claims."""
    return list(certain_of(claimed_gpus(pod, facts))) if pod.resource_claims else ()


def _shown(stated: Sequence[Expression]) -> str:
    """The first expressions, and how many more there are."""
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
    excluded: dict[Expression, tuple[str, Sequence[Expression]]] = {}
    for wanted in required:
        if stated := contradicts(selected(pod, wanted.key), wanted):
            excluded[wanted] = ("nodeSelector", stated)
    others = [wanted for wanted in required if wanted not in excluded]
    for wanted, found in _excluded_by_terms(pod, others).items():
        excluded[wanted] = ("affinity.nodeAffinity", found)
    return excluded


def _excluded_by_terms(pod: Pod, required: Sequence[Expression]) -> Mapping[Expression, Sequence[Expression]]:
    """The required expressions that terms contradict, with the contradicting ones; empty if one term has none."""
    found: dict[Expression, dict[Expression, None]] = {}
    for term in living_terms(pod):
        has_room = True
        for wanted in required:
            stated = contradicts((*selected(pod, wanted.key), *term.expressions), wanted)
            if stated:
                has_room = False
                found.setdefault(wanted, {}).update(dict.fromkeys(stated))
        if has_room:
            return {}
    return {wanted: list(stated) for wanted, stated in found.items()}


def references(settings: Settings) -> Iterator[Expression]:
    """The labels that nodes must or should have."""
    yield from (entry.expression for entry in (*settings.required, *settings.preferred))


_POOL = {"required": [{"key": "example.com/pool", "operator": "In", "values": ["training"]}]}

RULE = Rule(
    key="nodeAffinity",
    promise="GPU pods run only on the nodes that the platform names.",
    problem="GPU pods land wherever a GPU is free: training on the nodes that were kept for inference, and the other "
    "way round.",
    examples=(
        Example(training_pod(), _POOL),
        Example(training_pod("nodeSelector: {example.com/pool: inference}"), _POOL),
    ),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    stage=Stage.PLACEMENT,
    validates_own_injection=True,
    can_mutate=lambda settings: bool(settings.required or settings.preferred),
    can_validate=lambda settings: bool(settings.required),
    references=references,
)
