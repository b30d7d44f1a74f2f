"""What look-ups found: remembered by a replica, and shared in a ConfigMap, so that a rollout asks nothing anew.

A replica adds what it knows to the ConfigMap, and takes what is there, by compare-and-swap. Of two configurations under
one reference, the one that was looked up last counts. Failures are not shared, because they may be the fault of one
node. Without the ConfigMap, each replica does its own look-ups.
"""

import base64
import gzip
import logging
import math
import random
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from webhook.kubernetes.api_errors import ApiServerError, ConflictError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.kubernetes.api_server import ApiServer
from webhook.model.image import ImageConfig, ImageInfo
from webhook.model.shape import FormatError
from webhook.periodic_task import Attempts, about

MOST_REFERENCES = 2_000
"""References that are remembered, and shared. The variables of each image take at most 8 KiB."""

EXPIRY_SECONDS = 3600.0
"""Age at which a tag is looked up again. A random part of up to a fifth is subtracted, to spread the requests."""


@dataclass(frozen=True, slots=True)
class LookupResult:
    """What is known about an image. It was looked up `at`, and is `due` again; both are in Unix seconds.

    `failures` counts the look-ups that failed in a row, the last included.
    """

    info: ImageInfo
    at: int
    due: float
    failures: int = 0

    @classmethod
    def found(cls, reference: str, at: int, config: ImageConfig) -> "LookupResult":
        """The result of a look-up that found an image. The image of a digest never changes."""
        jitter = random.uniform(0.8, 1.0)  # noqa: S311  # no secret
        return cls(ImageInfo(config), at, math.inf if "@" in reference else at + EXPIRY_SECONDS * jitter)


class ImageCache:
    """Results by reference. Problems make room before configurations, and of both what was not used for longest."""

    def __init__(self, most_references: int) -> None:
        self._most_references = most_references
        self._configs: OrderedDict[str, LookupResult] = OrderedDict()
        self._problems: OrderedDict[str, LookupResult] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, reference: str, *, is_used: bool = False) -> LookupResult | None:
        """The result for a reference. One that `is_used` is remembered for longer."""
        with self._lock:
            results = self._configs if reference in self._configs else self._problems
            if is_used and reference in results:
                results.move_to_end(reference)
            return results.get(reference)

    def put(self, reference: str, result: LookupResult) -> None:
        with self._lock:
            self._configs.pop(reference, None)
            self._problems.pop(reference, None)
            (self._configs if result.info.config is not None else self._problems)[reference] = result
            if len(self._configs) + len(self._problems) > self._most_references:
                (self._problems or self._configs).popitem(last=False)

    def configs(self) -> "Configs":
        with self._lock:
            results = list(self._configs.items())
        return {name: (result.at, result.info.config) for name, result in results if result.info.config is not None}


Configs = Mapping[str, tuple[int, ImageConfig]]
"""Reference -> when it was looked up, in Unix seconds, and the configuration that it led to."""

KEY = "images-v3"
"""Key of the ConfigMap. A later format gets another key. The keys of other formats are dropped."""
MOST_PACKED = 675 * 1024
"""Most bytes of the packed content: 900 KiB in base64, of the 1 MiB that a ConfigMap may have."""


def pack(configs: Configs) -> tuple[Configs, bytes]:
    """The newest configurations that fit, and the content with them: gzipped JSON, sorted by reference."""
    newest = sorted(configs.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_REFERENCES]
    while True:
        entries = {
            reference: {"at": at, "digest": config.digest, "architectures": config.architectures, "env": {**config.env}}
            for reference, (at, config) in sorted(newest)
        }
        packed = gzip.compress(orjson.dumps(entries), compresslevel=6, mtime=0)
        excess = len(packed) / MOST_PACKED
        if excess <= 1:
            return dict(newest), packed
        newest = newest[: int(len(newest) / excess * 0.95)]


def unpack(config_map: Mapping[str, Any]) -> Configs:
    """The configurations in a ConfigMap. Raises FormatError if it has others than replicas write."""
    text = (config_map.get("binaryData") or {}).get(KEY)
    if text is None:
        return {}
    try:
        entries = orjson.loads(gzip.decompress(base64.b64decode(text, validate=True)))
        return {
            reference: (
                int(entry["at"]),
                ImageConfig(
                    str(entry["digest"]),
                    {name: str(value) for name, value in entry["env"].items()},
                    tuple(map(str, entry["architectures"])),
                ),
            )
            for reference, entry in entries.items()
        }
    except (
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
        zlib.error,
    ) as error:
        raise FormatError(f"it is not what replicas write ({error})") from None


class ConfigMapStore:
    """An existing ConfigMap, so that no right to create is needed."""

    def __init__(self, server: ApiServer, namespace: str, name: str) -> None:
        self._server = server
        self._name = f"{namespace}/{name}"
        self._path = path_of(CORE, "configmaps", namespace=namespace, name=name)

    def read(self) -> dict[str, Any]:
        try:
            return self._server.get(self._path, {}, _ANSWER_SECONDS)
        except ApiServerError as error:
            if error.status == 404:
                raise ApiServerError(f"there is no ConfigMap {self._name}; apply the release again") from error
            raise ApiServerError(error.sentence("GET", self._path)) from error

    def write(self, config_map: Mapping[str, Any]) -> None:
        """Replace the ConfigMap. Raises ConflictError if it has changed since it was read, and ApiServerError."""
        try:
            self._server.send("PUT", self._path, config_map, _ANSWER_SECONDS)
        except ApiServerError as error:
            if error.status in (404, 409):
                raise ConflictError from error
            raise ApiServerError(error.sentence("PUT", self._path)) from error


READ_SECONDS = 15.0
"""Seconds between reads of the ConfigMap."""
WRITE_SECONDS = 3.0
"""Seconds that a new result waits for more, before all are written."""
APART_SECONDS = 0.1
"""Longest wait of a writer after its first conflict. The wait doubles with each further conflict."""

_ANSWER_SECONDS = 5.0
_FIRST_SECONDS = 10.0
_ATTEMPTS = 5
_SKEW_SECONDS = 60
"""A result from further in the future counts as the oldest: the clock of its node is wrong."""

_IGNORED = "the shared results of look-ups cannot be read and are ignored"

_log = logging.getLogger("gpu_policy.images")


class SharedResults:
    """Synchronises a cache with the ConfigMap, in a thread. A failure is logged once and never ends the thread."""

    def __init__(
        self,
        cache: ImageCache,
        store: ConfigMapStore,
        is_wanted: Callable[[str], bool] = lambda _reference: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Only references that `is_wanted` accepts are taken into the cache. `clock` is in Unix seconds."""
        self._cache = cache
        self._store = store
        self._is_wanted = is_wanted
        self._clock = clock
        self._version: object = None
        self._news = threading.Event()
        self._stop = threading.Event()
        self._tried = threading.Event()
        self._reading = Attempts(_log, _IGNORED, (FormatError,), logging.WARNING)
        self._attempts = Attempts(_log, "results are not shared with the other replicas", (ApiServerError,))
        self._thread = threading.Thread(target=self._run, name="images-shared", daemon=True)
        self.is_well = False
        """Whether the last exchange succeeded."""

    def add(self) -> None:
        """Have new results in the cache written soon."""
        self._news.set()

    def exchange(self) -> None:
        """Take what other replicas found, and add what this one found. Raises ApiServerError."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0.0, APART_SECONDS * 2 ** (attempt - 1)))  # noqa: S311  # apart from other replicas
            config_map = self._store.read()
            if config_map["metadata"].get("resourceVersion") == self._version and not self._news.is_set():
                return
            self._news.clear()
            try:
                self._merge(config_map)
            except ConflictError:
                self._news.set()
            except BaseException:
                self._news.set()
                raise
            else:
                self._version = config_map["metadata"].get("resourceVersion")
                return
        raise ApiServerError(f"other replicas wrote first, {_ATTEMPTS} times in a row")

    def _merge(self, config_map: Mapping[str, Any]) -> None:
        now = self._clock()
        stored: dict[str, tuple[int, ImageConfig]] = {}
        self._reading.make(lambda: stored.update(unpack(config_map)))
        theirs = {name: (at if at < now + _SKEW_SECONDS else 0, config) for name, (at, config) in stored.items()}
        merged = dict(theirs)
        for reference, ours in self._cache.configs().items():
            known = merged.setdefault(reference, ours)
            # of two configurations of one second, all replicas choose alike
            if ours[1] != known[1] and (ours[0], ours[1].digest) > (known[0], known[1].digest):
                merged[reference] = ours
        for reference, (at, config) in theirs.items():
            held = self._cache.get(reference)
            is_news = self._is_wanted(reference) if held is None else held.info.config != config
            if is_news and merged[reference] == (at, config):
                self._cache.put(reference, LookupResult.found(reference, at, config))
        if merged == theirs:
            return
        kept, packed = pack(merged)
        if kept != theirs:  # where not everything fits, the newest results are kept
            self._store.write({**config_map, "binaryData": {KEY: base64.b64encode(packed).decode()}})

    def start(self) -> None:
        self._thread.start()

    def wait_for_the_first(self) -> None:
        """Wait until the first exchange has succeeded or failed, 10 seconds at most."""
        self._tried.wait(_FIRST_SECONDS)

    def close(self, seconds: float) -> None:
        """End the thread within `seconds`. It tries to write new results before it ends."""
        self._stop.set()
        self._news.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.is_well = self._attempts.make(self.exchange)
            self._tried.set()
            if self._news.wait(about(READ_SECONDS)):
                self._stop.wait(about(WRITE_SECONDS))
        self._attempts.make(self.exchange)
