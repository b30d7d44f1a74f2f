"""Names in policies that end in every pod they concern: one that the API server refuses would break all of them."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

from webhook.model.pod import Pod
from webhook.model.shape import spelled


def _bound(most: int, fits: str, what: str) -> Callable[[str], str]:
    """A check that the whole text fits the pattern, and what follows the slash has at most so many characters."""
    pattern = re.compile(fits)

    def check(value: str) -> str:
        if not pattern.fullmatch(value) or len(value.rpartition("/")[2]) > most:
            raise ValueError(f"{spelled(value)} is not {what}")
        return value

    return check


_WORD = "[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_DOMAIN = "[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*"

ResourceGlobs = tuple[Annotated[str, Field(min_length=1)], ...]
"""Globs of the names of GPU resources."""


def asks_for_any(pod: Pod, globs: ResourceGlobs) -> bool:
    """Whether the pod asks for a GPU of one of these names; without any glob, for whatever GPU."""
    if not globs:
        return True
    for gpu in pod.gpus:  # noqa: SIM110  # asked several times about every pod, and twice as fast as any()
        if is_one_of(gpu, globs):
            return True
    return False


@lru_cache(maxsize=1024)
def is_one_of(resource: str, globs: ResourceGlobs) -> bool:
    """Whether one of the globs is of this name."""
    return any(fnmatchcase(resource, glob) for glob in globs)


LabelKey = Annotated[
    str, AfterValidator(_bound(63, f"({_DOMAIN}/)?{_WORD}", "a label key; write one such as nvidia.com/gpu.present"))
]
"""A key of a node label that the API server takes."""

TaintKey = Annotated[
    str, AfterValidator(_bound(63, f"(({_DOMAIN}/)?{_WORD})?", "a taint key; write one such as nvidia.com/gpu"))
]
"""A key of a taint that the API server takes; empty for every taint."""

LabelValueGlob = Annotated[
    str,
    AfterValidator(
        _bound(63, "[A-Za-z0-9_.*?-]+", "a label value or glob; write letters, digits, - _ . and the wildcards * and ?")
    ),
]
"""What values of labels are compared with; one that no label can have would never match."""

LabelValue = Annotated[
    str, AfterValidator(_bound(63, f"({_WORD})?", "a label value of letters, digits and inner - _ . up to 63 in all"))
]
"""A value of a node label or taint that the API server takes; may be empty."""

ObjectName = Annotated[
    str, AfterValidator(_bound(253, _DOMAIN, "the name of an object; write lower-case letters, digits, - and ."))
]
"""A name of an object that the API server takes."""

ObjectGlob = Annotated[
    str,
    AfterValidator(
        _bound(
            253, "[a-z0-9.*?-]+", "the name of an object or a glob; write lower-case letters, digits, - . and * and ?"
        )
    ),
]
"""What names of objects are compared with; one that no object can have would never match."""
