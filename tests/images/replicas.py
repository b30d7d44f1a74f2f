"""Fakes for look-ups: a clock that tests advance, registries and a shared ConfigMap in memory."""

import base64
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from webhook.images.allowlist import AllowList, Registry
from webhook.images.hosts import HostPattern
from webhook.images.lookups import LookupService
from webhook.images.shared_results import KEY, ConfigMapStore, Configs, unpack
from webhook.kubernetes.api_errors import ApiServerError, ConflictError
from webhook.model.image import ImageConfig, ImageInfo, ImageReference

PENDING = ImageInfo(is_pending=True)
APP = "docker.io/team/app:1"
EVERYBODY = AllowList(
    Registry(HostPattern(name, port))
    for name, port in (
        *((name, 443) for name in ("docker.io", "nvcr.io", "slow.example", "fast.example", "registry.example.com")),
        *((f"{name}-{number}.example", 443) for name in ("registry", "silent") for number in range(6)),
        ("registry.corp", 5000),
    )
)
"""Every registry that tests name."""


class Clock:
    """A clock that tests advance, in seconds."""

    def __init__(self, seconds: float = 1_800_000_000.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Counts(list[str]):
    """Counts the results of look-ups."""

    def __call__(self, result: str) -> None:
        self.append(result)


class Registries:
    """Answers as `RegistryClient.look_up` does. Answers are configurations, errors or functions."""

    def __init__(self, answers: Mapping[str, object] | None = None) -> None:
        self.answers: dict[str, object] = dict(answers or {})
        self.asked: list[str] = []
        self.looked_at: list[str] = []
        self.at_once: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self._counting = threading.Lock()

    def look_up(self, reference: ImageReference, before: ImageConfig | None = None) -> ImageConfig:
        with self._in_turn(reference):
            if before is not None:
                self.looked_at.append(str(reference))
                if self._answer(reference).digest == before.digest:
                    return before
            self.asked.append(str(reference))
            return self._answer(reference)

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


class MemoryStore(ConfigMapStore):
    """A ConfigMap in memory, with compare-and-swap. It calls `before_write` first."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self.version = 1
        self.writes = 0
        self.reads = 0
        self.fault = ""
        self.before_write: Callable[[], None] = lambda: None
        self._swapping = threading.Lock()

    @property
    def configs(self) -> Configs:
        """The configurations in it."""
        return unpack(self.content)

    def put(self, content: bytes | None) -> None:
        """Replace the content as another writer would."""
        data = {} if content is None else {"binaryData": {KEY: base64.b64encode(content).decode()}}
        self.content, self.version = data, self.version + 1

    def read(self) -> dict[str, Any]:
        self._check()
        self.reads += 1
        return {"metadata": {"resourceVersion": str(self.version)}, **self.content}

    def write(self, config_map: Mapping[str, Any]) -> None:
        self._check()
        self.before_write()
        with self._swapping:
            if config_map["metadata"]["resourceVersion"] != str(self.version):
                raise ConflictError
            self.writes += 1
            self.version += 1
            self.content = {"binaryData": config_map["binaryData"]}

    def _check(self) -> None:
        if self.fault:
            raise ApiServerError(self.fault)


def config(text: str = "a", env: Mapping[str, str] | None = None) -> ImageConfig:
    """The configuration of an image; the digest follows from the text."""
    digest = "sha256:" + (text.encode().hex() * 64)[:64]
    return ImageConfig(digest, {"CUDA_VERSION": "12.4.1"} if env is None else env, ("amd64",))


PINNED = f"docker.io/team/app@{config().digest}"


@contextmanager
def looking_up(
    client: Registries, store: ConfigMapStore | None = None, clock: Callable[[], float] | None = None
) -> Iterator[LookupService]:
    """A started service, which is closed afterwards."""
    images = LookupService(client.look_up, EVERYBODY, store, clock=clock or Clock())
    images.start()
    try:
        yield images
    finally:
        images.close()


def seen(images: LookupService, text: str = APP) -> ImageInfo:
    """What is known about an image once every look-up is settled."""
    images.info(text)
    assert images.wait(20)
    return images.info(text)
