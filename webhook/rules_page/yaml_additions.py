"""What was added to an object, without all that was there before."""

from collections.abc import Mapping
from typing import Any


def additions(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What `after` has and `before` has not, at its place. Entries of lists keep their name, so that it is known whose.

    >>> before = {"spec": {"hostname": "a", "containers": [{"name": "trainer", "image": "train:1"}]}}
    >>> after = {"spec": {"hostname": "a", "containers": [{"name": "trainer", "image": "train:1", "tty": True}]}}
    >>> additions(before, after)
    {'spec': {'containers': [{'name': 'trainer', 'tty': True}]}}
    """
    return {
        key: _added(before[key], value) if key in before else value
        for key, value in after.items()
        if key not in before or before[key] != value
    }


def _added(before: Any, after: Any) -> Any:
    """What is new in a value that has changed. Lists only grow at their end, and their entries in themselves."""
    if isinstance(before, dict) and isinstance(after, dict):
        return additions(before, after)
    if isinstance(before, list) and isinstance(after, list):
        grown = [_entry(old, new) for old, new in zip(before, after, strict=False) if old != new]
        return [*grown, *after[len(before) :]]
    return after


def _entry(before: Any, after: Any) -> Any:
    named = {"name": after["name"]} if isinstance(after, dict) and "name" in after else {}
    added = _added(before, after)
    return {**named, **added} if isinstance(added, dict) else added
