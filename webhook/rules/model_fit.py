"""Whether the weights of the model that a server loads fit into the GPUs of its container.

Only what is certain not to fit is said: the weights alone, on the largest GPUs that the pod could get. Reports say it,
and admission does not, because names of models are no facts of the cluster.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from webhook.gpus.gpu_catalogue import Catalogue
from webhook.model.pod import Container, Pod
from webhook.rules.candidates import candidates
from webhook.rules.rule import Advice, Facts
from webhook.rules.usable_gpus import memory_on
from webhook.yaml_files.shipped_tables import read_rows, read_table

_TABLE = read_table(Path(__file__).with_name("data") / "weights.yaml")
_BITS = 16
_SIZE = re.compile(r"(?<![A-Za-z0-9.])([0-9]+(?:\.[0-9]+)?)b(?![a-z0-9])", re.IGNORECASE)
_NEAR = 0.95
"""How much of what a name says a model has at the least: the names of sizes are rounded."""
_NEAR_NAMES = 0.08
"""How much the memory of a GPU may differ from what people call it, so that messages name that."""


@dataclass(frozen=True, slots=True)
class _Family:
    """A row of `data/weights.yaml`, which says what its fields mean."""

    name: str
    by: tuple[str, ...]
    source: str
    sizes: Mapping[str, float] = field(default_factory=dict)


_FAMILIES = [
    (re.compile(one.name, re.IGNORECASE), one) for one in read_rows(_Family, _TABLE["families"], "weights.yaml")
]
_FORMATS = {name.lower(): bits for name, bits in _TABLE["formats"].items()}


def weights_of(model: str, quantization: str = "") -> tuple[float, int] | None:
    """Bytes of the weights of a model, and the bits of a parameter; None if its name does not say.

    >>> weights_of("meta-llama/Llama-3.3-70B-Instruct"), weights_of("Qwen/Qwen3-30B-A3B-FP8")
    ((140000000000.0, 16), (30000000000.0, 8))
    >>> weights_of("openai/gpt-oss-120b"), weights_of("someone/Llama-3.3-70B-Instruct")
    (None, None)
    """
    publisher, _, name = model.rpartition("/")
    ends = [end for end in _FORMATS if name.lower().endswith(f"-{end}")]
    end = max(ends, key=len, default="")
    plain = name[: -len(end) - 1] if end else name
    family = next((one for pattern, one in _FAMILIES if pattern.fullmatch(plain)), None)
    bits = _FORMATS.get(end) or (_TABLE["arguments"].get(quantization) if quantization else _BITS)
    if family is None or not bits or not (end or publisher in family.by):
        return None
    size = next((number for text, number in family.sizes.items() if text.lower() in plain.lower()), None)
    found = _SIZE.search(plain)
    billions = size or (float(found[1]) if found else 0)
    return (billions * 1e9 * bits / 8, bits) if billions else None


def unfit(  # noqa: PLR0913, PLR0917  # what is loaded, and where
    model: tuple[str, str], pod: Pod, container: Container, gpus: int, facts: Facts, catalogue: Catalogue
) -> Iterator[Advice]:
    """Advice about a model, with the quantization for it, whose weights fit on no GPUs that the pod could get."""
    weights = weights_of(*model)
    requested = [one.accelerator for one in container.gpu_requests if one.count]
    nodes = candidates(pod, facts) if weights is not None and len(requested) == 1 and not container.has_claims else ()
    sizes = [(memory_on(one, requested[0], catalogue).most, one) for one in nodes]
    if weights is None or not sizes or any(size is None for size, _ in sizes):
        return
    largest, on = max(((size or 0, one) for size, one in sizes), key=lambda one: one[0])
    if weights[0] * _NEAR <= largest * gpus:
        return
    models = catalogue.models_at(on.labels)
    listed = catalogue.table.memory.get(next(iter(models)), 0) if len(models) == 1 else 0
    each = listed if abs(listed * 1e9 - largest) < listed * 1e9 * _NEAR_NAMES else round(largest / 1e9)
    called = catalogue.called(models)
    what = f"{gpus} {called}" if called else f"{gpus} of its GPUs"
    where = what if len(sizes) == 1 else f"the largest that it could get, {what},"
    found = f"needs about {weights[0] / 1e9:.0f} GB in {weights[1]} bits for its weights alone, and {where}"
    have = f"{'has' if gpus == 1 else 'have'} {each * gpus} GB"
    remedy = "Request more or larger GPUs, or take a quantized model"
    yield Advice(container.path, f"{model[0]} {found} {have}", remedy, follows_nodes=True)
