"""What nodes offer an image: driver, GPU and CPU, read from node labels or from a command line.

The labels come from GPU Feature Discovery (NVIDIA/k8s-device-plugin). Where it does not run, labels of clouds name the
GPU, but not its driver; the ResourceSlices of NVIDIA's DRA driver name both. Labels about the host driver of a virtual
GPU are not read, because images do not see it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, takewhile

from webhook.gpus.gpu_names import CLOUDS, COREWEAVE, GKE_ACCELERATOR, NVIDIA_PRODUCT, base_name
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.node import DRIVER_PARTS, GKE_DRIVER, GKE_WITHOUT_PLUGIN
from webhook.model.resource_slices import SliceDriver
from webhook.model.shape import FormatError, spelled
from webhook.model.versions import Version, parse_version

_RUNTIME = "nvidia.com/cuda.runtime-version"
_OLD_RUNTIME = "nvidia.com/cuda.runtime"
_ARCH = "kubernetes.io/arch"

_Ways = tuple[tuple[str, ...], ...]

_DRIVER_LABELS: _Ways = (("nvidia.com/cuda.driver-version.full",), *zip(*DRIVER_PARTS, strict=True))
_RUNTIME_LABELS: _Ways = (
    (f"{_RUNTIME}.full",),
    (f"{_RUNTIME}.major", f"{_RUNTIME}.minor"),
    (f"{_OLD_RUNTIME}.major", f"{_OLD_RUNTIME}.minor"),
)
_COMPUTE_LABELS: _Ways = (("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"),)
"""The ways in which labels give a version, in order of preference: in one text, or number by number."""

LABELS: tuple[str, ...] = (
    *chain.from_iterable((*_DRIVER_LABELS, *_RUNTIME_LABELS, *_COMPUTE_LABELS)),
    NVIDIA_PRODUCT,
    *CLOUDS,
    COREWEAVE,
    _ARCH,
    GKE_DRIVER,
    GKE_WITHOUT_PLUGIN,
)
"""Every node label that is read."""

_SAME_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_ARCHES = frozenset(("386", "amd64", "arm", "arm64", "loong64", "mips64le", "ppc64le", "riscv64", "s390x"))
"""Architectures of Linux nodes, as Go and Kubernetes name them."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a class of nodes offers. None and empty texts stand for unknown.

    If `is_driver_exact` is false, `driver` has only the first numbers of the version. `cuda` is the newest CUDA that
    the driver reports. `product` is the name of the GPU, without suffixes for sharing and MIG. `problems` say which
    labels and texts could not be read, or contradict each other. `is_gke`: GKE's own device plugin brings the driver
    into containers, and no container toolkit does.
    """

    driver: Version | None = None
    is_driver_exact: bool = True
    cuda: Version | None = None
    product: str = ""
    compute: Version | None = None
    arch: str = ""
    is_data_center: bool | None = None
    is_gke: bool = False
    problems: tuple[str, ...] = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        facts = (self.driver, self.is_driver_exact, self.cuda, self.product, self.compute, self.arch, self.problems)
        object.__setattr__(self, "_hash", hash(facts))

    def __hash__(self) -> int:
        """Computed once, because every request looks up verdicts by the same offers."""
        return self._hash


def offer_of(labels: Mapping[str, str], gpus: GpuTable = GPUS, by_slices: SliceDriver | None = None) -> Offer:
    """What nodes with these labels offer. The table adds what the name of the GPU says.

    `by_slices` is what the ResourceSlices of the nodes say. It fills gaps. Where a label says another version of the
    driver or of its CUDA, neither is known.
    """
    return _offer_of(tuple(map(labels.get, LABELS)), gpus, by_slices)


def offer_from(  # noqa: PLR0913  # the properties that describe a node
    *,
    driver: str | None = None,
    product: str | None = None,
    compute: str | None = None,
    arch: str | None = None,
    cuda: str | None = None,
    gpus: GpuTable = GPUS,
) -> Offer:
    """What a node offers that a person describes. `cuda` is the newest CUDA that its driver reports.

    The product may be the value of the label, or what nvidia-smi prints. A text that is no version becomes a problem.
    """
    problems: list[str] = []
    given = {name: (text or "").strip() for name, text in (("driver", driver), ("cuda", cuda), ("compute", compute))}
    known, is_exact = _version(given, (("driver",),), problems)
    given_offer = Offer(
        driver=known,
        is_driver_exact=is_exact,
        cuda=_version(given, (("cuda",),), problems)[0],
        product=base_name("-".join((product or "").split())),
        compute=_version(given, (("compute",),), problems)[0],
        arch=arch or "",
    )
    return _completed(given_offer, problems, gpus)


@lru_cache(maxsize=1024)
def _offer_of(values: tuple[str | None, ...], gpus: GpuTable, by_slices: SliceDriver | None = None) -> Offer:
    labels = dict(zip(LABELS, values, strict=True))
    problems: list[str] = []
    driver, is_exact = _version(labels, _DRIVER_LABELS, problems)
    product = base_name(labels[NVIDIA_PRODUCT] or "")
    source = next((name for name in (*CLOUDS, COREWEAVE) if labels[name] and not product), NVIDIA_PRODUCT)
    given_offer = Offer(
        driver=driver,
        is_driver_exact=is_exact,
        cuda=_version(labels, _RUNTIME_LABELS, problems)[0],
        product=product or labels[source] or "",
        compute=_version(labels, _COMPUTE_LABELS, problems)[0],
        arch=labels[_ARCH] or "",
        is_gke=bool(labels[GKE_ACCELERATOR] or labels[GKE_DRIVER]) and not labels[GKE_WITHOUT_PLUGIN],
    )
    if by_slices is not None:
        given_offer = _with_slices(given_offer, by_slices, problems, gpus)
    return _completed(given_offer, problems, gpus, is_cloud=source in CLOUDS)


def _with_slices(offer: Offer, said: SliceDriver, problems: list[str], gpus: GpuTable) -> Offer:
    by_slices = offer_from(driver=said.driver, product=said.product, compute=said.compute, cuda=said.cuda, gpus=gpus)
    for what, mine, other in (("driver", offer.driver, by_slices.driver), ("CUDA", offer.cuda, by_slices.cuda)):
        if mine is not None and other is not None and _differ(mine, other):
            problems.append(f"labels say {what} {mine}, and ResourceSlices {other}")
            return replace(offer, driver=None, is_driver_exact=True, cuda=None)
    is_by_label = offer.driver is not None and (offer.is_driver_exact or by_slices.driver is None)
    return replace(
        offer,
        driver=offer.driver if is_by_label else by_slices.driver,
        is_driver_exact=offer.is_driver_exact if is_by_label else by_slices.is_driver_exact,
        cuda=offer.cuda or by_slices.cuda,
        product=offer.product or by_slices.product,
        compute=offer.compute or by_slices.compute,
    )


def _differ(one: Version, other: Version) -> bool:
    return any(mine != theirs for mine, theirs in zip(one.parts, other.parts, strict=False))


def _version(texts: Mapping[str, str | None], ways: _Ways, problems: list[str]) -> tuple[Version | None, bool]:
    """The version from the first of the ways that has one, and whether the version is complete.

    A way is the key of one text, or the keys of texts for each number. An empty last text says that the version has no
    such number.
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
        elif _differ(found, version):
            problems.append(f"{way[0]} says {version} and another label {found}")
    return found, is_exact


def _completed(given_offer: Offer, problems: list[str], gpus: GpuTable, *, is_cloud: bool = False) -> Offer:
    """The offer, with gaps filled by what the name of the GPU says."""
    traits = gpus.traits_of(given_offer.product) if given_offer.product else None
    compute, arch = given_offer.compute, given_offer.arch.strip().lower()
    arch = _SAME_ARCH.get(arch, arch)
    if arch and arch not in _ARCHES:
        problems.append(f"arch: {spelled(given_offer.arch)} is no CPU architecture; write one such as amd64 or arm64")
        arch = ""
    if compute is not None and len(compute.parts) < 2:
        problems.append(f"compute capability {compute} lacks its second number")
        compute = None
    if traits is None:
        is_data_center = True if compute is not None and compute.parts[:2] in gpus.data_center_only else None
    else:
        is_data_center = True if is_cloud and traits.is_data_center is not None else traits.is_data_center
        if compute is not None and traits.compute is not None and compute.parts[:2] != traits.compute.parts:
            problems.append(f"{given_offer.product} has compute capability {traits.compute}, the node says {compute}")
        compute = compute or traits.compute
    return replace(
        given_offer,
        compute=compute.cut(2) if compute is not None else None,
        arch=arch or (traits.arch if traits is not None else ""),
        is_data_center=is_data_center,
        problems=tuple(problems),
    )


def with_driver(labels: Mapping[str, str], driver: Version, cuda: Version) -> dict[str, str | None]:
    """What changes in the labels of a node that gets another driver, whose newest CUDA is `cuda`.

    Names that the node has are kept, present or deprecated ones. A node with none of them gets them all: whoever asks
    knows the driver, although no label says it. Of a driver that is only a branch, such as 580, the other numbers are
    not known; their labels become None, which takes them away.

    >>> with_driver({"nvidia.com/cuda.driver.major": "535"}, Version((580,)), Version((13, 0)))
    {'nvidia.com/cuda.driver.major': '580', 'nvidia.com/cuda.driver.minor': None, 'nvidia.com/cuda.driver.rev': None}
    """
    is_labelled = any(name in labels for names in (*_DRIVER_LABELS, *_RUNTIME_LABELS) for name in names)
    changes: dict[str, str | None] = {}
    is_driver_labelled = any(name in labels for names in _DRIVER_LABELS for name in names)
    for (whole, present, deprecated), version in ((_DRIVER_LABELS, driver), (_RUNTIME_LABELS, cuda.cut(2))):
        texts = str(version).split(".")
        missing = "" if len(texts) > 1 else None
        for names in ((*whole, *present), deprecated):
            if is_labelled and not any(name in labels for name in names):
                continue
            numbers = names[-len(deprecated) :]
            changes |= {name: texts[at] if at < len(texts) else missing for at, name in enumerate(numbers)}
            if names != numbers:
                changes[names[0]] = str(version) if len(texts) > 1 else None
        changes = {key: value for key, value in changes.items() if labels.get(key) != value}
        if is_driver_labelled and not changes:
            return {}  # it has this driver, and says itself what that runs
    return changes
