"""The node labels by which pods choose a GPU model, and what those of their values mean that do not say it in words.

Sources: GKE, Google Kubernetes Engine; GCE, the machine types of Google Compute Engine; GDC, those of Google
Distributed Cloud; AS, kubernetes/autoscaler (its lists and comments for aws, azure, coreweave and oci); KP,
aws/karpenter-provider-aws; KA, Azure/karpenter-provider-azure; AZ, pages on sizes of Azure virtual machines. A row
without any is unverified. Where a source does not tell how much memory the GPU has, the row names the family.

`models_in` finds GPU models in label values, in whatever spelling: `NVIDIA-A100-SXM4-40GB-SHARED`, `nvidia-a100-80gb`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.cuda.products import base_name
from webhook.model.globs import closest
from webhook.quota.models import AMD_PRODUCT, INTEL_PRODUCT, MODELS, NAMES, NVIDIA_PRODUCT, GpuModel

GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
INSTANCE_TYPES = (INSTANCE_TYPE, "beta.kubernetes.io/instance-type")
"""Labels whose values are machine types of clouds."""

IN_WORDS: frozenset[str] = frozenset(
    {
        NVIDIA_PRODUCT,
        GKE_ACCELERATOR,
        AMD_PRODUCT,
        "beta.amd.com/gpu.product-name",
        INTEL_PRODUCT,
        "k8s.amazonaws.com/accelerator",
        "karpenter.k8s.aws/instance-gpu-name",
        "eks.amazonaws.com/instance-gpu-name",
        "karpenter.azure.com/sku-gpu-name",
        "gpu.nvidia.com/class",
        "gpu.nvidia.com/model",
        "kubernetes.azure.com/accelerator",
        "accelerator",
        "gpu",
        "gpu-model",
        "gpu-type",
        "gpu_type",
    }
)
"""Labels whose values name the GPU, in whatever spelling."""

CLOSED: frozenset[str] = frozenset({NVIDIA_PRODUCT, GKE_ACCELERATOR})
"""Labels that always have the GPU's name: a value that names no known model is none of them. A value of any other label
that names none says nothing."""


@dataclass(frozen=True, slots=True)
class Value:
    """A label value, or a glob of values, and the model or family that nodes with it have.

    It comes before the words in it.
    """

    key: str
    pattern: str
    model: str
    source: str


def _machines(source: str, rows: str) -> tuple[Value, ...]:
    """Instance types: each line has a model or family, then the patterns of its instance types."""
    found = []
    for line in rows.strip().splitlines():
        model, *patterns = line.split()
        found += [Value(key, pattern, model, source) for pattern in patterns for key in INSTANCE_TYPES]
    return tuple(found)


VALUES: tuple[Value, ...] = (
    Value(GKE_ACCELERATOR, "nvidia-tesla-a100", "A100-40GB", "GKE"),
    Value(GKE_ACCELERATOR, "nvidia-tesla-v100", "V100-16GB", "GKE"),
    *_machines(
        "AS, KP",
        """
        V100-16GB p3.*
        V100-32GB p3dn.*
        A100-40GB p4d.*
        A100-80GB p4de.*
        H100-80GB p5.*
        H200 p5e.* p5en.*
        B200 p6-b200.*
        B300 p6-b300.*
        T4 g4dn.*
        Radeon-V520 g4ad.*
        A10G g5.*
        T4G g5g.*
        L4 g6.* g6f.* gr6.* gr6f.*
        L40S g6e.*
        RTX-PRO-4500 g7.*
        RTX-PRO-6000 g7e.*
        """,
    ),
    *_machines(
        "",
        """
        K80 p2.*
        M60 g3.* g3s.*
        GB200 p6e-gb200.* u-p6e-gb200*
        """,
    ),
    *_machines(
        "AS, KA, AZ",
        """
        K80 Standard_NC6 Standard_NC12 Standard_NC24 Standard_NC24r
        K80 Standard_NC6_Promo Standard_NC12_Promo Standard_NC24_Promo Standard_NC24r_Promo
        P100-16GB Standard_NC*s_v2
        V100-16GB Standard_NC*s_v3
        V100-32GB Standard_ND40rs_v2 Standard_ND40s_v3
        P40 Standard_ND6s Standard_ND12s Standard_ND24s Standard_ND24rs
        T4 Standard_NC*_T4_v3
        A10 Standard_NC*_A10_v4 Standard_NV*_A10_v5
        A100-80GB Standard_NC*_A100_v4 Standard_ND*amsr_A100_v4
        A100-40GB Standard_ND96asr_v4 Standard_ND112asr_A100_v4 Standard_ND120asr_A100_v4
        H100 Standard_NC*_H100_v5 Standard_ND*_H100_v5
        H200 Standard_ND*_H200_v5
        MI300X Standard_ND*_MI300X_v5
        GB200 Standard_ND*_GB200_v6
        GB300 Standard_ND*_GB300_v6
        M60 Standard_NV6 Standard_NV12 Standard_NV24 Standard_NV24r Standard_NV*s_v2 Standard_NV*s_v3
        MI25 Standard_NV*as_v4
        Radeon-V710 Standard_NV*_V710_v5
        RTX-PRO-6000 Standard_NC*RTXPRO6000*
        """,
    ),
    *_machines(
        "GCE",
        """
        A100-40GB a2-highgpu-* a2-megagpu-*
        A100-80GB a2-ultragpu-*
        H100-80GB a3-edgegpu-* a3-highgpu-* a3-megagpu-*
        H200 a3-ultragpu-*
        B200 a4-highgpu-*
        GB200 a4x-highgpu-*
        GB300 a4x-maxgpu-*
        L4 g2-standard-*
        RTX-PRO-6000 g4-standard-*
        """,
    ),
    *_machines("GDC", "H100-NVL a3-highgpu-*-gdc"),
    *_machines(
        "AS",
        """
        A100-40GB BM.GPU4.*
        A100-80GB BM.GPU.GM4.* BM.GPU.A100-v2.*
        V100 BM.GPU3.* VM.GPU3.*
        P100 BM.GPU2.* VM.GPU2.*
        A10 BM.GPU.A10.* VM.GPU.A10.*
        A100 gd-*xa100*
        H100 gd-*xh100*
        H200 gd-*xh200*
        GH200 gd-*xgh200*
        L40 gd-*xl40 gd-*xl40-*
        L40S gd-*xl40s*
        B200 b200-*x
        RTX-PRO-6000 rtxp6000-*x
        """,
    ),
    *_machines(
        "",
        """
        L40S BM.GPU.L40S*
        H100 BM.GPU.H100*
        H200 BM.GPU.H200*
        B200 BM.GPU.B200*
        GB200 BM.GPU.GB200*
        MI300X BM.GPU.MI300X*
        """,
    ),
)
"""The closest of the patterns that match a value is the one that counts."""

KEYS: frozenset[str] = IN_WORDS | {value.key for value in VALUES}
"""Every label that can say a model."""


def _by_key() -> dict[str, tuple[Value, ...]]:
    found: dict[str, tuple[Value, ...]] = {}
    for value in VALUES:
        found[value.key] = (*found.get(value.key, ()), value)
    return found


VALUES_OF: Mapping[str, tuple[Value, ...]] = _by_key()
"""The same by label."""


LONGEST_VALUE = 63
"""Characters of a label value; no node has a longer one."""
_SEPARATORS = re.compile(r"[^a-z0-9]+", re.ASCII)
_VARIANT = re.compile(r"([a-z]*[0-9]+)[a-z]{1,2}", re.ASCII)
"""A model's number with letters of a variant behind it, as virtual GPUs have them: a100d, h100xm."""
_JOINED = re.compile(r"(geforce|quadro|tesla|rtx|gtx)([a-z]?[0-9]+.*)", re.ASCII)
"""A brand and what it brands in one word, as in labels of people's own: rtx4090, rtxa6000."""


def models_at(key: str, value: str) -> frozenset[str]:
    """The models of the nodes on which the label `key` has this value; empty where it names none that is known.

    >>> sorted(models_at("node.kubernetes.io/instance-type", "p4d.24xlarge"))
    ['A100-40GB']
    """
    if len(value) > LONGEST_VALUE:
        return frozenset()
    rows = VALUES_OF.get(key if key in VALUES_OF or key not in IN_WORDS - CLOSED else INSTANCE_TYPE, ())
    pattern = closest((row.pattern for row in rows), value)
    if pattern is not None:
        return next(NAMES[row.model] for row in rows if row.pattern == pattern)
    return models_in(value) if key in IN_WORDS else frozenset()


def models_in(text: str) -> frozenset[str]:
    """The models that a text names; several where it does not say which of a family.

    >>> sorted(models_in("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")), sorted(models_in("nvidia-a100"))
    (['A100-40GB'], ['A100-40GB', 'A100-80GB'])
    """
    words = _words_of(base_name(text))
    found: set[str] = set()
    for wanted, alike in _MODELS.items():
        if wanted <= words:
            marked = [model for model in alike if model.marks & words]
            found.update(model.name for model in marked or alike)
    return frozenset(found)


def _by_words() -> dict[frozenset[str], tuple[GpuModel, ...]]:
    found: dict[frozenset[str], tuple[GpuModel, ...]] = {}
    for model in MODELS:
        found[model.words] = (*found.get(model.words, ()), model)
    return found


_MODELS: Mapping[frozenset[str], tuple[GpuModel, ...]] = _by_words()
_KNOWN_WORDS = frozenset(word for words in _MODELS for word in words)


def _words_of(text: str) -> frozenset[str]:
    words = set(_SEPARATORS.split(text.lower()))
    for word in tuple(words):
        joined = _JOINED.fullmatch(word)
        words.update(joined.groups() if joined is not None else ())
    for word in tuple(words):
        variant = _VARIANT.fullmatch(word)
        if variant is not None and word not in _KNOWN_WORDS:
            words.add(variant.group(1))
    return frozenset(words)
