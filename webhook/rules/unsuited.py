"""The nodes that do not suit a pod, with reasons, and the node affinity that keeps the pod off them.

Several rules may have a say. A node suits a pod if it suits every rule. So their answers are put together before any
node is excluded: what each rule excludes by itself could add up to all nodes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple

from pydantic import PrivateAttr

from webhook.cuda.assessment import expected_labels
from webhook.cuda.cuda_tables import SHIPPED, CudaTables, tables_in
from webhook.cuda.offer import offer_of
from webhook.gpus.gpu_table import GpuTable
from webhook.gpus.steering import OF_IMAGES, Cause, Steering, steer
from webhook.model.edits import RequireNodes
from webhook.model.node import NodeClass
from webhook.model.pod import Pod
from webhook.model.requirements import requiring
from webhook.rules.rule_settings import RuleSettings


class Unsuited(NamedTuple):
    """Why a pod must not run on nodes of one class.

    `cause` decides which labels may exclude them. `reason` is a clause of a few words that names them, such as `T4 is
    too small`; one message adds the reasons of all rules up.
    """

    cause: Cause
    reason: str


class Judged(NamedTuple):
    """What a rule says of the nodes that a pod selects, whatever their taints.

    `nodes` and `are_candidates` are those of `webhook.rules.candidates.selected`, and `found` has one answer for each
    node class, in their order: None for nodes that suit the pod, and for nodes of which too little is known. `tables`
    are those of the policy. `holds` says that the pod may land on suitable nodes only, also on nodes that come later.
    `anywhere` judges all nodes with the pod's GPUs, as nodes like them may come that the pod selects.
    """

    nodes: Sequence[NodeClass]
    found: tuple[Unsuited | None, ...]
    are_candidates: tuple[bool, ...]
    tables: CudaTables = SHIPPED
    holds: bool = False
    anywhere: "Callable[[], Judged] | None" = None

    @property
    def of_candidates(self) -> list[Unsuited | None]:
        """The answers about the nodes that the pod could be scheduled to."""
        return list(compress(self.found, self.are_candidates))

    @property
    def suitable(self) -> list[NodeClass]:
        """The nodes that the pod could be scheduled to, and that suit it."""
        of_nodes = zip(self.nodes, self.found, self.are_candidates, strict=True)
        return [nodes for nodes, unsuited, is_candidate in of_nodes if is_candidate and unsuited is None]

    @property
    def is_none_left(self) -> bool:
        """Whether no node that the pod could be scheduled to suits it, although some are known."""
        return bool(self.found) and None not in self.of_candidates


class SteeringSettings(RuleSettings):
    """Settings of a rule that says which nodes do not suit a pod."""

    _tables: CudaTables = PrivateAttr(default_factory=lambda: SHIPPED)  # a default is copied whole each time

    def model_post_init(self, context: Any, /) -> None:
        """Remember the tables of the policies that these settings belong to."""
        self._tables = tables_in(context)

    @cached_property
    def tables(self) -> CudaTables:
        """The tables of this release, with the rows of the platform."""
        return self._tables

    @property
    def gpus(self) -> GpuTable:
        """The table of GPU models among them."""
        return self._tables.gpus


def excluding(pod: Pod, *judged: Judged) -> Iterator[RequireNodes]:
    """The edits that keep a pod off the nodes that do not suit it, as long as other nodes are left.

    Each term of its required node affinity gets them, since one term is enough for the scheduler. A pod that names a
    known node in spec.nodeName is left as it is; the kubelet of another one refuses it by its node affinity.
    """
    if (pod.node_name and judged[0].nodes) or any(one.is_none_left for one in judged):
        return
    elsewhere = [one.anywhere() for one in judged if one.anywhere is not None and steering(one).held is None]
    found = [steering(*judged), *map(steering, elsewhere)]
    wanted = [exclusion for each in found for exclusion in each.exclusions]
    for expression in dict.fromkeys(wanted + [each.held for each in found if each.held is not None]):
        yield from requiring(pod, expression)


def steering(*judged: Judged) -> Steering:
    """Keeps a pod off all nodes that do not suit it by one of these answers, which are about the same nodes.

    Nothing is excluded if none of the pod's candidates suits it. Most pods are judged on the same sequence of nodes, so
    results are kept.
    """
    nodes, holds = judged[0].nodes, any(one.holds for one in judged)
    causes = tuple([tuple([one and one.cause for one in each.found]) for each in judged])
    key = id(nodes), judged[0].tables, causes, judged[0].are_candidates, holds
    known = _kept.get(key)
    if known is None:
        known = nodes, _steering(judged[0], causes, holds=holds)
        if len(_kept) * (len(nodes) * len(causes) + 1) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = known
    return known[1]


_Causes = tuple[tuple[Cause | None, ...], ...]
_MOST_KEPT = 4096
"""Causes that are kept, approximately."""
_kept: dict[tuple[int, CudaTables, _Causes, tuple[bool, ...], bool], tuple[Sequence[NodeClass], Steering]] = {}
"""Each value holds on to its nodes, so that no other sequence gets the same id meanwhile."""


def _steering(judged: Judged, causes: _Causes, *, holds: bool) -> Steering:
    nodes, tables = judged.nodes, judged.tables
    unfit = {at for of_rule in causes for at, cause in enumerate(of_rule) if cause is not None}
    suitable = [at for at in range(len(nodes)) if at not in unfit]
    is_none_left = any(judged.are_candidates) and not any(judged.are_candidates[at] for at in suitable)
    if not (unfit or holds) or is_none_left:
        return Steering((), ())
    others = [
        expected_labels(nodes[at].labels, offer_of(nodes[at].labels, tables.gpus, nodes[at].by_slices), tables)
        for at in suitable
    ]
    by_cause = [
        (nodes[at].labels, cause) for of_rule in causes for at, cause in enumerate(of_rule) if cause is not None
    ]
    are_made = [bool(nodes[at].made_by) for at in suitable]
    is_about_images = not holds and OF_IMAGES.issuperset(cause for _, cause in by_cause)
    is_made = all(are_made) if is_about_images else any(are_made)
    known = [nodes[at].labels for at in suitable if not nodes[at].made_by]
    return steer(by_cause, others, holding=known if holds else (), is_made=is_made)
