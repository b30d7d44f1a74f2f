"""The nodes that do not suit a pod, with reasons, and the node affinity that keeps the pod off them.

Several rules may have a say. A node suits a pod if it suits every rule. So their answers are put together before any
node is excluded: what each rule excludes by itself could add up to all nodes.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import PrivateAttr

from webhook.cuda.assessment import expected_labels
from webhook.cuda.cuda_tables import SHIPPED, CudaTables, tables_in
from webhook.cuda.offer import offer_of
from webhook.gpus.gpu_table import GpuTable
from webhook.gpus.steering import Cause, Steering, steer
from webhook.model.edits import RequireNodes
from webhook.model.node import NodeClass
from webhook.model.pod import Pod
from webhook.model.requirements import living_terms, requiring
from webhook.rules.rule_settings import RuleSettings


class Unsuited(NamedTuple):
    """Why a pod must not run on nodes of one class.

    `cause` decides which labels may exclude them. `reason` is a clause of a few words that names them, such as `T4 is
    too small`; one message adds the reasons of all rules up.
    """

    cause: Cause
    reason: str


class Judged(NamedTuple):
    """What a rule says of the nodes that a pod could be scheduled to.

    `nodes` are those of `webhook.rules.candidates.candidates`, and `found` has one answer for each of them, in their
    order: None for nodes that suit the pod, and for nodes of which too little is known. `tables` are those of the
    policy.
    """

    nodes: Sequence[NodeClass]
    found: tuple[Unsuited | None, ...]
    tables: CudaTables = SHIPPED

    @property
    def is_none_left(self) -> bool:
        """Whether no node suits the pod, although some are known."""
        return bool(self.found) and None not in self.found


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


def is_bound(pod: Pod) -> bool:
    """Whether the pod names its nodes, as pods of DaemonSets do."""
    return bool(pod.node_name) or any(term.fields for term in living_terms(pod))


def excluding(pod: Pod, *judged: Judged) -> Iterator[RequireNodes]:
    """The edits that keep a pod off the nodes that do not suit it, as long as other nodes are left.

    A pod that names its nodes is left as it is.
    """
    if not is_bound(pod):
        for exclusion in steering(*judged).exclusions:
            yield from requiring(pod, exclusion)


def steering(*judged: Judged) -> Steering:
    """Keeps a pod off all nodes that do not suit it by one of these answers, which are about the same nodes.

    Nothing is excluded if no node suits the pod. Most pods are judged on the same sequence of nodes, so results are
    kept.
    """
    nodes = judged[0].nodes
    causes = tuple([tuple([one and one.cause for one in each.found]) for each in judged])
    key = id(nodes), judged[0].tables, causes
    known = _kept.get(key)
    if known is None:
        known = nodes, _steering(nodes, judged[0].tables, causes)
        if len(_kept) * (len(nodes) * len(causes) + 1) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = known
    return known[1]


_Causes = tuple[tuple[Cause | None, ...], ...]
_MOST_KEPT = 4096
"""Causes that are kept, approximately."""
_kept: dict[tuple[int, CudaTables, _Causes], tuple[Sequence[NodeClass], Steering]] = {}
"""Each value holds on to its nodes, so that no other sequence gets the same id meanwhile."""


def _steering(nodes: Sequence[NodeClass], tables: CudaTables, causes: _Causes) -> Steering:
    unfit = {at for of_rule in causes for at, cause in enumerate(of_rule) if cause is not None}
    if not unfit or len(unfit) == len(nodes):
        return Steering((), ())
    others = [
        expected_labels(one.labels, offer_of(one.labels, tables.gpus, one.by_slices), tables)
        for at, one in enumerate(nodes)
        if at not in unfit
    ]
    by_cause = [
        (nodes[at].labels, cause) for of_rule in causes for at, cause in enumerate(of_rule) if cause is not None
    ]
    return steer(by_cause, others)
