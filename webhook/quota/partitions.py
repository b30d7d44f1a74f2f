"""How many partitions an AMD GPU has in each mode.

Source: AMDSMI, the documents and the header of AMD SMI: the number of partitions of each mode of MI300X, and the six
dies (XCD) of MI300A, each of which is a partition in mode CPX.
"""

from webhook.quota.mig_profiles import CutGpu

SOURCE = "AMDSMI"

PARTITIONED_GPUS: tuple[CutGpu, ...] = (
    CutGpu(("MI300X",), {"spx": 1, "dpx": 2, "qpx": 4, "cpx": 8}, SOURCE),
    CutGpu(("MI300A",), {"spx": 1, "cpx": 6}, SOURCE),
)
