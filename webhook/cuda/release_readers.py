"""How tags are read whose release tells the CUDA.

A tag that names its CUDA itself is believed first. A table is asked only for the tags that it is about: what else
follows the release in a tag may be a build of its own.
"""

import re

from webhook.cuda.bases import Base
from webhook.cuda.image_reading import Name, Reader, Reading, by_words, without_cuda
from webhook.cuda.need import BuiltFor
from webhook.cuda.releases import Built, built_with

RELEASE = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:\.post[0-9]+)?", re.ASCII)
"""Tags that are a release and nothing else."""
VERSION = re.compile(r"v?[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}", re.ASCII)
"""Tags that are a version of two or three numbers and nothing else: others are built apart."""
AT_THE_BEGINNING = re.compile(r"v?[0-9]+\.[0-9].*", re.ASCII)
"""Tags that begin with a release, whatever follows."""


def tags_like(form: str) -> re.Pattern[str]:
    """The tags of a form, in which {release} and {version} stand for those above."""
    return re.compile(form.replace("{release}", RELEASE.pattern).replace("{version}", VERSION.pattern), re.ASCII)


def of_release(table: tuple[Built, ...], name: Name, tag: str = "") -> Reading:
    """What the table says of the release in a tag, that of the name where no other is given."""
    row = built_with(table, tag or name.tag)
    verified = row is None or row.is_verified
    return Reading(BuiltFor.CUDA, row.cuda if row else None, name.of_tag, is_verified=verified)


def released(
    table: tuple[Built, ...], base: Base, tags: re.Pattern[str] = RELEASE, otherwise: BuiltFor = BuiltFor.CUDA
) -> Reader:
    """A reader for a family: the words of its tags, else the table for `tags`.

    `otherwise` is what images are whose words say nothing. Of a version that nobody has read, not even the base is
    known, unless all of NVIDIA's are on the same one.
    """

    def read(name: Name) -> Reading:
        found = by_words(name, otherwise)
        if found.kind is not BuiltFor.CUDA or found.cuda is not None or found.notes:
            return found.on(base)
        of_table = of_release(table, name) if tags.fullmatch(name.tag) else found
        if of_table.cuda is None:
            return found.on(Base.NGC if base is Base.NGC else Base.FOREIGN)
        return of_table.on(base)

    return read


def of_gpu_tags(table: tuple[Built, ...], tags: re.Pattern[str] = AT_THE_BEGINNING) -> Reader:
    """A reader for a family on nvidia/cuda whose tags have -gpu, and without it no CUDA."""

    def read(name: Name) -> Reading:
        if name.in_tag.versions:
            return by_words(name)
        if not name.in_tag.has_gpu:
            return without_cuda(name.of_tag)
        found = of_release(table, name) if tags.fullmatch(name.tag) else by_words(name)
        return found.on(Base.CUDA) if found.cuda else found

    return read
