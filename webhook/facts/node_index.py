"""All nodes of the cluster: their classes, and for each label the nodes with each value.

Sets of nodes are integers with a bit for each node. So the time for a pod with thousands of terms or values, which
tenants write, does not grow with the cluster for each of them. What is kept is about labels and resources of nodes, or
has bounds; so pods cannot make it grow. Node pools are a table as well, each as if it were one node.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import Any, TypeVar

from webhook.facts.nodes import SAME_LABELS, Node, node_from_raw
from webhook.gpus.gpu_catalogue import CATALOGUE
from webhook.gpus.gpu_names import INSTANCE_TYPE
from webhook.gpus.gpu_shares import SHAREABLE, share_of
from webhook.gpus.gpu_table import GPUS
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.globs import matcher
from webhook.model.node import (
    ChangingNodes,
    NextDriver,
    NodeClass,
    NodePool,
    OpenLabels,
    RuntimeClass,
    Toleration,
    distinct,
)
from webhook.model.pod import Pod
from webhook.model.requirements import demand_of, is_compared
from webhook.model.selectors import Expression, Operator, Term, contradicts

Mask = int
"""A set of nodes."""

NAME_FIELD = "metadata.name"
"""The only field of a node that a pod can select by. No label has this key."""
_HOSTNAME = "kubernetes.io/hostname"

_MOST_ANSWERS = 256
"""Most answers that a table keeps."""
_MOST_TOLERATIONS = 32
"""Most tolerations of a pod whose answer is kept."""

_Answer = TypeVar("_Answer")


class NodeTable:
    """An immutable set of nodes. Threads may ask at the same time; what two of them compute at once is equal."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes
        self.everything: Mask = (1 << len(nodes)) - 1
        self._columns: dict[str, dict[str | None, int]] = {}
        self._answers: dict[Hashable, Any] = {}
        self._without: dict[tuple[str, ...], NodeTable] = {}
        self._last: tuple[Pod, RuntimeClass | None, tuple[Mask, Mask]] | None = None

    def with_node(self, node: Node) -> "NodeTable":
        return NodeTable({**self.nodes, node.name: node})

    @cached_property
    def kinds(self) -> Sequence[tuple[NodeClass, Mask]]:
        places: dict[NodeClass, list[int]] = {}
        for at, node in enumerate(self.nodes.values()):
            places.setdefault(node.kind, []).append(at)
        return [(kind, mask_of(found, len(self.nodes))) for kind, found in places.items()]

    @cached_property
    def gpu_resources(self) -> frozenset[str]:
        """The GPU resources of all nodes, now or earlier."""
        return frozenset().union(*(kind.gpu_resources for kind, _ in self.kinds))

    @cached_property
    def resources(self) -> frozenset[str]:
        """The names of the resources that some node lists."""
        return frozenset().union(*{id(node.resources): node.resources for node in self.nodes.values()}.values())

    @cached_property
    def divides_gpus(self) -> bool:
        """Whether the labels of some node say that a unit of its GPUs may be a part of a GPU.

        Labels at odds count, since other tables of GPUs may know more.
        """
        shares = [share_of(kind.labels) for kind, _ in self.kinds]
        return any(share.fault or any(share.part(resource) < 1 for resource in SHAREABLE) for share in shares)

    @cached_property
    def makers(self) -> tuple[str, ...]:
        """The autoscalers that may make nodes of other kinds, as far as nodes show any."""
        return tuple(dict.fromkeys(node.maker for node in self.nodes.values() if node.maker))

    @cached_property
    def is_of_gke(self) -> bool:
        return "cloud.google.com/gke-nodepool" in self._keys

    def without_taints(self, globs: tuple[str, ...]) -> "NodeTable":
        """The table in which taints with these keys go away by themselves; itself where no node has one."""
        found = self._without.get(globs)
        if found is None:
            tests = [matcher(glob).fullmatch for glob in globs]
            taints = {taint.key for kind, _ in self.kinds for taint in kind.taints}
            keys = {key for key in taints if any(test(key) for test in tests)}
            changed = {name: node.without_taints(keys) for name, node in self.nodes.items()} if keys else None
            found = self._without[globs] = self if changed is None else NodeTable(changed)
        return found

    def classes(self, mask: Mask) -> tuple[NodeClass, ...]:
        """The classes of the nodes in `mask`; each counts its nodes in `mask`. Node pools count 0 nodes."""
        kept: tuple[NodeClass, ...] | None = self._answers.get(mask)
        return self.kept(mask, lambda: tuple(self._counted(mask))) if kept is None else kept

    def _counted(self, mask: Mask) -> Iterator[NodeClass]:
        for kind, members in self.kinds:
            if found := members & mask:
                yield replace(kind, count=found.bit_count()) if kind.count else kind

    def kept(self, question: Hashable, answer: Callable[[], _Answer]) -> _Answer:
        found: _Answer | None = self._answers.get(question)
        if found is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            found = self._answers[question] = answer()
        return found

    def names(self, mask: Mask) -> list[str]:
        return [name for at, name in enumerate(self.nodes) if mask >> at & 1]

    def members(self, mask: Mask) -> tuple[Mask, ...]:
        """The nodes in `mask` of each class that `classes` returns, in its order."""
        return tuple(found for _, members in self.kinds if (found := members & mask))

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset().union(*{id(node.keys): node.keys for node in self.nodes.values()}.values())

    def _column(self, key: str) -> Mapping[str | None, int]:
        """The values of a label, None for no such label. With each the nodes that have it, or for a single node the
        complement of its place, which is negative and shorter.
        """
        column = self._columns.get(key)
        if column is None:
            if key not in self._keys and key != NAME_FIELD:
                return {None: self.everything}
            places: dict[str | None, list[int]] = {}
            for at, node in enumerate(self.nodes.values()):
                places.setdefault(node.name if key == NAME_FIELD else node.label(key), []).append(at)
            size = len(self.nodes)
            column = {value: mask_of(at, size) if len(at) > 1 else ~at[0] for value, at in places.items()}
            self._columns[key] = column
        return column

    def label_values(self, key: str) -> Iterable[str]:
        return [value for value in self._column(key) if value is not None]

    def labelled(self, key: str, values: Iterable[str | None]) -> Mask:
        column, mask = self._column(key), 0
        for value in values:
            found = column.get(value, 0)
            mask |= found if found >= 0 else 1 << ~found
        return mask

    def meeting(self, expressions: Iterable[Expression]) -> Mask:
        """The nodes that satisfy all these expressions on labels, or on NAME_FIELD."""
        mask = self.everything
        for one in expressions:
            match one.operator:
                case Operator.IN:
                    mask &= self.labelled(one.key, one.values)
                case Operator.NOT_IN:
                    mask &= ~self.labelled(one.key, one.values)
                case Operator.EXISTS:
                    mask &= ~self.labelled(one.key, [None])
                case _:
                    mask &= self.labelled(one.key, [value for value in self._column(one.key) if one.accepts(value)])
        return mask

    def _any_of(self, terms: Iterable[Term]) -> Mask:
        mask = 0
        for term in terms:
            if not term.matches_nothing and all(field.key == NAME_FIELD for field in term.fields):
                mask |= self.meeting(term.expressions) & self.meeting(term.fields)
        return mask

    def matching(self, pod: Pod, runtime_class: RuntimeClass | None) -> tuple[Mask, Mask]:
        """The nodes that the pod, as it stands, could be scheduled to; and those if it tolerated every taint.

        A pod that names its node bypasses the scheduler, so taints do not matter to it. The node selector and
        tolerations of the pod's RuntimeClass count as the pod's own. Several rules ask about one pod, so the last
        answer is kept.
        """
        last = self._last
        if last is not None and last[0] is pod and last[1] is runtime_class:
            return last[2]
        selected, tolerations = self.everything, pod.tolerations
        for gpu in pod.accelerators:
            if gpu.is_listed:
                selected &= reduce(or_, [mask for kind, mask in self.kinds if gpu.resource in kind.gpu_resources], 0)
        for key, value in pod.node_selector.items():
            selected &= self.labelled(key, [value])
        if pod.required is not None:
            selected &= self._any_of(pod.required)
        if runtime_class is not None:
            selected &= self.meeting(runtime_class.node_selector)
            tolerations = (*tolerations, *runtime_class.tolerations)
        if pod.node_name:
            selected &= self.labelled(NAME_FIELD, [pod.node_name])
        matching = selected
        if selected and not pod.node_name:
            if len(tolerations) <= _MOST_TOLERATIONS:
                matching &= ~self.kept(tolerations, lambda: self._repelled(tolerations))
            else:
                matching &= ~self._repelled(tolerations)
        self._last = pod, runtime_class, (matching, selected)
        return matching, selected

    def _repelled(self, tolerations: Sequence[Toleration]) -> Mask:
        by_key: dict[str, list[Toleration]] = {}
        for one in distinct(tolerations) if len(tolerations) > 1 else tolerations:
            by_key.setdefault(one.key, []).append(one)
        mask = 0
        for kind, members in self.kinds:
            for taint in kind.taints:
                if not any(one.tolerates(taint) for one in (*by_key.get("", ()), *by_key.get(taint.key, ()))):
                    mask |= members
        return mask

    def matching_nodes(self, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
        return self.matching(pod, runtime_class)[0]

    def selected_nodes(self, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
        return self.matching(pod, runtime_class)[1]

    def feasible_nodes(self, pod: Pod, runtime_class: RuntimeClass | None) -> Mask:
        """The matching nodes with room for all that the pod requests, if no other pod ran there."""
        mask = self.matching(pod, runtime_class)[0]
        for name, wanted in demand_of(pod).items() if mask else ():
            if is_compared(name) and not ("/" in name and is_by_dra(pod, name)):
                mask &= self._with_at_least(name, wanted)
        return mask

    def _with_at_least(self, resource: str, wanted: int) -> Mask:
        def found() -> Mask:
            amounts = enumerate(self._amounts_of(resource))
            return mask_of([at for at, amount in amounts if amount is None or amount >= wanted], len(self.nodes))

        return self.kept((resource, wanted), found)

    def _amounts_of(self, resource: str) -> tuple[int | None, ...]:
        return self.kept(resource, lambda: tuple([node.amount(resource) for node in self.nodes.values()]))

    def amounts_in(self, mask: Mask, resources: tuple[str, ...], *, now: bool = False) -> set[tuple[int | None, ...]]:
        """What the nodes in `mask` have of these resources, each combination once. `now`: without what is away."""

        def found() -> set[tuple[int | None, ...]]:
            columns = [self._amounts_of(name) for name in resources]
            places = [at for at, bit in enumerate(reversed(f"{mask:b}")) if bit == "1"]
            away = [node.away if now else () for node in self.nodes.values()]
            named = list(zip(resources, columns, strict=True))
            return {tuple([0 if name in away[at] else column[at] for name, column in named]) for at in places}

        return self.kept((mask, resources, now), found)

    def rooms(self, mask: Mask, amounts: Mapping[str, int]) -> int | None:
        """How often the nodes in `mask` have all these amounts; None where one of them has an unknown amount."""

        def found() -> int | None:
            total = 0
            for at in [at for at, bit in enumerate(reversed(f"{mask:b}")) if bit == "1"]:
                having = [(self._amounts_of(name)[at], wanted) for name, wanted in amounts.items()]
                if any(has is None for has, _ in having):
                    return None
                total += min((has or 0) // wanted for has, wanted in having)
            return total

        return self.kept((mask, "rooms", *amounts.items()), found)


class PoolTable(NodeTable):
    """Pools, of whose labels some have no single value. Pools that say the same of a label are asked once."""

    @cached_property
    def _sayings(self) -> dict[str, Sequence[tuple[OpenLabels, Mask]]]:
        return {}

    @cached_property
    def _named(self) -> frozenset[str]:
        return self._keys.union([one.key for node in self.nodes.values() if node.open for one in node.open.required])

    def label_values(self, key: str) -> Iterable[str]:
        said = [one for known, _ in self._said_of(key) for one in known.required if one.operator == Operator.IN]
        return [value for one in said for value in one.values]

    def labelled(self, key: str, values: Iterable[str | None]) -> Mask:
        return self.meeting([Expression(key, Operator.IN, tuple(value for value in values if value is not None))])

    def meeting(self, expressions: Iterable[Expression]) -> Mask:
        mask = self.everything
        for one in expressions:
            wanted = one._replace(key=SAME_LABELS.get(one.key, one.key))
            mask &= reduce(or_, [own for known, own in self._said_of(wanted.key) if _may_meet(known, wanted)], 0)
        return mask

    def _said_of(self, key: str) -> Sequence[tuple[OpenLabels, Mask]]:
        """What is known of one label, and of which pools; of all labels that no pool names, the same."""
        key = key if key in self._named else ""
        if key not in self._sayings:
            places: dict[OpenLabels, list[int]] = {}
            for at, node in enumerate(self.nodes.values()):
                known, value = node.open or OpenLabels(), node.label(key)
                of_value = (Expression(key, Operator.IN, (value,)),) if value is not None else known.required
                stated = tuple([one for one in of_value if one.key == key])
                places.setdefault(replace(known, required=stated), []).append(at)
            self._sayings[key] = [(known, mask_of(found, len(self.nodes))) for known, found in places.items()]
        return self._sayings[key]


def _may_meet(known: OpenLabels, wanted: Expression) -> bool:
    if known.required:  # to Karpenter, NotIn makes a label optional, whatever else but In stands beside it
        operators = {one.operator for one in known.required}
        is_optional = Operator.NOT_IN in operators and Operator.IN not in operators
        return (is_optional and wanted.accepts(None)) or not contradicts(known.required, wanted)
    if not any(matcher(glob).fullmatch(wanted.key) for glob in known.keys):
        return wanted.accepts(None)
    if wanted.key == _HOSTNAME:  # each node has its own
        return wanted.operator in (Operator.EXISTS, Operator.NOT_IN)
    named = [GPUS.models_at(wanted.key, value) for value in wanted.values] if wanted.operator == Operator.IN else []
    return not named or not known.models or any(not one or one & known.models for one in named)


def mask_of(places: Iterable[int], size: int) -> Mask:
    """The set of the nodes at these positions, all below `size`."""
    bits = bytearray(size // 8 + 1)
    for at in places:
        bits[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(bits, "little")


def is_by_dra(pod: Pod, resource: str) -> bool:
    """Whether a DRA driver allocates the resource, so that no node lists it."""
    gpu = pod.known.of(resource)
    return gpu is not None and gpu.by_dra


@lru_cache(maxsize=256)
def pool_table(pools: tuple[NodePool, ...], accelerators: Accelerators = BUILT_IN) -> NodeTable:
    """Pools as if each were a node. The pool may have no node at the moment, so its class counts 0 nodes."""
    nodes = [node for pool in pools if (node := _node(pool, accelerators)) is not None]
    table = NodeTable if all(node.open is None for node in nodes) else PoolTable
    return table({node.name: node for node in nodes})


@lru_cache(maxsize=8192)
def _node(pool: NodePool, accelerators: Accelerators) -> Node | None:
    """A node of the pool. Its name has a space, so that no node has the same name.

    GPUs with an amount of 0 are there in an unknown number.
    """
    raw = {
        "metadata": {"name": f"pool {pool.name}", "labels": dict(pool.labels)},
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
        "status": {"capacity": dict.fromkeys(pool.gpu_resources, str(pool.gpus or 0))},
    }
    node = node_from_raw(raw, accelerators)
    if node is None:
        return None
    labels, models = node.kind.labels, pool.open.models if pool.open else frozenset()
    machine = node.label(INSTANCE_TYPE) if models and CATALOGUE.models_at(labels) - models else None
    if machine is not None:  # the name of the GPU does not tell its model, and the machine type does
        labels = {**labels, INSTANCE_TYPE: machine}
    kind = replace(node.kind, labels=labels, count=0, pool=pool.made_by)
    return replace(node, kind=kind, is_declared=True, open=pool.open)


def changing_nodes(
    pools: tuple[NodePool, ...], declared: NodeTable, cluster: NodeTable, pod: Pod, runtime_class: RuntimeClass | None
) -> Iterator[ChangingNodes]:
    """The nodes of the cluster and the pools that match a pod now and will get another driver, pool by pool."""
    of_nodes, of_pools = (table.matching_nodes(pod, runtime_class) for table in (cluster, declared))
    for pool in pools:
        change = pool.next
        if change is not None:
            own = cluster.everything if change.members else 0
            for key, value in change.members:
                own &= cluster.labelled(key, [value])
            place = 1 << list(declared.nodes).index(f"pool {pool.name}")
            if now := (*cluster.classes(of_nodes & own), *declared.classes(of_pools & place)):
                yield changing(pool.name, change, now)


@lru_cache(maxsize=64)
def changing(pool: str, change: NextDriver, now: tuple[NodeClass, ...]) -> ChangingNodes:
    """The nodes of one pool. Most pods get the same answer, and so the verdicts that are kept about it."""
    return ChangingNodes(pool, change, now, tuple(_changed(one, change) for one in now))


def _changed(nodes: NodeClass, change: NextDriver) -> NodeClass:
    """Nodes as they will be, with the next driver in their labels and in what their ResourceSlices say."""
    slices = nodes.by_slices
    by_slices = slices._replace(driver="", cuda="") if slices is not None else None
    return replace(nodes, labels=change.over(nodes.labels), by_slices=by_slices)
