"""The parts of messages about images: what they need, why nodes cannot run them, and what would make them run.

A remedy is named only after the checks that refused the image have passed with it. It is the nearest CUDA version that
the nodes run, another driver, or other GPUs.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from webhook.cuda.assessment import NodeVerdict, PodVerdict, merged_by_offer
from webhook.cuda.checks import Verdict, compiled_code, framework, gpu_of, required_driver, ways
from webhook.cuda.compiled_code import Way
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.drivers import last_of
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import Offer
from webhook.cuda.suggestions import suggest
from webhook.cuda.verdict import Effect, deciding_finding, judge
from webhook.gpus.gpu_table import GpuTable
from webhook.gpus.steering import Cause
from webhook.model.shape import shortened
from webhook.model.versions import Version

_SHOWN = 3
"""Most kinds of nodes that a message describes."""
_LONGEST_IMAGE = 150
"""Most characters of the image in a message."""
_OWN_TAG = re.compile(r"^tag \S+ of \S+")
"""Evidence that repeats the name of the image."""
NO_EVIDENCE = "none"
"""What a need says of its evidence if there is none."""


def needs(image: str, need: Need) -> str:
    """What an image needs, and by which evidence."""
    image = named(image)
    evidence = _OWN_TAG.sub("its tag", need.evidence)
    notes = f"; {need.notes[0]}" if need.notes else ""
    if need.kind is BuiltFor.OTHER:
        return f"{image} is built for {need.platform} ({evidence}{notes})"
    if need.cuda is None:
        said = "; ".join(text for text in (evidence, *need.notes[:1]) if text != NO_EVIDENCE)
        return f"{image} does not say which CUDA version it needs" + (f" ({said})" if said else "")
    return f"{image} needs CUDA {need.cuda} ({evidence}{notes})"


def reasons(verdicts: Sequence[NodeVerdict], at: int) -> str:
    """Why each kind of these nodes cannot run the container at this position. Kinds with the same reason share it.

    A kind is named by its GPU and driver, which its reason does not repeat.
    """
    by_reason: dict[str, list[NodeVerdict]] = {}
    kinds = merged_by_offer(verdicts)
    for kind in kinds[:_SHOWN]:
        by_reason.setdefault(_reason(kind.result, at), []).append(kind)
    shown = [f"{', and '.join(map(str, them))}: {reason}{_own_gpu(them, at)}" for reason, them in by_reason.items()]
    more = len(kinds) - _SHOWN
    if more > 0:
        shown.append(f"and {more} more {'kind' if more == 1 else 'kinds'} of nodes")
    return "; ".join(shown)


def _reason(result: PodVerdict, at: int) -> str:
    """The reason of a judgement. It names the policy if only the policy forbids the nodes."""
    judgement = result.judgements[at]
    by_policy = at in result.failing and judgement.verdict is Verdict.FORWARD_COMPAT_ONLY
    return (judgement.common or judgement.reason) + (", which the policy does not allow" if by_policy else "")


def _own_gpu(kinds: Sequence[NodeVerdict], at: int) -> str:
    """What the GPU of one kind has, if it is the cause. The name of the kind does not say it."""
    judgement = kinds[0].result.judgements[at]
    is_left_out = judgement.cause is Cause.GPU and judgement.common and len(kinds) == 1
    return f"; {gpu_of(kinds[0].result.offer)}" if is_left_out else ""


def named(image: str) -> str:
    """An image as messages show it."""
    return shortened(image, _LONGEST_IMAGE)


def in_few_words(one: NodeVerdict, gpus: GpuTable) -> str:
    """Why these nodes cannot run a pod, as a clause that names their GPU."""
    offer = one.result.offer
    name = gpus.short_name(offer.product) if offer.product else "a GPU of unknown model"
    match one.result.cause:
        case Cause.DRIVER if offer.driver is not None:
            return f"{name} has driver {offer.driver.major}"
        case Cause.DRIVER if offer.cuda is not None:
            return f"{name} has a driver for CUDA {offer.cuda}"
        case Cause.ARCHITECTURE if offer.arch:
            return f"{name} has an {offer.arch} CPU"
    return f"{name} cannot run the image"


def library(image: str, verdicts: Sequence[NodeVerdict], at: int) -> tuple[str, str] | None:
    """What goes wrong with the libcuda that a container loads on some of these nodes, and the remedy."""
    for effect in (Effect.FAILS, Effect.MAY_FAIL):
        found = [one for one in verdicts if (own := one.result.judgements[at].libcuda) and own.effect is effect]
        if found and (own := (first := merged_by_offer(found)[0]).result.judgements[at].libcuda) is not None:
            return f"{named(image)} on {first}: {own.reason}", own.remedy
    return None


def other_processor(image: str, need: Need, verdicts: Sequence[NodeVerdict], at: int) -> tuple[str, str] | None:
    """The processors of an image and of the nodes; None unless they are the cause for all nodes."""
    if any(one.result.judgements[at].cause is not Cause.ARCHITECTURE for one in verdicts):
        return None
    theirs = sorted({one.result.offer.arch for one in verdicts})
    return f"{named(image)} is for {' and '.join(need.architectures)}", " or ".join(theirs)


def doubt(image: str, need: Need, at: int, verdicts: Sequence[NodeVerdict]) -> str:
    """What is not known about one container; empty if it runs on all nodes that the pod may be scheduled to."""
    if need.kind is BuiltFor.NONE:
        return ""
    if need.is_pending:
        return f"{needs(image, need)}: its registry has not answered yet"
    if not verdicts:
        return f"{needs(image, need)}, and no node is known that the pod could land on"
    doubtful = [one for one in verdicts if one.result.judgements[at].verdict is Verdict.UNKNOWN]
    return f"{needs(image, need)}, and it is not known whether it runs: {reasons(doubtful, at)}" if doubtful else ""


_LONGEST_IMAGE_KEPT = 512
"""Characters of an image whose remedy is kept. Images are a tenant's text, which must not take up memory."""


def remedy_for(image: str, need: Need, offers: Sequence[Offer], tables: CudaTables = SHIPPED) -> str:
    """What would make an image run that runs on none of the offers, as a sentence without its period.

    Finding a remedy takes much longer than a verdict, so answers about images of usual length are kept.
    """
    find_remedy = _remedy_for if len(image) <= _LONGEST_IMAGE_KEPT else _remedy_for.__wrapped__
    return find_remedy(image, need, tuple(offers), tables)


@lru_cache(maxsize=512)
def _remedy_for(image: str, need: Need, offers: tuple[Offer, ...], tables: CudaTables) -> str:
    def runs(other: str) -> bool:
        need = need_of(other, ImageContext(tables=tables))
        return any(judge(need, offer, tables).counting(*Effect).verdict is Verdict.COMPATIBLE for offer in offers)

    for offer in offers:
        if (found := judge(need, offer, tables).libcuda) is not None and found.effect is Effect.FAILS:
            return found.remedy
    return remedy(need, offers, lambda newest: suggest(image, newest, runs), tables)


def remedy(
    need: Need, offers: Iterable[Offer], suggestion: Callable[[Version], str | None], tables: CudaTables = SHIPPED
) -> str:
    """The nearest remedies for a need that none of the offers meets, as a sentence without its period.

    `suggestion` returns an image of the same family that needs at most a given CUDA version, or None.
    """
    if need.kind is BuiltFor.OTHER:
        return "Use an image that is built for CUDA"
    seen = list(dict.fromkeys(offers))
    if need.architectures and all(offer.arch and offer.arch not in need.architectures for offer in seen):
        missing = " and ".join(sorted({offer.arch for offer in seen}))
        return f"Build the image for {missing} as well, or use nodes with {' or '.join(need.architectures)} CPUs"
    image = _other_image(need, seen, suggestion, tables)
    parts = filter(None, (image, _other_driver(need, seen, tables), _other_gpu(need, seen, tables)))
    text = ", or ".join(parts) or "use another image or other nodes"
    return text[0].upper() + text[1:]


def _other_image(
    need: Need, offers: Sequence[Offer], suggestion: Callable[[Version], str | None], tables: CudaTables
) -> str:
    """The nearest CUDA versions that run on some of the nodes: older ones before newer ones."""
    if need.cuda is None:
        return ""
    ranges = [fitting for offer in offers if (fitting := _fitting(offer, tables))]
    if ranges and all(_fails_framework(need, offer, tables) for offer in offers):
        return _other_framework(need.cuda, offers, ranges, suggestion)
    older = [own for versions in ranges if (own := [v for v in versions if not v.at_least(need.cuda.cut(2))])]
    if older:
        best = max(older, key=lambda versions: (versions[-1].parts, len(versions)))
        named = suggestion(best[-1])
        if named is None and any(compiled_code(need, offer, tables) for offer in offers):
            return ""  # an older CUDA alone says nothing of the code
        which = _spelled(best) if best[0].major == best[-1].major else f"CUDA {best[-1]} or older"
        return f"use {f'{named} or another image' if named else 'an image'} of {which}"
    newer = [own for versions in ranges if (own := [v for v in versions if v.at_least(need.cuda)])]
    if not newer:
        return ""
    best = min(newer, key=lambda versions: (versions[0].parts, -len(versions)))
    return f"use an image of {f'CUDA {best[0]} or newer' if best[-1] == tables.toolkits.minors[-1] else _spelled(best)}"


def _spelled(versions: Sequence[Version]) -> str:
    return f"CUDA {versions[0]} to {versions[-1]}" if len(versions) > 1 else f"CUDA {versions[0]}"


def _fails_framework(need: Need, offer: Offer, tables: CudaTables) -> bool:
    """Whether the framework in the image is what certainly does not run on the GPUs of the nodes."""
    found = (framework(need, offer), compiled_code(need, offer, tables))
    return any(one and one.verdict is Verdict.INCOMPATIBLE and one.cause is Cause.GPU for one in found)


def _other_framework(
    cuda: Version,
    offers: Sequence[Offer],
    ranges: Sequence[Sequence[Version]],
    suggestion: Callable[[Version], str | None],
) -> str:
    """An image whose framework supports these GPUs. Its CUDA version alone does not say so."""
    older = [version for versions in ranges for version in versions if cuda.at_least(version)]
    named = suggestion(max(older)) if older else None
    named = named or suggestion(max(version for versions in ranges for version in versions))
    compute = max(offer.compute for offer in offers if offer.compute is not None)
    image = f"{named} or another image" if named else "an image"
    return f"use {image} whose framework supports compute capability {compute}"


@lru_cache(maxsize=256)
def _fitting(offer: Offer, tables: CudaTables) -> tuple[Version, ...]:
    """The CUDA versions that certainly run on the nodes without cuda-compat, in order."""
    needs = [Need(BuiltFor.CUDA, cuda, "", compat=Compat.NO) for cuda in tables.toolkits.minors]
    minors = zip(tables.toolkits.minors, needs, strict=True)
    return tuple(cuda for cuda, need in minors if deciding_finding(need, offer, tables).verdict is Verdict.COMPATIBLE)


def _other_driver(need: Need, offers: Sequence[Offer], tables: CudaTables) -> str:
    newer = [driver for offer in offers if (driver := _newer_driver(need, offer, tables)) is not None]
    if newer:
        least = min(newer)
        return f"install {'driver' if len(least.parts) > 1 else 'a driver of branch'} {least} or newer"
    older = [last for offer in offers if (last := _older_branch(need, offer, tables)) is not None]
    return f"install a driver of branch {max(older)} or older" if older else ""


def _newer_driver(need: Need, offer: Offer, tables: CudaTables) -> Version | None:
    """The first driver that runs the image; None unless the driver of the nodes is older and that is the cause."""
    threshold = tables.toolkits.threshold_of(need.cuda) if need.cuda is not None else None
    if threshold is None or deciding_finding(need, offer, tables).cause is not Cause.DRIVER:
        return None
    generation = tables.generation_of(offer.compute)
    first = Version(((generation.first_branch if generation is not None else None) or 0,))
    own = [required_driver(one, way, need, tables) for one, way in ways(need, offer) if way is not Way.NONE]
    least = min((driver for driver in own if driver is not None), default=first) if None not in own else first
    wanted = max(threshold.high, first, least)
    is_newer = offer.driver is None or not offer.driver.at_least(wanted)
    return wanted if is_newer and _runs_with(need, offer, wanted, tables) else None


def _older_branch(need: Need, offer: Offer, tables: CudaTables) -> int | None:
    """The last driver branch that supports the GPU, if the nodes have a newer one and the image runs on that branch."""
    generation = tables.generation_of(offer.compute)
    last = generation.last_branch if generation is not None else None
    if last is None or offer.driver is None or offer.driver.major <= last:
        return None
    return last if _runs_with(need, offer, last_of(last), tables) else None


def _runs_with(need: Need, offer: Offer, driver: Version, tables: CudaTables) -> bool:
    changed = replace(offer, driver=driver, is_driver_exact=True, cuda=None)
    return deciding_finding(need, changed, tables).verdict is Verdict.COMPATIBLE


def _other_gpu(need: Need, offers: Sequence[Offer], tables: CudaTables) -> str:
    """The compute capability that the image needs, if all nodes have a lower one; else empty."""
    cuda_floor = tables.capabilities.least_compute(need.cuda) if need.cuda is not None else None
    compiled = min((one.least for one in need.libraries if one.least is not None), default=None)
    floors = [floor for floor in (cuda_floor, need.compute_floor, compiled) if floor is not None]
    if not floors or not offers:
        return ""
    are_older = all(offer.compute is not None and offer.compute < max(floors) for offer in offers)
    return f"use nodes whose GPUs have compute capability {max(floors)} or newer" if are_older else ""
