"""The results of look-ups in one replica: bounded in number and in memory, and read without a lock."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from types import MappingProxyType

from webhook.model.image import ImageConfig, ImageInfo

MOST_REFERENCES = 10_000
MOST_BYTES = 9 * 2**20
"""Most bytes of the cache, as estimated in this module. Measured, it is less than 10 MiB."""

_KEPT = 0.95
"""The share of both bounds to which the cache shrinks, so that not every new image has to search for the oldest."""

_REFERENCE_BYTES = 300
_IMAGE_BYTES = 420
_ENV_BYTES = 500
_VARIABLE_BYTES = 130
_PROBLEM_BYTES = 110

NEVER = math.inf

_EnvKey = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The result of one look-up: a configuration, or a problem.

    `at` is when it ended, in seconds of the clock of its holder. After `again` seconds it is looked up again.
    """

    at: float
    again: float
    config: ImageConfig | None = None
    problem: str = ""


class Entry:
    """The result for one reference. `at`, `used` and `due` (the next look-up) are in seconds of time.monotonic()."""

    __slots__ = ("at", "due", "failures", "image", "info", "used")

    def __init__(self, info: ImageInfo, image: "_Image | None", at: float, due: float, failures: int) -> None:
        self.info = info
        self.image = image
        self.at = at
        self.due = due
        self.failures = failures
        self.used = at


class _Image:
    """An image, shared by all references that lead to it."""

    __slots__ = ("env", "info", "users")

    def __init__(self, config: ImageConfig, env: "_Env") -> None:
        self.info = ImageInfo(config)
        self.env = env
        self.users = 0


class _Env:
    """An environment, shared by all images that have it."""

    __slots__ = ("key", "users", "values")

    def __init__(self, key: _EnvKey) -> None:
        self.key = key
        self.values: Mapping[str, str] = MappingProxyType(dict(key))
        self.users = 0


class ImageCache:
    """Results by reference. Problems are evicted first, then configurations, each the least recently used first."""

    def __init__(self, most_references: int = MOST_REFERENCES, most_bytes: int = MOST_BYTES) -> None:
        self._most_references = most_references
        self._most_bytes = most_bytes
        self._entries: dict[str, Entry] = {}
        self._images: dict[str, _Image] = {}
        self._envs: dict[_EnvKey, _Env] = {}
        self._writing = Lock()
        self.bytes = 0
        """Size of the cache in bytes, as estimated."""
        self.known = 0
        """The number of references with a configuration."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, reference: str) -> Entry | None:
        """The entry of a reference. Never waits."""
        return self._entries.get(reference)

    def config_of(self, digest: str) -> ImageConfig | None:
        """The configuration of the image with this digest; None if no reference leads to it."""
        image = self._images.get(digest)
        return None if image is None else image.info.config

    def put(self, reference: str, result: LookupResult, failures: int = 0) -> None:
        """Replace the entry of a reference. `failures` counts the failures in a row, the last included."""
        with self._writing:
            before = self._entries.get(reference)
            image = None if result.config is None else self._use(result.config)
            info = ImageInfo(problem=result.problem) if image is None else image.info
            entry = Entry(info, image, result.at, result.at + result.again, failures)
            entry.used = max(result.at, before.used if before is not None else 0.0)
            self._entries[reference] = entry
            self._count(reference, entry, +1)
            if before is not None:
                self._count(reference, before, -1)
                self._leave(before)
            if len(self._entries) > self._most_references or self.bytes > self._most_bytes:
                self._shrink()

    def postpone(self, reference: str, until: float, failures: int) -> None:
        """Keep a result although the new look-up failed. The next look-up is due at `until`."""
        with self._writing:
            if (entry := self._entries.get(reference)) is not None:
                entry.due, entry.failures = until, failures

    def entries(self) -> list[tuple[str, Entry]]:
        """Every reference and its entry, as of now."""
        with self._writing:
            return list(self._entries.items())

    def _use(self, config: ImageConfig) -> _Image:
        """The image with this configuration, with one more user. Another one of its digest is another image."""
        image = self._images.get(config.digest)
        if image is None or image.info.config != config:
            key = tuple(sorted(config.env.items()))
            env = self._envs.get(key)
            if env is None:
                env = self._envs[key] = _Env(key)
                self.bytes += _env_bytes(key)
            env.users += 1
            image = self._images[config.digest] = _Image(replace(config, env=env.values), env)
            self.bytes += _IMAGE_BYTES
        image.users += 1
        return image

    def _leave(self, entry: Entry) -> None:
        """Release the image of a removed entry; drop the image and its environment if no other entry uses them."""
        image = entry.image
        if image is None:
            return
        image.users -= 1
        if image.users or image.info.config is None:
            return
        self.bytes -= _IMAGE_BYTES
        if self._images.get(image.info.config.digest) is image:
            del self._images[image.info.config.digest]
        image.env.users -= 1
        if not image.env.users:
            del self._envs[image.env.key]
            self.bytes -= _env_bytes(image.env.key)

    def _count(self, reference: str, entry: Entry, sign: int) -> None:
        self.known += sign * (entry.image is not None)
        problem = _PROBLEM_BYTES + _size(entry.info.problem) if entry.image is None else 0
        self.bytes += sign * (_REFERENCE_BYTES + len(reference) + problem)

    def _shrink(self) -> None:
        """Evict entries until there is room."""
        by_use = sorted(self._entries.items(), key=lambda item: (item[1].image is not None, item[1].used))
        for reference, entry in by_use:
            if len(self._entries) <= self._most_references * _KEPT and self.bytes <= self._most_bytes * _KEPT:
                return
            del self._entries[reference]
            self._count(reference, entry, -1)
            self._leave(entry)


def _env_bytes(key: _EnvKey) -> int:
    """The size of an environment. A character beyond ASCII may take four bytes."""
    return _ENV_BYTES + sum(_VARIABLE_BYTES + _size(name) + _size(value) for name, value in key)


def _size(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)
