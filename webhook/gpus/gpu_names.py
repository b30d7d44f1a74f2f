"""Names of GPUs: the words in them, and the node labels that have such names as values.

A name is read word by word, because spellings differ: `NVIDIA-A100-SXM4-40GB-SHARED`, `nvidia-a100-80gb` and
`A100_NVLINK_80GB` are all A100.
"""

import re
from collections.abc import Container

from webhook.model.accelerators import Vendor

NVIDIA_PRODUCT = "nvidia.com/gpu.product"
AMD_PRODUCT = "amd.com/gpu.product-name"
INTEL_PRODUCT = "gpu.intel.com/product"
PRODUCT_KEYS = {Vendor.NVIDIA: NVIDIA_PRODUCT, Vendor.AMD: AMD_PRODUCT, Vendor.INTEL: INTEL_PRODUCT}
"""The label with which each vendor's own software names the GPU of a node."""

GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
AUTOSCALED = (
    GKE_ACCELERATOR,
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
)
"""Labels of clouds that autoscalers know before a node exists."""
CLOUDS = (GKE_ACCELERATOR, "k8s.amazonaws.com/accelerator", *AUTOSCALED[1:])
"""Labels with which clouds name the GPU. It is a data-centre GPU, even if other GPUs have the same name."""
COREWEAVE = "gpu.nvidia.com/class"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
INSTANCE_TYPES = (INSTANCE_TYPE, "beta.kubernetes.io/instance-type")
"""Labels whose values are machine types."""

IN_WORDS: frozenset[str] = frozenset(
    {
        *PRODUCT_KEYS.values(),
        "beta.amd.com/gpu.product-name",
        *CLOUDS,
        COREWEAVE,
        "gpu.nvidia.com/model",
        "kubernetes.azure.com/accelerator",
        "accelerator",
        "gpu",
        "gpu-model",
        "gpu-type",
        "gpu_type",
    }
)
"""Labels whose values name the GPU, in any spelling."""

CLOSED: frozenset[str] = frozenset({NVIDIA_PRODUCT, GKE_ACCELERATOR})
"""Labels that always have the name of the GPU. A value that names no known model means another model. For any other
label, such a value says nothing."""

LONGEST_VALUE = 63
"""Most characters of a label value."""

_SHARED = "-SHARED"
_MIG = re.compile(r"-MIG-[A-Za-z0-9.+_-]*", re.ASCII)
_SEPARATORS = re.compile(r"[^a-z0-9]+", re.ASCII)
_NUMBER = re.compile(r"([a-z]?)([0-9]{3,4})", re.ASCII)
_VGPU_PROFILE = re.compile(r"-[0-9]{1,3}[abcq]", re.ASCII)
_VARIANT = re.compile(r"([a-z]*[0-9]+)[a-z]{1,2}", re.ASCII)
"""The number of a model followed by the letters of a variant, as in names of virtual GPUs: a100d, h100xm."""
_JOINED = re.compile(r"(geforce|quadro|tesla|rtx|gtx)([a-z]?[0-9]+.*)", re.ASCII)
"""A brand and a number in one word, as in labels that people choose: rtx4090, rtxa6000."""


def base_name(product: str) -> str:
    """The name of the GPU itself, without the suffixes of the device plugin for sharing and MIG.

    >>> base_name("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED")
    'NVIDIA-A100-SXM4-40GB'
    """
    name = product.removesuffix(_SHARED)
    start = name.rfind("-MIG-")
    return name[:start] if start > 0 and _MIG.fullmatch(name, start) else name


def words_in(text: str) -> frozenset[str]:
    """The words of a name, in small letters.

    >>> sorted(words_in("NVIDIA A100-SXM4_40GB"))
    ['40gb', 'a100', 'nvidia', 'sxm4']
    """
    return frozenset(_SEPARATORS.split(text.lower()))


def with_series(words: frozenset[str]) -> frozenset[str]:
    """The words, and the series of every number among them: 40xx for 4090, a#### for a6000.

    >>> sorted(with_series(frozenset({"rtx", "4090", "a6000"})))
    ['40xx', '4090', 'a####', 'a6000', 'rtx']
    """
    found = set(words)
    for number in filter(None, map(_NUMBER.fullmatch, words)):
        letter, digits = number.groups()
        found.add(letter + "#" * len(digits) if letter else f"{digits[:-2]}xx")
    return frozenset(found)


def with_parts(words: frozenset[str], known: Container[str]) -> frozenset[str]:
    """The words, and their parts: brand and number of a joined word, and the number without the letters of a variant.

    A `known` word is no variant of another word. The added words are guesses, which may count a pod against a quota,
    but never refuse an image.

    >>> sorted(with_parts(frozenset({"rtx4090", "a100d", "a10g"}), {"a10g"}))
    ['4090', 'a100', 'a100d', 'a10g', 'rtx', 'rtx4090']
    """
    found = set(words)
    for joined in filter(None, map(_JOINED.fullmatch, words)):
        found.update(joined.groups())
    for word in tuple(found):
        variant = _VARIANT.fullmatch(word)
        if variant is not None and word not in known:
            found.add(variant.group(1))
    return frozenset(found)


def is_virtual(name: str) -> bool:
    """Whether a name means a virtual GPU, such as GRID-T4-16Q or NVIDIA-A10-24Q."""
    text = name.lower()
    return "grid" in words_in(text) or _VGPU_PROFILE.fullmatch(text[text.rfind("-") :]) is not None
