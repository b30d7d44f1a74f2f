"""The nodes that do not suit a pod, with reasons, and the node affinity that keeps the pod off them.

A node suits a pod if it suits every rule. So the answers of several rules are put together before any node is excluded:
what each rule excludes by itself could add up to all nodes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import compress
from typing import NamedTuple

from webhook.cuda.assessment import expected_labels
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.offer import offer_of
from webhook.gpus.steering import OF_IMAGES, Cause, Steering, steer
from webhook.model.edits import RequireNodes
from webhook.model.node import NodeClass
from webhook.model.pod import Pod
from webhook.model.requirements import requiring


class Unsuited(NamedTuple):
    """Why a pod must not run on nodes of one class.

    `cause` decides which labels may exclude them. `reason` is a clause of a few words that names them, such as `T4 is
    too small`; one message adds the reasons of all rules up.
    """

    cause: Cause
    reason: str


class Judged(NamedTuple):
    """What a rule says of the nodes that a pod selects, whatever their taints.

    `nodes` and `are_candidates` come from `webhook.rules.candidates.selected`. `found` has one answer for each node
    class, in the same order: None if nodes suit the pod, or too little is known. `tables` are the tables of the policy.
    `holds` says that the pod is also kept off unsuitable nodes that come later. `anywhere` judges all nodes with the
    pod's GPUs, because nodes like these may come later, and the pod may select them.
    """

    nodes: Sequence[NodeClass]
    found: tuple[Unsuited | None, ...]
    are_candidates: tuple[bool, ...]
    tables: CudaTables = SHIPPED
    holds: bool = False
    anywhere: "Callable[[], Judged] | None" = None

    @property
    def of_candidates(self) -> list[Unsuited | None]:
        return list(compress(self.found, self.are_candidates))

    @property
    def suitable(self) -> list[NodeClass]:
        of_nodes = zip(self.nodes, self.found, self.are_candidates, strict=True)
        return [nodes for nodes, unsuited, is_candidate in of_nodes if is_candidate and unsuited is None]

    @property
    def is_none_left(self) -> bool:
        """Whether no node that the pod could be scheduled to suits it, although some are known."""
        return bool(self.found) and None not in self.of_candidates


def excluding(pod: Pod, *judged: Judged) -> Iterator[RequireNodes]:
    """The edits that keep a pod off the nodes that do not suit it, as long as other nodes are left.

    Each term of its required node affinity gets them, since one term is enough for the scheduler. A pod that names a
    known node in spec.nodeName is left as it is; the kubelet of an unknown node refuses it by its node affinity.
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

    Nothing is excluded if none of the pod's candidates suits it.
    """
    causes = tuple([tuple([one and one.cause for one in each.found]) for each in judged])
    first, holds = judged[0], any(one.holds for one in judged)
    return _steering(tuple(first.nodes), first.are_candidates, causes, first.tables, holds=holds)


@lru_cache(maxsize=256)  # most pods are judged on the same nodes
def _steering(
    nodes: tuple[NodeClass, ...],
    are_candidates: tuple[bool, ...],
    causes: tuple[tuple[Cause | None, ...], ...],
    tables: CudaTables,
    *,
    holds: bool,
) -> Steering:
    unfit = {at for of_rule in causes for at, cause in enumerate(of_rule) if cause is not None}
    suitable = [at for at in range(len(nodes)) if at not in unfit]
    is_none_left = any(are_candidates) and not any(are_candidates[at] for at in suitable)
    if not (unfit or holds) or is_none_left:
        return Steering((), ())
    others = [
        expected_labels(nodes[at].labels, offer_of(nodes[at].labels, tables.gpus, nodes[at].by_slices), tables)
        for at in suitable
    ]
    by_cause = [
        (nodes[at].labels, cause) for of_rule in causes for at, cause in enumerate(of_rule) if cause is not None
    ]
    are_made = [bool(nodes[at].maker) for at in suitable]
    is_about_images = not holds and OF_IMAGES.issuperset(cause for _, cause in by_cause)
    is_made = all(are_made) if is_about_images else any(are_made)
    known = [nodes[at].labels for at in suitable if not nodes[at].made_by]
    return steer(by_cause, others, holding=known if holds else (), is_made=is_made)
