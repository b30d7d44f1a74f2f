"""Pods created at a steady rate, whatever becomes of them, and an account of every single one."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import gpu_pod

RATE = 20
"""Pods in a second."""
AT_ONCE = 4
"""Pods that come together, as a controller makes them: one at a time would all go over one connection, to one
replica."""
MOST_IN_FLIGHT = 200
"""Requests without an answer; the load pauses where there are more."""
TOO_MANY = 100
"""GPUs of a pod that every policy forbids. One such pod is tried every second."""


@dataclass(frozen=True, slots=True)
class Create:
    """One create. `due` and `ended` are seconds of time.monotonic(); `status` is 0 where the API server was not there.

    `pod` is what was stored, `said` the message of an answer that is no pod.
    """

    due: float
    ended: float
    status: int
    pod: Mapping[str, Any]
    said: str
    is_forbidden: bool

    @property
    def seconds(self) -> float:
        """From the moment it was due to its answer."""
        return self.ended - self.due

    @property
    def is_as_it_should_be(self) -> bool:
        """Whether an allowed pod was stored, or a forbidden one refused for what is wrong with it."""
        if self.is_forbidden:
            return self.status == 403 and f"requests {TOO_MANY} GPUs" in self.said
        return self.status == 201

    @property
    def is_lost_by_us(self) -> bool:
        """Whether it failed with a message that names a webhook."""
        return not self.is_as_it_should_be and "gpupolicy.dev" in self.said


class SteadyLoad:
    """Creates RATE pods a second in a namespace for as long as the `with` block lasts; `creates` has what came of them.

    They come when they are due, not when those before are answered, so a stall is seen by all that it would have hit.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.creates: list[Create] = []
        self.began = time.monotonic()
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady-load", daemon=True)

    def __enter__(self) -> "SteadyLoad":
        self.began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)
        with suppress(OSError):  # tidying up; the API server may be down after a failed test
            self._plane.raw("DELETE", f"{self._path}?gracePeriodSeconds=0")

    def lasted(self, seconds: float) -> bool:
        """Whether pods have been coming for so long."""
        return time.monotonic() >= self.began + seconds

    def go_on_for(self, seconds: float) -> None:
        """Return when pods have been coming for so long in all."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))

    def _run(self) -> None:
        with ThreadPoolExecutor(MOST_IN_FLIGHT) as pool:
            submitted, due = 0, self.began
            while not self._ended.wait(max(0.0, due - time.monotonic())):
                if submitted - len(self.creates) < MOST_IN_FLIGHT - AT_ONCE:
                    asked = [2] * AT_ONCE + [TOO_MANY] * (submitted % (RATE + 1) == 0)
                    for gpus in asked:
                        submitted += 1
                        pool.submit(self._create, f"p-{submitted}", due, gpus)
                due += AT_ONCE / RATE

    def _create(self, name: str, due: float, gpus: int) -> None:
        try:
            status, answer = self._plane.raw("POST", self._path, gpu_pod(name, gpus))
        except (OSError, HTTPException) as error:
            status, answer = 0, repr(error)
        pod = answer if status == 201 else {}
        said = "" if status == 201 else str(answer["message"] if isinstance(answer, dict) else answer)
        self.creates.append(Create(due, time.monotonic(), status, pod, said, is_forbidden=gpus == TOO_MANY))
