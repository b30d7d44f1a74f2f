"""What each rule must and must not do, said a second time and from the JSON alone: one oracle for every rule."""

from collections.abc import Mapping

from tests.fuzz.oracles import amounts, containers, devices, places, times
from tests.fuzz.seen import Oracle

ORACLES: Mapping[str, Oracle] = {
    "tolerations": places.tolerations,
    "nodeAffinity": places.node_affinity,
    "replicaSpread": places.replica_spread,
    "gpuNodesForGpuPods": places.gpu_nodes,
    "priorityClass": times.priority_class,
    "timeLimit": times.time_limit,
    "runtimeClass": containers.runtime_class,
    "sharedMemory": containers.shared_memory,
    "ncclEnv": containers.nccl_env,
    "driverCapabilities": containers.driver_capabilities,
    "gpuLimits": amounts.gpu_limits,
    "sharedGpus": amounts.shared_gpus,
    "memoryAndCpu": amounts.memory_and_cpu,
    "visibleDevices": devices.visible_devices,
    "imagePinning": containers.image_pinning,
    "schedulable": places.schedulable,
    "cudaDriver": places.cuda_driver,
    "gpuQuota": amounts.gpu_quota,
}
"""By the key of the rule."""
