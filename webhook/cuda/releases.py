"""Rows of tables that say which CUDA the releases of a family of images are built with."""

import re
from dataclasses import dataclass

from webhook.model.versions import Version, parse_version

DOCKERFILE = "the project's Dockerfile"
"""As it was when the release was tagged, with the workflow that builds the images."""
SEEN = "seen in the image"
"""What people say who ran it."""
MEMORY = "unverified"
"""Nobody has read it anywhere."""

_VERSION = re.compile(r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){1,2})(?=[-_.+a-z]|\Z)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Built:
    """Images of the versions from `first` to `last`, both included, are built with this CUDA.

    A `last` with two numbers includes all its patches. A `cuda` with one number: the minor version is not known.
    """

    first: Version
    last: Version
    cuda: Version
    source: str

    @classmethod
    def of(cls, first: str, last: str, cuda: str, source: str) -> "Built":
        """A row as tables write it."""
        return cls(parse_version(first), parse_version(last), parse_version(cuda), source)

    def covers(self, version: Version) -> bool:
        """Whether the version is one of them."""
        return version.at_least(self.first) and self.last.at_least(version.cut(len(self.last.parts)))

    @property
    def is_verified(self) -> bool:
        """Whether somebody has read it."""
        return self.source != MEMORY


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
