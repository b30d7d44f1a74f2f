"""What would help: the nearest CUDA that the nodes run, and the driver that would run the image.

Every remedy is tried on the nodes before it is named, by the same checks that refused the image.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from webhook.cuda.checks import Cause, Verdict, framework
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import Offer
from webhook.cuda.verdict import find
from webhook.model.versions import Version

_LAST_OF_BRANCH = 999


def remedy(
    need: Need, offers: Iterable[Offer], suggestion: Callable[[Version], str | None], tables: CudaTables = SHIPPED
) -> str:
    """The nearest remedies for an image that runs on none of the offers, as a sentence without its period.

    `suggestion` names an image of the same family that needs at most a CUDA version, where it can.
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
    if ranges and all(_fails_framework(need, offer) for offer in offers):
        return _other_framework(need.cuda, offers, ranges, suggestion)
    older = [own for versions in ranges if (own := [v for v in versions if not v.at_least(need.cuda.cut(2))])]
    if older:
        best = max(older, key=lambda versions: (versions[-1].parts, len(versions)))
        named = suggestion(best[-1])
        which = _spelled(best) if best[0].major == best[-1].major else f"CUDA {best[-1]} or older"
        return f"use {f'{named} or another image' if named else 'an image'} of {which}"
    newer = [own for versions in ranges if (own := [v for v in versions if v.at_least(need.cuda)])]
    if not newer:
        return ""
    best = min(newer, key=lambda versions: (versions[0].parts, -len(versions)))
    return f"use an image of {f'CUDA {best[0]} or newer' if best[-1] == tables.toolkits.minors[-1] else _spelled(best)}"


def _spelled(versions: Sequence[Version]) -> str:
    return f"CUDA {versions[0]} to {versions[-1]}" if len(versions) > 1 else f"CUDA {versions[0]}"


def _fails_framework(need: Need, offer: Offer) -> bool:
    """Whether the framework in the image is what certainly does not run on the nodes."""
    found = framework(need, offer)
    return found is not None and found.verdict is Verdict.INCOMPATIBLE


def _other_framework(
    cuda: Version,
    offers: Sequence[Offer],
    ranges: Sequence[Sequence[Version]],
    suggestion: Callable[[Version], str | None],
) -> str:
    """An image whose framework is for these GPUs, which its CUDA version does not tell."""
    newest = [version for versions in ranges for version in versions if cuda.at_least(version)]
    named = suggestion(max(newest)) if newest else None
    compute = max(offer.compute for offer in offers if offer.compute is not None)
    image = f"{named} or another image" if named else "an image"
    return f"use {image} whose framework supports compute capability {compute}"


@lru_cache(maxsize=256)
def _fitting(offer: Offer, tables: CudaTables) -> tuple[Version, ...]:
    """The CUDA versions that certainly run on the nodes without cuda-compat, in order."""
    minors = tables.toolkits.minors
    return tuple(cuda for cuda in minors if find(_plain(cuda), offer, tables).verdict is Verdict.COMPATIBLE)


def _plain(cuda: Version) -> Need:
    """What an image of this CUDA version needs that nothing else is known of."""
    return Need(BuiltFor.CUDA, cuda, "", compat=Compat.NO)


def _other_driver(need: Need, offers: Sequence[Offer], tables: CudaTables) -> str:
    """The nearest driver with which some of the nodes run the image."""
    newer = [driver for offer in offers if (driver := _newer_driver(need, offer, tables)) is not None]
    if newer:
        least = min(newer)
        return f"install {'driver' if len(least.parts) > 1 else 'a driver of branch'} {least} or newer"
    older = [last for offer in offers if (last := _older_branch(need, offer, tables)) is not None]
    return f"install a driver of branch {max(older)} or older" if older else ""


def _newer_driver(need: Need, offer: Offer, tables: CudaTables) -> Version | None:
    """The driver from which nodes run the image, where the one they have is older."""
    threshold = tables.toolkits.threshold_of(need.cuda) if need.cuda is not None else None
    if threshold is None or find(need, offer, tables).cause is not Cause.DRIVER:
        return None
    generation = tables.generation_of(offer.compute)
    first = Version(((generation.first_branch if generation is not None else None) or 0,))
    wanted = max(threshold.high, first)
    is_newer = offer.driver is None or not offer.driver.at_least(wanted)
    return wanted if is_newer and _runs_with(need, offer, wanted, tables) else None


def _older_branch(need: Need, offer: Offer, tables: CudaTables) -> int | None:
    """The last branch that drives the GPU of nodes with a newer one, where it runs the image."""
    generation = tables.generation_of(offer.compute)
    last = generation.last_branch if generation is not None else None
    if last is None or offer.driver is None or offer.driver.major <= last:
        return None
    return last if _runs_with(need, offer, Version((last, _LAST_OF_BRANCH)), tables) else None


def _runs_with(need: Need, offer: Offer, driver: Version, tables: CudaTables) -> bool:
    """Whether the image runs on the nodes once they have this driver."""
    changed = replace(offer, driver=driver, is_driver_exact=True, cuda=None)
    return find(need, changed, tables).verdict is Verdict.COMPATIBLE


def _other_gpu(need: Need, offers: Sequence[Offer], tables: CudaTables) -> str:
    """The GPUs that the image is for, where all of the nodes have older ones."""
    cuda_floor = tables.capabilities.least_compute(need.cuda) if need.cuda is not None else None
    floors = [floor for floor in (cuda_floor, need.compute_floor) if floor is not None]
    if not floors or not offers:
        return ""
    are_older = all(offer.compute is not None and offer.compute < max(floors) for offer in offers)
    return f"use nodes whose GPUs have compute capability {max(floors)} or newer" if are_older else ""
