"""All nodes of the cluster, with indexes that are built at the first question and kept until a node changes.

There is an index for each label key and each resource of nodes, so pods cannot make their number grow: a key that no
node has needs no index, and all resources that no node has share one.

`matching_nodes`, `selected_nodes` and `feasible_nodes` find the nodes for a pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from threading import Lock
from weakref import ref

from webhook.facts.node_sets import NO_AMOUNTS, NO_COLUMN, AmountColumn, LabelColumn, Mask, mask_of
from webhook.facts.nodes import EVERYWHERE, Node
from webhook.gpus.gpu_shares import SHAREABLE, share_of
from webhook.model.accelerators import accelerator
from webhook.model.globs import matcher
from webhook.model.node import COMPARING, NodeClass, RuntimeClass, Taint, Toleration, distinct
from webhook.model.pod import Pod
from webhook.model.requirements import demand_of, is_compared
from webhook.model.selectors import Expression, Term

_MAX_ANSWERS = 64
_MAX_CLASSES_IN_ANSWER = 100
"""Bounds of the answers kept for pods to come: together they stay under a megabyte."""
_FEW_TOLERATIONS = 32
"""Most tolerations that are compared with taints before repetitions are removed."""
_LISTED_BY_NOBODY = ""
"""Stands for every resource that no node lists, except GPUs."""


class NodeTable:
    """An immutable set of nodes. The first question fills an index; threads may ask at the same time."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes
        self.everything: Mask = (1 << len(nodes)) - 1
        self._lock = Lock()
        self._traits: _Traits | None = None
        self._columns: dict[str, LabelColumn] = {}
        self._names: LabelColumn | None = None
        self._answers: dict[Mask, tuple[NodeClass, ...]] = {}
        self._amounts: dict[str, AmountColumn] = {}
        self._combinations: dict[tuple[Mask, tuple[str, ...]], set[tuple[int | None, ...]]] = {}
        self._hardware: list[tuple[Node, Mask]] | None = None
        """A node of each hardware, and all nodes with it."""
        self._without: dict[tuple[str, ...], NodeTable] = {}
        self.last_asked: tuple[ref[Pod], RuntimeClass | None, Mask, Mask] | None = None
        """The pod of the last question (a weak reference), its RuntimeClass, its matching and its selected nodes."""

    def with_node(self, node: Node) -> "NodeTable":
        table = NodeTable({**self.nodes, node.name: node})
        earlier = self.nodes.get(node.name)
        if earlier is not None and _listed(node) == _listed(earlier):
            with self._lock:
                for resource, column in self._amounts.items():
                    if node.amount(resource) == earlier.amount(resource):
                        table._amounts[resource] = column
                if (node.kind, node.keys, node.values) == (earlier.kind, earlier.keys, earlier.values):
                    table._lock, table._traits, table._answers = self._lock, self._traits, self._answers
                    table._columns, table._names = self._columns, self._names
        return table

    def column(self, key: str) -> LabelColumn:
        column = self._columns.get(key)
        if column is not None:
            return column
        if key not in self._indexed().keys:
            return NO_COLUMN
        with self._lock:
            if key not in self._columns:
                self._columns[key] = LabelColumn((node.label(key) for node in self.nodes.values()), len(self.nodes))
            return self._columns[key]

    @property
    def names(self) -> LabelColumn:
        """The names of the nodes, as if they were a label."""
        with self._lock:
            if self._names is None:
                self._names = LabelColumn(self.nodes, len(self.nodes))
            return self._names

    def with_gpu(self, resource: str) -> Mask:
        return self._indexed().gpus.get(resource, 0)

    @property
    def gpu_resources(self) -> frozenset[str]:
        return frozenset(self._indexed().gpus)

    @property
    def divides_gpus(self) -> bool:
        """Whether the labels of some node say that a unit of its GPUs may be a part of a GPU."""
        return (self._traits or self._indexed()).divides_gpus

    @property
    def maker(self) -> str:
        return (self._traits or self._indexed()).maker

    def without_taints(self, globs: tuple[str, ...]) -> "NodeTable":
        """The table in which taints with these keys go away by themselves; itself where no node has one."""
        found = self._without.get(globs)
        if found is None:
            tests = [matcher(glob).fullmatch for glob in globs]
            keys = {key for key, _ in self._indexed().taints if any(test(key) for test in tests)}
            changed = {name: node.without_taints(keys) for name, node in self.nodes.items()} if keys else None
            found = self._without[globs] = self if changed is None else NodeTable(changed)
        return found

    def amounts(self, resource: str) -> AmountColumn:
        column = self._amounts.get(resource)
        if column is not None:
            return column
        traits = self._indexed()
        if resource not in traits.resources and resource not in traits.gpus:
            if accelerator(resource) is not None:
                return NO_AMOUNTS
            resource = resource if resource in EVERYWHERE else _LISTED_BY_NOBODY
        with self._lock:
            if resource not in self._amounts:
                amounts = (self._amount(node, resource) for node in self.nodes.values())
                self._amounts[resource] = AmountColumn(amounts, len(self.nodes))
            return self._amounts[resource]

    def _amount(self, node: Node, resource: str) -> int | None:
        return node.amount(resource)

    def repelling(self, tolerations: Iterable[Toleration]) -> Mask:
        """The nodes with a taint that none of these tolerations tolerates."""
        tolerations = tuple(tolerations)
        if len(tolerations) > _FEW_TOLERATIONS:
            tolerations = distinct(tolerations)
        mask = 0
        for (key, effect), (tainted, by_value) in self._indexed().taints.items():
            mask |= tainted & ~_tolerated(key, effect, by_value, tolerations)
        return mask

    def classes(self, mask: Mask) -> tuple[NodeClass, ...]:
        """The classes of the nodes in `mask`; each counts its nodes in `mask`."""
        answer = self._answers.get(mask)
        if answer is None:
            kinds = self._indexed().kinds
            answer = tuple(
                replace(kind, count=count) for kind, members in kinds if (count := (members & mask).bit_count())
            )
            if len(answer) <= _MAX_CLASSES_IN_ANSWER:
                if len(self._answers) >= _MAX_ANSWERS:
                    self._answers.clear()
                self._answers[mask] = answer
        return answer

    def amounts_in(self, mask: Mask, resources: tuple[str, ...]) -> set[tuple[int | None, ...]]:
        """What the nodes in `mask` have of these resources, each combination once."""
        if self._hardware is None:
            by_amounts: dict[tuple[int, int, int], tuple[Node, list[int]]] = {}
            for at, node in enumerate(self.nodes.values()):
                hardware = id(node.resources), id(node.amounts), id(node.kind.gpu_resources)
                by_amounts.setdefault(hardware, (node, []))[1].append(at)
            size = len(self.nodes)
            self._hardware = [(node, mask_of(places, size)) for node, places in by_amounts.values()]
        found = self._combinations.get((mask, resources))
        if found is None:
            has = [node for node, members in self._hardware if members & mask]
            found = {tuple([node.amount(resource) for resource in resources]) for node in has}
            if len(self._combinations) >= _MAX_ANSWERS:
                self._combinations.clear()
            self._combinations[mask, resources] = found
        return found

    def members(self, mask: Mask) -> tuple[Mask, ...]:
        """The nodes in `mask` of each class that `classes` returns, in its order."""
        return tuple(found for _, members in self._indexed().kinds if (found := members & mask))

    def _indexed(self) -> "_Traits":
        traits = self._traits
        if traits is None:
            with self._lock:
                traits = self._traits = self._traits or _Traits(self.nodes.values())
        return traits


def _listed(node: Node) -> tuple[Mapping[str, int], frozenset[str]]:
    return node.resources, node.kind.gpu_resources


def _tolerated(key: str, effect: str, by_value: Mapping[str, Mask], tolerations: tuple[Toleration, ...]) -> Mask:
    mask = 0
    for toleration in tolerations:
        if toleration.key not in ("", key) or toleration.effect not in ("", effect):
            continue
        if toleration.operator == "Exists":
            return -1
        if toleration.operator in COMPARING:
            tolerated = (found for value, found in by_value.items() if toleration.tolerates(Taint(key, value, effect)))
            mask = reduce(or_, tolerated, mask)
        elif toleration.value in by_value and toleration.tolerates(Taint(key, toleration.value, effect)):
            mask |= by_value[toleration.value]
    return mask


class _Traits:
    """The parts of an index that every question needs: classes of nodes, GPUs, taints, label keys and resources."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        by_kind: dict[int, list[int]] = {}
        kinds: dict[int, NodeClass] = {}
        key_sets: dict[int, Mapping[str, int]] = {}
        resource_sets: dict[int, Mapping[str, int]] = {}
        self.maker = ""
        size = 0
        for size, node in enumerate(nodes, start=1):
            self.maker = self.maker or node.maker
            by_kind.setdefault(id(node.kind), []).append(size - 1)
            kinds[id(node.kind)] = node.kind
            key_sets[id(node.keys)] = node.keys
            resource_sets[id(node.resources)] = node.resources
        self.keys: frozenset[str] = frozenset().union(*key_sets.values())
        self.resources: frozenset[str] = frozenset().union(*resource_sets.values())
        self.kinds = [(kinds[which], mask_of(positions, size)) for which, positions in by_kind.items()]
        self.divides_gpus = any(_is_divided(kind) for kind, _ in self.kinds)
        self.gpus: dict[str, Mask] = {}
        self.taints: dict[tuple[str, str], tuple[Mask, dict[str, Mask]]] = {}
        for kind, mask in self.kinds:
            for resource in kind.gpu_resources:
                self.gpus[resource] = self.gpus.get(resource, 0) | mask
            for taint in kind.taints:
                tainted, by_value = self.taints.get((taint.key, taint.effect), (0, {}))
                by_value[taint.value] = by_value.get(taint.value, 0) | mask
                self.taints[taint.key, taint.effect] = (tainted | mask, by_value)


def _is_divided(kind: NodeClass) -> bool:
    """Whether labels say that units of its GPUs are parts. Labels at odds count, since other tables may know more."""
    share = share_of(kind.labels)
    return bool(share.fault) or any(share.part(resource) < 1 for resource in SHAREABLE)


NAME_FIELD = "metadata.name"
"""The only field of a node that a pod can select by."""


def matching_nodes(table: NodeTable, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
    """The nodes that the pod, as it stands, could be scheduled to.

    A pod that names its node bypasses the scheduler, so taints do not matter to it. The node selector and tolerations
    of the pod's RuntimeClass count as the pod's own. Several rules ask about one pod, so the last answer is kept.
    """
    last = table.last_asked
    if last is not None and last[0]() is pod and last[1] is runtime_class:
        return last[2]
    return _asked(table, pod, runtime_class)[0]


def selected_nodes(table: NodeTable, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
    """The nodes that the pod could be scheduled to if it tolerated every taint."""
    last = table.last_asked
    if last is not None and last[0]() is pod and last[1] is runtime_class:
        return last[3]
    return _asked(table, pod, runtime_class)[1]


def _asked(table: NodeTable, pod: Pod, runtime_class: RuntimeClass | None) -> tuple[Mask, Mask]:
    mask = table.everything
    for gpu in pod.accelerators:
        if gpu.is_listed:
            mask &= table.with_gpu(gpu.resource)
    for key, value in pod.node_selector.items():
        mask &= table.column(key).equal(value)
    if pod.required is not None:
        mask &= _any_of(table, pod.required)
    if runtime_class is not None:
        mask &= _all_of(table, runtime_class.node_selector)
    if pod.node_name:
        mask &= table.names.equal(pod.node_name)
    matching = mask
    if mask and not pod.node_name:
        added = runtime_class.tolerations if runtime_class is not None else ()
        matching &= ~table.repelling((*pod.tolerations, *added))
    table.last_asked = ref(pod), runtime_class, matching, mask
    return matching, mask


def feasible_nodes(table: NodeTable, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
    """The matching nodes with room for all that the pod requests, if no other pod ran there."""
    mask = matching_nodes(table, pod, runtime_class)
    if mask:
        for resource, amount in demand_of(pod).items():
            if is_compared(resource) and not ("/" in resource and is_by_dra(pod, resource)):
                mask &= table.amounts(resource).at_least(amount)
                if not mask:
                    return mask
    return mask


def is_by_dra(pod: Pod, resource: str) -> bool:
    """Whether a DRA driver allocates the resource, so that no node lists it."""
    gpu = pod.known.of(resource)
    return gpu is not None and gpu.by_dra


def _any_of(table: NodeTable, terms: Iterable[Term]) -> Mask:
    mask = 0
    for term in terms:
        if not term.matches_nothing:
            mask |= _all_of(table, term.expressions) & _all_fields_of(table, term.fields)
    return mask


def _all_of(table: NodeTable, expressions: Iterable[Expression]) -> Mask:
    mask = everything = table.everything
    for expression in expressions:
        mask &= table.column(expression.key).matching(expression, everything)
    return mask


def _all_fields_of(table: NodeTable, fields: Iterable[Expression]) -> Mask:
    mask = everything = table.everything
    for field in fields:
        mask &= table.names.matching(field, everything) if field.key == NAME_FIELD else 0
    return mask
