"""Frameworks whose version tells which CUDA their images are built with.

A version between two rows or before the first has no answer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.model.versions import Version, parse_version

COG = "replicate/cog, compatibility tables"
TENSORFLOW_TABLE = "tensorflow.org, tested build configurations"
LIST_OF_TENSORFLOW_IMAGES = "rpeloff/research_images, README of tensorflow_base"
DOCKERFILE = "the project's Dockerfile"
ISSUE = "the project's issues"
MEMORY = "unverified"
"""Nobody has read it anywhere."""

_VERSION = re.compile(r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){1,2})(?=[-_.+a-z]|\Z)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Built:
    """Images of the versions from `first` to `last`, both included, are built with this CUDA; `last` None: and later.

    A `last` with two numbers includes all its patches.
    """

    first: Version
    last: Version | None
    cuda: Version
    source: str

    def covers(self, version: Version) -> bool:
        """Whether the version is one of them."""
        last = self.last
        return version.at_least(self.first) and (last is None or last.at_least(version.cut(len(last.parts))))

    @classmethod
    def of(cls, first: str, last: str, cuda: str, source: str) -> "Built":
        """A row as tables write it, an empty `last` for None."""
        return cls(parse_version(first), parse_version(last) if last else None, parse_version(cuda), source)

    @property
    def is_verified(self) -> bool:
        """Whether somebody has read it."""
        return self.source != MEMORY


_built = Built.of

TENSORFLOW: tuple[Built, ...] = (
    _built("1.5", "1.12", "9.0", LIST_OF_TENSORFLOW_IMAGES),
    _built("1.13", "2.0", "10.0", TENSORFLOW_TABLE),
    _built("2.1", "2.3", "10.1", TENSORFLOW_TABLE),
    _built("2.4", "2.4", "11.0", COG),
    _built("2.5", "2.11", "11.2", COG),
    _built("2.12", "2.14", "11.8", COG),
    _built("2.15", "2.15", "12.2", COG),
    _built("2.16", "2.17", "12.3", COG),
    _built("2.18", "2.21", "12.5", COG),
)
"""tensorflow/tensorflow with -gpu in the tag."""

VLLM: tuple[Built, ...] = (
    _built("0.1", "0.4.2", "12.1", DOCKERFILE),
    _built("0.4.3", "0.8", "12.4", ISSUE),
    _built("0.9", "0.11.0", "12.8", MEMORY),
    _built("0.11.1", "0.19", "12.9", DOCKERFILE),
    _built("0.20", "", "13.0", DOCKERFILE),
)
"""vllm/vllm-openai without -cuNNN in the tag."""

TEXT_GENERATION_INFERENCE: tuple[Built, ...] = (
    _built("0.1", "1.1", "11.8", DOCKERFILE),
    _built("1.4", "2.2", "12.1", DOCKERFILE),
    _built("2.3", "3.3", "12.4", DOCKERFILE),
)
"""ghcr.io/huggingface/text-generation-inference; 2.3 to 3.1 have PyTorch for 12.4 on a base of 12.1."""

TORCH: Mapping[str, tuple[str, ...]] = {
    "2.1": ("11.8", "12.1"),
    "2.2": ("11.8", "12.1"),
    "2.3": ("11.8", "12.1"),
    "2.4": ("11.8", "12.1", "12.4"),
    "2.5": ("11.8", "12.1", "12.4"),
    "2.6": ("11.8", "12.4", "12.6"),
    "2.7": ("11.8", "12.6", "12.8"),
    "2.8": ("12.6", "12.8", "12.9"),
    "2.9": ("12.6", "12.8", "13.0"),
    "2.10": ("12.6", "12.8", "13.0"),
    "2.11": ("12.6", "12.8", "13.0"),
    "2.12": ("12.6", "13.0", "13.2"),
    "2.13": ("12.6", "13.0", "13.2"),
}
"""The builds of each PyTorch, from which images of pytorch/pytorch are made (COG; 2.12 and 2.13: data.pyg.org). Those
before 2.1 are left out, because not every build had an image."""


def version_of(tag: str) -> Version | None:
    """The version of the framework at the beginning of a tag, None where none stands there.

    >>> str(version_of("v0.8.5.post1-x86_64")), str(version_of("2.12.0rc1-gpu")), version_of("sha-1a2b3c4")
    ('0.8.5', '2.12.0', None)
    """
    found = _VERSION.match(tag)
    return parse_version(found[1]) if found else None


def built_with(table: tuple[Built, ...], tag: str) -> Built | None:
    """The row of the table for the version in a tag, None where there is none."""
    version = version_of(tag)
    return None if version is None else next((row for row in table if row.covers(version)), None)
