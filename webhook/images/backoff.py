"""When a registry is asked again: as seldom as can be, and not at all while it wants to be left alone."""

import random
from collections.abc import Callable

from webhook.images.cache import NEVER
from webhook.images.lookup_errors import LookUpError
from webhook.images.packing import LONGEST_WAIT

EXPIRY_SECONDS = 3600.0
"""After which a tag may lead elsewhere; up to a fifth less, so that not all are asked about at the same moment."""
LASTING_SECONDS = 600.0
"""After which what cannot be found, or must not be seen, is asked for again."""
TRANSIENT_SECONDS = (30.0, 600.0)
"""The same for other failures: at first, and at most; it doubles with each."""
LONGEST_HOLD = 600.0
"""For which a registry is left alone as a whole."""


def expiry(key: str) -> float:
    """After how many seconds a reference is looked up again; what a digest stands for never changes."""
    return NEVER if "@" in key else EXPIRY_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311  # no secret


def patience(failures: int, error: LookUpError) -> float:
    """Seconds until a reference is tried again that has failed so many times."""
    first, most = TRANSIENT_SECONDS
    wait = LASTING_SECONDS if error.is_lasting else min(most, first * 2.0 ** min(failures - 1, 10))
    jittered = wait * random.uniform(0.9, 1.1)  # noqa: S311  # no secret
    return min(LONGEST_WAIT, max(jittered, error.retry_after))


class Backoff:
    """The registries that have asked to be left alone for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, tuple[float, str]] = {}

    def is_held(self, registry: str) -> bool:
        """Whether one still wants it."""
        return self._until.get(registry, (0.0, ""))[0] > self._clock()

    def check(self, registry: str) -> None:
        """Raise LookUpError, with what it said, for one that still wants it."""
        until, text = self._until.get(registry, (0.0, ""))
        if (left := until - self._clock()) > 0:
            raise LookUpError(text, is_lasting=False, retry_after=left)

    def heed(self, registry: str, error: LookUpError) -> None:
        """Leave it alone if that is what it asks for."""
        if error.retry_after > 0:
            now = self._clock()
            others = {name: held for name, held in self._until.items() if held[0] > now}
            self._until = {**others, registry: (now + min(error.retry_after, LONGEST_HOLD), str(error))}
