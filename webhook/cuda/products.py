"""GPUs by name: compute capability, whether they are data-centre GPUs, and the brand that NVML gives them.

Sources: GFD, nodes as GPU Feature Discovery of NVIDIA/k8s-device-plugin labels them; SMI, what nvidia-smi prints; AS,
the GPU types that kubernetes/autoscaler knows (aws, azure, gce); KP, the instance types of aws/karpenter-provider-aws;
GKE, the accelerators of Google Kubernetes Engine; LNC, NVIDIA/libnvidia-container, for brands. A row without any is
unverified. Forward compatibility works on data-centre GPUs, and on some RTX cards in servers, which no name tells.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from webhook.model.versions import Version, parse_version

Brands = tuple[str, ...]

TESLA: Brands = ("tesla",)
NVIDIA: Brands = ("nvidia", "unknown")
"""Data-centre GPUs from Ampere on; toolkits before 1.9.0 do not know the brand."""
GEFORCE: Brands = ("geforce",)
GEFORCE_RTX: Brands = ("geforce", "geforcertx")
TITAN: Brands = ("titan", "titanrtx")
QUADRO: Brands = ("quadro", "quadrortx")
RTX: Brands = ("nvidiartx", "unknown")
SERVER_RTX: Brands = ("nvidia", "nvidiartx", "unknown")
VGPU: Brands = ("grid", "vapps", "vpc", "vcs", "vws", "cloudgaming")


@dataclass(frozen=True, slots=True)
class GpuProduct:
    """GPUs whose names have all of `words`; see _words_of for numbers. None and empty stand for not known.

    `brands` are those that the GPU may have in the eyes of the container toolkit. `first_driver` is the oldest driver
    that is said to drive it, beyond its generation's; unverified. `arch` is set where a CPU is on the same board.
    """

    words: frozenset[str]
    compute: Version | None
    is_data_center: bool | None
    brands: Brands = ()
    source: str = ""
    first_driver: Version | None = None
    arch: str = ""


def _rows(
    names: str, compute: str, brands: Brands, source: str = "", *, server: bool | None = True
) -> list[GpuProduct]:
    """One row for each of the names, which commas separate; their words stand side by side."""
    capability = parse_version(compute) if compute else None
    return [GpuProduct(frozenset(name.split()), capability, server, brands, source) for name in names.split(",")]


def _on_arm(
    names: str, compute: str, brands: Brands, source: str = "", *, server: bool | None = True
) -> list[GpuProduct]:
    """The same for GPUs that sit on one board with an Arm CPU."""
    return [replace(model, arch="arm64") for model in _rows(names, compute, brands, source, server=server)]


PRODUCTS: tuple[GpuProduct, ...] = (
    # GeForce and TITAN
    *_rows("geforce rtx 50xx", "12.0", GEFORCE_RTX, server=False),
    *_rows("geforce rtx 40xx", "8.9", GEFORCE_RTX, server=False),
    *_rows("geforce rtx 30xx", "8.6", GEFORCE_RTX, server=False),
    *_rows("geforce rtx 20xx", "7.5", GEFORCE_RTX, server=False),
    *_rows("geforce gtx 16xx", "7.5", GEFORCE, "GFD", server=False),
    *_rows("geforce gtx 10xx", "6.1", GEFORCE, server=False),
    *_rows("geforce gtx 9xx", "5.2", GEFORCE, server=False),
    *_rows("titan rtx", "7.5", TITAN, server=False),
    *_rows("titan v", "7.0", TITAN, server=False),
    *_rows("titan xp", "6.1", TITAN, server=False),
    *_rows("geforce", "", GEFORCE_RTX, "LNC", server=False),
    *_rows("titan", "", TITAN, "LNC", server=False),
    # RTX and Quadro
    GpuProduct(
        frozenset({"rtx", "pro", "6000", "server"}),
        parse_version("12.0"),
        is_data_center=True,
        brands=SERVER_RTX,
        source="SMI, KP; its driver from a platform page of the GPU operator",
        first_driver=parse_version("575.57.08"),
    ),
    *_rows("rtx pro server", "12.0", SERVER_RTX),
    *_rows("rtx pro", "12.0", RTX, "SMI", server=False),
    *_rows("rtx ada", "8.9", RTX, server=False),
    *_rows("rtx a####", "8.6", RTX, server=False),
    *_rows("quadro rtx", "7.5", QUADRO, server=None),
    *_rows("quadro gv100", "7.0", QUADRO, server=False),
    *_rows("quadro gp100", "6.0", QUADRO, server=False),
    *_rows("quadro p####", "6.1", QUADRO, server=False),
    *_rows("quadro", "", QUADRO, "LNC", server=False),
    *_rows("t###,t####", "7.5", (), server=False),
    # data centre
    *_rows("k20,k20m,k20x,k20xm,k40,k40c,k40m", "3.5", TESLA),
    *_rows("k80", "3.7", TESLA, "GFD, AS"),
    *_rows("m10", "5.0", TESLA),
    *_rows("m4,m6,m40,m60", "5.2", TESLA),
    *_rows("p100", "6.0", TESLA, "AS, LNC"),
    *_rows("p4,p6,p40", "6.1", TESLA, "AS"),
    *_rows("v100", "7.0", TESLA, "GFD, AS, KP, LNC"),
    *_rows("v100s", "7.0", TESLA),
    *_rows("t4", "7.5", TESLA, "GFD, AS, KP, LNC"),
    *_on_arm("t4g", "7.5", (), "KP"),
    *_rows("a100", "8.0", NVIDIA, "GFD, AS, KP, GKE, LNC"),
    *_rows("a30,a100x,a800", "8.0", NVIDIA),
    *_rows("a10g", "8.6", NVIDIA, "GFD, AS, KP"),
    *_rows("a40", "8.6", NVIDIA, "SMI"),
    *_rows("a2,a10,a10m,a16", "8.6", NVIDIA),
    *_rows("l4", "8.9", NVIDIA, "SMI, AS, KP, GKE, LNC"),
    *_rows("l20,l40s", "8.9", NVIDIA, "SMI, AS, KP"),
    *_rows("l2,l40,l40g", "8.9", NVIDIA),
    *_rows("h100,h200", "9.0", NVIDIA, "GFD, SMI, KP, GKE, LNC"),
    *_rows("h20,h800", "9.0", NVIDIA),
    *_on_arm("gh200", "9.0", NVIDIA),
    *_rows("b200", "10.0", NVIDIA, "SMI, KP, GKE"),
    *_on_arm("gb200", "10.0", NVIDIA, "SMI, GKE"),
    *_rows("b300", "10.3", NVIDIA, "GFD, KP"),
    *_on_arm("gb300", "10.3", NVIDIA, "GFD"),
    *_rows("tesla", "", TESLA, "LNC"),
    # small systems
    *_on_arm("gb10", "12.1", (), server=False),
    *_on_arm("xavier", "7.2", (), server=None),
    *_on_arm("orin", "8.7", (), server=None),
    *_on_arm("thor", "11.0", (), server=None),
)
"""The first row whose words a name has is the GPU's: what is more particular comes first."""

DATA_CENTER_ONLY: frozenset[tuple[int, ...]] = frozenset({(3, 7), (8, 0), (9, 0), (10, 0), (10, 3)})
"""Compute capabilities that only data-centre GPUs have; other ones are shared with GeForce and RTX. Unverified."""

_LONGEST_NAME = 128
_SEPARATORS = re.compile(r"[^a-z0-9]+", re.ASCII)
_NUMBER = re.compile(r"([a-z]?)([0-9]{3,4})", re.ASCII)
_VGPU_PROFILE = re.compile(r"-[0-9]{1,3}[abcq]", re.ASCII)
_SHARED = "-SHARED"
_MIG = re.compile(r"-MIG-[A-Za-z0-9.+_-]*", re.ASCII)


def base_name(product: str) -> str:
    """The GPU itself, without what the device plugin appends for sharing and MIG.

    >>> base_name("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED")
    'NVIDIA-A100-SXM4-40GB'
    """
    name = product.removesuffix(_SHARED)
    start = name.rfind("-MIG-")
    return name[:start] if start > 0 and _MIG.fullmatch(name, start) else name


@lru_cache(maxsize=1024)
def model_of(name: str) -> GpuProduct | None:
    """What is known of the GPU with this name, in whatever way it is written; None for a name that the table lacks.

    >>> str(model_of("nvidia-tesla-t4").compute), str(model_of("GRID A100-10C").compute)
    ('7.5', '8.0')
    """
    text = name[:_LONGEST_NAME].lower()
    words = _words_of(text)
    model = next((row for row in PRODUCTS if row.words <= words), None)
    if model is None or not _is_virtual(text, words):
        return model
    return replace(model, is_data_center=None, brands=VGPU)


def _words_of(text: str) -> frozenset[str]:
    """The words of a name, and its numbers by their kind: 4090 as 40xx, a6000 as a####."""
    words = set(_SEPARATORS.split(text))
    for number in filter(None, map(_NUMBER.fullmatch, tuple(words))):
        letter, digits = number.groups()
        words.add(letter + "#" * len(digits) if letter else f"{digits[:-2]}xx")
    return frozenset(words)


def _is_virtual(text: str, words: frozenset[str]) -> bool:
    """Whether a name is that of a virtual GPU, such as GRID-T4-16Q or NVIDIA-A10-24Q."""
    return "grid" in words or _VGPU_PROFILE.fullmatch(text[text.rfind("-") :]) is not None
