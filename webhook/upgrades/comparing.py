"""What a plan changes for one kind of pods: where they run now against where they run then, and why.

A node that stays and runs the pods no longer is lost. A node that goes is lost unless a node that comes takes its
place. Where a node that changes may or may not run the pods, nothing is lost or gained yet.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from webhook.cuda import cuda_messages
from webhook.cuda.assessment import NodeVerdict
from webhook.cuda.checks import Verdict
from webhook.cuda.need import BuiltFor, Need
from webhook.model.pod import Pod
from webhook.model.requirements import may_get_new_node
from webhook.model.shape import shortened
from webhook.model.wording import counted
from webhook.rules import cuda_driver
from webhook.upgrades.changed_cluster import RUNNING, Move, PodPlacement
from webhook.upgrades.driver_plan import Reach, RunsOn, WorkloadChange

_LONGEST_IMAGE = 150
_MAY_RUN = RUNNING | {Verdict.UNKNOWN}


@dataclass(frozen=True, slots=True)
class PlacesCompared:
    """The change for one kind of pods. `is_released`: now, the pods tolerate none of their nodes."""

    change: WorkloadChange
    before: Reach
    after: Reach
    reason: str
    remedy: str
    is_released: bool


def compared(pod: Pod, before: PodPlacement, after: PodPlacement, moves: Sequence[Move]) -> PlacesCompared:
    """What changes for a pod that is placed so now, and so then; `moves` are those of its nodes."""
    change = change_of(moves, waits=after.is_released and not before.is_released)
    now, then = _reach(moves, [one.before for one in moves]), _reach(moves, [one.after for one in moves])
    remade = [one for one in moves if one.before in _MAY_RUN and one.group.maker] if may_get_new_node(pod) else []
    if change is WorkloadChange.BREAKS and remade:
        change = WorkloadChange.UNKNOWN
        reason = f"{_counted(remade)} that may run it are retired, and {remade[0].group.maker} may make such nodes anew"
        remedy = "If it makes none any more, the workload breaks; name a node that it will make with --add"
    else:
        reason, remedy = _reason(change, before, after, moves, (now, then))
    return PlacesCompared(change, now, then, reason, remedy, before.is_released)


def change_of(moves: Sequence[Move], *, waits: bool = False) -> WorkloadChange:
    """What changes, in one word. `waits`: the pods tolerate no node that is left, and some now."""
    may_have_run, runs = any(one.before in _MAY_RUN for one in moves), any(one.runs for one in moves)
    if not any(one.after in _MAY_RUN for one in moves):
        return WorkloadChange.BREAKS if may_have_run else WorkloadChange.SAME
    if _doubtful(moves) or (not runs and any(one.ran for one in moves)) or (may_have_run and waits):
        return WorkloadChange.UNKNOWN
    if not may_have_run:
        return WorkloadChange.UNBLOCKED if runs else WorkloadChange.UNKNOWN  # of nodes that come
    return _change_of_number(moves)


def _doubtful(moves: Sequence[Move]) -> list[Move]:
    """The nodes that may or may not run the pods then. If others run them, only nodes count that may run them now."""
    runs = any(one.runs for one in moves)
    return [
        one
        for one in moves
        if one.after is Verdict.UNKNOWN
        and (one.before in _MAY_RUN or not runs)
        and (one.group.is_changed or (one.before is None and one.group.before is not None))
    ]


def _change_of_number(moves: Sequence[Move]) -> WorkloadChange:
    """The change for pods that run now and then, where nothing is doubtful."""
    lost, gained = _lost(moves), [one for one in moves if one.runs and not one.ran]
    gone = sum(one.count or 1 for one in lost if one.group.after is None)
    come = sum(one.count or 1 for one in gained if one.group.before is None)
    if any(one.group.after is not None for one in lost) or gone > come:
        return WorkloadChange.LOSES_NODES
    now, then = {one.before for one in moves}, {one.after for one in moves}
    compat = Verdict.FORWARD_COMPAT_ONLY
    if _by_compat(moves) or (compat in then and compat not in now and Verdict.COMPATIBLE not in then):
        return WorkloadChange.COMPAT_ONLY
    has_gained = any(one.group.before is not None for one in gained) or come > gone
    return WorkloadChange.GAINS if has_gained else WorkloadChange.SAME


def _lost(moves: Iterable[Move]) -> list[Move]:
    return [one for one in moves if one.ran and not one.runs]


def _by_compat(moves: Iterable[Move]) -> list[Move]:
    """The nodes that run the pods by the driver alone now, and by forward compatibility then."""
    return [one for one in moves if (one.before, one.after) == (Verdict.COMPATIBLE, Verdict.FORWARD_COMPAT_ONLY)]


def _reach(moves: Sequence[Move], verdicts: Sequence[Verdict | None]) -> Reach:
    """How far pods get at a moment, by the verdict about the nodes of each move at this moment."""

    def count(of: Collection[Verdict | None]) -> int:
        return sum(move.count for move, one in zip(moves, verdicts, strict=True) if one in of)

    running = (move.group.pool for move, one in zip(moves, verdicts, strict=True) if one in RUNNING)
    words = {
        Verdict.COMPATIBLE: RunsOn.RUNS,
        Verdict.FORWARD_COMPAT_ONLY: RunsOn.COMPAT_ONLY,
        Verdict.UNKNOWN: RunsOn.UNKNOWN,
        Verdict.INCOMPATIBLE: RunsOn.CANNOT_RUN,
    }
    word = next((word for verdict, word in words.items() if verdict in verdicts), RunsOn.NO_NODES)
    pools = tuple(sorted({pool for pool in running if pool}))
    return Reach(word, count(RUNNING), count(set(Verdict)), count({Verdict.UNKNOWN}), pools)


def _reason(
    change: WorkloadChange,
    before: PodPlacement,
    after: PodPlacement,
    moves: Sequence[Move],
    reaches: tuple[Reach, Reach],
) -> tuple[str, str]:
    now, then = reaches
    waits = after.is_released and not before.is_released
    unknown = [one for one in moves if one.after is Verdict.UNKNOWN]
    match change:
        case WorkloadChange.BREAKS:
            return _why_it_breaks(after, moves, then)
        case WorkloadChange.UNKNOWN if waits and any(one.runs for one in moves):
            why = "all nodes that are left for it have taints that it does not tolerate"
            return why, "Let it tolerate them if it may run there"
        case WorkloadChange.UNKNOWN:
            return _doubt(after, _doubtful(moves) or unknown)
        case WorkloadChange.LOSES_NODES:
            why = _why_it_loses(after, moves)
        case WorkloadChange.COMPAT_ONLY:
            those = _by_compat(moves) or [one for one in moves if one.after is Verdict.FORWARD_COMPAT_ONLY]
            why = ": ".join(filter(None, ("runs only by forward compatibility then", _because(after, those))))
        case WorkloadChange.UNBLOCKED:
            by = " by forward compatibility" if then.verdict is RunsOn.COMPAT_ONLY else ""
            why = f"{_now(now, before)}; it runs on {_counted(one for one in moves if one.runs)} then{by}"
        case WorkloadChange.GAINS:
            gained = [one for one in moves if one.runs and not one.ran]
            said = enumerate(("more than now", "then, and whether it does now is not known"))
            found = [([one for one in gained if (one.before is Verdict.UNKNOWN) == at], what) for at, what in said]
            why = "; ".join(f"runs on {_counted(some)} {what}" for some, what in found if some)
        case _ if then.verdict in (RunsOn.CANNOT_RUN, RunsOn.NO_NODES):
            why = f"{_now(now, before)}, and none then"
        case _ if then.verdict is RunsOn.UNKNOWN:
            doubt, clearing = _doubt(after, unknown)
            return f"not known, as now: {doubt}", clearing
        case _ if (Verdict.FORWARD_COMPAT_ONLY, Verdict.COMPATIBLE) in ((one.before, one.after) for one in moves):
            why = "runs without forward compatibility then, and on some nodes only by it now"
        case _:
            why = "nothing changes"
    return why, ""


def _why_it_breaks(after: PodPlacement, moves: Sequence[Move], then: Reach) -> tuple[str, str]:
    """Why no node runs the pods, and what would make them run: as the rule cudaDriver says it."""
    nodes, pools = after.cramped
    others = f"; too small for what it requests: {_in_words(nodes, pools)}" if nodes or pools else ""
    if then.verdict is RunsOn.NO_NODES:
        staying = [one for one in moves if one.group.after is not None]
        if not staying:
            return f"all nodes that it could land on are retired: {_counted(moves)}{others}", ""
        return (
            "no node is left that its nodeSelector and affinity allow, because the labels of "
            f"{_counted(staying)} change{others}",
            "Let it select nodes by labels that stay, or by none",
        )
    violations = [] if after.survey is None else list(cuda_driver.refusals(after.survey))
    remedies = dict.fromkeys(one.remedy for one in violations)
    return "; ".join(one.found for one in violations) + others, "; ".join(remedies)


def _why_it_loses(after: PodPlacement, moves: Sequence[Move]) -> str:
    lost = _lost(moves)
    running, ran = _counted(one for one in moves if one.runs), _counted(one for one in moves if one.ran)
    parts = [f"runs on {running} then, and on {ran} now"]
    if gone := [one for one in lost if one.group.after is None]:
        parts.append(f"{_counted(gone)} retired")
    if because := _because(after, [one for one in lost if one.after is not None]):
        parts.append(because)
    if any(one.after is None and one.group.after is not None for one in lost):
        parts.append("its nodeSelector or affinity no longer allows some of them")
    return "; ".join(parts)


def _because(after: PodPlacement, moves: Iterable[Move]) -> str:
    found = after.verdicts(moves)
    for at, (container, need) in enumerate(after.uses):
        verdicts = [one for one in found if one.result.judgements[at].reason]
        failing = [one for one in verdicts if at in one.result.failing]
        chosen = failing or [one for one in verdicts if one.result.judgements[at].verdict == one.result.verdict]
        if chosen:
            return f"{cuda_messages.needs(container.image, need)}: {cuda_messages.reasons(chosen, at)}"
    return ""


def _doubt(after: PodPlacement, moves: Iterable[Move]) -> tuple[str, str]:
    verdicts = after.verdicts(moves)
    for at, (container, need) in enumerate(after.uses):
        if doubt := cuda_messages.doubt(container.image, need, at, verdicts):
            return doubt, _clearing(container.image, need, verdicts)
    return "it is not known whether it runs", ""


def _clearing(image: str, need: Need, verdicts: Sequence[NodeVerdict]) -> str:
    name = shortened(image, _LONGEST_IMAGE) or "an image"
    if need.kind is not BuiltFor.OTHER and need.cuda is None:
        return (
            f"Ask its registry with --resolve, or write what {name} needs into images of cudaDriver, or into the "
            "annotation cuda.gpupolicy.dev/CONTAINER of the pod"
        )
    offers = [one.result.offer for one in verdicts if one.result.verdict is Verdict.UNKNOWN]
    ways = ["the driver with all its numbers"] if any(not one.is_driver_exact for one in offers) else []
    if any(one.driver is None or one.compute is None for one in offers):
        ways.append("the missing labels of the nodes (GPU Feature Discovery tells them)")
    return f"Write {', or '.join([*ways, f'what {name} brings into images of _cuda.yaml'])}"


def _now(now: Reach, before: PodPlacement) -> str:
    if now.verdict is RunsOn.NO_NODES:
        known = "has room for what it requests" if any(before.cramped) else "is known that it could land on"
        return f"no node {known} now"
    return "none of the nodes that it could land on runs it now"


def _counted(moves: Iterable[Move]) -> str:
    moves = list(moves)
    pools = {one.group.pool for one in moves if one.group.pool}
    return _in_words(sum(one.count for one in moves), len(pools))


def _in_words(nodes: int, pools: int) -> str:
    words = [counted(nodes, "node")] if nodes or not pools else []
    words += [counted(pools, "pool")] if pools else []
    return " and ".join(words)
