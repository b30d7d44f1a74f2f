"""The GPU models that quotas can limit, and which of them a pod may land on by what it says itself.

A pod chooses its nodes by labels. What the values of some labels mean is known (`gpu_table.py`), and a policy may add
to it. Everything else that a pod says leaves its model open. The answer may name too many models,
never too few: a pod that could land on an H100 is counted against it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from webhook.gpus.additions import Addition, OwnModel, additions_of, own_models
from webhook.gpus.gpu_names import CLOSED, LONGEST_VALUE
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import Vendor
from webhook.model.globs import is_glob
from webhook.model.pod import Pod
from webhook.model.requirements import living_terms
from webhook.model.selectors import Expression, Operator

Models = frozenset[str]

_NO_MODELS: Models = frozenset()
_MOST_VALUES = 250
"""Label values of one pod that are read; one that lists more of them says nothing."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """GPU models by name, and the labels that say them.

    The finest models are leaves, such as `A100-80GB`; a name such as `A100` stands for several. `additions` are what a
    policy adds to the table: these two alone decide whether two catalogues are equal.
    """

    additions: tuple[Addition, ...] = ()
    table: GpuTable = field(default=GPUS, repr=False)
    keys: frozenset[str] = field(init=False, compare=False, repr=False)
    """The labels that can say a model."""
    own: tuple[OwnModel, ...] = field(init=False, compare=False, repr=False)
    """The models that the table does not have."""
    _names: Mapping[str, Models] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        own = own_models(self.additions, self.table)
        object.__setattr__(self, "keys", self.table.keys | {addition.key for addition in self.additions})
        object.__setattr__(self, "own", own)
        object.__setattr__(self, "_names", _with_own(own, self.table))
        object.__setattr__(self, "_hash", hash((self.additions, self.table)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a limit may have, sorted."""
        return tuple(sorted(self._names))

    def leaves(self, name: str) -> Models:
        """The models that a name stands for; empty for a name that is not known."""
        return self._names.get(name, _NO_MODELS)

    def vendor(self, leaf: str) -> Vendor | None:
        """Whose GPU a model is; None where that is not known."""
        return self.table.vendors.get(leaf) or next((own.vendor for own in self.own if own.name == leaf), None)

    def example(self, name: str) -> tuple[str, str] | None:
        """A node label that says a model, as key and value; None where none is known as a whole."""
        for addition in self.additions:
            if addition.name == name and not is_glob(addition.pattern):
                return addition.key, addition.pattern
        examples = self.table.examples
        return next((examples[leaf] for leaf in sorted(self.leaves(name)) if leaf in examples), None)

    def extended(self, models: Mapping[str, Mapping[str, Sequence[str]]]) -> "Catalogue":
        """The catalogue with what a policy adds: for each model's name, the values and globs of each label that say it.

        A name that is known gets further values; any other one is a model of its own.
        """
        return _extended((*self.additions, *additions_of(models)), self.table) if models else self

    def models_of(self, pod: Pod) -> tuple[str, ...] | None:
        """The models that a pod may land on, sorted; None where it says nothing. Empty: none that is known.

        Only nodeSelector and required node affinity count. Their terms are alternatives, and what a term demands holds
        at once; where no node could meet it, all the models that it names count.
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

    def _models_of_term(self, selector: Mapping[str, str], expressions: Iterable[Expression]) -> Models | None:
        said = [
            models
            for key, values in _possible(selector, expressions, self.keys).items()
            if (models := self._models_of_values(key, values)) is not None
        ]
        if not said:
            return None
        return frozenset.intersection(*said) or frozenset.union(*said)

    def _models_of_values(self, key: str, values: Collection[str]) -> Models | None:
        """The models of the nodes that have one of these values; None where one of them says nothing."""
        found: set[str] = set()
        for value in values:
            models = _models_of_value(self, key, value)
            if not models and key not in CLOSED:
                return None
            found |= models
        return frozenset(found) if values else None


def _with_own(own: Sequence[OwnModel], table: GpuTable) -> Mapping[str, Models]:
    """All names: a model of the policy's own counts wherever those do that it may be the same as."""
    names = dict(table.names) | {each.name: frozenset({each.name}) for each in own}
    finer = {name: {each.name for each in own if not each.alike.isdisjoint(leaves)} for name, leaves in names.items()}
    return {name: leaves | finer[name] for name, leaves in names.items()}


_MOST_EXTENDED = 64
"""Catalogues that a table remembers."""
_MOST_ADDITIONS = 256
"""Of a catalogue that is remembered. Strangers have policies checked, too."""


def _extended(additions: tuple[Addition, ...], table: GpuTable) -> Catalogue:
    known: Catalogue | None = table.remembered.get(additions)
    if known is None:
        known = Catalogue(tuple(sorted(set(additions))), table)
        if len(additions) <= _MOST_ADDITIONS:
            if len(table.remembered) >= _MOST_EXTENDED:
                table.remembered.clear()
            table.remembered[additions] = known
    return known


@lru_cache(maxsize=8192)
def _models_of_value(catalogue: Catalogue, key: str, value: str) -> Models:
    """The models that one label value means; empty where it means none that is known."""
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
    """For each of these labels that must have one of some values, those values; all of them where they contradict."""
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
"""What is shipped."""


def catalogue_of(table: GpuTable) -> Catalogue:
    """The names that policies may use where these GPUs are known."""
    return CATALOGUE if table is GPUS else _extended((), table)
