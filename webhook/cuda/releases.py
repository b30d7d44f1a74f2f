"""Which CUDA the releases of products are built with. The rows are in `data/releases.yaml`, each with its source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.cuda import DATA
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_table

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
    def of(cls, row: Mapping[str, Any]) -> "Built":
        """A row as tables write it."""
        source = _SOURCES.get(row["source"], row["source"])
        return cls(parse_version(row["from"]), parse_version(row["to"]), parse_version(row["cuda"]), source)

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


_TABLE = read_table(DATA / "releases.yaml")
_SOURCES: Mapping[str, str] = _TABLE["sources"]
_RELEASES: Mapping[str, tuple[Built, ...]] = {
    row["product"]: tuple(map(Built.of, row["releases"])) for row in _TABLE["products"]
}

TABLES: Mapping[str, tuple[Built, ...]] = {row["images"]: _RELEASES[row["product"]] for row in _TABLE["products"]}
"""Every list of releases, by the images as people know them."""

TORCH: Mapping[str, tuple[str, ...]] = {row["release"]: tuple(row["cuda"]) for row in _TABLE["torch"]}
"""The builds of each PyTorch, from which images of pytorch/pytorch are made."""

RAPIDS: Mapping[str, tuple[str, ...]] = {row["release"]: tuple(row["cuda"]) for row in _TABLE["rapids"]}
"""The CUDA of nvidia/cuda below rapidsai/base and rapidsai/notebooks, since their tags name its first number alone."""
RAPIDS_SOURCE = _SOURCES["RAPIDS"]


def releases_of(product: str) -> tuple[Built, ...]:
    """The releases of a product, in order; raises KeyError for one that the table lacks."""
    return _RELEASES[product]
