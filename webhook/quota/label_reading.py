"""GPU models in the values of node labels, in whatever spelling: `NVIDIA-A100-SXM4-40GB-SHARED`, `nvidia-a100-80gb`."""

import re
from collections.abc import Mapping

from webhook.cuda.products import base_name
from webhook.model.globs import closest
from webhook.quota.models import MODELS, NAMES, GpuModel
from webhook.quota.product_labels import CLOSED, IN_WORDS, INSTANCE_TYPE, VALUES_OF

LONGEST_VALUE = 63
"""Characters of a label value; no node has a longer one."""
_SEPARATORS = re.compile(r"[^a-z0-9]+", re.ASCII)
_VARIANT = re.compile(r"([a-z]*[0-9]+)[a-z]{1,2}", re.ASCII)
"""A model's number with letters of a variant behind it, as virtual GPUs have them: a100d, h100xm."""
_JOINED = re.compile(r"(geforce|quadro|tesla|rtx|gtx)([a-z]?[0-9]+.*)", re.ASCII)
"""A brand and what it brands in one word, as in labels of people's own: rtx4090, rtxa6000."""


def models_at(key: str, value: str) -> frozenset[str]:
    """The models of the nodes on which the label `key` has this value; empty where it names none that is known.

    >>> sorted(models_at("node.kubernetes.io/instance-type", "p4d.24xlarge"))
    ['A100-40GB']
    """
    if len(value) > LONGEST_VALUE:
        return frozenset()
    rows = VALUES_OF.get(key if key in VALUES_OF or key not in IN_WORDS - CLOSED else INSTANCE_TYPE, ())
    pattern = closest((row.pattern for row in rows), value)
    if pattern is not None:
        return next(NAMES[row.model] for row in rows if row.pattern == pattern)
    return models_in(value) if key in IN_WORDS else frozenset()


def models_in(text: str) -> frozenset[str]:
    """The models that a text names; several where it does not say which of a family.

    >>> sorted(models_in("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")), sorted(models_in("nvidia-a100"))
    (['A100-40GB'], ['A100-40GB', 'A100-80GB'])
    """
    words = _words_of(base_name(text))
    found: set[str] = set()
    for wanted, alike in _MODELS.items():
        if wanted <= words:
            marked = [model for model in alike if model.marks & words]
            found.update(model.name for model in marked or alike)
    return frozenset(found)


def _by_words() -> dict[frozenset[str], tuple[GpuModel, ...]]:
    found: dict[frozenset[str], tuple[GpuModel, ...]] = {}
    for model in MODELS:
        found[model.words] = (*found.get(model.words, ()), model)
    return found


_MODELS: Mapping[frozenset[str], tuple[GpuModel, ...]] = _by_words()
_KNOWN_WORDS = frozenset(word for words in _MODELS for word in words)


def _words_of(text: str) -> frozenset[str]:
    words = set(_SEPARATORS.split(text.lower()))
    for word in tuple(words):
        joined = _JOINED.fullmatch(word)
        words.update(joined.groups() if joined is not None else ())
    for word in tuple(words):
        variant = _VARIANT.fullmatch(word)
        if variant is not None and word not in _KNOWN_WORDS:
            words.add(variant.group(1))
    return frozenset(words)
