"""Which taints keep a pod off every node that it fits on otherwise, and what it would have to tolerate."""

import re
from collections.abc import Sequence

from webhook.model.node import NodeClass
from webhook.model.taints import Taint, Toleration
from webhook.model.wording import cut, few

_TEXT = re.compile(r"(?!(true|false|yes|no|on|off|null|y|n)$)[a-z][a-z0-9._-]*", re.IGNORECASE)
"""What YAML reads as a text without quotes; a taint may have the value true or 1, which it does not."""


def intolerance(tolerations: Sequence[Toleration], fitting: Sequence[NodeClass]) -> tuple[str, str, str] | None:
    """Found, allowed and remedy for nodes of which none lets a pod with these tolerations in; None where one does.

    The taints are those of the nodes that have the fewest of them, and of several such nodes those that are most.
    """
    taints = {taint for node in fitting for taint in node.taints}
    repelling = {taint for taint in taints if not any(toleration.tolerates(taint) for toleration in tolerations)}
    nodes: dict[tuple[Taint, ...], int] = {}
    for node in fitting:
        lacking = tuple(taint for taint in node.taints if taint in repelling)
        nodes[lacking] = nodes.get(lacking, 0) + node.count
    chosen = min(nodes, key=lambda lacking: (len(lacking), -nodes[lacking], str(lacking)))
    if not chosen:
        return None
    these = "this taint" if len(chosen) == 1 else "these taints"
    every = f"every node that fits has {these}{'' if len(nodes) == 1 else ', or others'}"
    add = f"the toleration {_toleration(chosen[0])}" if len(chosen) == 1 else "tolerations for them"
    return f"does not tolerate {few(list(map(_name, chosen)))}", every, f"Add {add} if those nodes are for this pod"


def _name(taint: Taint) -> str:
    """The taint as kubectl writes it."""
    return f"{cut(taint.key)}{'=' + cut(taint.value) if taint.value else ''}:{taint.effect}"


def _toleration(taint: Taint) -> str:
    """What tolerates it and nothing else, as it would stand in a manifest."""
    quoted = cut(taint.value) if _TEXT.fullmatch(taint.value) else f'"{cut(taint.value)}"'
    value = f"operator: Equal, value: {quoted}" if taint.value else "operator: Exists"
    return f"{{key: {cut(taint.key)}, {value}, effect: {taint.effect}}}"
