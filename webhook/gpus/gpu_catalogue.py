"""The GPU models that quotas can limit, and the models that a pod may get by what it says itself.

A pod chooses its nodes by labels. `gpu_table.py` knows what some label values mean. A policy may add label values of
known models, and models of its own. Everything else that a pod says leaves its model open. The result may name too many
models, never too few: a pod that could get an H100 is counted against the limit for H100.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from webhook.gpus.gpu_names import CLOSED, IN_WORDS, LONGEST_VALUE, NVIDIA_PRODUCT
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import Vendor
from webhook.model.globs import is_glob, matcher, overlap
from webhook.model.pod import Pod
from webhook.model.requirements import living_terms
from webhook.model.selectors import Expression, Operator

Models = frozenset[str]

_NO_MODELS: Models = frozenset()
_MOST_VALUES = 250
"""Label values that are read in one pod. A pod with more of them leaves its model open."""

_DOMAINS = {"nvidia.com": Vendor.NVIDIA, "amd.com": Vendor.AMD, "intel.com": Vendor.INTEL}


@dataclass(frozen=True, slots=True, order=True)
class Addition:
    """A label value, or a glob of values, that a policy adds to the model of this name."""

    name: str
    key: str
    pattern: str

    def models(self, table: GpuTable) -> frozenset[str]:
        """The models with this name in the table; a model of the policy's own if the table lacks the name."""
        return table.names.get(self.name) or frozenset({self.name})

    def matches(self, key: str, value: str) -> bool:
        return key == self.key and (value == self.pattern or matcher(self.pattern).fullmatch(value) is not None)


@dataclass(frozen=True, slots=True)
class OwnModel:
    """A model that only a policy knows, with the labels that say it. `vendor` is None if nothing says it.

    `alike` are the models that share a label value with this model, which may be a variant of one of them.
    """

    name: str
    keys: frozenset[str]
    alike: frozenset[str]
    vendor: Vendor | None


@dataclass(frozen=True)
class Catalogue:
    """GPU models by name, and the labels that say them.

    The finest models are leaves, such as `A100-80GB`; a name such as `A100` stands for several leaves. Catalogues are
    equal if their table is equal, and the `additions` of their policy are.
    """

    additions: tuple[Addition, ...] = ()
    table: GpuTable = field(default=GPUS, repr=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.additions, self.table))

    @cached_property
    def keys(self) -> frozenset[str]:
        return self.table.keys | {addition.key for addition in self.additions}

    @cached_property
    def own(self) -> tuple[OwnModel, ...]:
        return _own_models(self.additions, self.table)

    @cached_property
    def _names(self) -> Mapping[str, Models]:
        """Every name with its leaves. A model of the policy's own also counts for the names of models it is like."""
        names = dict(self.table.names) | {each.name: frozenset({each.name}) for each in self.own}
        return {
            name: leaves | {each.name for each in self.own if not each.alike.isdisjoint(leaves)}
            for name, leaves in names.items()
        }

    @cached_property
    def every_model(self) -> Models:
        return frozenset().union(*self._names.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._names))

    def leaves(self, name: str) -> Models:
        return self._names.get(name, _NO_MODELS)

    def called(self, models: Models) -> str:
        return next((name for name in self._names if self._names[name] == models), "")

    def vendor(self, leaf: str) -> Vendor | None:
        return self.table.vendors.get(leaf) or next((own.vendor for own in self.own if own.name == leaf), None)

    def example(self, name: str) -> tuple[str, str] | None:
        for addition in self.additions:
            if addition.name == name and not is_glob(addition.pattern):
                return addition.key, addition.pattern
        examples = self.table.examples
        return next((examples[leaf] for leaf in sorted(self.leaves(name)) if leaf in examples), None)

    def extended(self, models: Mapping[str, Mapping[str, Sequence[str]]]) -> "Catalogue":
        """A copy with the additions of a policy: model name -> label key -> values and globs.

        A known name gets further values. Any other name is a model of the policy's own.
        """
        if not models:
            return self
        added = [
            Addition(name, key, pattern)
            for name, labels in models.items()
            for key, patterns in labels.items()
            for pattern in patterns
        ]
        return _extended((*self.additions, *added), self.table)

    def models_of(self, pod: Pod) -> tuple[str, ...] | None:
        """The models that a pod may get, sorted; None if its model is open, empty if it names no known model.

        Only nodeSelector and required node affinity count. The terms of the affinity are alternatives. If no node could
        meet a term, all models that the term names count.
        """
        selector = {key: value for key, value in pod.node_selector.items() if key in self.keys}
        if pod.required is None and not selector:
            return None
        terms = [term.expressions for term in living_terms(pod)] or [()]
        if sum([len(one.values) for term in terms for one in term if one.key in self.keys]) > _MOST_VALUES:
            return None
        found: set[str] = set()
        for term in terms:
            models = self._models_of_term(selector, term)
            if models is None:
                return None
            found |= models
        return tuple(sorted(found))

    def models_at(self, labels: Mapping[str, str]) -> Models:
        """The models that GPUs of nodes with these labels may have; empty if the labels name no known model.

        If labels contradict each other, all models that they name count.
        """
        said = {key: labels[key] for key in labels if key in self.keys}
        return (self._models_of_term(said, ()) if said else None) or _NO_MODELS

    def models_of_product(self, product: str) -> tuple[str, ...] | None:
        """The models that a GPU of this product name may have, sorted; None if the name says no known model.

        Policies name products by the label of GPU Feature Discovery, which has dashes for spaces.
        """
        return tuple(sorted(_models_of_value(self, NVIDIA_PRODUCT, "-".join(product.split())))) or None

    def _models_of_term(self, selector: Mapping[str, str], expressions: Iterable[Expression]) -> Models | None:
        said = []
        for key, values in _possible(selector, expressions, self.keys).items():
            models = [_models_of_value(self, key, value) for value in values]
            if models and (key in CLOSED or all(models)):  # else one of the values says nothing
                said.append(_NO_MODELS.union(*models))
        if not said:
            return None
        return frozenset.intersection(*said) or frozenset.union(*said)


def _own_models(additions: Sequence[Addition], table: GpuTable) -> tuple[OwnModel, ...]:
    keys: dict[str, set[str]] = {}
    for addition in additions:
        if addition.name not in table.names:
            keys.setdefault(addition.name, set()).add(addition.key)
    alike: dict[str, set[str]] = {name: set() for name in keys}
    for addition in additions:
        if addition.name in alike:
            alike[addition.name].update(_alike(addition, additions, table))
    found = []
    for name in sorted(keys):
        others = _reached(name, alike)
        vendors = {table.vendors[model] for model in others if model in table.vendors} or _owners(keys[name])
        found.append(OwnModel(name, frozenset(keys[name]), others, vendors.pop() if len(vendors) == 1 else None))
    return tuple(found)


def _reached(name: str, alike: Mapping[str, set[str]]) -> frozenset[str]:
    reached, pending = {name}, [name]
    while pending:
        following = alike.get(pending.pop(), set()) - reached
        reached |= following
        pending += following
    return frozenset(reached - {name})


def _alike(addition: Addition, additions: Sequence[Addition], table: GpuTable) -> Iterator[str]:
    key, pattern = addition.key, addition.pattern
    yield from table.models_at(key, pattern)
    for value, models in table.values_of(key).items():
        if overlap(pattern, value):
            yield from models
    for other in additions:
        if other.key == key and overlap(pattern, other.pattern):
            yield from other.models(table)
    if key in IN_WORDS:
        fits = matcher(pattern.lower()).fullmatch
        yield from (model.name for model in table.in_quotas if any(map(fits, model.spellings)))


def _owners(keys: Iterable[str]) -> set[Vendor]:
    found = (key.partition("/")[0] for key in keys)
    return {vendor for own in found for domain, vendor in _DOMAINS.items() if f".{own}".endswith(f".{domain}")}


def _extended(additions: tuple[Addition, ...], table: GpuTable) -> Catalogue:
    """The catalogue. Its table keeps it, but not too many: policies are also checked for people who are not trusted."""
    known: Catalogue = table.cached.get(additions) or Catalogue(tuple(sorted(set(additions))), table)
    if len(additions) <= 256:
        if len(table.cached) >= 64:
            table.cached.clear()
        table.cached[additions] = known
    return known


@lru_cache(maxsize=8192)
def _models_of_value(catalogue: Catalogue, key: str, value: str) -> Models:
    if len(value) > LONGEST_VALUE:
        return _NO_MODELS
    found = catalogue.table.models_at(key, value)
    for addition in catalogue.additions:
        if addition.matches(key, value):
            found |= addition.models(catalogue.table)
    return found | {own.name for own in catalogue.own if key not in own.keys and not own.alike.isdisjoint(found)}


def _possible(
    selector: Mapping[str, str], expressions: Iterable[Expression], keys: Collection[str]
) -> Mapping[str, Collection[str]]:
    """The values that each label with one of these keys may have; every named value if the conditions contradict."""
    possible: dict[str, set[str]] = {key: {value} for key, value in selector.items()}
    named: dict[str, set[str]] = {key: {value} for key, value in selector.items()}
    barred: dict[str, set[str]] = {}
    for expression in expressions:
        key = expression.key
        if key not in keys:
            continue
        values = set(expression.values)
        if expression.operator == Operator.IN:
            possible[key] = possible[key] & values if key in possible else values
            named[key] = named.get(key, set()) | values
        elif expression.operator == Operator.NOT_IN:
            barred[key] = barred.get(key, set()) | values
    return {key: values - barred.get(key, set()) or named[key] for key, values in possible.items()}


CATALOGUE = Catalogue()
"""The catalogue of this release."""


def catalogue_of(table: GpuTable) -> Catalogue:
    """The catalogue of a table, without additions."""
    return CATALOGUE if table is GPUS else _extended((), table)
