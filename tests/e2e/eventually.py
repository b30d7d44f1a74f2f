"""Waiting for what other processes do in their own time."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def eventually(condition: Callable[[], Found], *, seconds: float = 30) -> Found:
    """The first true answer of `condition()`, asked ten times a second; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"nothing came of {condition} within {seconds:g} s"
        time.sleep(0.1)
    return found
