"""One file per promise. `RULES` is the one visible, ordered list; a new rule is a file here and a line in it."""

from webhook.rules import (
    cuda_driver,
    gpu_limits,
    gpu_quota,
    nccl_env,
    node_affinity,
    runtime_class,
    shared_memory,
    tolerations,
    visible_devices,
)
from webhook.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    # Where the pod may run.
    tolerations.RULE,
    node_affinity.RULE,
    # What it finds there.
    runtime_class.RULE,
    shared_memory.RULE,
    nccl_env.RULE,
    # What it may ask for.
    gpu_limits.RULE,
    visible_devices.RULE,
    # Whether it will run there.
    cuda_driver.RULE,
    # How much of it there is for a namespace.
    gpu_quota.RULE,
)
"""Every rule, in the order in which documents, messages and patches name them. Mutators of one stage see the same pod,
so the order changes no result."""
