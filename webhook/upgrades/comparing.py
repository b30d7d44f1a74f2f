"""What a plan changes for one kind of pods: where they run now against where they run then, and why.

Nodes are compared one by one. A node that stays and runs the pods no longer is lost. A node that goes is lost unless a
node that comes takes its place. Where a node that changes may or may not run the pods, nothing is lost or gained yet.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webhook.cuda import cuda_messages
from webhook.cuda.need import BuiltFor, Need
from webhook.facts.node_index import Mask
from webhook.model.shape import shortened
from webhook.model.wording import counted
from webhook.rules import cuda_driver
from webhook.upgrades.changed_cluster import PlaceOrder
from webhook.upgrades.driver_plan import Reach, WorkloadChange
from webhook.upgrades.standing import RunsOn, Standing

_LONGEST_IMAGE = 150
_NOTHING_KNOWN = "neither its name nor anything else says which CUDA version it needs"


@dataclass(frozen=True, slots=True)
class PlacesCompared:
    """The change for one kind of pods. `unknown` are images of which nobody knows what they need, with the problem.

    `is_released`: now, the pods tolerate none of their nodes.
    """

    change: WorkloadChange
    before: Reach
    after: Reach
    reason: str
    remedy: str
    unknown: tuple[tuple[str, str], ...]
    is_released: bool


@dataclass(frozen=True, slots=True)
class _Places:
    """The nodes and pools that make a change."""

    doubtful: Mask
    lost: Mask
    gained: Mask
    by_compat: Mask


def compared(before: Standing, after: Standing, order: PlaceOrder) -> PlacesCompared:
    """What changes for pods that stand here now, and there then."""
    places = _places(before, after, order)
    change = change_of(before, after, order)
    reason, remedy = _reason(change, before, after, places, order)
    unknown = tuple(_unknown_images(before))
    return PlacesCompared(
        change, _reach(before, order), _reach(after, order), reason, remedy, unknown, before.is_released
    )


def _places(before: Standing, after: Standing, order: PlaceOrder) -> _Places:
    might = before.running | before.unknown
    chosen = (before.candidates ^ after.candidates) & ~(order.leaving | order.arriving)
    doubtful = after.unknown & (order.changed | chosen) & (might if after.running else -1)
    lost = before.running & ~after.running & ~doubtful
    return _Places(doubtful, lost, after.running & ~before.running, before.native & after.by_compat)


def change_of(before: Standing, after: Standing, order: PlaceOrder) -> WorkloadChange:
    """What changes, in one word."""
    places, ran = _places(before, after, order), bool(before.running or before.unknown)
    if not after.running and not after.unknown:
        return WorkloadChange.BREAKS if ran else WorkloadChange.SAME
    if places.doubtful or (not after.running and before.running) or (ran and _waits(before, after)):
        return WorkloadChange.UNKNOWN
    if not ran:
        return WorkloadChange.UNBLOCKED if after.running else WorkloadChange.UNKNOWN  # of nodes that come
    return _change_of_number(before, after, places, order)


def _waits(before: Standing, after: Standing) -> bool:
    """Whether the pods tolerate the taints of some of their nodes now, and of none then."""
    return after.is_released and not before.is_released


def _change_of_number(before: Standing, after: Standing, places: _Places, order: PlaceOrder) -> WorkloadChange:
    """The change for pods that run now and then."""
    lost, gained = places.lost, places.gained
    gone, come = (lost & order.leaving).bit_count(), (gained & order.arriving).bit_count()
    if lost & ~order.leaving or gone > come:
        return WorkloadChange.LOSES_NODES
    if places.by_compat or (after.by_compat and not before.by_compat and not after.native):
        return WorkloadChange.COMPAT_ONLY
    return WorkloadChange.GAINS if gained & ~order.arriving or come > gone else WorkloadChange.SAME


def _reach(standing: Standing, order: PlaceOrder) -> Reach:
    pools = tuple(name for at, name in enumerate(order.pools) if standing.running >> (order.pool_bit + at) & 1)
    return Reach(
        standing.word,
        order.count(standing.running),
        order.count(standing.candidates),
        order.count(standing.unknown),
        pools,
    )


def _reason(
    change: WorkloadChange, before: Standing, after: Standing, places: _Places, order: PlaceOrder
) -> tuple[str, str]:
    """Why, and what would make it known."""
    match change:
        case WorkloadChange.BREAKS:
            return _why_it_breaks(before, after, order)
        case WorkloadChange.UNKNOWN if after.running and _waits(before, after):
            why = "all nodes that are left for it have taints that it does not tolerate"
            return why, "Let it tolerate them if it may run there"
        case WorkloadChange.UNKNOWN:
            return _doubt(after, places.doubtful or after.unknown)
        case WorkloadChange.SAME:
            return _same(before, after)
        case WorkloadChange.LOSES_NODES:
            why = _why_it_loses(before, after, places, order)
        case WorkloadChange.COMPAT_ONLY:
            why = _said("runs only by forward compatibility then", _because(after, places.by_compat or after.by_compat))
        case WorkloadChange.UNBLOCKED:
            by = "" if after.native else " by forward compatibility"
            why = f"{_now(before)}; it runs on {_counted(after.running, order)} then{by}"
        case WorkloadChange.GAINS:
            why = f"runs on {_counted(places.gained, order)} more than now"
    return why, ""


def _why_it_breaks(before: Standing, after: Standing, order: PlaceOrder) -> tuple[str, str]:
    """Why no node runs the pods, and what would make them run: as the rule cudaDriver says it."""
    others = f"; too small for what it requests: {_counted(after.cramped, order)}" if after.cramped else ""
    if after.word is RunsOn.NO_NODES:
        goes = before.candidates & order.leaving
        if goes == before.candidates:
            return f"all nodes that it could land on are retired: {_counted(goes, order)}{others}", ""
        return (
            "no node is left that its nodeSelector and affinity allow, because the labels of "
            f"{_counted(before.candidates & ~order.leaving, order)} change{others}",
            "Let it select nodes by labels that stay, or by none",
        )
    violations = [] if after.survey is None else list(cuda_driver.refusals(after.survey))
    remedies = dict.fromkeys(one.remedy for one in violations)
    return "; ".join(one.found for one in violations) + others, "; ".join(remedies)


def _why_it_loses(before: Standing, after: Standing, places: _Places, order: PlaceOrder) -> str:
    total = _counted(before.running, order)
    parts = [f"runs on {_counted(after.running, order)} then, and on {total} now"]
    if gone := places.lost & order.leaving:
        parts.append(f"{_counted(gone, order)} retired")
    if because := _because(after, places.lost & ~order.leaving):
        parts.append(because)
    if places.lost & ~order.leaving & ~after.candidates:
        parts.append("its nodeSelector or affinity no longer allows some of them")
    return "; ".join(parts)


def _because(standing: Standing, mask: Mask) -> str:
    """Why each kind of the nodes in a mask runs the pods as it does."""
    for at, (container, need) in enumerate(standing.uses):
        verdicts = [one for one in standing.among(mask) if one.result.judgements[at].reason]
        failing = [one for one in verdicts if at in one.result.failing]
        chosen = failing or [one for one in verdicts if one.result.judgements[at].verdict == one.result.verdict]
        if chosen:
            return f"{cuda_messages.needs(container.image, need)}: {cuda_messages.reasons(chosen, at)}"
    return ""


def _doubt(after: Standing, mask: Mask) -> tuple[str, str]:
    """What is not known about the nodes in a mask, and what would make it known."""
    verdicts = after.among(mask)
    for at, (container, need) in enumerate(after.uses):
        doubt = cuda_messages.doubt(container.image, need, at, verdicts)
        if doubt:
            return doubt, _clearing(container.image, need)
    return "it is not known whether it runs", ""


def _clearing(image: str, need: Need) -> str:
    name = shortened(image, _LONGEST_IMAGE) or "an image"
    if need.kind is not BuiltFor.OTHER and need.cuda is None:
        return (
            f"Ask its registry with --resolve, or write what {name} needs into images of cudaDriver, or into the "
            "annotation cuda.gpupolicy.dev/CONTAINER of the pod"
        )
    return (
        "Write the driver with all its numbers, or the missing labels of the nodes (GPU Feature Discovery tells them), "
        f"or what {name} brings into images of _cuda.yaml"
    )


def _same(before: Standing, after: Standing) -> tuple[str, str]:
    match after.word:
        case RunsOn.CANNOT_RUN | RunsOn.NO_NODES:
            return f"{_now(before)}, and neither then", ""
        case RunsOn.UNKNOWN:
            doubt, clearing = _doubt(after, after.unknown)
            return f"not known, as now: {doubt}", clearing
    if before.by_compat & after.native:
        return "runs without forward compatibility then, and on some nodes only by it now", ""
    return "nothing changes", ""


def _now(before: Standing) -> str:
    if before.word is RunsOn.NO_NODES:
        known = "has room for what it requests" if before.cramped else "is known that it could land on"
        return f"no node {known} now"
    return "none of the nodes that it could land on runs it now"


def _said(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what


def _counted(mask: Mask, order: PlaceOrder) -> str:
    """The nodes and pools in a mask, in words."""
    nodes = order.count(mask)
    pools = [name for at, name in enumerate(order.pools) if mask >> (order.pool_bit + at) & 1]
    words = [counted(nodes, "node")] if nodes or not pools else []
    words += [counted(len(pools), "declared pool")] if pools else []
    return " and ".join(words)


def _unknown_images(standing: Standing) -> Iterable[tuple[str, str]]:
    """The images of which it is not known what they need."""
    for container, need in standing.uses:
        if container.image and need.kind is not BuiltFor.OTHER and need.kind is not BuiltFor.NONE and need.cuda is None:
            said = [text for text in (need.evidence, *need.notes[:1]) if text not in ("", cuda_messages.NO_EVIDENCE)]
            yield container.image, "; ".join(said) or _NOTHING_KNOWN


def worst_of(found: Sequence[PlacesCompared]) -> PlacesCompared:
    """The comparison with the worst change; the first of several."""
    return min(found, key=lambda one: one.change.rank)
