"""What nodes offer an image: their driver and their GPU, as their labels or a command line describe them.

Sources of the labels: GPU Feature Discovery (NVIDIA/k8s-device-plugin); where it does not run, what clouds say of the
GPU, not of its driver. The driver of a virtual GPU's host is none that the image sees and is not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, takewhile

from webhook.gpus.gpu_names import base_name
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.shape import FormatError, spelled
from webhook.model.versions import Version, parse_version

_DRIVER = "nvidia.com/cuda.driver-version"
_OLD_DRIVER = "nvidia.com/cuda.driver"
_RUNTIME = "nvidia.com/cuda.runtime-version"
_OLD_RUNTIME = "nvidia.com/cuda.runtime"
_PRODUCT = "nvidia.com/gpu.product"
_CLASS = "gpu.nvidia.com/class"
_ARCH = "kubernetes.io/arch"

_CLOUDS = (
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
)
"""Labels with which clouds name the GPU: data-centre GPUs, whatever else has that name."""

_Ways = tuple[tuple[str, ...], ...]

_DRIVER_LABELS: _Ways = (
    (f"{_DRIVER}.full",),
    (f"{_DRIVER}.major", f"{_DRIVER}.minor", f"{_DRIVER}.revision"),
    (f"{_OLD_DRIVER}.major", f"{_OLD_DRIVER}.minor", f"{_OLD_DRIVER}.rev"),
)
_RUNTIME_LABELS: _Ways = (
    (f"{_RUNTIME}.full",),
    (f"{_RUNTIME}.major", f"{_RUNTIME}.minor"),
    (f"{_OLD_RUNTIME}.major", f"{_OLD_RUNTIME}.minor"),
)
_COMPUTE_LABELS: _Ways = (("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"),)
"""The ways in which labels give a version, in order of preference: in one text, or number by number."""

LABELS: tuple[str, ...] = (
    *chain.from_iterable((*_DRIVER_LABELS, *_RUNTIME_LABELS, *_COMPUTE_LABELS)),
    _PRODUCT,
    *_CLOUDS,
    _CLASS,
    _ARCH,
)
"""Every node label that is read."""

_LONGEST_PRODUCT = 128
"""Characters of a product in a text; labels have 63 at most."""
_SAME_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_ARCHES = frozenset(("386", "amd64", "arm", "arm64", "loong64", "mips64le", "ppc64le", "riscv64", "s390x"))
"""What Go, and with it Kubernetes, calls processors that Linux runs on."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a class of nodes offers; None and empty stand for not known.

    Where `is_driver_exact` is false, `driver` is only the beginning of a version. `cuda` is the newest CUDA that the
    driver reports. `product` is the GPU's name without what sharing and MIG append. `problems` are labels and texts
    that could not be read or contradict each other.
    """

    driver: Version | None = None
    is_driver_exact: bool = True
    cuda: Version | None = None
    product: str = ""
    compute: Version | None = None
    arch: str = ""
    is_data_center: bool | None = None
    problems: tuple[str, ...] = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        facts = (self.driver, self.is_driver_exact, self.cuda, self.product, self.compute, self.arch, self.problems)
        object.__setattr__(self, "_hash", hash(facts))

    def __hash__(self) -> int:
        """Counted once: every request asks for verdicts about the same offers."""
        return self._hash


def offer_of(labels: Mapping[str, str], gpus: GpuTable = GPUS) -> Offer:
    """What nodes with these labels offer, by what the table knows of their GPUs."""
    return _offer_of(tuple(map(labels.get, LABELS)), gpus)


def offer_from(  # noqa: PLR0913  # what a node may be described by, and what is known of its GPU
    *,
    driver: str | None = None,
    product: str | None = None,
    compute: str | None = None,
    arch: str | None = None,
    cuda: str | None = None,
    gpus: GpuTable = GPUS,
) -> Offer:
    """What a node offers that is described by hand; `cuda` is the newest CUDA that its driver reports.

    The product may be written as in the label or as nvidia-smi prints it. Texts that are no versions are problems.
    """
    problems: list[str] = []
    given = {name: (text or "").strip() for name, text in (("driver", driver), ("cuda", cuda), ("compute", compute))}
    known, is_exact = _version(given, (("driver",),), problems)
    told = Offer(
        driver=known,
        is_driver_exact=is_exact,
        cuda=_version(given, (("cuda",),), problems)[0],
        product=base_name("-".join((product or "").split())[:_LONGEST_PRODUCT]),
        compute=_version(given, (("compute",),), problems)[0],
        arch=arch or "",
    )
    return _completed(told, problems, gpus)


@lru_cache(maxsize=1024)
def _offer_of(values: tuple[str | None, ...], gpus: GpuTable) -> Offer:
    """The offer of nodes whose LABELS have these values."""
    labels = dict(zip(LABELS, values, strict=True))
    problems: list[str] = []
    driver, is_exact = _version(labels, _DRIVER_LABELS, problems)
    product = base_name(labels[_PRODUCT] or "")
    source = _PRODUCT if product else next((name for name in (*_CLOUDS, _CLASS) if labels[name]), _PRODUCT)
    told = Offer(
        driver=driver,
        is_driver_exact=is_exact,
        cuda=_version(labels, _RUNTIME_LABELS, problems)[0],
        product=product or labels[source] or "",
        compute=_version(labels, _COMPUTE_LABELS, problems)[0],
        arch=labels[_ARCH] or "",
    )
    return _completed(told, problems, gpus, is_cloud=source in _CLOUDS)


def _version(texts: Mapping[str, str | None], ways: _Ways, problems: list[str]) -> tuple[Version | None, bool]:
    """The version in the first of several ways to give it, and whether that is all of it.

    Each way is the names of a text, or of texts for its numbers; an empty last one says that there is no such number.
    """
    found: Version | None = None
    is_exact = True
    for way in ways:
        text = ".".join(takewhile(bool, (texts[name] or "" for name in way)))
        if not text:
            continue
        try:
            version = parse_version(text)
        except FormatError as error:
            problems.append(f"{way[0]}: {error}")
            continue
        if found is None:
            found, is_exact = version, len(version.parts) > 1 and texts[way[-1]] is not None
        elif any(mine != other for mine, other in zip(found.parts, version.parts, strict=False)):
            problems.append(f"{way[0]} says {version} and another label {found}")
    return found, is_exact


def _completed(told: Offer, problems: list[str], gpus: GpuTable, *, is_cloud: bool = False) -> Offer:
    """The offer with what the name of the GPU tells, where nothing else does."""
    traits = gpus.traits_of(told.product) if told.product else None
    compute = told.compute
    if compute is not None and len(compute.parts) < 2:
        problems.append(f"compute capability {compute} lacks its second number")
        compute = None
    if traits is None:
        is_data_center = True if compute is not None and compute.parts[:2] in gpus.data_center_only else None
    else:
        is_data_center = True if is_cloud and traits.is_data_center is not None else traits.is_data_center
        if compute is not None and traits.compute is not None and compute.parts[:2] != traits.compute.parts:
            problems.append(f"{told.product} has compute capability {traits.compute}, the node says {compute}")
        compute = compute or traits.compute
    return replace(
        told,
        compute=compute.cut(2) if compute is not None else None,
        arch=_arch(told.arch, problems) or (traits.arch if traits is not None else ""),
        is_data_center=is_data_center,
        problems=tuple(problems),
    )


def _arch(text: str, problems: list[str]) -> str:
    """The CPU architecture as Kubernetes calls it; empty where it is not known."""
    name = text.strip().lower()
    name = _SAME_ARCH.get(name, name)
    if name and name not in _ARCHES:
        problems.append(f"arch: {spelled(text)} is no CPU architecture; write one such as amd64 or arm64")
        return ""
    return name
