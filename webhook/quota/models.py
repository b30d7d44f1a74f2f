"""The GPU models that quotas can limit, by the words that tell them apart.

A model is as fine as a limit may have to be: an A100 of 40 GB is another one than that of 80 GB, because it is cut into
other MIG slices. The name of the family, `A100`, stands for both. A text names the models whose `words` it has; where
several have these words, their `marks` say which of them, and where none of those stands there, it may be any of them.

Sources, of label values that were read: GFD, nodes as GPU Feature Discovery of NVIDIA/k8s-device-plugin labels them;
SMI, what nvidia-smi prints; GKE, the accelerators of Google Kubernetes Engine; KP, aws/karpenter-provider-aws; AMD, the
node labeller of ROCm/k8s-device-plugin; INTEL, the node feature rules of intel/intel-device-plugins-for-kubernetes. A
row without any is unverified.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.model.accelerators import Vendor

NVIDIA_PRODUCT = "nvidia.com/gpu.product"
AMD_PRODUCT = "amd.com/gpu.product-name"
INTEL_PRODUCT = "gpu.intel.com/product"
_PRODUCT_KEYS = {Vendor.NVIDIA: NVIDIA_PRODUCT, Vendor.AMD: AMD_PRODUCT, Vendor.INTEL: INTEL_PRODUCT}


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One GPU model. `family` is its own name where nothing stands for it and others.

    `product` is a value of the product label of its vendor that says it, empty where none is known.
    """

    name: str
    family: str
    vendor: Vendor
    words: frozenset[str]
    marks: frozenset[str]
    product: str = ""
    source: str = ""

    @property
    def example(self) -> tuple[str, str] | None:
        """A node label that says it, as key and value."""
        return (_PRODUCT_KEYS[self.vendor], self.product) if self.product else None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Some of the ways in which labels name it, in small letters."""
        return tuple(text.lower() for text in (self.name, self.family, self.product) if text)


def _rows(vendor: Vendor, table: str) -> tuple[GpuModel, ...]:
    """A row for each line: name, family, words, marks, product and source; a dash stands for nothing."""
    return tuple(_row(vendor, line) for line in table.strip().splitlines())


def _row(vendor: Vendor, line: str) -> GpuModel:
    name, family, words, marks, product, source = (cell.strip().strip("-") for cell in line.split("|"))
    return GpuModel(name, family or name, vendor, frozenset(words.split()), frozenset(marks.split()), product, source)


MODELS: tuple[GpuModel, ...] = (
    *_rows(
        Vendor.NVIDIA,
        """
        K80            | -     | k80        | -          | Tesla-K80                                   | GFD
        M60            | -     | m60        | -          | Tesla-M60                                   | -
        P4             | -     | p4         | -          | Tesla-P4                                    | -
        P40            | -     | p40        | -          | Tesla-P40                                   | -
        P100-12GB      | P100  | p100       | 12gb       | Tesla-P100-PCIE-12GB                        | -
        P100-16GB      | P100  | p100       | 16gb       | Tesla-P100-PCIE-16GB                        | -
        V100-16GB      | V100  | v100       | 16gb       | Tesla-V100-SXM2-16GB                        | GFD
        V100-32GB      | V100  | v100       | 32gb       | Tesla-V100-SXM2-32GB                        | GFD
        T4             | -     | t4         | -          | Tesla-T4                                    | GFD, GKE
        T4G            | -     | t4g        | -          | -                                           | KP
        A2             | -     | a2         | -          | NVIDIA-A2                                   | -
        A10            | -     | a10        | -          | NVIDIA-A10                                  | -
        A10G           | -     | a10g       | -          | NVIDIA-A10G                                 | GFD
        A16            | -     | a16        | -          | NVIDIA-A16                                  | -
        A30            | -     | a30        | -          | NVIDIA-A30                                  | -
        A40            | -     | a40        | -          | NVIDIA-A40                                  | SMI
        A100-40GB      | A100  | a100       | 40gb       | NVIDIA-A100-SXM4-40GB                       | GFD
        A100-80GB      | A100  | a100       | 80gb       | NVIDIA-A100-SXM4-80GB                       | GFD
        A800-40GB      | A800  | a800       | 40gb       | NVIDIA-A800-40GB-Active                     | -
        A800-80GB      | A800  | a800       | 80gb       | NVIDIA-A800-SXM4-80GB                       | -
        L2             | -     | l2         | -          | NVIDIA-L2                                   | -
        L4             | -     | l4         | -          | NVIDIA-L4                                   | SMI, GKE
        L20            | -     | l20        | -          | NVIDIA-L20                                  | SMI
        L40            | -     | l40        | -          | NVIDIA-L40                                  | -
        L40S           | -     | l40s       | -          | NVIDIA-L40S                                 | SMI
        H20            | -     | h20        | -          | NVIDIA-H20                                  | -
        H100-80GB      | H100  | h100       | 80gb pcie  | NVIDIA-H100-80GB-HBM3                       | GFD, GKE
        H100-NVL       | H100  | h100       | nvl 94gb   | NVIDIA-H100-NVL                             | -
        H100-96GB      | H100  | h100       | 96gb       | -                                           | -
        H200           | -     | h200       | -          | NVIDIA-H200                                 | SMI, GKE
        H800           | -     | h800       | -          | NVIDIA-H800                                 | -
        GH200-96GB     | GH200 | gh200      | 480gb 96gb | NVIDIA-GH200-480GB                          | -
        GH200-144GB    | GH200 | gh200      | 144gb 144g | -                                           | -
        B200           | -     | b200       | -          | NVIDIA-B200                                 | SMI, GKE
        GB200          | -     | gb200      | -          | NVIDIA-GB200                                | SMI, GKE
        B300           | -     | b300       | -          | NVIDIA-B300-SXM6-AC                         | GFD
        GB300          | -     | gb300      | -          | NVIDIA-GB300                                | GFD
        GB10           | -     | gb10       | -          | NVIDIA-GB10                                 | -
        RTX-PRO-6000   | -     | rtx 6000   | pro        | NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition | SMI, KP
        RTX-PRO-5000   | -     | rtx 5000   | pro        | -                                           | -
        RTX-PRO-4500   | -     | rtx 4500   | pro        | -                                           | KP
        RTX-PRO-4000   | -     | rtx 4000   | pro        | -                                           | -
        RTX-6000-Ada   | -     | rtx 6000   | ada        | NVIDIA-RTX-6000-Ada-Generation              | -
        RTX-5000-Ada   | -     | rtx 5000   | ada        | NVIDIA-RTX-5000-Ada-Generation              | -
        RTX-4500-Ada   | -     | rtx 4500   | ada        | NVIDIA-RTX-4500-Ada-Generation              | -
        RTX-4000-Ada   | -     | rtx 4000   | ada        | NVIDIA-RTX-4000-Ada-Generation              | -
        Quadro-RTX-8000 | -    | rtx 8000   | quadro     | Quadro-RTX-8000                             | -
        Quadro-RTX-6000 | -    | rtx 6000   | quadro     | Quadro-RTX-6000                             | -
        Quadro-RTX-5000 | -    | rtx 5000   | quadro     | Quadro-RTX-5000                             | -
        Quadro-RTX-4000 | -    | rtx 4000   | quadro     | Quadro-RTX-4000                             | -
        RTX-A6000      | -     | a6000      | -          | NVIDIA-RTX-A6000                            | -
        RTX-A5000      | -     | a5000      | -          | NVIDIA-RTX-A5000                            | -
        RTX-A4500      | -     | a4500      | -          | NVIDIA-RTX-A4500                            | -
        RTX-A4000      | -     | a4000      | -          | NVIDIA-RTX-A4000                            | -
        RTX-A2000      | -     | a2000      | -          | NVIDIA-RTX-A2000                            | -
        RTX-5090       | -     | rtx 5090   | -          | NVIDIA-GeForce-RTX-5090                     | -
        RTX-5080       | -     | rtx 5080   | -          | NVIDIA-GeForce-RTX-5080                     | -
        RTX-4090       | -     | rtx 4090   | -          | NVIDIA-GeForce-RTX-4090                     | -
        RTX-4080       | -     | rtx 4080   | -          | NVIDIA-GeForce-RTX-4080                     | -
        RTX-3090       | -     | rtx 3090   | -          | NVIDIA-GeForce-RTX-3090                     | -
        RTX-3080       | -     | rtx 3080   | -          | NVIDIA-GeForce-RTX-3080                     | -
        RTX-2080       | -     | rtx 2080   | -          | NVIDIA-GeForce-RTX-2080-Ti                  | -
        TITAN-RTX      | -     | titan rtx  | -          | TITAN-RTX                                   | -
        TITAN-V        | -     | titan v    | -          | TITAN-V                                     | -
        """,
    ),
    *_rows(
        Vendor.AMD,
        """
        MI25           | -     | mi25       | -          | AMD_Radeon_Instinct_MI25                    | AMD
        MI50           | -     | mi50       | -          | -                                           | AMD
        MI60           | -     | mi60       | -          | -                                           | AMD
        MI100          | -     | mi100      | -          | AMD_Instinct_MI100                          | AMD
        MI210          | -     | mi210      | -          | AMD_Instinct_MI210                          | AMD
        MI250          | -     | mi250      | -          | -                                           | AMD
        MI250X         | -     | mi250x     | -          | AMD_Instinct_MI250X                         | AMD
        MI300A         | -     | mi300a     | -          | AMD_Instinct_MI300A                         | AMD
        MI300X         | -     | mi300x     | -          | AMD_Instinct_MI300X_OAM                     | AMD
        MI308X         | -     | mi308x     | -          | AMD_Instinct_MI308X                         | AMD
        MI325X         | -     | mi325x     | -          | AMD_Instinct_MI325X                         | AMD
        MI350X         | -     | mi350x     | -          | AMD_Instinct_MI350X                         | AMD
        MI355X         | -     | mi355x     | -          | AMD_Instinct_MI355X                         | AMD
        Radeon-V520    | -     | v520       | -          | AMD_Radeon_Pro_V520                         | AMD, KP
        Radeon-V620    | -     | v620       | -          | AMD_Radeon_Pro_V620                         | AMD
        Radeon-V710    | -     | v710       | -          | AMD_Radeon_Pro_V710                         | AMD
        """,
    ),
    *_rows(
        Vendor.INTEL,
        """
        Flex-140       | -     | flex 140   | -          | Flex_140                                    | INTEL
        Flex-170       | -     | flex 170   | -          | Flex_170                                    | INTEL
        Max-1100       | -     | max 1100   | -          | Max_1100                                    | INTEL
        Max-1550       | -     | max 1550   | -          | Max_1550                                    | INTEL
        """,
    ),
)
"""Every model once. What is not here can be declared under `models` in a policy."""


def _by_name() -> dict[str, frozenset[str]]:
    names = {model.name: frozenset({model.name}) for model in MODELS}
    for model in MODELS:
        names[model.family] = names.get(model.family, frozenset()) | {model.name}
    return names


NAMES: Mapping[str, frozenset[str]] = _by_name()
"""The models that each name stands for, families included."""

VENDORS: Mapping[str, Vendor] = {model.name: model.vendor for model in MODELS}
"""Whose GPU each model is."""
