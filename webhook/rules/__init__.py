"""One file per promise. `GROUPS` is the one visible, ordered list; a new rule is a file here and a line in it."""

from collections.abc import Mapping

from webhook.rules import (
    cuda_driver,
    driver_capabilities,
    gpu_limits,
    gpu_nodes,
    gpu_quota,
    gpu_types,
    image_pinning,
    memory_and_cpu,
    nccl_env,
    network,
    node_affinity,
    priority_class,
    processes,
    replica_spread,
    resource_claims,
    runtime_class,
    schedulable,
    shared_gpus,
    shared_memory,
    time_limit,
    tolerations,
    visible_devices,
)
from webhook.rules.rule import Rule

GROUPS: Mapping[str, tuple[Rule, ...]] = {
    "Where a pod may run": (tolerations.RULE, node_affinity.RULE, replica_spread.RULE, gpu_nodes.RULE, gpu_types.RULE),
    "How important a pod is, and how long it may run": (priority_class.RULE, time_limit.RULE),
    "What a container finds on its node": (
        runtime_class.RULE,
        shared_memory.RULE,
        nccl_env.RULE,
        driver_capabilities.RULE,
    ),
    "What a pod may request": (
        gpu_limits.RULE,
        shared_gpus.RULE,
        resource_claims.RULE,
        network.RULE,
        memory_and_cpu.RULE,
        visible_devices.RULE,
        image_pinning.RULE,
        processes.RULE,
    ),
    "Whether a pod can run at all": (schedulable.RULE, cuda_driver.RULE),
    "How many GPUs a namespace may use": (gpu_quota.RULE,),
}

RULES: tuple[Rule, ...] = tuple(rule for group in GROUPS.values() for rule in group)
"""Every rule, in the order in which documents, messages and patches name them. Mutators of one stage see the same pod,
so the order changes no result."""
