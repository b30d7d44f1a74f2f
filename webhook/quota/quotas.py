"""Quotas as values: what is limited, in which namespaces, and how pods are counted."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from webhook.gpus.gpu_catalogue import CATALOGUE, Catalogue
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.globs import is_glob, matcher


class UnspecifiedModel(StrEnum):
    """What becomes of a pod that does not say which GPU model it wants, where models are limited."""

    COUNT = "count"
    DENY = "deny"


class ClaimsMode(StrEnum):
    """What becomes of a pod that may get GPUs in a number that nobody can count."""

    DENY = "deny"
    WARN = "warn"
    ALLOW = "allow"


class OnLedgerFailure(StrEnum):
    """What becomes of a pod while the ledger cannot be reached."""

    DENY = "deny"
    ALLOW = "allow"


class Measure(StrEnum):
    """What a limit counts."""

    GPUS = "gpus"
    MODEL = "model"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class Limit:
    """One number that must not be passed. `name` is the model or the resource; empty for GPUs of every kind.

    `hard` is in whole-GPU equivalents, for a resource in units of it.
    """

    measure: Measure
    name: str
    hard: Fraction


@dataclass(frozen=True, slots=True)
class Counting:
    """How the pods of a quota are counted. `weights` are what units of a resource weigh, beyond what is known.

    `limited` are the resources that limits name. `accelerators` tells the vendors of resources. `claims` says what
    becomes of pods whose GPUs nobody can count.
    """

    catalogue: Catalogue = CATALOGUE
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    unspecified_model: UnspecifiedModel = UnspecifiedModel.COUNT
    claims: ClaimsMode = ClaimsMode.WARN
    accelerators: Accelerators = BUILT_IN
    limited: frozenset[str] = frozenset()

    @property
    def named(self) -> Set[str]:
        """The resources that count differently from others of their vendor, as far as a policy says so."""
        return self.limited | self.weights.keys()


class QuotaScope(StrEnum):
    """Whose quota it is."""

    NAMESPACE = "namespace"
    POT = "pot"


@dataclass(frozen=True, slots=True)
class Quota:
    """What some namespaces together may use. `patterns` are names and globs of namespaces.

    The quota of one namespace has its name, and that name as its only pattern.
    """

    scope: QuotaScope
    name: str
    patterns: tuple[str, ...]
    limits: tuple[Limit, ...]
    counting: Counting = field(default_factory=Counting)

    def __post_init__(self) -> None:
        limited = frozenset(limit.name for limit in self.limits if limit.measure is Measure.RESOURCE)
        if limited != self.counting.limited:
            object.__setattr__(self, "counting", replace(self.counting, limited=limited))

    @property
    def key(self) -> str:
        """What its ledger is called: unique among all quotas, and a legal name of a Kubernetes object."""
        return f"{self.scope}.{self.name}"

    def covers(self, namespace: str) -> bool:
        """Whether the pods of a namespace count."""
        return any(p == namespace or (is_glob(p) and matcher(p).fullmatch(namespace)) for p in self.patterns)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod asks of the quotas of its namespace; pods with equal demands count alike.

    `gpus` is what the scheduler reserves, by resource name and sorted by it. `models` are the models, as the catalogue
    tells them apart, that the pod may land on, sorted; None where it says nothing.
    """

    namespace: str
    gpus: tuple[tuple[str, int], ...]
    models: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that a pod would pass. Amounts are in the unit of the limit."""

    limit: Limit
    asks: Fraction
    used: Fraction

    @property
    def free(self) -> Fraction:
        """What is left; 0 where more than allowed is in use already."""
        return max(Fraction(0), self.limit.hard - self.used)
