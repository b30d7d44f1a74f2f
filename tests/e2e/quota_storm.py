"""Creators that want their pods until they get them, and deletions in parallel, as fast as an API server takes them."""

import http.client
import json
import random
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.claimed import path_of
from tests.e2e.control_plane import ControlPlane

THREADS = 64
DELETERS = 4
LONGEST_PAUSE = 2.0
"""Seconds between attempts at pods that are refused again and again; it doubles up to there, as controllers do."""


@dataclass(slots=True)
class Wish:
    """A pod, or a resource claim, that somebody wants in a namespace. `attempts` failed so far."""

    namespace: str
    manifest: Mapping[str, Any]
    attempts: int = 0
    not_before: float = 0.0

    @property
    def path(self) -> str:
        """Where it is created."""
        return path_of(self.namespace, self.manifest)


class Storm:
    """Creates the wished pods from THREADS threads in a `with` block, each again and again until it stands.

    The API server gives a create up after `patience` seconds. `answers` counts what it said. Until it is calmed,
    up to `deletions` random pods a second are deleted, and wished for again.
    """

    def __init__(self, plane: ControlPlane, wishes: Iterable[Wish], *, patience: int, deletions: float = 0.0) -> None:
        self.answers: Counter[str] = Counter()
        self.strange: list[str] = []
        """Answers that are not refusals by a quota nor due to a replica or ledger that is away, a few of them."""
        self._plane = plane
        self._patience = patience
        self._pause_between_deletions = DELETERS / deletions if deletions else None
        self._wanted = deque(wishes)
        self.untried = len(self._wanted)
        """How many were never answered yet."""
        self._standing: list[Wish] = []
        self._lock = threading.Lock()
        self._calm, self._ended = threading.Event(), threading.Event()
        self._tls = ssl.create_default_context(cafile=str(plane.ca_file))
        random.shuffle(self._wanted)
        self._threads = [threading.Thread(target=self._create, daemon=True) for _ in range(THREADS)]
        if self._pause_between_deletions is not None:
            self._threads += [threading.Thread(target=self._delete, daemon=True) for _ in range(DELETERS)]

    def __enter__(self) -> "Storm":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.calm()
        self._ended.set()
        for thread in self._threads:
            thread.join(self._patience + 10)

    def calm(self) -> None:
        """Delete no more; the creators go on."""
        self._calm.set()

    def _create(self) -> None:
        client = _Client(self._plane, self._tls)
        while not self._ended.is_set():
            try:
                wish = self._wanted.popleft()
            except IndexError:
                self._ended.wait(0.05)
                continue
            if (early := wish.not_before - time.monotonic()) > 0:
                self._wanted.append(wish)
                self._ended.wait(min(early, 0.02))
                continue
            status, answer = client.send("POST", f"{wish.path}?timeout={self._patience}s", wish.manifest)
            self._answered(wish, status, str(answer.get("message", "")))
        client.close()

    def _answered(self, wish: Wish, status: int, said: str) -> None:
        with self._lock:
            self.untried -= wish.attempts == 0
            self.answers[_kind(status, said)] += 1
        wish.attempts += 1
        if status in {201, 409}:  # stored by an attempt whose answer was lost, where it is there already
            wish.attempts = 1
            self._standing.append(wish)
            return
        if _kind(status, said).startswith("strange") and len(self.strange) < 20:
            self.strange.append(f"{status} {said[:400]}")
        pause = min(LONGEST_PAUSE, 0.05 * 2 ** min(wish.attempts, 10))
        wish.not_before = time.monotonic() + pause * random.uniform(0.5, 1)
        self._wanted.append(wish)

    def _delete(self) -> None:
        client = _Client(self._plane, self._tls)
        while not self._calm.wait(self._pause_between_deletions):
            with self._lock:
                if not self._standing:
                    continue
                wish = self._standing.pop(random.randrange(len(self._standing)))
            name = wish.manifest["metadata"]["name"]
            client.send("DELETE", f"{wish.path}/{name}?gracePeriodSeconds=0")
            with self._lock:
                self.answers["deleted"] += 1
            wish.not_before = 0.0
            self._wanted.append(wish)  # the next pod of that name is another one
        client.close()


class _Client:
    """One connection that is kept, for one thread; status 0 where no answer came."""

    def __init__(self, plane: ControlPlane, tls: ssl.SSLContext) -> None:
        self._connection = http.client.HTTPSConnection(urlsplit(plane.url).netloc, timeout=40, context=tls)
        self._headers = {"Authorization": f"Bearer {plane.token}", "Content-Type": "application/json"}

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        try:
            content = None if body is None else json.dumps(body).encode()
            self._connection.request(method, path, content, self._headers)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return 0, {"message": repr(error)}
        try:
            answer = json.loads(text)
        except ValueError:
            answer = text.decode(errors="replace")
        return response.status, answer if isinstance(answer, dict) else {"message": str(answer)}

    def close(self) -> None:
        self._connection.close()


def _kind(status: int, said: str) -> str:
    if status in {201, 409}:
        return "stands"
    if status in {403, 429} and "exceeded GPU quota" in said:
        return "over the quota"
    if status in {500, 503} and "the ledger of GPU quota" in said:
        return "ledger away"
    if "failed calling webhook" in said or status in {0, 504}:
        return "lost with a replica"
    return f"strange {status}"
