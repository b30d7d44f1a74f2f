"""Suggests images of the same family that need an older CUDA, the nearest first.

A suggested tag is known to exist, or follows from a series without a known gap. Other families have no suggestions. The
published images of nvidia/cuda, and NVIDIA's monthly series, are in `data/suggestions.yaml`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from webhook.cuda import DATA
from webhook.cuda.releases import MONTHS, RELEASES, TORCH, built_with, is_between, monthly_cuda, version_of
from webhook.model.image import parse_reference
from webhook.model.shape import FormatError
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_table


@dataclass(frozen=True, slots=True)
class PublishedImages:
    """The images of nvidia/cuda for one CUDA version: the name of cuDNN in tags, and the systems that exist.

    `plain_systems` exist only without cuDNN.
    """

    cuda: Version
    cudnn: str
    systems: tuple[str, ...]
    plain_systems: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "PublishedImages":
        """Read a row of the table."""
        systems, plain = tuple(row["systems"]), tuple(row.get("plainSystems", ()))
        return cls(parse_version(row["cuda"]), row["cudnn"], systems, plain)

    def system_like(self, wanted: str, *, with_cudnn: bool) -> str | None:
        """The system itself if it exists, else the newest release of its distribution; None if there is none."""
        published = self.systems if with_cudnn else self.systems + self.plain_systems
        if wanted in published:
            return wanted
        family = wanted.rstrip("0123456789.")
        others = [system for system in published if system.rstrip("0123456789.") == family]
        return max(others, key=lambda system: float(system.removeprefix(family) or 0), default=None)


_TABLE = read_table(DATA / "suggestions.yaml")

PUBLISHED: tuple[PublishedImages, ...] = tuple(map(PublishedImages.of, _TABLE["published"]))
"""Newest CUDA first."""


Suggest = Callable[[str, Version], Iterator[str]]

_TOOLKIT = re.compile(
    r"([0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,2})?)(-cudnn[0-9.]*)?-(base|runtime|devel)-([a-z]+[0-9.]*)", re.ASCII
)
_MONTH = re.compile(r"([12][0-9]\.[01][0-9])(?:\.[0-9]{1,2})?-([a-z0-9-]+)", re.ASCII)
_TORCH = re.compile(r"([0-9]+\.[0-9]+)(\.[0-9]+)-cuda[0-9.]+-(cudnn[0-9]+-(?:runtime|devel))", re.ASCII)
_TENSORFLOW = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-gpu(?:-jupyter)?)", re.ASCII)
_VLLM = re.compile(r"(v[0-9]+\.[0-9]+\.[0-9]+(?:\.post[0-9]+)?)(-cu130)?", re.ASCII)
_SGLANG = re.compile(r"(v[0-9]+\.[0-9]+\.[0-9]+(?:\.post[0-9]+)?)-cu130", re.ASCII)
_TEXT_EMBEDDINGS = re.compile(r"(?:[a-z0-9]+-)?([0-9]+\.[0-9]+(?:\.[0-9]+)?)", re.ASCII)
_RAPIDS = re.compile(r"([0-9]{2}\.[0-9]{2})-cuda13-(py3\.[0-9]{1,2})", re.ASCII)

_SERIES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    framework: {row["ending"]: (row["first"], row["last"]) for row in rows}
    for framework, rows in groupby(_TABLE["series"], key=lambda row: row["framework"])
}
"""The first and the last month of NVIDIA's monthly releases, by framework and ending of the tag."""

_CU_129 = Version((12, 9))
_VLLM_CU_129 = (parse_version("0.20.0"), parse_version("0.28"))
"""First and last version of vLLM whose images also exist with -cu129."""
_SGLANG_CU_129 = (parse_version("0.5.9"), parse_version("0.5.19"))
"""First and last version of SGLang whose images exist with -cu129. The last one is the last for CUDA 12."""
_RAPIDS_BOTH = ("25.12", "26.08")
"""First and last release of RAPIDS whose images exist for both CUDA 12 and 13."""
_VLLM_BEFORE: tuple[tuple[str, str], ...] = (("v0.19.0", "12.9"), ("v0.8.5", "12.4"), ("v0.4.1", "12.1"))
"""Known releases of vLLM for older CUDA versions."""


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
    propose = _BY_END.get("/".join(parts[-2:])) or (_rapids if "rapidsai" in parts[-3:-1] else None)
    written = image.partition("@")[0]
    written = written[: -len(reference.tag) - 1] if written.endswith(f":{reference.tag}") else written
    if propose is not None and reference.tag:
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


def _vllm(tag: str, newest: Version) -> Iterator[str]:
    found, version = _VLLM.fullmatch(tag), version_of(tag)
    if found is None or version is None:
        return
    if _needs_at_most(_CU_129, newest):
        if is_between(version, *_VLLM_CU_129):
            yield f"{found[1]}-cu129"
        row = built_with(RELEASES["vllm"], tag)
        if found[2] and row is not None and row.cuda == _CU_129:
            yield found[1]
    for older, cuda in _VLLM_BEFORE:
        if _needs_at_most(parse_version(cuda), newest) and not parse_version(older[1:]).at_least(version):
            yield older


def _sglang(tag: str, newest: Version) -> Iterator[str]:
    found, version = _SGLANG.fullmatch(tag), version_of(tag)
    if found and version and _needs_at_most(_CU_129, newest) and version.at_least(_SGLANG_CU_129[0]):
        last = _SGLANG_CU_129[1]
        yield f"{found[1] if last.at_least(version) else f'v{last}'}-cu129"


def _text_embeddings(tag: str, newest: Version) -> Iterator[str]:
    """The image of the same release for other GPUs. Each release has the same CUDA for all of them."""
    if newest and (found := _TEXT_EMBEDDINGS.fullmatch(tag)):
        yield from (f"{gpus}{found[1]}" for gpus in ("", "turing-", "86-", "89-", "hopper-", "100-", "120-"))


def _rapids(tag: str, newest: Version) -> Iterator[str]:
    found = _RAPIDS.fullmatch(tag)
    if found and _RAPIDS_BOTH[0] <= found[1] <= _RAPIDS_BOTH[1] and _needs_at_most(_CU_129, newest):
        yield f"{found[1]}-cuda12-{found[2]}"


_BY_END: Mapping[str, Suggest] = {
    "nvidia/cuda": _nvidia_cuda,
    **{f"nvidia/{framework}": _of_ngc(framework) for framework in _SERIES},
    "pytorch/pytorch": _pytorch,
    "tensorflow/tensorflow": _tensorflow,
    "vllm/vllm-openai": _vllm,
    "lmsysorg/sglang": _sglang,
    "huggingface/text-embeddings-inference": _text_embeddings,
}
