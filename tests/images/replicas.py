"""Fakes for look-ups: a clock that tests advance, registries and a shared object in memory."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from webhook.images.lookups import LookupService
from webhook.images.shared_results import ResultStore, StoredResults
from webhook.kubernetes.api_errors import ApiServerError, ConflictError
from webhook.model.image import ImageConfig, ImageReference


class Clock:
    """A clock that tests advance, in seconds."""

    def __init__(self, seconds: float = 1_000_000.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.seconds += seconds


class Registries:
    """Implements `webhook.images.lookups.ImageClient`. Answers are configurations, errors or functions."""

    def __init__(self, answers: Mapping[str, object] | None = None) -> None:
        self.answers: dict[str, object] = dict(answers or {})
        self.asked: list[str] = []
        self.looked_at: list[str] = []
        self.at_once: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self._counting = threading.Lock()

    def look_up(self, reference: ImageReference) -> ImageConfig:
        """The answer for the reference."""
        with self._in_turn(reference):
            self.asked.append(str(reference))
            return self._answer(reference)

    def digest_of(self, reference: ImageReference) -> str:
        """The digest of the answer."""
        with self._in_turn(reference):
            self.looked_at.append(str(reference))
            return self._answer(reference).digest

    def _answer(self, reference: ImageReference) -> ImageConfig:
        answer = self.answers.get(str(reference), config(str(reference)))
        if callable(answer):
            answer = answer()
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, ImageConfig)
        return answer

    @contextmanager
    def _in_turn(self, reference: ImageReference) -> Iterator[None]:
        with self._counting:
            self.at_once[reference.registry] += 1
            busiest = max(self.at_once[reference.registry], self.most_at_once[reference.registry])
            self.most_at_once[reference.registry] = busiest
        try:
            yield
        finally:
            with self._counting:
                self.at_once[reference.registry] -= 1


class MemoryStore:
    """Implements `webhook.images.shared_results.ResultStore` by compare-and-swap. It calls `before_write` first."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.content = b""
        self.version = 1
        self.writes = 0
        self.reads = 0
        self.fault = ""
        self.clock = clock or Clock()
        self.before_write: Callable[[], None] = lambda: None
        self._swapping = threading.Lock()

    def put(self, content: bytes) -> None:
        """Replace the content as another writer would."""
        self.content, self.version = content, self.version + 1

    def read(self) -> StoredResults:
        """The current content."""
        self._check()
        self.reads += 1
        return StoredResults(str(self.version), self.content)

    def write(self, content: bytes, over: StoredResults) -> None:
        """Replace the content if it has not changed since it was read."""
        self._check()
        self.before_write()
        with self._swapping:
            if over.version != str(self.version):
                raise ConflictError
            self.writes += 1
            self.put(content)

    def now(self) -> float:
        """Unix time, which differs from the clock of the replicas."""
        return self.clock() + 800_000_000.0

    def _check(self) -> None:
        if self.fault:
            raise ApiServerError(self.fault)


def config(text: str = "a", env: Mapping[str, str] | None = None) -> ImageConfig:
    """The configuration of an image; the digest follows from the text."""
    digest = "sha256:" + (text.encode().hex() * 64)[:64]
    return ImageConfig(digest, {"CUDA_VERSION": "12.4.1"} if env is None else env, ("amd64",))


def everybody(_reference: ImageReference) -> bool:
    """Allows every registry."""
    return True


@contextmanager
def looking_up(
    client: Registries, store: ResultStore | None = None, clock: Callable[[], float] | None = None
) -> Iterator[LookupService]:
    """A started service, which is closed afterwards."""
    images = LookupService(client, everybody, store, clock=clock or Clock())
    images.start()
    try:
        yield images
    finally:
        images.close()
