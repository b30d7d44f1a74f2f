"""Every list and map of a pod, and every text in it, as the API describes them.

Source: the models of the Kubernetes client, which are generated from the API's OpenAPI document. An end-to-end test
compares them with the document of a real API server.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from kubernetes.client import models

LIST, MAP = "[]", "{}"
"""The parts of a path that stand for an item of a list, and for a value of a map."""

_GENERIC = re.compile(r"(?:List|list)\[(.+)\]")
_MAPPING = re.compile(r"(?:Dict|dict)(?:\[|\()str, (.+)[\])]")
_ROOTS = {"metadata": "V1ObjectMeta", "spec": "V1PodSpec"}
_TEXT = "str"


class Place(NamedTuple):
    """A list, a map or a text of a pod: its path, as in `spec.containers[].env[]`, and the type of what is in it."""

    path: str
    type: str

    @property
    def is_map(self) -> bool:
        """Whether it is a map."""
        return self.path.endswith(MAP)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys on the way, items included: ("spec", "containers", "[]", "env", "[]")."""
        return tuple(re.findall(r"\[\]|\{\}|[^.\[\]{}]+", self.path))


@cache
def collections() -> tuple[Place, ...]:
    """Every list and map of a pod's metadata and spec."""
    return tuple(place for place in _places() if place.path.endswith((LIST, MAP)))


@cache
def texts() -> tuple[Place, ...]:
    """Every text in them."""
    return tuple(place for place in _places() if not place.path.endswith((LIST, MAP)))


def fields_of(kind: str) -> Mapping[str, str]:
    """The fields of a type by their JSON names, each with its type; none for one that is no object."""
    model = getattr(models, kind, None)
    if model is None:
        return {}
    return {model.attribute_map[name]: found for name, found in model.openapi_types.items()}


def inner(kind: str) -> tuple[str, str] | None:
    """Of a list or a map the part of the path that stands for an item, and the type of one."""
    for pattern, part in ((_GENERIC, LIST), (_MAPPING, MAP)):
        if found := pattern.fullmatch(kind):
            return part, found[1]
    return None


def _places() -> Iterator[Place]:
    for root, kind in _ROOTS.items():
        yield from _below(kind, root, ())


def _below(kind: str, path: str, above: tuple[str, ...]) -> Iterator[Place]:
    if found := inner(kind):
        part, item = found
        yield Place(path + part, item)
        yield from _below(item, path + part, above) if item != _TEXT else ()
    elif kind == _TEXT:
        yield Place(path, kind)
    elif kind not in above:
        for name, field in fields_of(kind).items():
            yield from _below(field, f"{path}.{name}", (*above, kind))
