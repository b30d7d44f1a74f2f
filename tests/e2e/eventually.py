"""Waiting for what other processes do in their own time."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 120.0
"""Seconds to wait for what must come: only a failing test waits so long, and slow machines fail none."""


def eventually(condition: Callable[[], Found], *, seconds: float = PATIENCE) -> Found:
    """The first true answer of `condition()`, asked ten times a second or more; AssertionError after `seconds`."""
    deadline, pause = time.monotonic() + seconds, 0.01
    while not (found := condition()):
        assert time.monotonic() < deadline, f"nothing came of {condition} within {seconds:g} s"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return found
