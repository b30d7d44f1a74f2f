"""Quotas as values: what is limited, in which namespaces, and how pods are counted."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from webhook.gpus.gpu_catalogue import CATALOGUE, Catalogue
from webhook.model.accelerators import BUILT_IN, DEVICE_CLASSES, Accelerators
from webhook.model.globs import is_glob, matcher
from webhook.model.pod import Pod


class UnspecifiedModel(StrEnum):
    """What happens to a pod that selects no GPU model, where models are limited."""

    COUNT = "count"
    DENY = "deny"


class ClaimsMode(StrEnum):
    """What happens to a pod that may get GPUs in a number that no quota can count."""

    DENY = "deny"
    WARN = "warn"
    ALLOW = "allow"


class Gated(StrEnum):
    """When a pod with scheduling gates begins to count."""

    LATER = "later"
    NOW = "now"


class Groups(StrEnum):
    """Whether pods that start together are admitted together."""

    WHOLE = "whole"
    PODS = "pods"


class OnLedgerFailure(StrEnum):
    """What happens to a pod while the ledger cannot be reached."""

    DENY = "deny"
    ALLOW = "allow"


class Measure(StrEnum):
    """What a limit counts."""

    GPUS = "gpus"
    MODEL = "model"
    RESOURCE = "resource"


class Nodes(NamedTuple):
    """The labels of the nodes that a pod could be scheduled to, whatever their taints; or of its own, if `is_bound`."""

    labels: Sequence[Mapping[str, str]] = ()
    is_bound: bool = False


ANY_NODES = Nodes()


@dataclass(frozen=True, slots=True)
class Limit:
    """A number that usage must not exceed. `name` is the model or the resource; empty for GPUs of every kind.

    `hard` is in whole GPUs; for a resource, in units of the resource.
    """

    measure: Measure
    name: str
    hard: Fraction


@dataclass(frozen=True)
class Counting:
    """How the pods of a quota are counted. `weights` is resource -> whole GPUs per unit, where the policy sets it.

    `limited` has the resources that limits name. `accelerators` tells the vendors of resources. `claims` says what
    happens to pods whose GPUs no quota can count. `class_models` is DeviceClass -> the models that its devices have,
    where the policy says it; None where it only says what a device weighs.
    """

    catalogue: Catalogue = CATALOGUE
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    unspecified_model: UnspecifiedModel = UnspecifiedModel.COUNT
    claims: ClaimsMode = ClaimsMode.WARN
    accelerators: Accelerators = BUILT_IN
    limited: frozenset[str] = frozenset()
    class_models: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    gated: Gated = Gated.LATER
    groups: Groups = Groups.WHOLE

    def models_of(self, pod: Pod, nodes: Nodes = ANY_NODES) -> tuple[str, ...] | None:
        """The models that a pod may get, sorted; None if its model is open.

        The node that it is on comes before what it selects, and what it selects before the nodes that it could be
        scheduled to: more of these may come. Nodes that do not say their model leave it open.
        """
        selected = self.catalogue.models_of(pod)
        if not nodes.is_bound and (selected is not None or self.unspecified_model is UnspecifiedModel.DENY):
            return selected
        found = [self.catalogue.models_at(labels) for labels in nodes.labels]
        return tuple(sorted(frozenset().union(*found))) if found and all(found) else selected

    @cached_property
    def named(self) -> Set[str]:
        """The resources that the policy counts differently from other resources of their vendor."""
        return self.limited | self.weights.keys() | {DEVICE_CLASSES + name for name in self.class_models}


class DeclaredClass(NamedTuple):
    """What a policy says of the devices of a DeviceClass: their GPU model and their weight; None where it says none."""

    model: str | None
    weight: Fraction | None


CLASSES_CONTEXT = "deviceClasses"
"""The key in the context of pydantic's validation that holds what a policy says of DeviceClasses, by their names."""


def classes_in(context: Any) -> Mapping[str, DeclaredClass]:
    """What a policy says of DeviceClasses, in the context in which settings are validated."""
    found: Mapping[str, DeclaredClass] = (context or {}).get(CLASSES_CONTEXT, {})
    return found


class QuotaScope(StrEnum):
    """Whether a quota is of one namespace alone, or shared by several."""

    NAMESPACE = "namespace"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Quota:
    """What some namespaces together may use. `patterns` are names and globs of namespaces.

    The quota of a namespace has the name of the namespace, also as its only pattern.
    """

    scope: QuotaScope
    name: str
    patterns: tuple[str, ...]
    limits: tuple[Limit, ...]
    counting: Counting = field(default_factory=Counting)
    known_amounts: dict["Demand", Mapping[Limit, Fraction]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """What demands count, as `webhook.quota.amounts` remembers it."""

    def __post_init__(self) -> None:
        limited = frozenset(limit.name for limit in self.limits if limit.measure is Measure.RESOURCE)
        if limited != self.counting.limited:
            object.__setattr__(self, "counting", replace(self.counting, limited=limited))

    @property
    def key(self) -> str:
        """The key of its ledger: unique among all quotas, and valid in the name of a Kubernetes object."""
        return f"{self.scope}.{self.name}"

    def covers(self, namespace: str) -> bool:
        globs = filter(is_glob, self.patterns)
        return namespace in self.patterns or any(matcher(glob).fullmatch(namespace) for glob in globs)


class ClaimedDevices(NamedTuple):
    """GPUs of one alternative of a device request: their name, their number, and their models (None for any)."""

    resource: str
    number: int
    models: tuple[str, ...] | None = None


ClaimedRequest = tuple[ClaimedDevices, ...]
"""The alternatives of a device request that give GPUs; the scheduler takes one of them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod, or a resource claim, counts against the quotas of its namespace. Equal demands count alike.

    `gpus` are resource names with the amounts that the scheduler reserves, sorted by name; a name may say what part of
    a GPU one unit is (`webhook.quota.amounts`). `models` are the models of the catalogue that the pod may land on,
    sorted; None where the pod does not restrict them. `requests` are the device requests of claims, sorted, for which
    `models` say nothing: other pods may use a claim, too.
    """

    namespace: str
    gpus: tuple[tuple[str, int], ...]
    models: tuple[str, ...] | None = None
    requests: tuple[ClaimedRequest, ...] = ()
    are_shares: bool = field(default=False, compare=False)
    """Whether other pods use the GPUs of `gpus` at the same time, by time-slicing or MPS. Messages then say shares."""

    @property
    def is_too_large(self) -> bool:
        """Whether it would take too much room in a ledger."""
        return len(self.gpus) + sum(map(len, self.requests)) > MOST_PARTS


MOST_PARTS = 64
"""Most resources and alternatives of claims in one demand. No node has as many resources, and alternatives for one
class are one. A few pods of a tenant that never run must not fill a ledger that others share."""

SHARES = "shares"
"""What messages call units of GPUs that are shared by time-slicing or MPS."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that a pod would exceed: what the pod requests and what is in use, in the unit of the limit."""

    limit: Limit
    asks: Fraction
    used: Fraction
    unit: tuple[str, Fraction] | None = None
    """The one resource that the pod requests, or `shares`, and what a unit counts; None for several, and whole GPUs."""

    @classmethod
    def alone(cls, limit: Limit, asks: Fraction, unit: tuple[str, Fraction] | None = None) -> "Excess":
        """The excess of a pod that does not fit while nothing else is in use."""
        return cls(limit, asks, Fraction(0), unit)

    @property
    def free(self) -> Fraction:
        """What is free; 0 where more than `hard` is in use already."""
        return max(Fraction(0), self.limit.hard - self.used)
