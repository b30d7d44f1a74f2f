"""The table of GPU models: with rows of the platform, or without.

The rows are in `data/models.yaml`, each with its source. Functions that judge take the table as a value, so the tables
of two policies never mix. Results that are computed from a table are kept in the table itself.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from webhook.gpus.gpu_model import GpuModel, GpuTraits, models_from
from webhook.gpus.gpu_names import (
    CLOSED,
    IN_WORDS,
    INSTANCE_TYPE,
    LONGEST_VALUE,
    base_name,
    is_virtual,
    with_parts,
    with_series,
    words_in,
)
from webhook.model.accelerators import Vendor
from webhook.model.globs import closest
from webhook.yaml_files.shipped_tables import read_table

DATA = Path(__file__).with_name("data") / "models.yaml"

VGPU = ("grid", "vapps", "vpc", "vcs", "vws", "cloudgaming")
"""Brands that a virtual GPU may have."""

Names = frozenset[str]
_NONE: Names = frozenset()
_LONGEST_NAME = 128
"""Most characters of a name that are read. Labels have 63 at most; other texts may be longer."""
_OPEN = IN_WORDS - CLOSED
"""Labels that people choose, whose values may be machine types."""


@dataclass(frozen=True)
class GpuTable:
    """GPU models, specific models before general ones: the first row whose words are in a name has its traits.

    `data_center_only` are compute capabilities that only data-centre GPUs have, as far as is known.
    """

    models: tuple[GpuModel, ...]
    data_center_only: frozenset[tuple[int, ...]] = frozenset()

    def __hash__(self) -> int:
        return self._hash

    def merged(self, models: Iterable[GpuModel]) -> "GpuTable":
        """A copy with these models, which replace the known models with equal names.

        Specific rows come before general ones, whether added or known. Of rows with equal words, added ones come first.
        `data_center_only` loses the compute capability of every added model that is no data-centre GPU.
        """
        first = sorted(models, key=lambda model: -len(model.words))
        if not first:
            return self
        names = {model.name for model in first}
        traits = [model.traits for model in first if model.traits is not None]
        shared = {one.compute.parts for one in traits if one.compute is not None and not one.is_data_center}
        kept = [model for model in self.models if model.name not in names]
        ordered: dict[str, GpuModel] = {}
        for one in first:
            ordered |= {model.name: model for model in kept if one.words < model.words and model.name not in ordered}
            ordered[one.name] = one
        ordered |= {model.name: model for model in kept if model.name not in ordered}
        return GpuTable(tuple(ordered.values()), self.data_center_only - shared)

    @cached_property
    def cached(self) -> dict[object, Any]:
        return {}

    @cached_property
    def in_quotas(self) -> tuple[GpuModel, ...]:
        return tuple(model for model in self.models if model.in_quotas)

    @cached_property
    def names(self) -> Mapping[str, Names]:
        found = {model.name: frozenset({model.name}) for model in self.in_quotas}
        for model in self.in_quotas:
            found[model.family] = found.get(model.family, _NONE) | {model.name}
        return found

    @cached_property
    def vendors(self) -> Mapping[str, Vendor]:
        return {model.name: model.vendor for model in self.in_quotas}

    @cached_property
    def examples(self) -> Mapping[str, tuple[str, str]]:
        return {model.name: model.example for model in self.in_quotas if model.example is not None}

    @cached_property
    def keys(self) -> frozenset[str]:
        return IN_WORDS | self._values.keys()

    def values_of(self, key: str) -> Mapping[str, Names]:
        return self._values.get(key, {})

    @cached_property
    def traits_of(self) -> Callable[[str], GpuTraits | None]:
        """Looks up the traits of a GPU by its name, in any spelling; None if nothing is known.

        >>> str(GPUS.traits_of("nvidia-tesla-t4").compute), str(GPUS.traits_of("GRID A100-10C").compute)
        ('7.5', '8.0')
        """
        rows: dict[frozenset[str], GpuTraits] = {}
        for model in self.models:
            if model.traits is not None:
                rows.setdefault(model.words, model.traits)

        @lru_cache(maxsize=1024)
        def known(name: str) -> GpuTraits | None:
            words = with_series(words_in(name))
            traits = next((traits for wanted, traits in rows.items() if wanted <= words), None)
            if traits is None or not is_virtual(name):
                return traits
            return replace(traits, is_data_center=None, brands=VGPU)

        return lambda name: known(name[:_LONGEST_NAME])

    def models_at(self, key: str, value: str) -> Names:
        """The models of nodes whose label `key` has this value; empty if the value names no known model.

        The closest glob that matches counts, or else the words in the value.

        >>> sorted(GPUS.models_at("node.kubernetes.io/instance-type", "p4d.24xlarge"))
        ['A100-40GB']
        """
        if len(value) > LONGEST_VALUE:
            return _NONE
        values = self.values_of(key if key in self._values or key not in _OPEN else INSTANCE_TYPE)
        pattern = closest(values, value)
        if pattern is not None:
            return values[pattern]
        return self.models_in(value) if key in IN_WORDS else _NONE

    def models_in(self, text: str) -> Names:
        """The models that a text names; several if the text does not tell models of a family apart.

        >>> sorted(GPUS.models_in("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")), sorted(GPUS.models_in("nvidia-a100"))
        (['A100-40GB'], ['A100-40GB', 'A100-80GB'])
        """
        words = with_parts(words_in(base_name(text)), self._known_words)
        found: set[str] = set()
        for wanted, alike in self._by_words.items():
            if wanted <= words:
                marked = [model for model in alike if model.marks & words]
                found.update(model.name for model in marked or alike)
        return frozenset(found)

    def short_name(self, text: str) -> str:
        """What people call the GPU that a text names: its family, or the text itself for an unknown GPU.

        >>> GPUS.short_name("NVIDIA-A100-SXM4-40GB"), GPUS.short_name("Tesla-T4-SHARED"), GPUS.short_name("NVS-310")
        ('A100', 'T4', 'NVS-310')
        """
        return self._short_names(text) if len(text) <= _LONGEST_NAME else self._family_in(text)

    @cached_property
    def _short_names(self) -> Callable[[str], str]:
        return lru_cache(maxsize=1024)(self._family_in)

    def _family_in(self, text: str) -> str:
        names = self.models_in(text)
        families = {model.family for model in self.in_quotas if model.name in names}
        return families.pop() if len(families) == 1 else text

    @cached_property
    def profiles(self) -> Mapping[str, Mapping[str, int]]:
        """MIG profile or partition mode -> model -> the most slices or partitions on one GPU of the model."""
        found: dict[str, dict[str, int]] = {}
        for model in self.in_quotas:
            for profile, most in model.slices.items():
                found.setdefault(profile, {})[model.name] = most
        return found

    @cached_property
    def memory(self) -> Mapping[str, int]:
        """Model -> the most memory of one GPU in GB. Models are left out whose memory is not known."""
        return {model.name: model.memory for model in self.in_quotas if model.memory is not None}

    def fewest_slices(self, profile: str, models: Iterable[str] | None) -> int | None:
        """How many slices of a profile fit on one GPU of these models, on the model with the fewest.

        If none of the models has the profile, or `models` is None, all models count. None for an unknown profile.
        """
        most = self.profiles.get(profile, {})
        own = [most[model] for model in models or () if model in most]
        return min(own or most.values(), default=None)

    @cached_property
    def _values(self) -> Mapping[str, Mapping[str, Names]]:
        found: dict[str, dict[str, Names]] = {}
        for model in self.in_quotas:
            for key, glob in model.values:
                values = found.setdefault(key, {})
                values[glob] = values.get(glob, _NONE) | {model.name}
        return {key: {glob: self._whole(models) for glob, models in values.items()} for key, values in found.items()}

    def _whole(self, models: Names) -> Names:
        families = {model.family for model in self.in_quotas if model.name in models} if len(models) > 1 else ()
        return self.names[families.pop()] if len(families) == 1 else models

    @cached_property
    def _by_words(self) -> Mapping[frozenset[str], tuple[GpuModel, ...]]:
        found: dict[frozenset[str], tuple[GpuModel, ...]] = {}
        for model in self.in_quotas:
            found[model.words] = (*found.get(model.words, ()), model)
        return found

    @cached_property
    def _known_words(self) -> frozenset[str]:
        return frozenset(word for words in self._by_words for word in words)

    @cached_property
    def _hash(self) -> int:
        """Computed once, because catalogues are looked up by their table."""
        return hash((self.models, self.data_center_only))


def _shipped() -> GpuTable:
    table = read_table(DATA)
    only = frozenset(tuple(map(int, compute.split("."))) for compute in table["dataCenterOnly"])
    return GpuTable(models_from(table["gpus"]), only)


GPUS = _shipped()
"""The table of this release."""
