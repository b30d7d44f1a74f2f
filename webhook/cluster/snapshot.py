"""The cluster at one moment, as rules see it: which nodes a pod could be scheduled to, and which runtime classes exist.

A snapshot never changes. What changes in the cluster gives a new one, which shares all that stayed the same; news that
rules cannot see, such as a node's heartbeat, gives the same one again, with the indexes it has built so far.
"""

from collections.abc import Iterable, Mapping, Sequence

from webhook.cluster.masks import Mask
from webhook.cluster.objects import Node, node_from_raw, runtime_class_from_raw
from webhook.cluster.table import NodeTable
from webhook.model.image import NOT_LOOKED_UP, ImageSight
from webhook.model.node import NodeClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.model.selectors import Expression, Term

NAME_FIELD = "metadata.name"
"""The only field of a node that a pod can select by."""


class Snapshot:
    """Implements Facts. Threads may ask at the same time; an answer costs the same with 10 nodes and with 5,000.

    The first question after a change also pays for the indexes, a few milliseconds with 5,000 nodes. `unreadable`
    counts the objects that were left out because they have no name.
    """

    __slots__ = ("_runtime_classes", "_table", "unreadable")

    def __init__(self, table: NodeTable, runtime_classes: Mapping[str, RuntimeClass], unreadable: int = 0) -> None:
        self._table = table
        self._runtime_classes = runtime_classes
        self.unreadable = unreadable

    @classmethod
    def of(cls, nodes: Iterable[object] = (), runtime_classes: Iterable[object] = ()) -> "Snapshot":
        """The snapshot of these objects, as the API server gives them."""
        return EMPTY.with_nodes(nodes).with_runtime_classes(runtime_classes)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return self._table.nodes

    @property
    def runtime_classes(self) -> Mapping[str, RuntimeClass]:
        """The runtime classes by name."""
        return self._runtime_classes

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """The RuntimeClass of this name, None where the cluster has none."""
        return self._runtime_classes.get(name)

    def image(self, reference: str) -> ImageSight:  # noqa: ARG002  # nodes know nothing of images
        """Nothing: no registry is asked."""
        return NOT_LOOKED_UP

    def candidates(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the nodes that the pod, as it stands, could be scheduled to; empty where none is known.

        A pod that names its node bypasses the scheduler, so taints do not matter to it. What the pod's own RuntimeClass
        adds (node selector and tolerations) counts as if it stood in the pod.
        """
        table = self._table
        runtime_class = self._runtime_classes.get(pod.runtime_class) if pod.runtime_class else None
        mask = table.everything
        for resource in pod.gpus:
            mask &= table.with_gpu(resource)
        for key, value in pod.node_selector.items():
            mask &= table.column(key).equal(value)
        if pod.required is not None:
            mask &= self._any_of(pod.required)
        if runtime_class is not None:
            mask &= self._all_of(runtime_class.node_selector)
        if pod.node_name:
            mask &= table.names.equal(pod.node_name)
        elif mask:
            added = runtime_class.tolerations if runtime_class is not None else ()
            mask &= ~table.repelling((*pod.tolerations, *added))
        return table.classes(mask)

    def _any_of(self, terms: Iterable[Term]) -> Mask:
        mask = 0
        for term in terms:
            if not term.matches_nothing:
                mask |= self._all_of(term.expressions) & self._all_fields_of(term.fields)
        return mask

    def _all_of(self, expressions: Iterable[Expression]) -> Mask:
        mask = everything = self._table.everything
        for expression in expressions:
            mask &= self._table.column(expression.key).matching(expression, everything)
        return mask

    def _all_fields_of(self, fields: Iterable[Expression]) -> Mask:
        mask = everything = self._table.everything
        for field in fields:
            mask &= self._table.names.matching(field, everything) if field.key == NAME_FIELD else 0
        return mask

    def with_nodes(self, raws: Iterable[object]) -> "Snapshot":
        """These nodes instead of the present ones; what is remembered of nodes that stay is kept."""
        nodes: dict[str, Node] = {}
        unreadable = 0
        for raw in raws:
            node = node_from_raw(raw)
            if node is None:
                unreadable += 1
            else:
                nodes[node.name] = node.remembering(self.nodes.get(node.name))
        if nodes == self.nodes:
            return self if unreadable == self.unreadable else Snapshot(self._table, self._runtime_classes, unreadable)
        return Snapshot(NodeTable(nodes), self._runtime_classes, unreadable)

    def with_node(self, raw: object) -> "Snapshot":
        """The snapshot with a node added or changed; itself where that changes nothing that rules can see."""
        node = node_from_raw(raw)
        if node is None:
            return self
        earlier = self.nodes.get(node.name)
        node = node.remembering(earlier)
        if node == earlier:
            return self
        return Snapshot(NodeTable({**self.nodes, node.name: node}), self._runtime_classes, self.unreadable)

    def without_node(self, name: str) -> "Snapshot":
        """The snapshot without a node; itself where it has none of this name."""
        if name not in self.nodes:
            return self
        nodes = {other: node for other, node in self.nodes.items() if other != name}
        return Snapshot(NodeTable(nodes), self._runtime_classes, self.unreadable)

    def with_runtime_classes(self, raws: Iterable[object]) -> "Snapshot":
        """These runtime classes instead of the present ones."""
        found = [runtime_class for raw in raws if (runtime_class := runtime_class_from_raw(raw)) is not None]
        return self._with_runtime_classes({runtime_class.name: runtime_class for runtime_class in found})

    def with_runtime_class(self, raw: object) -> "Snapshot":
        """The snapshot with a runtime class added or changed."""
        runtime_class = runtime_class_from_raw(raw)
        if runtime_class is None:
            return self
        return self._with_runtime_classes({**self._runtime_classes, runtime_class.name: runtime_class})

    def without_runtime_class(self, name: str) -> "Snapshot":
        """The snapshot without a runtime class."""
        return self._with_runtime_classes({key: value for key, value in self._runtime_classes.items() if key != name})

    def with_runtime_classes_of(self, other: "Snapshot") -> "Snapshot":
        """The nodes of this snapshot with the runtime classes of another."""
        return self._with_runtime_classes(other.runtime_classes)

    def _with_runtime_classes(self, runtime_classes: Mapping[str, RuntimeClass]) -> "Snapshot":
        if runtime_classes == self._runtime_classes:
            return self
        return Snapshot(self._table, runtime_classes, self.unreadable)


EMPTY = Snapshot(NodeTable({}), {})
"""A cluster of which nothing is known."""
