"""What a policy says about workloads, the objects that make pods."""

from enum import StrEnum


class WorkloadsMode(StrEnum):
    """What becomes of a workload whose pods would be refused."""

    WARN = "warn"
    ENFORCE = "enforce"
    DISABLED = "disabled"
