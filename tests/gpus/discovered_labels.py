"""Labels of nodes as GPU Feature Discovery and GKE write them, for tests of whatever reads shares.

Sources: internal/lm/resource_test.go, internal/lm/mig-strategy_test.go and cmd/gpu-feature-discovery/mig_test.go of
NVIDIA/k8s-device-plugin, with names of real GPUs in the place of MOCKMODEL.
"""

from collections.abc import Mapping

GFD = "nvidia.com/"
T4, A100, SLICE = "Tesla-T4", "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"


def discovered(product: str, count: int, replicas: str = "1", strategy: str = "none", mig: str = "") -> dict[str, str]:
    """The labels of GPU Feature Discovery that say what a unit is; no `mig` where its strategy is none."""
    return {
        f"{GFD}gpu.product": product,
        f"{GFD}gpu.count": str(count),
        f"{GFD}gpu.replicas": replicas,
        f"{GFD}gpu.sharing-strategy": strategy,
        **({f"{GFD}mig.strategy": mig} if mig else {}),
    }


UNLABELLED: Mapping[str, str] = {}
WHOLE = discovered(T4, 4)
TIME_SLICED = discovered(f"{T4}-SHARED", 1, "4", "time-slicing")
TIME_SLICED_RENAMED = discovered(T4, 1, "4", "time-slicing")
MPS = discovered(f"{T4}-SHARED", 1, "2", "mps")
MPS_RENAMED = discovered(T4, 1, "2", "mps")
SINGLE = discovered(SLICE, 7, mig="single")
SINGLE_WITHOUT_MIG = discovered(A100, 2, mig="single")
SINGLE_TIME_SLICED = discovered(f"{SLICE}-SHARED", 7, "2", "time-slicing", "single")
SINGLE_RENAMED = discovered(SLICE, 7, "2", "time-slicing", "single")
MIXED = {**discovered(A100, 2, "0", mig="mixed"), f"{GFD}mig-1g.5gb.count": "7", f"{GFD}mig-3g.20gb.count": "2"}
MIXED_BESIDE_SHARED = discovered(f"{A100}-SHARED", 2, "2", "time-slicing", "mixed")
"""A GPU with MIG beside one without, of one model: the count is of both, and only the one without is shared."""
INVALID = discovered(f"{A100}-MIG-INVALID", 0, "0", "", "single")
GKE_TIME_SHARING = {
    "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
    "cloud.google.com/gke-max-shared-clients-per-gpu": "8",
    "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
}
GKE_MPS = {**GKE_TIME_SHARING, "cloud.google.com/gke-gpu-sharing-strategy": "mps"}
GKE_SLICES = {
    "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
    "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
}
CONTRADICTING = discovered(f"{T4}-SHARED", 1, "1", "none")
