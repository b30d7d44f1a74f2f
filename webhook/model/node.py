"""What the rules may know about nodes and runtime classes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.model.selectors import Expression
from webhook.model.tolerations import Taint, Toleration


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that nothing a rule asks about tells apart.

    `labels` are the labels they share, `gpu_resources` the GPU resource names in their capacity, `runtime_handlers`
    the names in status.runtimeHandlers, None where the nodes do not publish them (before containerd 2 or CRI-O 1.31).
    """

    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    gpu_resources: frozenset[str] = frozenset()
    runtime_handlers: frozenset[str] | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """A RuntimeClass object; `handler` is what the container runtime knows it by."""

    name: str
    handler: str
    node_selector: tuple[Expression, ...] = ()
    tolerations: tuple[Toleration, ...] = field(default=())
