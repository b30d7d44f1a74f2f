"""Suggests images of the same family that need an older CUDA, the nearest first.

A suggested tag is known to exist, or follows from a series without a known gap. Other families have no suggestions. The
published images of nvidia/cuda, and NVIDIA's monthly series, are in `data/suggestions.yaml`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice

from webhook.cuda import DATA
from webhook.cuda.releases import MONTHS, RELEASES, TORCH, is_between, monthly_cuda, version_of
from webhook.model.image import parse_reference
from webhook.model.shape import FormatError
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_rows, read_table


@dataclass(frozen=True, slots=True)
class PublishedImages:
    """The images of nvidia/cuda for one CUDA version: the name of cuDNN in tags, and the systems that exist.

    `plain_systems` exist only without cuDNN.
    """

    cuda: Version
    cudnn: str
    systems: tuple[str, ...]
    plain_systems: tuple[str, ...] = ()

    def system_like(self, wanted: str, *, with_cudnn: bool) -> str | None:
        """The system itself if it exists, else the newest release of its distribution; None if there is none."""
        published = self.systems if with_cudnn else self.systems + self.plain_systems
        if wanted in published:
            return wanted
        family = wanted.rstrip("0123456789.")
        others = [system for system in published if system.rstrip("0123456789.") == family]
        return max(others, key=lambda system: float(system.removeprefix(family) or 0), default=None)


_TABLE = read_table(DATA / "suggestions.yaml")

PUBLISHED = read_rows(PublishedImages, _TABLE["published"], "suggestions.yaml")
"""Newest CUDA first."""


Suggest = Callable[[str, Version], Iterator[str]]

_TOOLKIT = re.compile(
    r"([0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,2})?)(-cudnn[0-9.]*)?-(base|runtime|devel)-([a-z]+[0-9.]*)", re.ASCII
)
_MONTH = re.compile(r"([12][0-9]\.[01][0-9])(?:\.[0-9]{1,2})?-([a-z0-9-]+)", re.ASCII)
_TORCH = re.compile(r"([0-9]+\.[0-9]+)(\.[0-9]+)-cuda[0-9.]+-(cudnn[0-9]+-(?:runtime|devel))", re.ASCII)
_TENSORFLOW = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-gpu(?:-jupyter)?)", re.ASCII)

_SERIES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    framework: {row["ending"]: (row["first"], row["last"]) for row in rows}
    for framework, rows in groupby(_TABLE["series"], key=lambda row: row["framework"])
}
"""The first and the last month of NVIDIA's monthly releases, by framework and ending of the tag."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Tags of some images, and the tags to `suggest` instead for releases from `first` to `last`, which need `cuda`."""

    images: tuple[str, ...]
    tags: re.Pattern[str]
    suggest: tuple[str, ...]
    cuda: Version | None = None
    first: Version | None = field(default=None, metadata={"key": "from"})
    last: Version | None = field(default=None, metadata={"key": "to"})

    def propose(self, tag: str, newest: Version) -> Iterator[str]:
        found, version = self.tags.fullmatch(tag), version_of(tag)
        if found is None or (self.cuda is not None and not _needs_at_most(self.cuda, newest)):
            return
        if self.first is None or self.last is None or (version and is_between(version, self.first, self.last)):
            yield from map(found.expand, self.suggest)


_STEPS = read_rows(_Step, _TABLE["steps"], "suggestions.yaml")

_TRIED = 24
"""Most suggestions that `is_fine` checks for one image."""


def suggest(image: str, newest: Version, is_fine: Callable[[str], bool] = lambda _: True) -> str | None:
    """The nearest image of the same family that needs at most CUDA `newest` and `is_fine`.

    None if the tables know no such image.

    >>> suggest("registry.corp/proxy/nvidia/cuda:13.0.0-base-ubuntu24.04", parse_version("12.9"))
    'registry.corp/proxy/nvidia/cuda:12.9.1-base-ubuntu24.04'
    """
    return next(filter(is_fine, islice(suggestions(image, newest), _TRIED)), None)


def suggestions(image: str, newest: Version) -> Iterator[str]:
    """Images of the same family that need at most CUDA `newest`, the nearest first. Registry and path stay the same."""
    try:
        reference = parse_reference(image)
    except FormatError:
        return
    parts = reference.repository.split("/")
    names = {"/".join(parts[-2:]), *(f"{part}/*" for part in parts[-3:-1])}
    proposing = [propose for name, propose in _BY_END.items() if name in names]
    proposing += [step.propose for step in _STEPS if not names.isdisjoint(step.images)]
    written = image.partition("@")[0]
    written = written[: -len(reference.tag) - 1] if written.endswith(f":{reference.tag}") else written
    for propose in proposing if reference.tag else ():
        yield from (f"{written}:{tag}" for tag in propose(reference.tag, newest) if tag != reference.tag)


def _needs_at_most(cuda: Version, newest: Version) -> bool:
    """Whether a CUDA version is `newest` or older. 12.9.1 is not newer than 12.9."""
    return newest.at_least(cuda.cut(len(newest.parts)))


def _nvidia_cuda(tag: str, newest: Version) -> Iterator[str]:
    found = _TOOLKIT.fullmatch(tag)
    if found is None or _needs_at_most(parse_version(found[1]), newest):
        return
    _, cudnn, flavour, system = found.groups()
    for row in PUBLISHED:
        if _needs_at_most(row.cuda, newest):
            own = row.system_like(system, with_cudnn=bool(cudnn))
            if own is not None:
                yield f"{row.cuda}{f'-{row.cudnn}' if cudnn else ''}-{flavour}-{own}"


def _of_ngc(framework: str) -> Suggest:
    series = _SERIES[framework]

    def propose(tag: str, newest: Version) -> Iterator[str]:
        found = _MONTH.fullmatch(tag)
        if found is None or found[2] not in series:
            return
        first, last = series[found[2]]
        for release in reversed(MONTHS.values()):
            if first <= release.month <= min(last, found[1]):
                proposed = f"{release.month}-{found[2]}"
                cuda, is_verified = monthly_cuda(release.month, proposed)
                if cuda is not None and is_verified and _needs_at_most(cuda, newest):
                    yield proposed

    return propose


def _pytorch(tag: str, newest: Version) -> Iterator[str]:
    found = _TORCH.fullmatch(tag)
    for cuda in reversed(TORCH.get(found[1], ())) if found else ():
        if found and _needs_at_most(parse_version(cuda), newest):
            yield f"{found[1]}{found[2]}-cuda{cuda}-{found[3]}"


def _tensorflow(tag: str, newest: Version) -> Iterator[str]:
    found, version = _TENSORFLOW.fullmatch(tag), version_of(tag)
    if found is None or version is None:
        return
    for row in reversed(RELEASES["tensorflow"]):
        last = row.last
        if last.major == 2 and not last.at_least(version.cut(2)) and _needs_at_most(row.cuda, newest):
            yield f"{last}.0{found[1]}"


_BY_END: Mapping[str, Suggest] = {
    "nvidia/cuda": _nvidia_cuda,
    **{f"nvidia/{framework}": _of_ngc(framework) for framework in _SERIES},
    "pytorch/pytorch": _pytorch,
    "tensorflow/tensorflow": _tensorflow,
}
