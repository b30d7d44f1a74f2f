"""Pods as tests of rules write them, and what a rule makes of them."""

import copy
import json
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import jsonpatch

from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.gpus.gpu_shares import WHOLE_GPU, GpuShare, share_of
from webhook.model.claims import PodResourceClaim, Requests
from webhook.model.edits import Edit, apply
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.model.node import EVERYTHING, ChangingNodes, NodeClass, PriorityClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.requirements import demand_of, is_compared
from webhook.rules.rule import Advice, Rule, Violation
from webhook.rules.rule_settings import RuleSettings
from webhook.rules.unsuited import excluding

NVIDIA = RuntimeClass("nvidia", "nvidia")


@dataclass(frozen=True)
class Cluster:
    """Facts as a test wants them; `selects` answers which nodes remain for a pod.

    `amounts` are what one node of each class has, in the order of `nodes`: cpu in millicores, memory in bytes, None
    and what is left out being unknown, and an extended resource that is left out and no GPU of the class being 0.
    Where they say nothing of a class, everything fits there. `labels` are values beside those in the classes.
    `claims` are known by kind and name, `classes` have an extended resource each, and `most` devices on one node.
    """

    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    nodes: Sequence[NodeClass] = ()
    selects: Callable[[Pod], bool] = lambda _: True
    images: Mapping[str, ImageInfo] = field(default_factory=dict)
    amounts: Sequence[Mapping[str, int | None]] = ()
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    priorities: Sequence[PriorityClass] = ()
    claims: Mapping[tuple[str, str], Requests] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    changing: Sequence[ChangingNodes] = ()
    cluster: Snapshot = EMPTY
    is_thorough: bool = False

    def runtime_class(self, name: str) -> RuntimeClass | None:
        return self.runtime_classes.get(name)

    def runtime_class_names(self) -> Collection[str]:
        return self.runtime_classes.keys()

    def matching_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        return self.nodes if self.selects(pod) else ()

    def changing_nodes(self, pod: Pod) -> Sequence[ChangingNodes]:
        return [one for one in self.changing if self.selects(pod)]

    def divides_gpus(self) -> bool:
        return any(share_of(node.labels) not in (WHOLE_GPU, GpuShare(is_known=True)) for node in self.nodes)

    def selected_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        return self.matching_nodes(replace(pod, tolerations=EVERYTHING))

    def feasible_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        demand = {name: amount for name, amount in demand_of(pod).items() if is_compared(name)}
        return [
            node
            for place, node in enumerate(self.matching_nodes(pod))
            if all((has := self._amount(place, name)) is None or wanted <= has for name, wanted in demand.items())
        ]

    def knows_nodes(self) -> bool:
        return bool(self.nodes)

    def gpu_resources(self) -> frozenset[str]:
        return frozenset().union(*(node.gpu_resources for node in self.nodes))

    def largest(self, resource: str, pod: Pod | None = None) -> int | None:
        asked = self.nodes if pod is None else self.matching_nodes(pod)
        amounts = [self._amount(place, resource) for place in range(len(asked))]
        return None if None in amounts else max(amounts, default=0)

    def resources(self) -> frozenset[str]:
        return frozenset().union(*self.amounts)

    def amounts_on(self, pod: Pod, resources: tuple[str, ...]) -> set[tuple[int | None, ...]]:
        feasible = self.feasible_nodes(pod)
        places = [place for place, node in enumerate(self.nodes) if any(node is one for one in feasible)]
        return {tuple(self._amount(place, name) for name in resources) for place in places}

    def label_values(self, key: str) -> Sequence[str]:
        return sorted({*self.labels.get(key, ()), *(node.labels[key] for node in self.nodes if key in node.labels)})

    def priority_classes(self) -> Mapping[str, PriorityClass]:
        return {one.name: one for one in self.priorities}

    def claim(self, named: PodResourceClaim, namespace: str) -> Requests | None:  # noqa: ARG002  # there is one
        return self.claims.get((named.kind, named.target))

    def claim_names(self, kind: str, namespace: str) -> Sequence[str] | None:  # noqa: ARG002  # as above
        return sorted(name for found, name in self.claims if found == kind) if self.claims else None

    def extended_resource(self, device_class: str) -> str:
        return self.classes.get(device_class, "")

    def device_classes(self) -> Sequence[str] | None:
        return sorted({*self.classes, *self.most}) or None

    def most_devices(self, device_class: str) -> int | None:
        return self.most.get(device_class)

    def part_of_device(self, device_class: str, memory: int) -> Fraction:  # noqa: ARG002  # none is known
        return Fraction(1)

    def untainted_devices(self, device_class: str, tolerated: Collection[str]) -> tuple[int, Set[str]] | None:  # noqa: ARG002  # none is tainted
        most = self.most.get(device_class)
        return None if most is None else (most, set())

    def gpus_given(self, device_class: str, pod: Pod) -> Sequence[Mapping[str, str]]:  # noqa: ARG002  # none is known
        return ()

    def nodes_offering(self, device_class: str, pod: Pod) -> Sequence[NodeClass]:
        offering = [node for node in self.matching_nodes(pod) if node.by_slices is not None]
        return offering if device_class in self.most else ()

    def image(self, reference: str) -> ImageInfo:
        return self.images.get(reference, NOT_LOOKED_UP)

    def _amount(self, place: int, resource: str) -> int | None:
        if place >= len(self.amounts):
            return None
        unknown = "/" not in resource or resource in self.nodes[place].gpu_resources
        return self.amounts[place].get(resource, None if unknown else 0)


NOTHING_KNOWN = Cluster()


def container(
    name: str = "trainer", gpus: Any = None, resource: str = "nvidia.com/gpu", **parts: Any
) -> dict[str, Any]:
    """A container; `gpus` stands in limits and requests, as in every pod that the API server hands on."""
    raw: dict[str, Any] = {"name": name, "image": "registry.example.com/train:1", **parts}
    if gpus is not None:
        amount = {resource: gpus}
        raw["resources"] = {"limits": {**amount}, "requests": {**amount}, **parts.get("resources", {})}
    return raw


def pod(*containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of these containers."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": list(containers), **spec},
    }


def terms(*terms: Mapping[str, Any] | None) -> dict[str, Any]:
    """A required node affinity of these terms."""
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def term(*expressions: tuple[str, str, list[str]]) -> dict[str, Any]:
    """A node selector term."""
    return {"matchExpressions": [expression(*parts) for parts in expressions]}


def expression(key: str, operator: str, values: list[str]) -> dict[str, Any]:
    """A node selector requirement."""
    return {"key": key, "operator": operator, **({"values": values} if values else {})}


def settings_of(rule: Rule, values: Mapping[str, Any]) -> RuleSettings:
    """The settings of a rule in mode enforce, written as in a policy file."""
    return rule.settings.model_validate_json(json.dumps({"mode": "enforce", **values}))


def mutations(rule: Rule, pod: Pod, settings: Any, facts: Any) -> list[Edit | Advice]:
    """What a rule alone makes of a pod: what its mutator yields, and exclusions of nodes that it finds unsuited."""
    assert rule.injects
    judged = rule.unsuited(pod, settings, facts) if rule.unsuited and rule.can_mutate(settings) else None
    exclusions = list(excluding(pod, judged)) if judged is not None else []
    return [*exclusions, *(rule.mutate(pod, settings, facts) if rule.mutate else ())]


def asked(
    rule: Rule, raw: Mapping[str, Any], values: Mapping[str, Any], facts: Cluster = NOTHING_KNOWN
) -> tuple[list[Edit], list[str]]:
    """What the mutator yields: edits, and advice as people read it."""
    found = mutations(rule, pod_from_raw(raw), settings_of(rule, values), facts)
    return (
        [value for value in found if not isinstance(value, Advice)],
        [str(value) for value in found if isinstance(value, Advice)],
    )


def mutated(
    rule: Rule, raw: Mapping[str, Any], values: Mapping[str, Any] | None = None, facts: Cluster = NOTHING_KNOWN
) -> dict[str, Any]:
    """The pod after the mutator; checked to be complete, to be what the patch makes, and to be a copy."""
    values = values or {}
    before = copy.deepcopy(dict(raw))
    draft = apply(raw, asked(rule, raw, values, facts)[0])
    assert raw == before
    assert jsonpatch.apply_patch(before, draft.patch) == draft.object
    assert asked(rule, draft.object, values, facts)[0] == []
    return draft.object


def is_left_alone(
    rule: Rule, raw: Mapping[str, Any], values: Mapping[str, Any] | None = None, facts: Cluster = NOTHING_KNOWN
) -> bool:
    """Whether the mutator changes nothing."""
    return asked(rule, raw, values or {}, facts)[0] == []


def advice(
    rule: Rule, raw: Mapping[str, Any], values: Mapping[str, Any] | None = None, facts: Cluster = NOTHING_KNOWN
) -> list[str]:
    """What the mutator tells people."""
    return asked(rule, raw, values or {}, facts)[1]


def violations(
    rule: Rule, raw: Mapping[str, Any], values: Mapping[str, Any] | None = None, facts: Cluster = NOTHING_KNOWN
) -> list[Violation]:
    """What the validator refuses."""
    assert rule.validate is not None
    found = list(rule.validate(pod_from_raw(raw), settings_of(rule, values or {}), facts))
    assert all(isinstance(value, Violation) for value in found)
    return [value for value in found if isinstance(value, Violation)]


def messages(rule: Rule, raw: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> list[str]:
    """What the validator refuses, as people read it."""
    return [str(violation) for violation in violations(rule, raw, values)]
