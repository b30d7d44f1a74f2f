"""Advice about images that will not run any more once a node pool has its next driver."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from webhook.cuda import cuda_messages
from webhook.cuda.assessment import Assessment, NodeVerdict
from webhook.cuda.checks import Verdict
from webhook.cuda.need import Need
from webhook.model.node import ChangingNodes, NodeClass
from webhook.model.pod import Container
from webhook.rules.rule import Advice

Uses = Sequence[tuple[Container, Need]]
"""The containers of a pod that use GPUs, and what each needs."""


def before_changes(
    uses: Uses,
    assessment: Assessment,
    changing: Iterable[ChangingNodes],
    judge: Callable[[Sequence[NodeClass]], Assessment],
    *,
    is_held: bool,
) -> Iterator[Advice]:
    """Advice for each node pool that may run the pod now and certainly will not with its next driver.

    `assessment` is of all nodes that match the pod, `judge` assesses those of a pool. A pod that `is_held`, in a queue,
    gets advice only if no nodes would be left, because the queue chooses among them.
    """
    for change in changing:
        now, then = judge(change.now).verdicts, judge(change.then).verdicts
        lost = [after for before, after in zip(now, then, strict=True) if _may_run(before) and not _may_run(after)]
        is_last = _count(lost) == _count(filter(_may_run, assessment.verdicts))
        if lost and (is_last or not is_held):
            yield _advice(change, lost, uses, assessment, is_last=is_last)


def _may_run(verdict: NodeVerdict) -> bool:
    return verdict.result.verdict is not Verdict.INCOMPATIBLE


def _count(verdicts: Iterable[NodeVerdict]) -> int:
    """How many nodes these are, where a pool without nodes counts as one."""
    return sum(verdict.nodes.count or 1 for verdict in verdicts)


def _advice(
    changing: ChangingNodes, lost: Sequence[NodeVerdict], uses: Uses, assessment: Assessment, *, is_last: bool
) -> Advice:
    at = min(at for verdict in lost for at in verdict.result.failing)
    container, need = uses[at]
    own = [verdict for verdict in lost if at in verdict.result.failing]
    change = changing.change
    from_then_on = f"from {change.day} on, nodes of pool {changing.pool} have driver {change.driver}"
    rest = ", and there are no other nodes for the pod" if is_last else ""
    return Advice(
        f"{container.path}.image",
        f"{from_then_on}; {cuda_messages.needs(container.image, need)}, and will not run there{rest}: "
        f"{cuda_messages.reasons(own, at)}",
        cuda_messages.remedy_for(container.image, need, [verdict.result.offer for verdict in own], assessment.tables),
    )
