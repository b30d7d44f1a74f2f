"""Counts the operations of the webhook for long pods, in a process of its own.

Read from standard input: `sizes` in bytes, and `cases`, each a list of [path, form] of what is long. Written to
standard output: for each case and size the bytes of the pod and the operations.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from tests.lab.growth import operations
from tests.lab.growth.long_pods import BASE, long_pod
from tests.lab.growth.schema import collections


def main() -> None:
    """Answer what is asked on standard input."""
    asked = json.load(sys.stdin)
    operations.install()
    from tests.lab.growth.replica import replica

    places = {place.path: place for place in collections()}
    with replica() as subject:
        ask = subject.ask_everything if asked.get("everything") else subject.ask_about_new
        _operations(ask, BASE)
        found: dict[str, Any] = {"cases": []}
        for case in asked["cases"]:
            long = [(places[path], form) for path, form in case]
            found["cases"].append(_measured(ask, asked["sizes"], long))
    json.dump(found, sys.stdout)


def _measured(ask: Any, sizes: Sequence[int], long: Sequence[Any]) -> list[tuple[int, int]]:
    """Bytes and operations for each size. Values of one size are not those of another, which may be remembered."""
    measured = []
    for size, salt in zip(sizes, ("ax", "bx", "cx", "dx"), strict=False):
        pod = long_pod(size, *long, salt=salt)
        measured.append((len(json.dumps(pod)), _operations(ask, pod)))
    return measured


def _operations(ask: Any, pod: Any) -> int:
    before = operations.count()
    ask(pod)
    return operations.count() - before


if __name__ == "__main__":
    main()
