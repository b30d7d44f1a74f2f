"""How many MIG slices of each profile fit on one GPU.

Source: MIGP, the tables of supported profiles in NVIDIA's MIG user guide: the largest number of instances of each.

AMD GPUs are partitioned by mode, and every mode has its number of partitions.

Source: AMDSMI, the documents and the header of AMD SMI: the number of partitions of each mode of MI300X, and the six
dies (XCD) of MI300A, each of which is a partition in mode CPX.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SOURCE = "MIGP"


@dataclass(frozen=True, slots=True)
class CutGpu:
    """Models of the catalogue that are cut alike, and the most slices of each profile on one GPU of them."""

    models: tuple[str, ...]
    most: Mapping[str, int]
    source: str = SOURCE


MIG_GPUS: tuple[CutGpu, ...] = (
    CutGpu(("A30",), {"1g.6gb": 4, "1g.6gb+me": 1, "2g.12gb": 2, "2g.12gb+me": 1, "4g.24gb": 1}),
    CutGpu(
        ("A100-40GB",),
        {"1g.5gb": 7, "1g.5gb+me": 1, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
    ),
    CutGpu(
        ("A100-80GB",),
        {"1g.10gb": 7, "1g.10gb+me": 1, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
    ),
    CutGpu(
        ("H100-80GB",),
        {"1g.10gb": 7, "1g.10gb+me": 1, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
    ),
    CutGpu(
        ("H100-NVL",),
        {"1g.12gb": 7, "1g.12gb+me": 1, "1g.24gb": 4, "2g.24gb": 3, "3g.47gb": 2, "4g.47gb": 1, "7g.94gb": 1},
    ),
    CutGpu(
        ("GH200-96GB", "H100-96GB", "H20"),
        {"1g.12gb": 7, "1g.24gb": 4, "2g.24gb": 3, "3g.48gb": 2, "4g.48gb": 1, "7g.96gb": 1},
    ),
    CutGpu(
        ("H200",),
        {"1g.18gb": 7, "1g.18gb+me": 1, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1},
    ),
    CutGpu(
        ("GH200-144GB",),
        {"1g.18gb": 7, "1g.36gb": 4, "2g.36gb": 3, "3g.72gb": 2, "4g.72gb": 1, "7g.144gb": 1},
    ),
    CutGpu(
        ("B200",),
        {"1g.23gb": 7, "1g.23gb+me": 1, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "4g.90gb": 1, "7g.180gb": 1},
    ),
    CutGpu(
        ("GB200",),
        {"1g.23gb": 7, "1g.23gb+me": 1, "1g.47gb": 4, "2g.47gb": 3, "3g.93gb": 2, "4g.93gb": 1, "7g.186gb": 1},
    ),
    CutGpu(("GB200",), {"3g.95gb": 2, "4g.95gb": 1, "7g.189gb": 1}),
    CutGpu(
        ("B300",),
        {"1g.34gb": 7, "1g.34gb+me": 1, "1g.67gb": 4, "2g.67gb": 3, "3g.135gb": 2, "4g.135gb": 1, "7g.269gb": 1},
    ),
    CutGpu(
        ("GB300",),
        {"1g.35gb": 7, "1g.35gb+me": 1, "1g.70gb": 4, "2g.70gb": 3, "3g.139gb": 2, "4g.139gb": 1, "7g.278gb": 1},
    ),
    CutGpu(
        ("RTX-PRO-6000",),
        {
            "1g.24gb": 4,
            "1g.24gb+gfx": 4,
            "1g.24gb+me.all": 1,
            "1g.24gb-me": 4,
            "2g.48gb": 2,
            "2g.48gb+gfx": 2,
            "2g.48gb+me.all": 1,
            "2g.48gb-me": 2,
            "4g.96gb": 1,
            "4g.96gb+gfx": 1,
        },
    ),
)
"""Two rows of one model are two ways in which drivers cut it."""


PARTITION_SOURCE = "AMDSMI"

PARTITIONED_GPUS: tuple[CutGpu, ...] = (
    CutGpu(("MI300X",), {"spx": 1, "dpx": 2, "qpx": 4, "cpx": 8}, PARTITION_SOURCE),
    CutGpu(("MI300A",), {"spx": 1, "cpx": 6}, PARTITION_SOURCE),
)
