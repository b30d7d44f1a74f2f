"""What a person plans to do with nodes: give some another driver, retire others, and add new ones.

A change names its nodes by one label, `key=value` or `key in (a,b)`, or by the name of a node pool that a policy
declares. All mistakes are reported at once, each with what there is instead.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

from webhook.cuda.cuda_tables import CudaTables
from webhook.facts.driver_objects import CLUSTER_POLICY, NVIDIA_DRIVER, DriverObject, driven_nodes, has_driver
from webhook.facts.facts import ClusterFacts
from webhook.facts.made_pools import EKS_DRIVERS, NODE_POOL_LABEL
from webhook.facts.nodes import Node
from webhook.model.accelerators import Accelerators
from webhook.model.node import CUDA_LABELS, NodeClass, NodePool
from webhook.model.shape import FormatError, spelled
from webhook.model.versions import Version, parse_version
from webhook.model.wording import counted, few, hint, nearest

_IN = re.compile(r"\s*(\S+)\s+in\s*\((.*)\)\s*", re.DOTALL)
_NUMBERS = re.compile(r"[RrVv]?([0-9]{3}(?:\.[0-9]+){0,2})\.?")
"""A driver as release notes write it, such as R580 or v580.95.05."""
_OLDEST_BRANCH = 100
"""The least first number of a driver version. A smaller number is most likely a version of CUDA."""
_WANTED = "write key=value or key in (a,b) with a label of nodes, or the name of a node pool"


class ChangeAction(StrEnum):
    """What happens to nodes."""

    SET = "set"
    """They get another driver."""
    RETIRE = "retire"
    """They are gone."""
    ADD = "add"
    """They are new."""


class UnusableChangesError(ValueError):
    """Changes that cannot be planned; `messages` has every mistake, each with what there is instead."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = tuple(messages)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One thing that is done to nodes, as it was written in `text`.

    `nodes` are names of nodes, `pools` names of pools that policies declare. `driver` and `cuda`, the newest CUDA that
    the driver runs, are given for SET. `note` says what else to know, such as values that mean nothing.
    """

    action: ChangeAction
    text: str
    nodes: frozenset[str]
    pools: frozenset[str] = frozenset()
    driver: Version | None = None
    cuda: Version | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """The nodes of a cluster, and the pools of its policies and NodePools, among which changes select."""

    nodes: Mapping[str, Node]
    pools: tuple[NodePool, ...]
    accelerators: Accelerators
    tables: CudaTables

    def change(self, action: ChangeAction, text: str) -> NodeChange:
        faults: list[str] = []
        selector, driver, version = text, "", None
        if action is ChangeAction.SET:
            selector, equals, driver = text.rpartition("=")
            if not equals:
                raise UnusableChangesError(["names no driver; write SELECTOR=DRIVER, such as pool=a100=580.95.05"])
            try:
                version = _driver(driver.strip(), self.tables)
            except FormatError as error:
                faults.append(str(error))
        try:
            key, values = selector_of(selector)
            nodes, pools = self._selected(key, values, action)
        except FormatError as error:
            faults.append(str(error))
        if faults:
            raise UnusableChangesError(faults)
        missing = self.missing(key, values, action) if key else ""
        said = "; ".join(filter(None, (missing, "" if version is None else self.unknown_release(version))))
        note = f"--{action} {spelled(text)}: {said}" if said else ""
        cuda = None if version is None else self.tables.drivers.reported_by(version)
        return NodeChange(action, selector.strip(), frozenset(nodes), frozenset(pools), version, cuda, note)

    def _selected(self, key: str, values: Sequence[str], action: ChangeAction) -> tuple[list[str], list[str]]:
        """The names of the nodes, and of the pools, that a selector means. Raises FormatError where it means none."""
        if key:
            pools = [pool for pool in self.pools if dict(pool.labels).get(key) in values]
            nodes = [name for name, node in self.nodes.items() if node.label(key) in values]
        else:
            pools = [pool for pool in self.pools if pool.called in values]
            members = [pool.members for pool in pools if pool.members]  # of a node, whatever driver it has
            nodes = [
                name
                for name, node in self.nodes.items()
                if any(all(node.label(label) == value for label, value in of_pool) for of_pool in members)
            ]
        if not nodes and not pools:
            raise FormatError(self.missing(key, values, action) if key else self._no_pool(values[0]))
        if action is ChangeAction.SET:
            bare, nodes = len(nodes), [name for name in nodes if self.has_gpus(self.nodes[name])]
            if not nodes and not pools:
                raise FormatError(f"selects {counted(bare, 'node')} without NVIDIA GPUs; select others")
        return nodes, [pool.called for pool in pools]

    def unknown_release(self, driver: Version) -> str:
        """That a driver is newer than all known releases of its branch; empty for others, and for a branch alone."""
        releases = [*map(parse_version, EKS_DRIVERS.values()), *(row.driver for row in self.tables.toolkits.rows)]
        is_new = not any(one.major == driver.major and one.at_least(driver) for one in releases)
        said = f"release {driver} is not known here, so the facts of branch {driver.major} are used"
        return said if is_new and len(driver.parts) > 1 else ""

    def has_gpus(self, node: Node) -> bool:
        return has_nvidia_gpus(node.kind, self.accelerators)

    def _no_pool(self, name: str) -> str:
        names = sorted({pool.called for pool in self.pools})
        there_are = f"node pools are {few(names)}{hint(name, names)}" if names else "there is no node pool"
        return f"no NodePool and no declared node pool is {spelled(name)}; {_WANTED}; {there_are}"

    def missing(self, key: str, values: Sequence[str], action: ChangeAction) -> str:
        """Which values of a label no node and no pool has, and what there is instead; empty if each value is there."""
        of_pools = [dict(pool.labels) for pool in self.pools]
        there = {node.label(key) for node in self.nodes.values()} | {labels.get(key) for labels in of_pools}
        missing = [value for value in values if value not in there]
        if not missing:
            return ""
        if not self.nodes and not self.pools:
            return "no node is known; the cluster has none, or its nodes cannot be listed: grant the verb list on nodes"
        nodes = [node for node in self.nodes.values() if action is not ChangeAction.SET or self.has_gpus(node)]
        labels = of_pools + [{key: node.label(key) or "" for key in node.keys} for node in nodes]
        if known := sorted({own[key] for own in labels if key in own}):
            what, close = few(list(map(spelled, missing))), nearest(missing[0], known)
            what += f"; {key} is {few(known)}"
        else:
            keys = sorted(set().union(*labels))
            what, close = f"the label {spelled(key)}", nearest(key, keys)
            whose = "GPU nodes" if action is ChangeAction.SET else "nodes"
            what += "" if close else f"; {whose} have {few(keys)}"
        return f"no node and no declared node pool has {what}" + (f"; did you mean {close}?" if close else "")


def has_nvidia_gpus(node: NodeClass, accelerators: Accelerators) -> bool:
    """Whether nodes have NVIDIA GPUs, by device plugin or by ResourceSlices."""
    return node.by_slices is not None or accelerators.has_nvidia(node.gpu_resources)


def selector_of(text: str) -> tuple[str, tuple[str, ...]]:
    """A label and its values; without a label, the name of a pool. Raises FormatError."""
    text = text.strip()
    if text and "=" not in text and not any(map(str.isspace, text)):
        return "", (text,)
    if (found := _IN.fullmatch(text)) is not None:
        key, values = found[1], tuple(filter(None, (value.strip() for value in found[2].split(","))))
    else:
        key, _, value = text.partition("=")
        key, values = key.strip() if "=" in text else "", (value.removeprefix("=").strip(),)
    if not key or not values or any("," in value or "=" in value for value in values):
        raise FormatError(f"{spelled(text)} selects no nodes; {_WANTED}")
    return key, values


def changes_of(sets: Iterable[str], retired: Iterable[str], known: KnownNodes) -> tuple[NodeChange, ...]:
    """The changes that these texts mean: `SELECTOR|POOL=DRIVER` and `SELECTOR|POOL`. Raises UnusableChangesError."""
    faults: list[str] = []
    found: list[NodeChange] = []
    written = [(ChangeAction.SET, text) for text in sets] + [(ChangeAction.RETIRE, text) for text in retired]
    for action, text in written:
        try:
            found.append(known.change(action, text))
        except UnusableChangesError as error:
            faults += (f"--{action} {spelled(text)}: {message}" for message in error.messages)
    faults += _twice(found)
    if faults:
        raise UnusableChangesError(faults)
    return tuple(found)


class WantedDriver(NamedTuple):
    """What a ClusterPolicy or NVIDIADriver changes; nothing if it gives no node another driver.

    `notes` say why it changes nothing, or what else to know. While it is contested, GPU Operator rolls out nothing.
    """

    changes: tuple[NodeChange, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: str = ""  # which NodePools are not judged
    is_contested: bool = False


def wanted_by(one: DriverObject, old: DriverObject | None, facts: ClusterFacts, known: KnownNodes) -> WantedDriver:
    """What the object changes in a cluster beside the driver objects that the facts have; `old` is what it was before.

    Nodes that it leaves may get the driver of another object. A declared pool changes if the object selects its labels,
    or the driver of existing nodes that belong to it.
    """
    table, notes, changes = facts.cluster.table, [], []
    objects = {(other.kind, other.name): other for other in (*facts.cluster.driver_objects, one)}
    nodes, rivals = driven_nodes(objects.values(), table)
    left = table.everything if one.leaves_it else 0
    if one.kind == NVIDIA_DRIVER and old is not None and old.is_on:
        left = old.selected(table) & ~nodes.get(one, 0)
    if one.kind == NVIDIA_DRIVER and one.is_on and one not in nodes:
        ruling = next(other.title for other in objects.values() if other.kind == CLUSTER_POLICY)
        idle = f"{ruling} leaves no driver to NVIDIADrivers, so this changes nothing"
        return WantedDriver((), (f"{idle}; set its spec.driver.useNvidiaDriverCRD to true",))
    for other, mask in nodes.items():
        own = mask if other is one else mask & left
        if other is one or own:
            try:
                named = [table.nodes[name] for name in table.names(own)]
                changes.append(_installing(other, [node for node in named if known.has_gpus(node)], known))
            except FormatError as error:
                notes.append(f"{error}" if other is one else f"{other.title}: {error}")
    if rivals and (one in rivals or one.leaves_it):
        first = one if one in rivals else next(iter(rivals))
        second, both = rivals[first]
        names = table.names(both)
        notes.append(
            f"{first.title} and {second.title} both select {counted(len(names), 'node')}, such as {names[0]}; while "
            "two select one node, GPU Operator rolls out no driver. Change one nodeSelector"
        )
    left_out = _left_out(one, known) if one in nodes else ""
    return WantedDriver(tuple(filter(None, changes)), tuple(notes), left_out, bool(rivals))


def _left_out(one: DriverObject, known: KnownNodes) -> str:
    """Which NodePools the object may mean, and no declared pool stands for; empty if there is none."""
    declared = {dict(pool.labels).get(NODE_POOL_LABEL, pool.name) for pool in known.pools if not pool.made_by}
    names = {
        pool.called
        for pool in known.pools
        if pool.made_by and known.accelerators.has_nvidia(pool.gpu_resources) and pool.called not in declared
        if one.selects(labels := dict(pool.labels)) and not any(key.startswith(CUDA_LABELS) for key in labels)
    }
    if not names or not one.version or (one.pod is not None and one.pod.required is not None):
        return ""
    declare = "declare the pool in spec.nodePools with its driver, or " if one.selector else ""
    return (
        f"NodePool {few(sorted(names))} {'is' if len(names) == 1 else 'are'} left out, because node images may bring a "
        f"driver; {declare}use `gpu-policy plan --set {min(names)}={one.version}`"
    )


def _installing(one: DriverObject, own: Sequence[Node], known: KnownNodes) -> NodeChange | None:
    """The change of an object that has these nodes; None if all have its driver. Raises FormatError."""
    chosen = one.selector.items()
    pools = [
        pool
        for pool in known.pools
        if not pool.made_by  # whose image may bring a driver
        if (chosen and chosen <= dict(pool.labels).items())
        or (pool.members and any(all(node.label(key) == value for key, value in pool.members) for node in own))
    ]
    if not own and not pools:
        if _left_out(one, known) or (not chosen and not any(map(known.has_gpus, known.nodes.values()))):
            return None
        missing = (known.missing(key, (value,), ChangeAction.SET) for key, value in chosen)
        none = "it selects no node with NVIDIA GPUs, but for nodes that bring their own driver"
        raise FormatError(next(filter(None, missing), none))
    if not one.version:
        said = f"{spelled(one.written)} tells no driver version" if one.written else "no version is written"
        raise FormatError(
            f"{said}, so nobody knows what {counted(len(own), 'node')} will run; write one such as 580.95.05"
        )
    version = _driver(one.version, known.tables)
    nodes = frozenset(node.name for node in own if not has_driver(one.version, node.kind.labels, node.kind.by_slices))
    names = frozenset(pool.name for pool in pools if not has_driver(one.version, dict(pool.labels)))
    cuda = known.tables.drivers.reported_by(version)
    note = known.unknown_release(version)
    return NodeChange(ChangeAction.SET, one.title, nodes, names, version, cuda, note) if nodes or names else None


def _driver(text: str, tables: CudaTables) -> Version:
    """The driver version, whose branch the tables know. Raises FormatError."""
    try:
        version = parse_version(text)
    except FormatError:
        version = Version(())
    if not 1 <= len(version.parts) <= 3 or version.major < _OLDEST_BRANCH:
        meant = _NUMBERS.fullmatch(text)
        hinted = f"; did you mean {meant[1]}?" if meant is not None else ""
        raise FormatError(
            f"{spelled(text)} is not a driver version; write one such as 580.95.05, or its branch, 580{hinted}"
        )
    if tables.drivers.branch(version.major) is None:
        numbers = [row.number for row in tables.drivers.rows]
        near = [number for number in numbers if number < version.major][-1:]
        near += [number for number in numbers if number > version.major][:1]
        raise FormatError(
            f"driver branch {version.major} is not in the tables; the nearest {'is' if len(near) == 1 else 'are'} "
            f"{' and '.join(map(str, near))}. A branch that is newer than this release goes into drivers of _cuda.yaml "
            "in the directory of policies"
        )
    return version


def _twice(changes: Sequence[NodeChange]) -> Iterable[str]:
    """Messages about pairs of changes that are alike, or want different things of one node or pool."""
    for other, one in combinations(changes, 2):
        nodes, pools = one.nodes & other.nodes, one.pools & other.pools
        if one.text == other.text:
            whom = f"{spelled(one.text)} is named twice"
        elif (nodes or pools) and (one.action, one.driver) != (other.action, other.driver):
            what = counted(len(nodes), "node") if nodes else counted(len(pools), "node pool")
            whom = f"{spelled(other.text)} and {spelled(one.text)} both mean {what}, such as {min(nodes or pools)}"
        else:
            continue
        deeds = [f"--set to {each.driver}" if each.driver is not None else "--retire" for each in (other, one)]
        yield f"{whom}: {' and '.join(deeds)}; keep one of the two"
