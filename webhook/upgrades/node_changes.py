"""What a person plans to do with nodes: other drivers for some, none left of others, and new ones.

A change names its nodes by one label, `key=value` or `key in (a,b)`, or by the name of a node pool that a policy
declares. All mistakes are reported at once, each with what there is instead.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from webhook.cuda.cuda_tables import CudaTables
from webhook.facts.nodes import Node
from webhook.model.accelerators import Accelerators, Vendor
from webhook.model.node import NodeClass, NodePool
from webhook.model.shape import FormatError, spelled
from webhook.model.versions import Version, parse_version
from webhook.model.wording import counted, few, hint, nearest

_IN = re.compile(r"\s*(\S+)\s+in\s*\((.*)\)\s*", re.DOTALL)
_NUMBERS = re.compile(r"[RrVv]?([0-9]{3}(?:\.[0-9]+){0,2})\.?")
"""A driver as release notes write it, such as R580 or v580.95.05."""
_OLDEST_BRANCH = 100
"""The least first number of a driver version. A smaller number is most likely a version of CUDA."""
_WANTED = "write key=value or key in (a,b) with a label of nodes, or the name of a node pool that a policy declares"


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
class NodeSelection:
    """Nodes and declared pools by a label that has one of `values`; without a `key`, the pool named `text`."""

    text: str
    key: str = ""
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> "NodeSelection":
        """Read a selector, or the name of a pool. Raises FormatError."""
        text = text.strip()
        if (found := _IN.fullmatch(text)) is not None:
            key, values = found[1], tuple(filter(None, (value.strip() for value in found[2].split(","))))
        else:
            key, equals, value = text.partition("=")
            key, values = key.strip(), (value.removeprefix("=").strip(),)
            if not equals:
                key, values = "", ()
        is_pool = not key and "=" not in text and not any(map(str.isspace, text)) and text
        if not is_pool and (not key or not values or any("," in value or "=" in value for value in values)):
            raise FormatError(f"{spelled(text)} selects no nodes; {_WANTED}")
        return cls(text, key, values)

    def selects_pool(self, pool: NodePool) -> bool:
        return dict(pool.labels).get(self.key) in self.values if self.key else pool.name == self.text


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One thing that is done to nodes, as it was written in `text`.

    `nodes` are names of nodes, `pools` names of pools that policies declare. `driver` and `cuda`, the newest CUDA that
    the driver runs, are given for SET. `note` says which values of a label mean nothing, beside others that do.
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
    """The nodes of a cluster and the pools of its policies, among which changes select."""

    nodes: Mapping[str, Node]
    pools: Sequence[NodePool]
    accelerators: Accelerators
    tables: CudaTables

    def change(self, action: ChangeAction, text: str) -> NodeChange:
        """The change that an option means. Raises UnusableChangesError."""
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
            selection = NodeSelection.of(selector)
            nodes, pools = self._selected(selection, action)
        except FormatError as error:
            raise UnusableChangesError([*faults, str(error)]) from None
        if version is None and faults:
            raise UnusableChangesError(faults)
        missing = self._missing(selection, action)
        note = f"--{action} {spelled(text)}: {missing}" if missing else ""
        cuda = None if version is None else self.tables.drivers.reported_by(version)
        return NodeChange(action, selection.text, frozenset(nodes), frozenset(pools), version, cuda, note)

    def _selected(self, selection: NodeSelection, action: ChangeAction) -> tuple[list[str], list[str]]:
        """The names of the nodes, and of the pools, that a selection means. Raises FormatError where it means none."""
        pools = [pool for pool in self.pools if selection.selects_pool(pool)]
        if selection.key:
            nodes = [name for name, node in self.nodes.items() if node.label(selection.key) in selection.values]
        else:
            members = [pool.members for pool in pools if pool.members]
            nodes = [
                name
                for name, node in self.nodes.items()
                if any(all(node.label(key) == value for key, value in labels) for labels in members)
            ]
        if not nodes and not pools:
            raise FormatError(self._nothing(selection, action))
        if action is ChangeAction.SET:
            bare, nodes = len(nodes), [name for name in nodes if self._has_gpus(self.nodes[name])]
            if not nodes and not pools:
                raise FormatError(f"selects {counted(bare, 'node')}, none of which has NVIDIA GPUs; select others")
        return nodes, [pool.name for pool in pools]

    def _has_gpus(self, node: Node) -> bool:
        return has_nvidia_gpus(node.kind, self.accelerators)

    def _nothing(self, selection: NodeSelection, action: ChangeAction) -> str:
        """What there is, where a selection means nothing."""
        if not selection.key:
            names = sorted({pool.name for pool in self.pools})
            there_are = f"there are {few(names)}{hint(selection.text, names)}" if names else "none is declared"
            return f"no policy declares a node pool {spelled(selection.text)}; {there_are}. {_WANTED.capitalize()}"
        if not self.nodes and not self.pools:
            return "no node is known; the cluster has none, or its nodes cannot be listed: grant the verb list on nodes"
        labels = self._labels(action)
        if selection.key not in labels:
            close = nearest(selection.key, sorted(labels))
            whose = "GPU nodes" if action is ChangeAction.SET else "nodes"
            return f"no node and no declared node pool has the label {spelled(selection.key)}; " + (
                f"did you mean {close}?" if close else f"{whose} have {few(sorted(labels))}"
            )
        return _no_value(selection.key, selection.values[0], labels[selection.key], "this value")

    def _missing(self, selection: NodeSelection, action: ChangeAction) -> str:
        """What there is beside the values that no node and no pool has; empty if each of the values is there."""
        there = {node.label(selection.key) for node in self.nodes.values()}
        there |= {dict(pool.labels).get(selection.key) for pool in self.pools}
        missing = [value for value in selection.values if value not in there]
        if not missing:
            return ""
        values = self._labels(action).get(selection.key, set())
        return _no_value(selection.key, missing[0], values, few(list(map(spelled, missing))))

    def _labels(self, action: ChangeAction) -> dict[str, set[str]]:
        """The labels of the nodes that may be meant, and of declared pools, each with its values."""
        labels: dict[str, set[str]] = {}
        for node in self.nodes.values():
            if action is not ChangeAction.SET or self._has_gpus(node):
                for key in node.keys:
                    labels.setdefault(key, set()).add(node.label(key) or "")
        for pool in self.pools:
            for key, value in pool.labels:
                labels.setdefault(key, set()).add(value)
        return labels


def _no_value(key: str, value: str, known: Set[str], what: str) -> str:
    values = sorted(known)
    close = nearest(value, values)
    return f"no node and no declared node pool has {what}; {key} is {few(values)}" + (
        f"; did you mean {close}?" if close else ""
    )


def has_nvidia_gpus(node: NodeClass, accelerators: Accelerators) -> bool:
    """Whether nodes have NVIDIA GPUs, by device plugin or by ResourceSlices."""
    return node.by_slices is not None or has_plugin(node, accelerators)


def has_plugin(node: NodeClass, accelerators: Accelerators) -> bool:
    """Whether a device plugin offers NVIDIA GPUs of nodes."""
    known = (accelerators.of(resource) for resource in node.gpu_resources)
    return any(gpu is not None and gpu.vendor is Vendor.NVIDIA for gpu in known)


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


def _driver(text: str, tables: CudaTables) -> Version:
    """The driver version, whose branch the tables know. Raises FormatError."""
    try:
        version = parse_version(text)
    except FormatError:
        meant = _NUMBERS.fullmatch(text)
        hinted = f"; did you mean {meant[1]}?" if meant is not None else ""
        raise FormatError(
            f"{spelled(text)} is not a driver version; write one such as 580.95.05, or its branch, 580{hinted}"
        ) from None
    if len(version.parts) > 3 or version.major < _OLDEST_BRANCH:
        raise FormatError(f"{spelled(text)} is not a driver version; write one such as 580.95.05, or its branch, 580")
    if tables.drivers.branch(version.major) is None:
        numbers = [row.number for row in tables.drivers.rows]
        older = [number for number in numbers if number < version.major][-1:]
        newer = [number for number in numbers if number > version.major][:1]
        near = " and ".join(map(str, older + newer))
        raise FormatError(
            f"driver branch {version.major} is not in the tables; the nearest are {near}. A branch that is newer than "
            "this release goes into drivers of _cuda.yaml in the directory of policies"
        )
    return version


def _twice(changes: Sequence[NodeChange]) -> Iterable[str]:
    """What several changes do to one node or pool that cannot all be done."""
    for at, one in enumerate(changes):
        for other in changes[:at]:
            nodes, pools = one.nodes & other.nodes, one.pools & other.pools
            is_same = one.text == other.text
            if is_same or ((nodes or pools) and (one.action, one.driver) != (other.action, other.driver)):
                first = next(iter(sorted(nodes) or sorted(pools)), one.text)
                what = counted(len(nodes), "node") if nodes else counted(len(pools), "node pool")
                whom = (
                    f"{spelled(one.text)} is named twice"
                    if is_same
                    else (f"{spelled(other.text)} and {spelled(one.text)} both mean {what}, such as {first}")
                )
                yield f"{whom}: {_deed(other)} and {_deed(one)}; keep one of the two"


def _deed(change: NodeChange) -> str:
    return f"--set to {change.driver}" if change.action is ChangeAction.SET else "--retire"
