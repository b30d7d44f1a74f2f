"""What settings of rules name in the cluster, so that the doctor can check that it exists."""

from dataclasses import dataclass

from webhook.model.node import Toleration
from webhook.model.selectors import Expression


@dataclass(frozen=True, slots=True)
class RuntimeClassName:
    """The name of a RuntimeClass."""

    name: str

    def __str__(self) -> str:
        return f"RuntimeClass {self.name}"


@dataclass(frozen=True, slots=True)
class PriorityClassName:
    """The name of a PriorityClass."""

    name: str

    def __str__(self) -> str:
        return f"PriorityClass {self.name}"


Reference = RuntimeClassName | PriorityClassName | Expression | Toleration
"""Something in the cluster that settings name: a class, a label of nodes, or a taint (as its toleration)."""
