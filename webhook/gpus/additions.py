"""What a policy adds to the models of a table: further label values of known models, and models of its own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from webhook.gpus.gpu_names import IN_WORDS
from webhook.gpus.gpu_table import GpuTable
from webhook.model.accelerators import Vendor
from webhook.model.globs import matcher

_DOMAINS = {"nvidia.com": Vendor.NVIDIA, "amd.com": Vendor.AMD, "intel.com": Vendor.INTEL}


@dataclass(frozen=True, slots=True, order=True)
class Addition:
    """A label value, or a glob of values, of the nodes that have the model of this name."""

    name: str
    key: str
    pattern: str

    def models(self, table: GpuTable) -> frozenset[str]:
        """The models that the value means: those of a name that the table has, else one of its own."""
        return table.names.get(self.name) or frozenset({self.name})

    def matches(self, key: str, value: str) -> bool:
        """Whether a node on which a label has this value has the model."""
        return key == self.key and (value == self.pattern or matcher(self.pattern).fullmatch(value) is not None)


@dataclass(frozen=True, slots=True)
class OwnModel:
    """A model that only a policy knows, the labels that say it, and whose GPU it is, None where nothing tells.

    `alike` are the other models of which it may be a finer one, since some label value means both.
    """

    name: str
    keys: frozenset[str]
    alike: frozenset[str]
    vendor: Vendor | None


def additions_of(models: Mapping[str, Mapping[str, Sequence[str]]]) -> tuple[Addition, ...]:
    """What `models` of a policy says: name, label key, values."""
    return tuple(
        Addition(name, key, pattern)
        for name, labels in models.items()
        for key, patterns in labels.items()
        for pattern in patterns
    )


def own_models(additions: Sequence[Addition], table: GpuTable) -> tuple[OwnModel, ...]:
    """The models that the table does not have, by name."""
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
    """The models that are like a model, or like one that is."""
    reached, pending = {name}, [name]
    while pending:
        following = alike.get(pending.pop(), set()) - reached
        reached |= following
        pending += following
    return frozenset(reached - {name})


def _alike(addition: Addition, additions: Sequence[Addition], table: GpuTable) -> Iterator[str]:
    """The models that some value means which the addition stands for."""
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
    """The vendors in whose domains the labels are."""
    found = (key.partition("/")[0] for key in keys)
    return {vendor for own in found for domain, vendor in _DOMAINS.items() if f".{own}".endswith(f".{domain}")}


def overlap(one: str, other: str) -> bool:
    """Whether some text matches both globs.

    >>> overlap("a*c", "ab*"), overlap("a*", "b*")
    (True, False)
    """
    reached, pending = {(0, 0)}, [(0, 0)]
    while pending:
        at = pending.pop()
        if at == (len(one), len(other)):
            return True
        for following in _steps(one, other, *at):
            if following not in reached:
                reached.add(following)
                pending.append(following)
    return False


def _steps(one: str, other: str, i: int, j: int) -> Iterator[tuple[int, int]]:
    """Where both globs may stand after they agreed on one character more, or after a star came to nothing."""
    left, right = one[i : i + 1], other[j : j + 1]
    if left == "*":
        yield i + 1, j
    if right == "*":
        yield i, j + 1
    if left and right:
        if left == "*":
            yield i, j + 1
        if right == "*":
            yield i + 1, j
        if left == right or "?" in (left, right):
            yield i + 1, j + 1
