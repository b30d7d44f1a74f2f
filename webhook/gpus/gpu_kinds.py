"""Which GPUs people may use, by names: models and families, MIG profiles, and globs of resource names.

A name of a model stands for its whole GPUs, slices and shares. A MIG profile stands for its slices on every model,
whatever their resource is called. What is not certain bars nothing: nodes that do not say their model, and labels that
may mean several models, if one of these may be used.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from webhook.gpus.gpu_catalogue import Catalogue, Models
from webhook.gpus.gpu_table import GpuTable
from webhook.model.accelerators import Vendor
from webhook.model.globs import matcher

_DOMAINS = {Vendor.NVIDIA: "nvidia.com", Vendor.AMD: "amd.com", Vendor.INTEL: "gpu.intel.com"}
"""The domain of the resources of each vendor."""
_PROFILE = re.compile(r"([0-9]+c\.)?[0-9]+g\.[0-9]+gb(\+[a-z.]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kind:
    """GPUs of one name: of `models`, or with a MIG `profile`, or of resources that a `glob` matches.

    `vendors` are the vendors of the models, and None if one of them is not known.
    """

    name: str
    models: Models = frozenset()
    vendors: frozenset[Vendor | None] = frozenset({None})
    profile: str = ""
    glob: str = ""

    def covers(self, other: "Kind") -> bool:
        """Whether all GPUs of the other kind are certainly of this kind. GPUs of a kind without a glob have resources
        of its vendors.
        """
        if self.glob:
            return self._covers_names(other.glob) if other.glob else self._covers_vendors(other)
        if self.profile:
            return self.profile == other.profile
        return bool(other.models) and other.models <= self.models

    def _covers_names(self, glob: str) -> bool:
        start, rest = self.glob.partition("*")[::2]
        is_prefix = self.glob.endswith("*") and not rest and "?" not in start
        return glob == self.glob or (is_prefix and glob.startswith(start))

    def _covers_vendors(self, other: "Kind") -> bool:
        """Whether this glob matches all resources of the vendors of models, or of all MIG slices."""
        if self.glob == "*":
            return True
        vendors = {Vendor.NVIDIA} if other.profile else other.vendors
        return all(vendor in _DOMAINS and self.glob == f"{_DOMAINS[vendor]}/*" for vendor in vendors)


def is_profile(name: str) -> bool:
    """Whether a name has the form of a MIG profile, such as 1g.10gb or 1g.10gb+me."""
    return _PROFILE.fullmatch(name) is not None


def known_profiles(table: GpuTable) -> list[str]:
    """The MIG profiles of the GPUs in the table."""
    return sorted(filter(is_profile, table.profiles))


def kind_of(name: str, catalogue: Catalogue) -> Kind:
    """The GPUs of a name. Nothing is certain of the kind of an unknown name."""
    if "/" in name or name == "*":
        return Kind(name, glob=name)
    if is_profile(name):
        return Kind(name, profile=name)
    models = catalogue.leaves(name)
    return Kind(name, models, frozenset(map(catalogue.vendor, models)) or frozenset({None}))


class Unit(NamedTuple):
    """One unit of a GPU resource, as far as it is known.

    `vendor` is None if it is not known. `models` are the models that its GPU may have; empty if that is open. `profile`
    is its MIG profile, empty for a GPU that is not cut into slices, None if it may have any.
    """

    resource: str
    vendor: Vendor | None
    models: Models = frozenset()
    profile: str | None = None


class Bar(StrEnum):
    """Why a unit may not be used."""

    DENIED = "denied"
    NOT_ALLOWED = "not allowed"


@dataclass(frozen=True, slots=True)
class UsableGpus:
    """The GPUs that may be used: the `allowed` kinds, or all if that is None, without the `denied` kinds."""

    allowed: tuple[Kind, ...] | None = None
    denied: tuple[Kind, ...] = ()

    def __bool__(self) -> bool:
        return self.allowed is not None or bool(self.denied)

    @property
    def left(self) -> Sequence[Kind]:
        every = frozenset[str]().union(*[denied.models for denied in self.denied])
        together = Kind("", models=every)
        return [one for one in self.allowed or () if not any(denied.covers(one) for denied in (*self.denied, together))]

    def bar(self, unit: Unit) -> Bar | None:
        """Why a unit may certainly not be used; None if it may, or if that is not certain."""
        found = {self._bar(unit, model) for model in unit.models or (None,)}
        return None if None in found else min(found, key=lambda bar: bar is Bar.DENIED, default=None)

    def _bar(self, unit: Unit, model: str | None) -> Bar | None:
        if any(is_of(unit, model, kind) is True for kind in self.denied):
            return Bar.DENIED
        if self.allowed is None or any(is_of(unit, model, kind) is not False for kind in self.allowed):
            return None
        return Bar.NOT_ALLOWED


def is_of(unit: Unit, model: str | None, kind: Kind) -> bool | None:
    """Whether a unit is of a kind, if its GPU has this model; None if that is not certain."""
    if kind.glob:
        return matcher(kind.glob).fullmatch(unit.resource) is not None
    if kind.profile:
        return None if unit.profile is None else unit.profile == kind.profile
    if model is not None and kind.models:
        return model in kind.models
    is_of_others = unit.vendor is not None and None not in kind.vendors and unit.vendor not in kind.vendors
    return False if is_of_others else None


def of_vendor(models: Iterable[str], vendor: Vendor | None, catalogue: Catalogue) -> Models:
    """The models that GPUs of a vendor may have: labels of a node may be about the GPUs of another vendor."""
    if vendor is None:
        return frozenset(models)
    return frozenset(model for model in models if catalogue.vendor(model) in (vendor, None))
